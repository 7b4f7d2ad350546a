"""Train a small inpainting net for CIFAR-10, on a GPU in minutes, and use it as a fill.

    python benchmarks/train_infill.py --cifar cifar-10-batches-py --out FOLDER
    proofmap evaluate ... --fill infill:benchmarks/train_infill.py:painter

FOLDER gets ``cifar10_infill.safetensors`` (half precision) and a record ``.json``; :func:`painter` reads the file beside this script.
The net is a U-Net of three levels on the image, gray in its holes, and the holes. Holes cover 2 to 98 % of an image and are of three
kinds: single pixels, smooth blobs, all but one rectangle. The loss is the mean absolute error in the holes, so the net paints a likely
mean and no details; a net that samples (Yu et al. 2018) would paint those.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from functools import cache
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from proofmap.cli import run_script

FILE = "cifar10_infill.safetensors"


def _block(before: int, after: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.Conv2d(after, after, 3, padding=1), nn.ReLU()
    )


class Painter(nn.Module):
    """A U-Net ``(images, holes) -> images``; images ``(N, 3, H, W)`` in [0, 1], holes ``(N, 1, H, W)``. H and W are multiples of 8."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        sizes = [width, 2 * width, 2 * width, 2 * width]
        self.down = nn.ModuleList(_block(a, b) for a, b in zip([4, *sizes], sizes, strict=False))
        self.up = nn.ModuleList(_block(2 * width + b, b) for b in reversed(sizes[:-1]))
        self.last = nn.Conv2d(width, 3, 1)

    def forward(self, images: Tensor, holes: Tensor) -> Tensor:
        x = torch.cat([images * (1 - holes) + 0.5 * holes - 0.5, holes], dim=1)
        kept = []
        for level, block in enumerate(self.down):
            x = block(x if level == 0 else F.avg_pool2d(x, 2))
            kept.append(x)
        for block, beside in zip(self.up, reversed(kept[:-1]), strict=True):
            wide = F.interpolate(x, scale_factor=2, mode="nearest")
            x = block(torch.cat([wide, beside], dim=1))
        painted = (self.last(x) + 0.5).clamp(0, 1)
        return images * (1 - holes) + painted * holes


@cache
def _trained(device: torch.device) -> nn.Module:
    net = Painter()
    kept = load_file(Path(__file__).with_name(FILE))
    net.load_state_dict({name: values.float() for name, values in kept.items()})
    return net.to(device).eval()


def painter(images: Tensor, holes: Tensor) -> Tensor:
    """The trained net as a function, for ``infill``."""
    return _trained(images.device)(images, holes)


def random_holes(n: int, random: torch.Generator, device: torch.device) -> Tensor:
    """Holes ``(n, 1, 32, 32)``, a third of each kind."""
    share = 0.02 + 0.96 * torch.rand(n, 1, 1, 1, generator=random, device=device)
    fine = torch.rand(n, 1, 32, 32, generator=random, device=device)
    coarse = F.interpolate(torch.rand(n, 1, 6, 6, generator=random, device=device), size=32, mode="bicubic")
    kind = torch.randint(3, (n, 1, 1, 1), generator=random, device=device)
    ranked = torch.where(kind == 0, fine, coarse).flatten(1).argsort(dim=1).argsort(dim=1).view_as(fine)
    scattered = ranked < share * 1024
    side = ((1 - share).sqrt() * 32).ceil()
    corner = torch.rand(n, 2, 1, 1, generator=random, device=device) * (33 - side)
    line = torch.arange(32, device=device)
    rows = (line[:, None] >= corner[:, :1].floor()) & (line[:, None] < corner[:, :1].floor() + side)
    columns = (line >= corner[:, 1:].floor()) & (line < corner[:, 1:].floor() + side)
    return torch.where(kind == 2, ~(rows & columns), scattered).float()


def train(images: Tensor, epochs: int, batch: int, seed: int) -> Painter:
    """A net trained on bytes ``(N, 3, 32, 32)``: Adam, the rate .002 falls along half a cosine."""
    torch.manual_seed(seed)
    device = images.device
    random = torch.Generator(device=device).manual_seed(seed)
    net = Painter().to(device)
    optimiser = torch.optim.Adam(net.parameters(), lr=2e-3)
    steps = epochs * (len(images) // batch)
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = 1e-3 * (1 + math.cos(math.pi * step / steps))
        which = torch.randint(len(images), (batch,), generator=random, device=device)
        x, holes = images[which].float() / 255, random_holes(batch, random, device)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            painted = net(x, holes)
        loss = _error(painted.float(), x, holes)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return net.eval()


def _error(painted: Tensor, images: Tensor, holes: Tensor) -> Tensor:
    """Mean absolute error over the channels of the holes."""
    return ((painted - images).abs() * holes).sum() / (3 * holes.sum())


@torch.no_grad()
def judged(net: nn.Module, images: Tensor, seed: int) -> dict[str, float]:
    """Mean absolute errors in random holes: of the net, and of gray and the mean of what is shown, which it must beat."""
    random = torch.Generator(device=images.device).manual_seed(seed)
    sums = {"net": 0.0, "gray": 0.0, "mean of what is shown": 0.0}
    parts = images.split(1000)
    for part in parts:
        x, holes = part.float() / 255, random_holes(len(part), random, images.device)
        shown = (x * (1 - holes)).sum((2, 3), keepdim=True) / (1 - holes).sum((2, 3), keepdim=True).clamp_min(
            1
        )
        found = {"net": net(x, holes), "gray": 0.5 + 0 * x, "mean of what is shown": shown.expand_as(x)}
        for name, painted in found.items():
            sums[name] += _error(painted, x, holes).item() / len(parts)
    return sums


def main() -> None:
    from train_cifar import load  # beside this script; the fill does not need it

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cifar", type=Path, required=True, help="the folder cifar-10-batches-py")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--seed", type=int, default=0)
    own = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images, _ = load(own.cifar, "data_batch_*", device)
    tests, _ = load(own.cifar, "test_batch", device)
    begun = time.time()
    net = train(images, own.epochs, own.batch, own.seed)
    half = {name: values.half().cpu().contiguous() for name, values in net.state_dict().items()}
    net.load_state_dict({name: values.float() for name, values in half.items()})
    own.out.mkdir(parents=True, exist_ok=True)
    save_file(half, own.out / FILE)
    record = {
        "net": "U-Net of three levels, width 24",
        "training images": len(images),
        "epochs": own.epochs,
        "batch": own.batch,
        "seed": own.seed,
        "seconds": round(time.time() - begun, 1),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "mean absolute error in the holes of the test images": judged(net, tests, own.seed),
    }
    (own.out / FILE).with_suffix(".json").write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    run_script(main)
