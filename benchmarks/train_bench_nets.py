"""Make the data and the nets of ProofBench's tasks that ship inside the package: smoke, series, table.

    python benchmarks/train_bench_nets.py [FOLDER]

Everything follows from the seeds below. Training rounds differently on other machines, so the weights are stored; the tasks
name the digests of what is judged. The table needs scikit-learn, whose copy of the breast cancer data of Wisconsin (UCI, CC BY 4.0) is
split as in ``proofmap demo table``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor, nn

from proofmap.bench import nets

STORED = 64
"""Pictures and series that are stored: those that are judged, and the random ones behind hidden positions."""
COLOURS = np.array([[200, 70, 60], [70, 170, 80], [70, 90, 200], [210, 190, 60]])


def pictures(n: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Two different shapes of random size on a plain ground with a little noise; the label is the larger one's.

    Each shape has a colour of its own, about.
    """
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[: nets.SIDE, : nets.SIDE] + 0.5
    images = np.empty((n, nets.SIDE, nets.SIDE, 3))
    labels = np.empty(n, dtype=np.int64)
    for k in range(n):
        ground = rng.uniform(60, 190, 3)
        image = np.broadcast_to(ground, (nets.SIDE, nets.SIDE, 3)).copy()
        kinds = rng.permutation(len(nets.SHAPES))[:2]
        sizes = rng.uniform(4.5, 8.5, 2)
        corners = [(8.5, 8.5), (23.5, 23.5)] if rng.random() < 0.5 else [(8.5, 23.5), (23.5, 8.5)]
        for kind, size, corner in zip(kinds, sizes, corners, strict=True):
            y, x = (
                (rows - corner[0] - rng.uniform(-1, 1)) / size,
                (columns - corner[1] - rng.uniform(-1, 1)) / size,
            )
            inside = (
                x**2 + y**2 < 0.9,
                np.maximum(abs(x), abs(y)) < 0.8,
                (y < 0.75) & (y > 2 * abs(x) - 0.95),
                np.minimum(abs(x), abs(y)) < 0.27,
            )[kind] & (np.maximum(abs(x), abs(y)) < 1)
            image[inside] = COLOURS[kind] + rng.uniform(-45, 45, 3)
        images[k] = image + 4 * rng.normal(0, 0.7, image.shape).round()
        labels[k] = kinds[sizes.argmax()]
    return images.round().clip(0, 255).astype(np.uint8), labels


def series(n: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Two different events of random size in noise, one in each half; the label is the larger one's."""
    rng = np.random.default_rng(seed)
    t = np.arange(nets.LENGTH)
    found = rng.normal(0, 0.3, (n, 1, nets.LENGTH))
    labels = np.empty(n, dtype=np.int64)
    for k in range(n):
        kinds, sizes = rng.permutation(len(nets.EVENTS))[:2], rng.uniform(0.7, 2.5, 2)
        for half, kind, size in zip(rng.permutation(2), kinds, sizes, strict=True):
            envelope = np.exp(-0.5 * ((t - rng.uniform(16, 48) - 64 * half) / 5) ** 2)
            shape = (envelope, -envelope, envelope * np.sin(1.6 * t))[kind]
            found[k, 0] += size * shape
        labels[k] = kinds[sizes.argmax()]
    return found.round(4).astype(np.float32), labels


def trained(net: nn.Sequential, x: Tensor, y: Tensor, *, epochs: int, decay: float = 1e-4) -> nn.Sequential:
    """The net after some epochs of Adam with a falling rate, in batches of 64."""
    optimiser = torch.optim.Adam(net.parameters(), 3e-3, weight_decay=decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    for _ in range(epochs):
        for part in torch.randperm(len(x)).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(x[part]), y[part], label_smoothing=0.02).backward()
            optimiser.step()
        schedule.step()
    return net.eval()


def on_raw_columns(net: nn.Sequential, mean: NDArray[np.float64], std: NDArray[np.float64]) -> nn.Sequential:
    """The net with the standardisation of its columns in its first layer."""
    first = net[0]
    assert isinstance(first, nn.Linear)
    with torch.no_grad():
        scaled = first.weight.double() / torch.tensor(std)
        first.bias.sub_((scaled @ torch.tensor(mean)).float())
        first.weight.copy_(scaled.float())
    return net


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else nets.FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)

    def keep(name: str, net: nn.Sequential, x: Tensor, y: Tensor) -> None:
        with torch.no_grad():
            f = net(x.float()).softmax(dim=1)
        second = f.sort(dim=1, descending=True).values[:, 1]
        right = (f.argmax(dim=1) == y).double().mean()
        print(
            f"{name}: right on {right:.3f} of {len(x)} held out; second label f >= .1 on {(second >= 0.1).sum()}"
        )
        save_file(
            {key: value.contiguous() for key, value in net.state_dict().items()},
            folder / f"{name}.safetensors",
        )

    def as_tensor(images: NDArray[np.uint8]) -> Tensor:
        return (torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.5

    x, y = pictures(5_000, seed=1)
    net = trained(nets.picture_layers(), as_tensor(x), torch.from_numpy(y), epochs=10)
    x, y = pictures(STORED, seed=2)
    keep("smoke", net, as_tensor(x), torch.from_numpy(y))
    np.savez_compressed(folder / "smoke.npz", images=x, labels=y)

    x, y = series(4_000, seed=3)
    net = trained(nets.series_layers(), torch.from_numpy(x), torch.from_numpy(y), epochs=10)
    x, y = series(STORED, seed=4)
    keep("series", net, torch.from_numpy(x), torch.from_numpy(y))
    np.savez_compressed(folder / "series.npz", series=x, labels=np.array(nets.EVENTS)[y])

    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    data = load_breast_cancer(as_frame=True)
    frame = data.data.assign(diagnosis=[nets.TUMOURS[k] for k in data.target])
    train, test = train_test_split(frame, test_size=0.3, random_state=0, stratify=data.target)
    train.to_csv(folder / "table-train.csv", index=False)
    test.to_csv(folder / "table.csv", index=False)
    inputs = train.drop(columns="diagnosis")
    mean, std = inputs.mean().to_numpy(), inputs.std(ddof=0).to_numpy()

    def rows(part: object) -> tuple[Tensor, Tensor]:
        values = (part.drop(columns="diagnosis").to_numpy() - mean) / std  # type: ignore[attr-defined]
        known = [nets.TUMOURS.index(word) for word in part.diagnosis]  # type: ignore[attr-defined]
        return torch.from_numpy(values).float(), torch.tensor(known)

    net = trained(nets.table_layers(), *rows(train), epochs=40, decay=1e-2)
    keep(
        "table",
        on_raw_columns(net, mean, std),
        rows(test)[0] * torch.tensor(std) + torch.tensor(mean),
        rows(test)[1],
    )


if __name__ == "__main__":
    main()
