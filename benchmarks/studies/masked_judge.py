"""Tune a net for CIFAR-10 on randomly masked inputs, so that composites are no longer off its data (F-Fidelity, Zheng et al. 2024).

    python benchmarks/studies/masked_judge.py cifar-10-batches-py --model cifar10-resnet56 --weights FILE --out judge.safetensors

Every training picture shows a random share, from 0 to 1, of its 4 x 4 cells over gray; the label stays. Prints the accuracy on test pictures as they
are and with a half of the cells, before and after. ``benchmarks/studies/validation.py cifar10 --judge judge.safetensors`` judges by the tuned net.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from cifar_training import accuracy, read_images
from safetensors.torch import save_file
from torch import Tensor

import proofmap as pm
from proofmap.cli import run_script


def masked(x: Tensor, share: Tensor, gray: Tensor, random: torch.Generator) -> Tensor:
    """Pictures ``(N, 3, 32, 32)`` of which a ``share`` ``(N,)`` of the 4 x 4 cells is shown."""
    chance = torch.rand(len(x), 1, 8, 8, generator=random).to(x.device)
    keep = chance < share.view(-1, 1, 1, 1).to(x.device)
    return torch.where(keep.repeat_interleave(4, 2).repeat_interleave(4, 3), x, gray.view(1, 3, 1, 1))


def accuracies(f: pm.Classifier, x: Tensor, y: Tensor) -> dict[str, float]:
    half = masked(x, torch.full((len(x),), 0.5), f.gray, torch.Generator().manual_seed(1))
    return {"whole": accuracy(f, x, y), "half shown": accuracy(f, half, y)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", default="cifar10-resnet56")
    parser.add_argument("--weights", type=Path, default=None)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--limit", type=int, default=None)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    (x, y), (test_x, test_y) = read_images(args.data, args.limit, device)
    f = pm.load_classifier(args.model, weights=args.weights, device=device)
    before, began = accuracies(f, test_x, test_y), time.perf_counter()
    net = copy.deepcopy(f.net).train()
    for weight in net.parameters():
        weight.requires_grad_(True)
    mean, std = (torch.tensor(v, device=device).view(1, 3, 1, 1) for v in (f.mean, f.std))
    random = torch.Generator().manual_seed(0)
    steps = args.epochs * -(-len(x) // args.batch)
    optimiser = torch.optim.SGD(net.parameters(), lr=args.learning_rate, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in range(args.epochs):
        for some in torch.randperm(len(x), generator=random).split(args.batch):
            images, labels = x[some.to(device)], y[some.to(device)]
            images = images.flip(3) if float(torch.rand((), generator=random)) < 0.5 else images
            images = masked(images, torch.rand(len(images), generator=random), f.gray, random)
            loss = F.cross_entropy(net((images - mean) / std), labels)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    state = {name: value.detach().cpu().contiguous() for name, value in net.state_dict().items()}
    save_file({name: value for name, value in state.items() if value.is_floating_point()}, args.out)
    after = accuracies(pm.load_classifier(args.model, weights=args.out, device=device), test_x, test_y)
    seconds = round(time.perf_counter() - began, 1)
    record = {
        "model": args.model,
        "pictures": len(x),
        "test": len(test_x),
        "before": before,
        "after": after,
        "seconds": seconds,
    }
    print(json.dumps(record))
    args.out.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    run_script(main)
