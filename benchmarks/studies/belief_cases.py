"""Belief masks where they were not tuned: small pictures of a very sure net, and few labels that share all belief.

    python benchmarks/studies/belief_cases.py cifar10 FOLDER --weights cifar10_resnet56.safetensors --number 40 --out OUT
    python benchmarks/studies/belief_cases.py imagenette FOLDER --number 8 --methods belief-mask grad-cam --out OUT

The cases are those of ``frontier.py``, FOLDER holds the data with a part to train on and one to test. Pictures are drawn by a
seed among the test pictures that the net gets right: every second one of the draw is for tuning (``--fold tune``), the others
are held out. Two pools of training pictures that share none stand behind masks, one to learn on and one to judge with.
Each fill is judged alone, noise (``*``) is never learned on. ``matched`` is the share of (image, label) pairs with
|AUC - f| <= .02. Prints a table; OUT/record.json has its numbers, OUT/areas.json every pair's f and AUC. A method may be held to fewer
pictures: ``"10 learned-mask:preset=released"``.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch
from frontier import CASES, Case
from given_maps import drawing_from, timed_maps
from torch import Tensor

import proofmap as pm
from proofmap.cli import run_script
from proofmap.core.version import environment
from proofmap.data import load_blocks, load_dataset, random_choice, true_outputs
from proofmap.fills import Fill
from proofmap.metrics.curves import Curves
from proofmap.metrics.scores import Thresholds, best_effort, completeness, soundness, thresholds, worst_case
from proofmap.results.statistics import Score

DATA = {
    "cifar10": ("cifar10:{}[test]", "cifar10:{}[train]"),
    "imagenette": ("imagenette:{}[val]", "imagenette:{}[train]"),
}
"""Of each case: the pictures, and those of the pools."""
THRESHOLDS = {"cifar10": ["appendix"], "imagenette": ["released", "paper"]}
JUDGED = {"gray": "gray", "blur": "blur", "images": "images", "noise*": "noise"}
METHODS = [
    "belief-mask",
    "belief-mask:preset=thorough",
    "belief-mask:passes=600,smoothness=0.15",
    "belief-mask:target=strongest",
    "belief-mask:target=weakest",
    "learned-mask",
    "grad-cam",
    "gradient",
    "random",
]
POOL, NEAR = 256, 0.02


def pictures(f: pm.Classifier, data: str, fold: str, number: int, seed: int) -> Tensor:
    """The first pictures of a fold that the net gets right."""
    dataset = load_dataset(data)
    drawn = random_choice(dataset.names, len(dataset), seed=seed)[["tune", "held"].index(fold) :: 2]
    found: list[Tensor] = []
    for start in range(0, len(drawn), number):
        indices = drawn[start : start + number]
        images = torch.cat([block.images for block in load_blocks(dataset, f, indices)])
        truth = torch.tensor([t[0] if len(t) == 1 else -1 for t in true_outputs(dataset, f.names, indices)])
        found.append(images[f.top(images, 1)[:, 0] == truth.to(f.device)])
        if sum(map(len, found)) >= number:
            break
    return torch.cat(found)[:number]


def pools(f: pm.Classifier, data: str) -> tuple[Tensor, Tensor]:
    """Two pools of pictures as bytes, one to learn on and one to judge with."""
    dataset = load_dataset(data)
    indices = random_choice(dataset.names, 2 * POOL)
    images = torch.cat([block.images for block in load_blocks(dataset, f, indices)])
    learn, judge = (images * 255).round().to(torch.uint8).cpu().chunk(2)
    return learn, judge


def cells(played: Curves, top2: Tensor, f_second: Tensor, e: Thresholds) -> dict[str, Any]:
    """Worst completeness, worst soundness and best effort with intervals, and the share of pairs that match f."""
    auc, f, labels = played.auc, played.f, played.labels
    values = {
        "completeness": worst_case(completeness(auc, f, e.e1)),
        "soundness": worst_case(soundness(auc, f, e.e2)),
        "best effort": best_effort(auc, f, labels, top2, f_second, e.e1),
    }
    scores = [Score(k, limits=(0.0, 1.0)).over(v) for k, v in values.items()]
    found = {s.name: s.numbers() for s in scores}
    return {**found, "matched": ((auc - f).abs() <= NEAR).double().mean().item()}


def told(row: dict[str, Any]) -> str:
    """A row of the table that is printed."""
    kinds = [row["scores"][kind] for kind in ("completeness", "soundness", "best effort")]
    scores = [f"{s['value']:.2f} [{s['low']:.2f}, {s['high']:.2f}]" for s in kinds]
    passes = "" if row["passes"] is None else f"{row['passes']:.0f}"
    facts = f"{row['method']} | {passes} | {row['n']} | {row['seconds']:.0f} | {row['e']} | {row['fill']}"
    return f"| {facts} | {' | '.join(scores)} | {kinds[2]['n']} | {row['scores']['matched']:.2f} |"


def judged(
    f: pm.Classifier, images: Tensor, maps: Tensor, labels: Tensor, fill: Fill, args: argparse.Namespace
) -> Curves:
    return pm.insertion(f, images, maps, labels, fill=fill, points=args.points, draws=args.draws)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("case", choices=DATA)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fold", choices=["tune", "held"], default="held")
    parser.add_argument("--number", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--fills", nargs="+", choices=JUDGED, default=list(JUDGED))
    parser.add_argument("--model", default=None, help="another net than the case's")
    parser.add_argument("--weights", type=Path, default=None)
    parser.add_argument("--points", type=int, default=32, help="steps of each curve")
    parser.add_argument("--draws", type=int, default=2, help="of random fills")
    parser.add_argument("--batch", type=int, default=None, help="passes of the net at once")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    case: Case = CASES[args.case]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    f = pm.load_classifier(args.model or case.model, weights=args.weights, device=device)
    if case.label_set:
        f = f.restricted(case.label_set)
    if args.batch is not None:
        f.fix_batches(args.batch, args.batch)
    test, train = (text.format(args.folder) for text in DATA[args.case])
    images, (learn, judge) = pictures(f, test, args.fold, args.number, args.seed), pools(f, train)
    top2, f_second = f.top(images, 2), f.probabilities(images).topk(2, dim=1).values[:, 1]
    if case.labels == "all":
        labels = torch.tensor(case.label_set, device=f.device).expand(len(images), -1)
    else:
        labels = f.top(images, int(case.labels[3:]))
    args.out.mkdir(parents=True, exist_ok=True)
    asked = (
        f"{args.case}, {len(images)} pictures ({args.fold}), labels {case.labels}, {args.model or case.model}"
    )
    print(
        f"{asked}\n\n| method | passes | n | s | e | fill | completeness | soundness | best effort | its n | matched |"
    )
    print("|---" * 11 + "|", flush=True)
    rows, areas = [], []
    for written in args.methods:
        few, _, spec = written.rpartition(" ")
        n = int(few) if few else len(images)
        method = pm.make_method(spec)
        maps, seconds = timed_maps(method, f, images[:n], labels[:n], learn)
        cost = method.cost(labels.shape[1])
        passes = None if cost is None else cost.passes / labels.shape[1]
        for fill in args.fills:
            behind = drawing_from(JUDGED[fill], judge)
            played = judged(f, images[:n], maps, labels[:n], behind, args)
            areas.append({"method": spec, "fill": fill, "f": played.f.tolist(), "auc": played.auc.tolist()})
            for e in THRESHOLDS[args.case]:
                facts = {"method": spec, "passes": passes, "n": n, "seconds": seconds, "e": e, "fill": fill}
                rows.append({**facts, "scores": cells(played, top2[:n], f_second[:n], thresholds(e))})
                print(told(rows[-1]), flush=True)
        record = {
            "asked": asked,
            "command": sys.argv[1:],
            "seed": args.seed,
            "environment": environment(f.device),
        }
        (args.out / "record.json").write_text(
            json.dumps({**record, "rows": rows}, indent=1), encoding="utf-8"
        )
        (args.out / "areas.json").write_text(json.dumps(areas), encoding="utf-8")


if __name__ == "__main__":
    run_script(main)
