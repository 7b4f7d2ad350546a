"""From which error on belief masks are better off without their closing fit.

    python benchmarks/studies/closing_fit.py photos PHOTOS --number 16 [--fold held] [--bars .3 .5 .7]
    python benchmarks/studies/closing_fit.py cifar10 FOLDER --weights cifar10_resnet56.safetensors --number 32

Every (image, label) pair is learned twice, with a fit and without one; both are the same until the fit begins, when the mean over fills of
|log A - log f| is noted. So every bar can be read off: pairs that are nearer are taken from the one, the others from the other. Labels that the net is sure
about are not fitted below a bar, and all are in the last row. Photos and pictures are those of ``belief_mask.py`` and ``belief_cases.py``; curves of 32 shares, random fills drawn once.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from belief_cases import DATA, pictures, pools
from belief_mask import photos_of
from given_maps import drawing_from
from torch import Tensor

import proofmap as pm
from proofmap.cli import run_script
from proofmap.core.allocator import keep_memory
from proofmap.methods.masks import belief, belief_problem
from proofmap.methods.masks.engine import Slots
from proofmap.metrics.scores import completeness, soundness, thresholds, worst_case
from proofmap.session import Session

JUDGED = ("gray", "blur", "images")
TOGETHER = 8
"""Images that are learned at once."""


class Noting(belief_problem.BeliefProblem):
    """Notes of every pair how sure the net is of it and what is amiss when its fit would begin, by label and f."""

    noted: dict[tuple[int, float], tuple[float, float]]

    def open(self, slots: Slots) -> None:
        amiss = self.errors(slots).abs().mean(dim=1)
        for k in (slots["step"] == self.fit.first).nonzero()[:, 0].tolist():
            pair = int(slots["labels"][k]), float(slots["f"][k])
            self.noted[pair] = float(slots["sure"][k]), float(amiss[k])
        super().open(slots)


def learned(session: Session, method: pm.Method, images: Tensor, labels: Tensor, *, fitted: bool) -> Tensor:
    """The maps, with every label fitted or none."""
    before = belief_problem.SURE, belief_problem.FAR
    belief_problem.SURE, belief_problem.FAR = (float("inf"), float("inf")) if fitted else (before[0], -1.0)
    try:
        return session.maps(method, images, labels)
    finally:
        belief_problem.SURE, belief_problem.FAR = before


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("case", choices=["photos", "cifar10"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--weights", type=Path, default=None)
    parser.add_argument("--fold", choices=["tune", "held"], default="tune")
    parser.add_argument("--number", type=int, default=16)
    parser.add_argument("--method", default="belief-mask")
    parser.add_argument("--bars", type=float, nargs="+", default=[0.3, 0.5, belief_problem.FAR])
    args = parser.parse_args()
    keep_memory()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    photos = args.case == "photos"
    model = "efficientnet-lite0" if photos else "cifar10-resnet56"
    f = pm.load_classifier(model, weights=args.weights, device=device)
    if photos:
        _, images, learn, judge = photos_of(args.folder, f, args.fold, args.number)
    else:
        test, train = (text.format(args.folder) for text in DATA["cifar10"])
        images, (learn, judge) = pictures(f, test, args.fold, args.number, 0), pools(f, train)
    labels, e = f.top(images, 5 if photos else 2), thresholds("paper" if photos else "appendix")

    belief.BeliefProblem = Noting  # type: ignore[misc]
    Noting.noted = {}
    method, session = pm.make_method(args.method), Session(f, distractors=lambda: learn)
    kinds: dict[bool, list[Tensor]] = {True: [], False: []}
    for start in range(0, len(images), TOGETHER):
        some = slice(start, start + TOGETHER)
        for fitted, maps in kinds.items():
            maps.append(learned(session, method, images[some], labels[some], fitted=fitted))
        print(f"{min(start + TOGETHER, len(images))} of {len(images)} learned", flush=True)
    fills = [drawing_from(name, judge) for name in JUDGED]
    curves = {
        fitted: [pm.insertion(f, images, torch.cat(maps), labels, fill=fill, points=32) for fill in fills]
        for fitted, maps in kinds.items()
    }
    believed = curves[True][0].f
    noted = torch.tensor(
        [
            [nearest(int(a), float(v)) for a, v in zip(*row, strict=True)]
            for row in zip(labels, believed, strict=True)
        ]
    ).to(believed)
    sure, amiss = noted.unbind(dim=2)
    open_to_a_fit = sure < belief_problem.SURE
    print(f"{args.case} ({args.fold}), {len(images)} images, {args.method}, {device}; completeness/soundness")
    print(f"| fitted | labels | {' | '.join(JUDGED)} |\n{'|---' * (2 + len(JUDGED))}|")
    rows = {"nothing": torch.zeros_like(open_to_a_fit)}
    rows |= {f"up to {bar}": open_to_a_fit & (amiss <= bar) for bar in args.bars}
    rows |= {"all that it is not sure about": open_to_a_fit, "all": torch.ones_like(open_to_a_fit)}
    for name, fit in rows.items():
        areas = [torch.where(fit, a.auc, b.auc) for a, b in zip(curves[True], curves[False], strict=True)]
        scores = [(completeness(area, believed, e.e1), soundness(area, believed, e.e2)) for area in areas]
        cells = ["/".join(f"{worst_case(score).mean():.3f}" for score in pair) for pair in scores]
        print(f"| {name} | {fit.double().mean():.3f} | {' | '.join(cells)} |")


def nearest(label: int, f: float) -> tuple[float, float]:
    """What was noted of the pair with this label and f; f is computed in another batch here."""
    pair = min((pair for pair in Noting.noted if pair[0] == label), key=lambda pair: abs(pair[1] - f))
    return Noting.noted[pair]


if __name__ == "__main__":
    run_script(main)
