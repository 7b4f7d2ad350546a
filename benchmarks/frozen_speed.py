"""Forward + input gradient on the CPU: the frozen view against the eager net, alternating in one run.

python benchmarks/frozen_speed.py [--model efficientnet-lite0] [--batch-size 16]
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="efficientnet-lite0")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    eager = pm.load_classifier(args.model, device="cpu")
    frozen = eager.frozen()
    images = torch.rand(args.batch_size, 3, *eager.size, generator=torch.Generator().manual_seed(0))
    difference = (eager.logits(images) - frozen.logits(images)).abs().max()
    times: dict[str, list[float]] = {"eager": [], "frozen": []}
    for _ in range(args.rounds + 2):
        times["eager"].append(seconds(eager, images))
        times["frozen"].append(seconds(frozen, images))
    slow, fast = (statistics.median(times[k][2:]) for k in ("eager", "frozen"))
    threads = torch.get_num_threads()
    print(
        f"{args.model}, batch {args.batch_size}, {threads} threads, torch {torch.__version__}, {args.rounds} rounds"
    )
    print(
        f"eager {args.batch_size / slow:.1f} images/s, frozen {args.batch_size / fast:.1f} images/s (medians)"
    )
    print(f"ratio {slow / fast:.2f}; largest difference of a logit {difference:.1e}")


if __name__ == "__main__":
    main()
