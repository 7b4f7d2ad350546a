"""Forward + input gradient on the CPU: the frozen view against the eager net, alternating in one run.

python benchmarks/frozen_speed.py [--model efficientnet-lite0] [--batch-size 16] [--threads 1 2]
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

import proofmap as pm


def seconds(f: pm.Classifier, images: torch.Tensor) -> float:
    began = time.perf_counter()
    with torch.enable_grad():
        x = images.clone().requires_grad_(True)
        torch.autograd.grad(f(x)[:, 0].sum(), x)
    return time.perf_counter() - began


def medians(
    eager: pm.Classifier, frozen: pm.Classifier, images: torch.Tensor, rounds: int
) -> tuple[float, float]:
    """Seconds of a pass of each, alternating, so that what else the machine does meets both; two rounds to warm up."""
    times = [(seconds(eager, images), seconds(frozen, images)) for _ in range(rounds + 2)][2:]
    slow, fast = (statistics.median(each) for each in zip(*times, strict=True))
    return slow, fast


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="efficientnet-lite0")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    args = parser.parse_args()
    eager = pm.load_classifier(args.model, device="cpu")
    frozen = eager.frozen()
    images = torch.rand(args.batch_size, 3, *eager.size, generator=torch.Generator().manual_seed(0))
    difference = (eager.logits(images) - frozen.logits(images)).abs().max()
    print(f"{args.model}, batch {args.batch_size}, torch {torch.__version__}, {args.rounds} rounds (medians)")
    print(f"largest difference of a logit {difference:.1e}")
    for threads in args.threads:
        torch.set_num_threads(threads)
        slow, fast = medians(eager, frozen, images, args.rounds)
        print(
            f"threads {threads}: eager {args.batch_size / slow:.1f} images/s, "
            f"frozen {args.batch_size / fast:.1f} images/s, ratio {slow / fast:.2f}"
        )


if __name__ == "__main__":
    main()
