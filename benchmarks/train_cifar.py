"""Train a net for CIFAR-10 on all training images, on a GPU in minutes.

    python benchmarks/train_cifar.py --cifar cifar-10-batches-py --net resnet164 --out FOLDER

FOLDER gets ``cifar10_resnet164.safetensors`` (half precision, what the accuracy is counted on) and a record ``.json``. Load them with
``load_classifier("cifar10-resnet164@FOLDER/cifar10_resnet164.safetensors")``.

Residual nets are trained as He et al. did, on random shifts by up to four pixels and flips: SGD with momentum .9 and weight decay
5e-4. The rate rises for a twentieth of the time and then falls to zero along half a cosine. Labels are not smoothed and images not
mixed, because a study of saliency needs the net's own probabilities. ``--net vit`` uses AdamW.

ResNet-164 is the paper's net: bottleneck blocks as in bearpaw/pytorch-classification, which calls it ResNet-110. Its weights cannot
be downloaded here, so these are a second training of the same architecture.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

import proofmap as pm
from proofmap.cli import run_script
from proofmap.data.arrays import read_cifar
from proofmap.models import cifar_vit, resnets

NETS = ("vit", *(f"resnet{depth}" for depth in (*resnets.BASIC_DEPTHS, resnets.BOTTLENECK_DEPTH)))
WARM_UP = 0.05  # of all steps
SHIFT = 4  # pixels


def make_net(name: str) -> tuple[nn.Module, tuple[float, ...], tuple[float, ...]]:
    """An untrained net, and the mean and standard deviation that its input is normalised with."""
    if name == "vit":
        own, net = cifar_vit.classifier_arguments(), cifar_vit.CifarViT()
        return net, own["mean"], own["std"]
    depth = int(name.removeprefix("resnet"))
    own = resnets.cifar_arguments(depth, 10)
    residual = resnets.CifarResNet(depth)
    for module in residual.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return residual, own["mean"], own["std"]


def load(folder: Path, pattern: str, device: torch.device) -> tuple[Tensor, Tensor]:
    """Bytes ``(N, 3, 32, 32)`` and labels ``(N,)`` of all batches that match."""
    parts = [read_cifar(file) for file in sorted(folder.glob(pattern))]
    if not parts:
        raise pm.InputError(f"{folder} has no file {pattern}; name the folder cifar-10-batches-py")
    images, labels = (
        torch.cat([torch.from_numpy(part.copy()) for part in kind]) for kind in zip(*parts, strict=True)
    )
    return images.to(device), labels.to(device)


def shifted(images: Tensor, random: torch.Generator) -> Tensor:
    """Each image moved by up to ``SHIFT`` pixels, with zeros beyond its border, and flipped with probability one half."""
    n, _, height, width = images.shape
    device = images.device
    dx, dy = torch.randint(2 * SHIFT + 1, (2, n, 1), generator=random, device=device)
    rows = dy + torch.arange(height, device=device)
    columns = dx + torch.arange(width, device=device)
    flip = torch.rand(n, 1, generator=random, device=device) < 0.5
    columns = torch.where(flip, columns.flip(1), columns)
    padded = F.pad(images, (SHIFT,) * 4)
    which = torch.arange(n, device=device)[:, None, None]
    return padded.permute(0, 2, 3, 1)[which, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def optimiser_for(
    net: nn.Module, name: str, rate: float | None, batch: int
) -> tuple[torch.optim.Optimizer, float]:
    """The optimiser and its highest rate. Biases and the weights of norms do not decay."""
    groups = [
        {
            "params": [w for w in net.parameters() if w.ndim > 1],
            "weight_decay": 0.05 if name == "vit" else 5e-4,
        },
        {"params": [w for w in net.parameters() if w.ndim <= 1], "weight_decay": 0.0},
    ]
    if name == "vit":
        return torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.99)), rate or 1e-3 * batch / 512
    return torch.optim.SGD(groups, lr=0.0, momentum=0.9, nesterov=True), rate or 0.1 * batch / 128


def train(
    net: nn.Module, images: Tensor, labels: Tensor, mean: Tensor, std: Tensor, args: argparse.Namespace
) -> None:
    """Trains the net in place."""
    device = images.device
    random = torch.Generator(device).manual_seed(args.seed)
    optimiser, peak = optimiser_for(net, args.net, args.learning_rate, args.batch_size)
    forward = torch.compile(net) if args.compile else net
    per_epoch = len(images) // args.batch_size
    steps, step, began = args.epochs * per_epoch, 0, time.perf_counter()
    net.train()
    for epoch in range(args.epochs):
        lost = torch.zeros((), device=device)
        order = torch.randperm(len(images), generator=random, device=device)[: per_epoch * args.batch_size]
        for chosen in order.split(args.batch_size):
            done = step / steps
            rising, falling = (
                done / WARM_UP,
                0.5 + 0.5 * math.cos(math.pi * max(0.0, done - WARM_UP) / (1 - WARM_UP)),
            )
            for group in optimiser.param_groups:
                group["lr"] = peak * min(rising, falling)
            x = (shifted(images[chosen], random) / 255 - mean) / std
            x = x.contiguous(memory_format=torch.channels_last)
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                loss = F.cross_entropy(forward(x), labels[chosen])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            optimiser.step()
            lost += loss.detach()
            step += 1
        print(
            f"epoch {epoch + 1}: loss {float(lost) / per_epoch:.4f}, {time.perf_counter() - began:.0f} s",
            flush=True,
        )
    net.eval()


@torch.no_grad()
def judged(net: nn.Module, images: Tensor, labels: Tensor, mean: Tensor, std: Tensor) -> dict[str, float]:
    """Error, mean log loss, and mean probability of the predicted label, in single precision."""
    logits = torch.cat([net((part / 255 - mean) / std).float() for part in images.split(500)])
    f = logits.softmax(1)
    return {
        "test_error": 1 - float((logits.argmax(1) == labels).double().mean()),
        "test_log_loss": float(F.cross_entropy(logits, labels)),
        "test_confidence": float(f.max(1).values.mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cifar", type=Path, required=True, help="the folder cifar-10-batches-py")
    parser.add_argument("--net", choices=NETS, default="resnet164")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=120)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--learning-rate", type=float, help="the highest; by default .1 for 128 images")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, help="images to train and to test on, to try the script")
    parser.add_argument("--compile", action="store_true", help="torch.compile the net (a minute)")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(args.seed)
    began = time.perf_counter()

    images, labels = (part[: args.limit] for part in load(args.cifar, "data_batch_?", device))
    test = [part[: args.limit] for part in load(args.cifar, "test_batch", device)]
    net, *normal = make_net(args.net)
    net = net.to(device, memory_format=torch.channels_last)
    mean, std = (torch.tensor(v, device=device).view(3, 1, 1) for v in normal)
    train(net, images, labels, mean, std, args)

    half = {key: value.half() for key, value in net.state_dict().items() if value.is_floating_point()}
    net.load_state_dict(half, strict=False)  # what is stored is what is counted
    record = {
        "net": f"cifar10-{args.net}",
        **judged(net, *test, mean, std),
        "test_images": len(test[0]),
        "training_images": len(images),
        "weights": sum(w.numel() for w in net.parameters()),
        "seconds": round(time.perf_counter() - began),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        **{key: getattr(args, key) for key in ("epochs", "batch_size", "seed", "compile")},
    }
    args.out.mkdir(parents=True, exist_ok=True)
    name = f"cifar10_{args.net}"
    save_file(
        {key: value.cpu().contiguous() for key, value in half.items()}, args.out / f"{name}.safetensors"
    )
    (args.out / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record))


if __name__ == "__main__":
    run_script(main)
