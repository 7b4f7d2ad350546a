"""The paper's CIFAR-10 table, end to end: completeness and soundness by TV, gray and random-image fill.

    python benchmarks/studies/paper_cifar_table.py --data cifar-10-batches-py --weights cifar10_resnet56.safetensors

Correctly classified test images, the top two labels, e1 = 0, e2 = 0.1, preset ``released`` (double softmax, squared
TV), 2000 steps x 10 distractors. Prints the table beside the paper's (which used a ResNet-164) and exits with 1 when
a cell is off by more than 0.07 or a trend is not monotone.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import torch

import proofmap as pm
from proofmap.core.progress import Lines
from proofmap.data.cifar import load_cifar
from proofmap.metrics import proof
from proofmap.results.statistics import mean_score

TVS = (0.0, 0.001, 0.01, 0.1)
PAPER = {
    ("gray", "completeness"): (0.92, 0.91, 0.83, 0.77),
    ("gray", "soundness"): (0.17, 0.18, 0.39, 0.57),
    ("random image", "completeness"): (0.86, 0.85, 0.77, 0.70),
    ("random image", "soundness"): (0.20, 0.21, 0.44, 0.62),
}
TOLERANCE = 0.07


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder cifar-10-batches-py")
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--model", default="cifar10-resnet56")
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument(
        "--among", type=int, default=1600, help="choose them among the first so many test images"
    )
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--distractors", type=int, default=10)
    parser.add_argument("--draws", type=int, default=40, help="random images per masked image when scoring")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None, help="where to write the numbers as JSON")
    args = parser.parse_args()

    cuda = torch.cuda.is_available()
    net = pm.load_classifier(args.model, weights=args.weights, device="cuda" if cuda else "cpu")
    images, truth = (t.to(net.device) for t in load_cifar(args.data / "test_batch"))
    images, truth = images[: args.among], truth[: args.among]
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(args.seed)).to(net.device)
    images, truth = images[order], truth[order]
    right = net.probabilities(images[: 4 * args.images]).argmax(dim=1) == truth[: 4 * args.images]
    images = images[: 4 * args.images][right][: args.images]
    labels = net.top(images, 2)
    train = load_cifar(args.data / "data_batch_1")[0][:1000]
    pool = pm.Images(source=train, size=1000, crop="none", seed=args.seed)
    gray, random = (
        {"points": 64},
        {"points": 32, "fill": pm.Images(source=train, size=1000, crop="none", seed=1)},
    )

    cells: dict[str, list[dict[str, float]]] = {}
    for tv in TVS:
        method = pm.LearnedMask.preset(
            "released",
            tv=tv,
            scale=1,
            l1=1e-3,
            steps=args.steps,
            distractors=args.distractors,
            fill=pool,
            precision="bfloat16" if cuda else "float32",
            compile=cuda,
        )
        began = time.perf_counter()
        maps = method(net, images, labels, seed=args.seed, progress=Lines(every=30))
        seconds = time.perf_counter() - began
        rate = method.passes(labels.numel()) / seconds
        print(
            f"TV {tv}: {len(images)} images x 2 labels in {seconds:.0f} s, {rate:,.0f} passes/s", flush=True
        )
        for fill, options in (("gray", gray), ("random image", {**random, "draws": args.draws})):
            curves = pm.insertion(net, images, maps, labels, seed=args.seed, **options)
            for name, pairs in (
                ("completeness", proof.completeness(curves.auc, curves.f, 0.0)),
                ("soundness", proof.soundness(curves.auc, curves.f, 0.1)),
            ):
                score = mean_score(name, proof.worst_case(pairs), higher_is_better=True)
                cells.setdefault(f"{fill} {name}", []).append(
                    {"tv": tv, "value": score.value, "low": score.low, "high": score.high}
                )

    print(
        f"\n{args.model}, n = {len(images)}, {args.steps} steps x {args.distractors} distractors, seed {args.seed}"
    )
    print("| fill | score | " + " | ".join(f"TV {tv}" for tv in TVS) + " |")
    print("|---|---|" + "---|" * len(TVS))
    good = True
    for (fill, name), paper in PAPER.items():
        row = cells[f"{fill} {name}"]
        shown = [
            f"{c['value']:.2f} [{c['low']:.2f}, {c['high']:.2f}] (paper {p:.2f})"
            for c, p in zip(row, paper, strict=True)
        ]
        print(f"| {fill} | {name} | " + " | ".join(shown) + " |")
        good &= all(abs(c["value"] - p) <= TOLERANCE for c, p in zip(row, paper, strict=True))
        values = [c["value"] for c in row]
        good &= values == sorted(values, reverse=name == "completeness")
    print(
        "\nevery cell within 0.07 and both trends monotone" if good else "\nNOT within 0.07 or not monotone"
    )
    if args.out:
        args.out.write_text(
            json.dumps({"settings": vars(args), "cells": cells}, default=str, indent=1) + "\n"
        )
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
