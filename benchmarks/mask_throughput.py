"""Composites per second (forward + input gradient) inside the real learning loop, beside the plain eager loop.

    python benchmarks/mask_throughput.py [--model efficientnet-lite0] [--weights FILE]

The plain loop is what one writes first: float32, the eager net, weights asking for gradients, ``torch.optim.Adam``,
one label after another. Both learn the same masks on random pictures; the ratio is measured in one run. Then belief masks of the
same pictures' five likeliest labels, with ``--passes`` each, in batches of ``--belief-batch``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from _timing import timed

import proofmap as pm
from proofmap.cli import run_script
from proofmap.methods.masks.belief import BeliefMask


def plain_loop(
    net: torch.nn.Module, f: pm.Classifier, x: torch.Tensor, a: int, pool: torch.Tensor, steps: int
) -> None:
    mean = torch.tensor(f.mean, device=f.device).view(1, 3, 1, 1)
    std = torch.tensor(f.std, device=f.device).view(1, 3, 1, 1)
    weights = torch.zeros(1, 1, *(side // 4 for side in f.size), device=f.device, requires_grad=True)
    optimiser = torch.optim.Adam([weights], lr=0.05)
    for _ in range(steps):
        mask = F.interpolate(weights.sigmoid(), scale_factor=4, mode="bilinear")
        behind = pool[torch.randint(len(pool), (10,), device=f.device)]
        logits = net((mask * x + (1 - mask) * behind - mean) / std)
        tv = mask.diff(dim=2).square().sum() + mask.diff(dim=3).square().sum()
        loss = -logits.log_softmax(1)[:, a].mean() + 0.01 * tv + 2e-5 * mask.sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def belief_rate(f: pm.Classifier, images: torch.Tensor, args: argparse.Namespace) -> float:
    """Composites per second of belief masks, entering and leaving included, after a short call that compiles the net."""
    cuda = f.device.type == "cuda"
    passes, batch = args.passes or (600 if cuda else 6), args.belief_batch or (960 if cuda else 15)
    f.fix_batches(batch, batch)
    images = images[: 64 if cuda else 1]
    labels, compiled = f.top(images, 5), cuda and not args.no_compile
    method = BeliefMask(passes=passes, smoothness=0.03, compile=compiled)
    BeliefMask(passes=9, compile=compiled)(f, images, labels)
    _, seconds = timed(lambda: method(f, images, labels))
    return labels.numel() * method.steps * len(method.fills) / seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="efficientnet-lite0")
    parser.add_argument("--weights", type=Path, default=None)
    parser.add_argument("--pairs", type=int, default=None)
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument("--distractors", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=None)
    parser.add_argument("--precision", default=None)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--passes", type=int, default=None, help="of each belief mask")
    parser.add_argument("--belief-batch", type=int, default=None, help="passes of the net at once")
    args = parser.parse_args()
    cuda = torch.cuda.is_available()
    device = "cuda" if cuda else "cpu"
    f = pm.load_classifier(args.model, weights=args.weights, device=device, batch_size=args.batch_size)
    steps = args.steps or (60 if cuda else 3)
    pairs = args.pairs or (100 if cuda else 3)
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(pairs, 3, *f.size, generator=generator).to(f.device)
    labels = torch.arange(pairs, device=f.device)[:, None] % len(f.names)
    pool = (torch.rand(100, 3, *f.size, generator=generator) * 255).to(torch.uint8)
    method = pm.LearnedMask.preset(
        "paper",
        steps=steps,
        distractors=args.distractors,
        fill=pm.Images(source=pool, size=100, crop="none"),
        precision=args.precision or ("bfloat16" if cuda else "float32"),
        compile=cuda and not args.no_compile,
    )
    method(f, images, labels)  # warm up at full shape: compilation, kernel choice, the allocator
    _, seconds = timed(lambda: method(f, images, labels))
    ours = method.cost(pairs).gradient / seconds

    eager = f.net.requires_grad_(True)  # our own view, so nobody's net is changed
    few = 200 if cuda else steps
    behind = pool.to(f.device).float() / 255
    plain_loop(eager, f, images[:1], 0, behind, 2)
    _, seconds = timed(lambda: plain_loop(eager, f, images[:1], 0, behind, few))
    plain = few * 10 / seconds
    name = torch.cuda.get_device_name() if cuda else "CPU"
    print(f"{args.model} on {name}, torch {torch.__version__}, batches {f.frozen().batches[1].size}")
    print(f"learned-mask ({method.precision}, compile={method.compile}): {ours:,.0f} composites/s")
    print(f"plain eager float32 loop: {plain:,.0f} composites/s")
    print(f"ratio {ours / plain:.1f}")
    print(f"belief-mask: {belief_rate(f, images, args):,.0f} composites/s")


if __name__ == "__main__":
    run_script(main)
