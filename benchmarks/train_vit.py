"""Train the small vision transformer of this package, on a GPU in minutes.

    python benchmarks/train_vit.py --cifar FOLDER [--teacher WEIGHTS] [--photos FOLDER] [--minutes 3.5] --out FOLDER

Writes ``cifar10_vit.safetensors`` (half precision) and ``cifar10_vit.json`` (accuracy on the test batch, settings).
FOLDER has CIFAR-10's python batches; every ``data_batch_*`` is learned from, ``test_batch`` is only counted at the end.

With a teacher (a CIFAR ResNet-56 of ours) the net learns to answer as the teacher does, on mixtures of the training
pictures and on random cut-outs of any photos (Beyer et al., *Knowledge distillation: a good teacher is patient and
consistent*, CVPR 2022; Asano and Saeed, ICLR 2023). So a few thousand pictures are enough. Without one it learns the
labels.

``--minutes`` finds the number of steps from the speed of the first ones; ``--steps`` sets it, for the same run again.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn

import proofmap as pm
from proofmap.cli import run_script
from proofmap.data.arrays import load_cifar
from proofmap.models.cifar_vit import CifarViT, classifier_arguments

TEMPERATURE = 4.0
WARM_UP, TIMED = 20, 60  # steps before the speed is measured, and steps that it is measured over


def cifar(folder: Path, pattern: str, device: torch.device) -> tuple[Tensor, Tensor]:
    parts = [load_cifar(file) for file in sorted(folder.glob(pattern))]
    if not parts:
        raise pm.InputError(f"{folder} has no file {pattern}; name the folder cifar-10-batches-py")
    return torch.cat([x for x, _ in parts]).to(device), torch.cat([a for _, a in parts]).to(device)


def pyramid(folder: Path, device: torch.device) -> list[Tensor]:
    """All photos below a folder as squares of 128, 64 and 40 pixels, bytes ``(N, 3, side, side)``."""
    levels: list[list[np.ndarray]] = [[], [], []]
    for file in sorted(folder.rglob("*.jpg")):
        photo = Image.open(file).convert("RGB")
        side = min(photo.size)
        left, top = (photo.width - side) // 2, (photo.height - side) // 2
        photo = photo.crop((left, top, left + side, top + side))
        for level, pixels in zip(levels, (128, 64, 40), strict=True):
            level.append(np.asarray(photo.resize((pixels, pixels), Image.Resampling.BOX)))
    return [torch.from_numpy(np.stack(level)).permute(0, 3, 1, 2).contiguous().to(device) for level in levels]


def cut_out(images: Tensor, least: float, most: float, random: torch.Generator) -> Tensor:
    """A square of ``least`` to ``most`` times 32 pixels at a random place of each, flipped or not, as 32x32."""
    n, side = len(images), images.shape[-1]
    draw = torch.rand(4, n, device=images.device, generator=random)
    share = (least + (most - least) * draw[0]) * 32 / side
    flip = torch.where(draw[1] < 0.5, -1.0, 1.0)
    room = (1 - share).abs()
    theta = torch.zeros(n, 2, 3, device=images.device)
    theta[:, 0, 0], theta[:, 1, 1] = share * flip, share
    theta[:, 0, 2], theta[:, 1, 2] = room * (2 * draw[2] - 1), room * (2 * draw[3] - 1)
    grid = F.affine_grid(theta, [n, 3, 32, 32], align_corners=False)
    return F.grid_sample(images.float(), grid, padding_mode="reflection", align_corners=False)


def mixed(x: Tensor, y: Tensor, random: torch.Generator) -> tuple[Tensor, Tensor]:
    """Each picture mixed with another: a third blended, a third with a rectangle of the other, a third left alone."""
    n = len(x)
    other = torch.randperm(n, device=x.device, generator=random)
    draw = torch.rand(4, n, 1, 1, 1, device=x.device, generator=random)
    place = torch.arange(32, device=x.device)
    half = 16 * (1 - draw[0]).sqrt()
    rows = (place.view(1, 1, -1, 1) - 32 * draw[1]).abs() < half
    columns = (place.view(1, 1, 1, -1) - 32 * draw[2]).abs() < half
    pasted = 1 - (rows & columns).float()
    share = torch.where(draw[3] < 1 / 3, draw[0].expand_as(pasted), pasted)
    share = torch.where(draw[3] > 2 / 3, torch.ones_like(share), share)
    kept = share.mean(dim=(1, 2, 3))[:, None]
    return share * x + (1 - share) * x[other], kept * y + (1 - kept) * y[other]


class Batches:
    """Random batches, made on the device: CIFAR pictures, and as many cut-outs of photos where there are any."""

    def __init__(self, x: Tensor, labels: Tensor, photos: list[Tensor], size: int, seed: int) -> None:
        self.x, self.y, self.photos, self.size = x, F.one_hot(labels, 10).float(), photos, size
        self.random = torch.Generator(x.device).manual_seed(seed)

    def next(self) -> tuple[Tensor, Tensor]:
        """Pictures in [0, 1] and the mixture of their labels (of use only where there are no photos)."""
        n = self.size // 2 if self.photos else self.size
        chosen = torch.randint(len(self.x), (n,), device=self.x.device, generator=self.random)
        x, y = cut_out(self.x[chosen], 0.7, 1.15, self.random), self.y[chosen]
        for level, share in zip(self.photos, (0.25, 0.35, 0.4), strict=False):
            m = round(share * n)
            chosen = torch.randint(len(level), (m,), device=x.device, generator=self.random)
            cut = cut_out(level[chosen], 0.8, min(1.8, level.shape[-1] / 32), self.random) / 255
            x, y = torch.cat([x, cut]), torch.cat([y, y.new_full((m, 10), 0.1)])
        return mixed(x, y, self.random)


def learning_rate(done: float, peak: float) -> float:
    """A rise over the first twentieth, then a half cosine to zero."""
    return peak * min(done / 0.05, 0.5 + 0.5 * np.cos(np.pi * max(0.0, done - 0.05) / 0.95))


class Schedule:
    """The number of steps: as asked, or as many as the minutes allow, by the speed of the first ones."""

    def __init__(self, steps: int | None, minutes: float, began: float) -> None:
        self.steps, self.minutes, self.began, self.timed = steps, minutes, began, 0.0

    def done(self, step: int) -> float:
        """How much of the training is done before a step, 0 to 1."""
        if self.steps is None and step in (WARM_UP, WARM_UP + TIMED):
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            now = time.perf_counter()
            if step > WARM_UP:
                left = 60 * self.minutes - (now - self.began)
                self.steps = step + max(1, int(0.97 * left * TIMED / (now - self.timed)))
                print(f"{self.steps} steps", flush=True)
            self.timed = now
        return step / (self.steps or 10_000)


class Normalised(nn.Module):
    """A net as a function of pictures in [0, 1]."""

    def __init__(self, net: nn.Module, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("mean", torch.tensor(mean).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(1, 3, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.net((x - self.mean) / self.std).float()


def train(
    student: nn.Module,
    teacher: nn.Module | None,
    batches: Batches,
    schedule: Schedule,
    args: argparse.Namespace,
) -> nn.Module:
    """The running mean of the student's weights."""
    device = batches.x.device
    averaged = copy.deepcopy(student).eval().requires_grad_(False)
    forward, answer = (torch.compile(net) if args.compile and net else net for net in (student, teacher))
    groups = [
        {"params": [w for w in student.parameters() if w.ndim > 1], "weight_decay": args.weight_decay},
        {"params": [w for w in student.parameters() if w.ndim <= 1], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.99), fused=device.type == "cuda")
    step, lost = 0, torch.zeros((), device=device)
    while (done := schedule.done(step)) < 1:
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(done, args.learning_rate)
        pictures, target = batches.next()
        with torch.autocast(device.type, torch.bfloat16):
            logits = forward(pictures)
            if answer is not None:
                with torch.no_grad():
                    target = (answer(pictures) / TEMPERATURE).softmax(1)
                logits = logits / TEMPERATURE
        loss = F.kl_div(logits.log_softmax(1), target, reduction="batchmean")
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        optimiser.step()
        step += 1
        with torch.no_grad():
            weight = 1 - min(0.9995, step / (step + 10))
            torch._foreach_lerp_(list(averaged.parameters()), list(student.parameters()), weight)
            for mine, new in zip(averaged.buffers(), student.buffers(), strict=True):
                mine.copy_(new)
            lost += loss.detach()
        if step % 500 == 0:
            print(
                f"step {step}: loss {float(lost) / 500:.4f}, {time.perf_counter() - schedule.began:.0f} s",
                flush=True,
            )
            lost.zero_()
    return averaged


@torch.no_grad()
def accuracy(net: nn.Module, x: Tensor, labels: Tensor) -> float:
    right = [(net(a).argmax(1) == b).sum() for a, b in zip(x.split(500), labels.split(500), strict=True)]
    return float(torch.stack(right).sum()) / len(labels)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cifar", type=Path, required=True)
    parser.add_argument("--teacher", type=Path, help="weights of cifar10-resnet56")
    parser.add_argument("--photos", type=Path, help="a folder of photos, used only with a teacher")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=3.5)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--weight-decay", type=float, default=0.03)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--test-pictures", type=int, default=10_000, help="so many are counted at the end")
    parser.add_argument("--compile", action="store_true", help="torch.compile both nets (half a minute)")
    args = parser.parse_args()
    began = time.perf_counter()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    args.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")

    x, labels = cifar(args.cifar, "data_batch_*", device)
    photos = pyramid(args.photos, device) if args.teacher and args.photos else []
    print(f"{device}, {len(x)} pictures, {len(photos[0]) if photos else 0} photos", flush=True)
    own = classifier_arguments()
    student = Normalised(CifarViT(), own["mean"], own["std"]).to(device)
    teacher = None
    if args.teacher:
        f = pm.load_classifier("cifar10-resnet56", weights=args.teacher, device=device, batch_size=1000)
        teacher = Normalised(f.frozen().net, f.mean, f.std).to(device)
    schedule = Schedule(args.steps, args.minutes, began)
    batches = Batches(x, labels, photos, args.batch_size, args.seed)
    averaged = train(student, teacher, batches, schedule, args)

    state = {
        key: value.half() if value.is_floating_point() else value
        for key, value in averaged.net.state_dict().items()
    }
    save_file(
        {key: value.cpu().contiguous() for key, value in state.items()}, args.out / "cifar10_vit.safetensors"
    )
    averaged.net.load_state_dict(state)  # what is published is what is counted
    test, truth = (part[: args.test_pictures] for part in cifar(args.cifar, "test_batch", device))
    record = {
        "test_accuracy": accuracy(averaged, test, truth),
        "teacher_accuracy": None if teacher is None else accuracy(teacher, test, truth),
        "test_pictures": len(test),
        "training_pictures": len(x),
        "photos": len(photos[0]) if photos else 0,
        "weights": sum(w.numel() for w in student.parameters()),
        "steps": schedule.steps,
        "seconds": round(time.perf_counter() - began),
        **{key: getattr(args, key) for key in ("batch_size", "learning_rate", "weight_decay", "seed")},
    }
    (args.out / "cifar10_vit.json").write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record))


if __name__ == "__main__":
    run_script(main)
