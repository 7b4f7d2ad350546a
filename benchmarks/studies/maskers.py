"""Trained maskers on CIFAR-10: does their error fall, and are their maps proofs on images that they have not seen?

    python benchmarks/studies/maskers.py --data cifar-10-batches-py --weights cifar10_resnet20.safetensors \\
        --train belief:60x4,dabkowski:160x16 --images 40

``belief:60x4`` is 60 steps of 4 images; the training batch is for training. What training tells of its error (for the belief
masker |log A - log f|, for others the loss) is printed as means over fifths of the steps. Then images of the test batch are judged, all
ten labels, hidden pixels gray, 8 shares, e = .1/.1; half of them have a second label with f >= .1. Beside noise, Grad-CAM, the belief masker before its first step, and
whatever ``--methods`` names.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch

import proofmap as pm
from proofmap.core.progress import SilentTask
from proofmap.data import load_blocks, load_dataset, truths
from proofmap.methods import train_masker

METHODS = {
    "belief": "belief-masker",
    "dabkowski": "real-time-saliency",
    "phang-fix": "phang-masker:variant=fix",
    "phang-ca": "phang-masker",
}
FIFTHS = 5


class Told(SilentTask):
    """Progress that keeps the number at the end of each note."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def task(self, what: str, passes: int) -> Told:
        return self

    def advance(self, passes: int, note: str = "") -> None:
        if note:
            self.values.append(float(note.split()[-1]))

    def fifths(self) -> str:
        parts = torch.tensor(self.values).tensor_split(FIFTHS)
        return " ".join(f"{float(part.mean()):.3f}" for part in parts if len(part))


def loaded(data: str, f: pm.Classifier, number: int | None) -> tuple[torch.Tensor, torch.Tensor]:
    """The first images of a dataset, and their labels."""
    dataset = load_dataset(data)
    chosen = list(range(len(dataset)))[:number]
    labels = [-1 if label is None else label for label in truths(dataset, f.names, chosen)]
    return torch.cat([block.images for block in load_blocks(dataset, f, chosen)]), torch.tensor(labels)


def hesitant(f: pm.Classifier, images: torch.Tensor, number: int) -> torch.Tensor:
    """So many of the images, where possible one half with a second label of f >= .1."""
    doubted = f.probabilities(images).topk(2, dim=1).values[:, 1] >= 0.1
    half = images[doubted][: number // 2]
    return torch.cat([half, images[~doubted][: number - len(half)]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", required=True, help="the folder cifar-10-batches-py")
    parser.add_argument("--weights", default=None)
    parser.add_argument("--model", default="cifar10-resnet20", help="or FILE.py:FUNCTION, a net of yours")
    parser.add_argument("--train", default="belief:60x4", help="KIND:STEPSxBATCH, separated by commas")
    parser.add_argument("--rate", type=float, default=None, help="the learning rate; each kind's own")
    parser.add_argument("--width", type=int, default=None, help="channels of the maskers; each kind's own")
    parser.add_argument("--images", type=int, default=40)
    parser.add_argument("--methods", default="random,grad-cam", help="to judge beside them")
    parser.add_argument("--device", default=None)
    options = parser.parse_args()

    f = pm.load_classifier(options.model, weights=options.weights, device=options.device)
    images, truth = loaded(f"cifar10:{options.data}[train]", f, None)
    seen = hesitant(f, loaded(f"cifar10:{options.data}[test]", f, 25 * options.images)[0], options.images)
    methods = options.methods.split(",")
    with tempfile.TemporaryDirectory() as folder:

        def trained(kind: str, steps: int, batch: int, rate: float | None = None) -> str:
            told, out = Told(), Path(folder) / f"{kind}-{steps}.safetensors"
            size = {"steps": steps, "batch": batch, "learning_rate": rate, "width": options.width}
            train_masker(kind, f, images, truth, out=out, progress=told, **size)
            print(f"{kind}, {steps} steps of {batch}: error by fifths {told.fifths()}", flush=True)
            return f"{METHODS[kind]}{',' if ':' in METHODS[kind] else ':'}weights={out}"

        wanted = [part.split(":") for part in options.train.split(",")]
        if any(kind == "belief" for kind, _ in wanted):
            methods.append(trained("belief", 1, 2, 1e-9))
        methods += [trained(kind, *(int(n) for n in size.split("x")), options.rate) for kind, size in wanted]
        curve = {"fill": "gray", "points": 8}
        metrics = [
            pm.make_metric({"metric": "completeness", "e1": 0.1, **curve}),
            pm.make_metric({"metric": "soundness", "e2": 0.1, **curve}),
            pm.make_metric({"metric": "best-effort", "e1": 0.1, **curve}),
        ]
        print(pm.evaluate(f, seen, methods=methods, labels="all", metrics=metrics, keep_maps=0))


if __name__ == "__main__":
    main()
