"""Trained maskers: does their error fall, and are their maps proofs on images that they have not seen?

    python benchmarks/studies/maskers.py cifar10 cifar-10-batches-py --net cifar10_resnet20.safetensors \\
        --train belief:60x4,dabkowski:160x16 --images 40
    python benchmarks/studies/maskers.py imagenette imagenette --weights belief.safetensors --images 100

``--weights`` judges maskers that ``proofmap train-masker`` wrote, ``--train`` some that are trained here: ``belief:60x4`` is 60 steps of 4
images; the training batch is for training. What training tells of its error (for the belief masker |log A - log f|, for others the loss) is
printed as means over fifths of the steps. Then images of the test batch or the validation photos are judged, all ten labels, hidden pixels
gray, 8 shares, e = .1/.1; of CIFAR-10 half of them have a second label with f >= .1, photos are drawn at random (``--doubted`` asks for some with
a second label: best effort counts these alone). Beside noise, Grad-CAM, the belief masker before its first step where one is judged, and
whatever ``--methods`` names.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import proofmap as pm
from proofmap.cli import run_script
from proofmap.core.progress import SilentTask
from proofmap.data import IMAGENETTE, load_blocks, load_dataset, random_choice, truths
from proofmap.methods import train_masker
from proofmap.methods.maskers.file import Header, MaskerWarning, read_header
from proofmap.methods.maskers.trained import method_of

CASES = {"cifar10": ("cifar10-resnet20", []), "imagenette": ("efficientnet-lite0", list(IMAGENETTE.values()))}
"""The net, and the labels that count where these are not all."""
FIFTHS, A_FEW = 5, 8


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


def loaded(data: str, f: pm.Classifier, chosen: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Images of a dataset, and their labels."""
    dataset = load_dataset(data)
    labels = [-1 if label is None else label for label in truths(dataset, f.names, chosen)]
    return torch.cat([block.images for block in load_blocks(dataset, f, chosen)]), torch.tensor(labels)


def to_train_on(
    case: str, data: str, f: pm.Classifier, number: int | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The first images for training, all when ``number`` is None, and their labels."""
    data = f"{case}:{data}[train]"
    return loaded(data, f, range(len(load_dataset(data)))[:number])


def to_judge(case: str, data: str, f: pm.Classifier, number: int, doubted: int) -> torch.Tensor:
    """Images that no masker has seen, where possible so many of them with a second label of f >= .1; photos in random order."""
    data = f"{case}:{data}[{'val' if case == 'imagenette' else 'test'}]"
    names = load_dataset(data).names
    order = random_choice(names, len(names)) if case == "imagenette" else range(len(names))
    images = loaded(data, f, order[: 25 * number if doubted else number])[0]
    second = f.probabilities(images).topk(2, dim=1).values[:, 1] >= 0.1
    return torch.cat([images[second][:doubted], images[~second], images[second][doubted:]])[:number]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("case", choices=list(CASES))
    parser.add_argument(
        "data", help="the folder cifar-10-batches-py, or that of Imagenette with train and val"
    )
    parser.add_argument("--weights", nargs="+", default=[], type=Path, help="maskers' files to judge")
    parser.add_argument("--model", default=None, help="the case's own, or FILE.py:FUNCTION, a net of yours")
    parser.add_argument("--net", default=None, help="the net's weights")
    parser.add_argument("--train", default="", help="KIND:STEPSxBATCH, separated by commas")
    parser.add_argument("--rate", type=float, default=None, help="the learning rate; each kind's own")
    parser.add_argument("--width", type=int, default=None, help="channels of the maskers; each kind's own")
    parser.add_argument("--images", type=int, default=40)
    parser.add_argument(
        "--doubted", type=int, default=None, help="of which so many have a second label with f >= .1"
    )
    parser.add_argument("--methods", default="random,grad-cam", help="to judge beside them")
    parser.add_argument("--device", default=None)
    options = parser.parse_args()

    model, label_set = CASES[options.case]
    usual = options.images // 2 if options.case == "cifar10" else 0
    doubted = usual if options.doubted is None else options.doubted
    f = pm.load_classifier(options.model or model, weights=options.net, device=options.device)
    f = f.restricted(label_set) if label_set else f
    wanted = [part.split(":") for part in options.train.split(",") if part]
    images, truth = to_train_on(options.case, options.data, f, None if wanted else A_FEW)
    methods: list[str | pm.Method] = options.methods.split(",")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", MaskerWarning)  # the table says more

        def trained(kind: str, name: str, **size: Any) -> pm.Method:
            told, out = Told(), Path(folder) / f"{name}.safetensors"
            train_masker(kind, f, images, truth, out=out, progress=told, **size)
            if told.values:
                print(f"{name}: error by fifths {told.fifths()}", flush=True)
            return method_of(kind, out)

        headers = [Header.parse(read_header(path)) for path in options.weights]
        widths = {header.recipe.width for header in headers if header.recipe.kind == "belief"}
        widths |= {options.width for kind, _ in wanted if kind == "belief"}
        # a step of almost no length: batch-norm's statistics move, maps do not yet depend on them
        for width in widths:
            start = f"belief-start-{width}" if width else "belief-start"
            methods.append(trained("belief", start, steps=1, batch=2, learning_rate=1e-9, width=width))
        for header, path in zip(headers, options.weights, strict=True):
            steps = header.recipe.steps if header.made is None else header.made
            print(f"{path}: {header.recipe.kind}, {steps} steps of {header.recipe.batch} on {header.data}")
            if header.learned is not None:
                print(f"{path}: {header.learned!s}")
            methods.append(method_of(header.recipe.kind, path))
        for kind, size in wanted:
            steps, batch = (int(n) for n in size.split("x"))
            same = {"learning_rate": options.rate, "width": options.width}
            methods.append(trained(kind, f"{kind}-{steps}x{batch}", steps=steps, batch=batch, **same))
        curve = {"fill": "gray", "points": 8}
        metrics = [
            pm.make_metric({"metric": "completeness", "e1": 0.1, **curve}),
            pm.make_metric({"metric": "soundness", "e2": 0.1, **curve}),
            pm.make_metric({"metric": "best-effort", "e1": 0.1, **curve}),
        ]
        seen = to_judge(options.case, options.data, f, options.images, doubted)
        print(pm.evaluate(f, seen, methods=methods, labels="all", metrics=metrics, keep_maps=0))


if __name__ == "__main__":
    run_script(main)
