"""Passes per second in full float32 through nets as they are, and folded in either memory layout, in one process.

    python benchmarks/layout_speed.py [--device cuda] [--models cifar10-resnet56 efficientnet-lite0] [--batch-sizes 4096 960]

Weights are random. What ``Classifier.frozen()`` chooses among the layouts is timed, too.
"""

from __future__ import annotations

import argparse
import functools

import torch
from _timing import timed

import proofmap as pm
from proofmap.classifier.frozen import Frozen, _optimised
from proofmap.classifier.kernels import steady_kernels
from proofmap.classifier.view import copy_net

ROUNDS = 6


def rate(run: functools.partial[torch.Tensor], batch: int, rounds: int) -> float:
    for _ in range(2):
        run()
    _, seconds = timed(lambda: [run() for _ in range(rounds)])
    return batch * rounds / seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--models", nargs="+", default=["cifar10-resnet56", "cifar10-resnet20", "efficientnet-lite0"]
    )
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=[4096, 4096, 960])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    args = parser.parse_args()
    for name, batch in zip(args.models, args.batch_sizes, strict=True):
        f = pm.load_classifier(name, pretrained=False, device=args.device)
        x = torch.rand(batch, 3, *f.size, device=f.device)
        with torch.no_grad(), steady_kernels(tf32=False):
            nets = {"as it is": f.net}
            for layout in (torch.contiguous_format, torch.channels_last):
                folded = _optimised(copy_net(f.net).eval(), x[:1], torch.float32, layout)  # type: ignore[arg-type]
                nets[str(layout).removeprefix("torch.")] = Frozen(folded, layout)
            nets["frozen()"] = f.frozen().net
            rates = {way: rate(functools.partial(net, x), batch, args.rounds) for way, net in nets.items()}
        print(f"{name}: " + ", ".join(f"{way} {found:,.0f}" for way, found in rates.items()), flush=True)


if __name__ == "__main__":
    main()
