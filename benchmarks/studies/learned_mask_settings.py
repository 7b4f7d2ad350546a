"""Which settings of the learned mask are worth their passes, on photos where the net hesitates.

    python benchmarks/studies/learned_mask_settings.py --data FOLDER [--photos 48] [--settings "steps=50 distractors=2" ...]

Takes photos whose second label has f >= 0.1, explains the top five labels with each setting, and prints passes per
(image, label), completeness / soundness at two pairs of thresholds, best effort, soundness of the second label, and
the mean rank correlation between the maps of the first two labels.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import torch

import proofmap as pm
from proofmap.cli import run_script
from proofmap.core.ranking import rank
from proofmap.data.photos import find_photos
from proofmap.metrics import scores

GRID = [
    "steps=100 distractors=4 scale=4",
    "steps=100 distractors=4 scale=8",
    "steps=100 distractors=4 scale=16",
    "steps=100 distractors=2 scale=8",
    "steps=100 distractors=1 scale=8",
    "steps=50 distractors=4 scale=8",
    "steps=50 distractors=2 scale=8",
    "steps=50 distractors=1 scale=8",
    "steps=30 distractors=4 scale=8",
    "steps=30 distractors=2 scale=8",
    "steps=30 distractors=2 scale=8 learning_rate=0.4",
    "steps=50 distractors=2 scale=8 learning_rate=0.4",
    "steps=50 distractors=2 scale=8 learning_rate=0.1",
    "steps=50 distractors=2 scale=4",
    "steps=50 distractors=2 scale=16",
    "steps=50 distractors=2 scale=32",
    "steps=50 distractors=2 scale=8 tv=0",
    "steps=50 distractors=2 scale=8 tv=0.03",
    "steps=50 distractors=2 scale=8 tv=0.1",
    "steps=50 distractors=2 scale=8 l1=0.000005",
    "steps=50 distractors=2 scale=8 l1=0.00005",
    "steps=50 distractors=2 scale=8 fill=gray",
    "steps=50 distractors=2 scale=8 fill=blur",
    "steps=50 distractors=2 scale=8 objective=nll",
    "steps=50 distractors=2 scale=8 objective=nll l1=0.0001",
    "steps=50 distractors=2 scale=8 objective=nll tv=0.1",
    "steps=50 distractors=2 scale=16 objective=nll tv=0.1",
    "steps=50 distractors=2 scale=8 objective=nll-of-mean",
    "steps=50 distractors=2 scale=8 objective=nll-of-mean l1=0.0001",
    "steps=400 distractors=4 scale=8",
]


def parsed(text: str) -> dict[str, Any]:
    spec = pm.make_method("learned-mask:tv=0.01," + ",".join(text.split()))  # a later tv= wins
    return {k: v for k, v in spec.settings().items() if k != "method"}


def row(f: pm.Classifier, photos: torch.Tensor, labels: torch.Tensor, method: pm.Method) -> list[str]:
    began = time.perf_counter()
    maps = method(f, photos, labels)
    seconds = time.perf_counter() - began
    curves = pm.insertion(f.frozen(), photos, maps, labels, curve="released")
    cells = []
    for at in ("paper", "released"):
        e = scores.thresholds(at)
        alpha = scores.worst_case(scores.completeness(curves.auc, curves.f, e.e1)).mean()
        beta = scores.worst_case(scores.soundness(curves.auc, curves.f, e.e2)).mean()
        cells.append(f"{alpha:.2f} / {beta:.2f}")
    effort = scores.best_effort(curves.auc, curves.f, labels, labels[:, :2], curves.f[:, 1], 0.01).nanmean()
    second = scores.soundness(curves.auc, curves.f, 0.001)[:, 1].mean()
    ranks = rank(maps[:, :2].flatten(0, 1)).double().view(len(photos), 2, -1)
    centred = ranks - ranks.mean(dim=2, keepdim=True)
    rho = torch.nn.functional.cosine_similarity(centred[:, 0], centred[:, 1], dim=1).mean()
    return [*cells, f"{effort:.2f}", f"{second:.2f}", f"{rho:.2f}", f"{seconds:.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--photos", type=int, default=48)
    parser.add_argument("--settings", nargs="*", default=GRID)
    parser.add_argument("--distractors-from", default="samples", help="folder, or samples")
    args = parser.parse_args()
    cuda = torch.cuda.is_available()
    f = pm.load_classifier("efficientnet-lite0", device="cuda" if cuda else "cpu")
    paths = find_photos([args.data])
    photos = pm.load_images(paths, f)
    second = f.probabilities(photos).topk(2).values[:, 1]
    photos = photos[second >= 0.1][: args.photos]
    labels = f.top(photos, 5)
    source = args.distractors_from if args.distractors_from == "samples" else Path(args.distractors_from)
    pool = pm.Images(source=source, size=256)
    print(
        f"{len(photos)} photos with f(second) >= 0.1, top 5 labels, distractors from {args.distractors_from}"
    )
    print("| setting | passes | compl / sound .01/.001 | at .1/.1 | best effort | sound 2nd | rho | s |")
    print("|---|---|---|---|---|---|---|---|")
    controls = [
        ("centered-gaussian", pm.make_method("centered-gaussian")),
        ("grad-cam", pm.make_method("grad-cam")),
    ]
    for name, method in controls:
        print(f"| {name} | 1 | " + " | ".join(row(f, photos, labels, method)) + " |", flush=True)
    for text in args.settings:
        values = parsed(text)
        if values["fill"] == "images":
            values["fill"] = pool
        method = pm.LearnedMask(**{**values, "precision": "bfloat16" if cuda else "float32"})
        cells = row(f, photos, labels, method)
        print(f"| {text} | {method.cost(1).gradient} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    run_script(main)
