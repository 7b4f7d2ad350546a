"""Label randomisation (Adebayo et al. 2018): maps of a net beside those of a net that was trained on shuffled labels.

    python benchmarks/studies/shuffled_labels.py --data cifar-10-batches-py [--methods learned-mask,gradient] [--images 40] [--out FILE]

Two small nets are trained on the same pictures, one with their labels and one with the labels in a random order, without flips and
shifts, so that the second can learn its labels by heart. Its accuracy on the training pictures says whether it did; Adebayo et al. ask
for 95 %. Then the maps of the top label on test pictures are compared: a method that explains what a net has learned must give other
maps. ``edges`` is a control that does not use the net.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
from cifar_training import accuracy, add_training, classifier_of, read_images, train

from proofmap.checking import sanity_checks
from proofmap.cli import run_script
from proofmap.core.files import output_file

METHODS = "learned-mask,belief-mask,gradient,gradient-x-input,grad-cam,guided-backprop,edges"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder cifar-10-batches-py")
    parser.add_argument("--methods", default=METHODS, help="separated by commas")
    parser.add_argument("--images", type=int, default=40, help="test pictures whose maps are compared")
    parser.add_argument("--seed", type=int, default=0)
    add_training(parser, epochs=60)
    asked = parser.parse_args()
    began = time.perf_counter()
    (x, y), (test_x, test_y) = read_images(asked.data, asked.limit, asked.device)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(asked.seed))
    nets = [
        classifier_of(
            train(x, labels, epochs=asked.epochs, width=asked.width, seed=asked.seed, augment=False)
        )
        for labels in (y, y[order.to(y.device)])
    ]
    learned = [accuracy(nets[0], x, y), accuracy(nets[1], x, y[order.to(y.device)])]
    checks = sanity_checks(
        nets[0],
        test_x[: asked.images],
        methods=asked.methods.split(","),
        labels="top1",
        orders=[],
        relabelled=nets[1],
        seed=asked.seed,
    )
    print(checks)
    told = {
        "command": "python benchmarks/studies/shuffled_labels.py",
        "asked": {k: str(v) for k, v in vars(asked).items() if k not in ("data", "out", "device")},
        "training pictures": len(x),
        "accuracy on training pictures": learned[0],
        "accuracy on training pictures, shuffled labels": learned[1],
        "accuracy on test pictures": accuracy(nets[0], test_x, test_y),
        "seconds": round(time.perf_counter() - began, 1),
        "rows": [
            {"score": line["measure"]}
            | {key: line[key] for key in ("method", "order", "value", "low", "high", "n")}
            for line in checks.records()
        ],
    }
    print(json.dumps({key: value for key, value in told.items() if key != "rows"}, indent=1))
    if asked.out is not None:
        output_file(asked.out).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_script(main)
