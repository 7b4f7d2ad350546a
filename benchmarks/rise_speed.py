"""RISE's time against the number of labels, in one run: all labels share the passes.

python benchmarks/rise_speed.py [--model efficientnet-lite0] [--masks 100] [--labels 1 10 100] [--images 1] [--device cpu]
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

import proofmap as pm
from proofmap.methods.perturbation.rise import RISE
from proofmap.session import Session


def seconds(method: RISE, f: pm.Classifier, images: torch.Tensor, labels: torch.Tensor) -> float:
    began = time.perf_counter()
    Session(f).maps(method, images, labels).sum().item()  # reading a number waits for the device
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="efficientnet-lite0")
    parser.add_argument("--masks", type=int, default=100)
    parser.add_argument("--labels", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--images", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    f = pm.load_classifier(args.model, device=args.device)
    images = torch.rand(args.images, *f.inputs.shape, generator=torch.Generator().manual_seed(0)).to(f.device)
    method = RISE(masks=args.masks, tolerance=0)
    chosen = [f.top(images, count) for count in args.labels]
    seconds(method, f, images, chosen[0])  # to warm up
    times = [[seconds(method, f, images, labels) for labels in chosen] for _ in range(args.rounds)]
    medians = [statistics.median(each) for each in zip(*times, strict=True)]
    print(
        f"{args.model}, {args.device}, {args.images} image(s), {args.masks} masks, torch {torch.__version__}, "
        f"{args.rounds} rounds, alternating (medians)"
    )
    for count, each in zip(args.labels, medians, strict=True):
        rate = args.images * args.masks / each
        print(f"{count} labels: {each:.2f} s, {rate:.0f} passes/s, ratio {each / medians[0]:.2f}")


if __name__ == "__main__":
    main()
