"""Input gradients for all labels: one forward pass for all of them, against Captum looped over the labels, in one run.

python benchmarks/gradients_speed.py [--depth 20] [--images 16] [--labels 10] [--device cpu] [--threads 1]

The target is 1.7 times Captum. Both take a CIFAR ResNet with random weights (speed does not depend on them); what they give
is compared first. Where Captum is not installed, a loop with its mathematics stands in its place: |dS / dx| of one label
after the other, a forward and a backward pass for each.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

import torch
from _timing import timed
from torch import Tensor, nn

import proofmap as pm
from proofmap.models.resnets import CifarResNet, cifar_arguments


def alternating(
    first: Callable[[], object], second: Callable[[], object], rounds: int
) -> tuple[float, float]:
    """Median seconds of each, alternating, so that what else the machine does meets both; one round to warm up."""
    times: list[tuple[float, float]] = []
    for _ in range(rounds + 1):
        times.append((timed(first)[1], timed(second)[1]))
    one, other = (statistics.median(each) for each in zip(*times[1:], strict=True))
    return one, other


def gradient_loop(net: nn.Module, x: Tensor, label: int) -> Tensor:
    """|dS / dx| of one label, as Captum's Saliency defines it."""
    x = x.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(net(x)[:, label].sum(), x)
    return gradient.abs()


def saliency_of(net: nn.Module) -> tuple[str, Callable[[Tensor, int], Tensor]]:
    """What we are measured against: Captum, or a loop in its place; and its name."""
    try:
        from captum.attr import Saliency
    except ImportError:
        return "a loop in Captum's place", lambda x, label: gradient_loop(net, x, label)
    saliency = Saliency(net)
    return "Captum", lambda x, label: saliency.attribute(x.clone().requires_grad_(True), target=label)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--depth", type=int, default=20)
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--labels", type=int, default=10)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    net = CifarResNet(args.depth).eval().to(args.device)
    arguments = cifar_arguments(args.depth, 10)
    f = pm.Classifier(net, **arguments)
    images = torch.rand(args.images, 3, 32, 32).to(args.device)
    labels = torch.arange(args.labels, device=args.device).expand(args.images, -1)
    mean, std = (torch.tensor(arguments[k], device=args.device).view(3, 1, 1) for k in ("mean", "std"))
    method, (name, saliency) = pm.make_method("gradient"), saliency_of(net)

    def ours() -> Tensor:
        return method(f, images, labels)

    def looped() -> Tensor:
        x = (images - mean) / std
        return torch.stack([saliency(x, j).amax(dim=1) for j in range(args.labels)], dim=1)

    both = torch.stack([ours().flatten(), looped().flatten()])
    shape = f"{args.images} images x {args.labels} labels"
    print(f"ResNet-{args.depth} on {args.device}, {shape}, torch {torch.__version__}")
    print(f"correlation with the maps of {name} {float(torch.corrcoef(both)[0, 1]):.6f}")
    fast, slow = alternating(ours, looped, args.rounds)
    print(f"one forward pass {fast:.3f} s, {name} {slow:.3f} s, ratio {slow / fast:.2f}")


if __name__ == "__main__":
    main()
