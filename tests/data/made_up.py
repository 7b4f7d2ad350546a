"""Small data in every layout, good and bad, and what a hostile file would leave behind."""

from __future__ import annotations

import io
import pickle
import struct
import threading
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from proofmap.data import Dataset


def noise(seed: int, height: int = 8, width: int = 8) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def save(folder: Path, name: str, pixels: np.ndarray | int = 0, **options: Any) -> Path:
    """An image file; a number stands for noise of that seed."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noise(pixels) if isinstance(pixels, int) else pixels).save(path, **options)
    return path


def saved(folder: Path, *names: str) -> Path:
    """A folder with these pictures, all different."""
    for seed, name in enumerate(names):
        save(folder, name, seed)
    return folder


def jpeg(height: int = 24, width: int = 31) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(noise(0, height, width)).save(buffer, "JPEG")
    return buffer.getvalue()


def bomb(side: int) -> bytes:
    """A PNG of a hundred bytes that claims ``side`` x ``side`` pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + checksum

    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(b"\0" * 100)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


class Trap:
    """Unpickling it freely creates a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.mark,)


# ---- known layouts --------------------------------------------------------------------------------------------


def imagenette_at(folder: Path, *, each: int = 2, size: tuple[int, int] = (8, 8)) -> Path:
    """Three of Imagenette's classes, in ``val`` and ``train``."""
    for k, wnid in enumerate(("n03888257", "n01440764", "n02102040")):
        for i in range(each):
            save(folder, f"val/{wnid}/{i:03d}.png", noise(100 * k + i, *size))
            save(folder, f"train/{wnid}/{i:03d}.png", noise(1000 + 100 * k + i, *size))
    return folder


def imagenet_at(folder: Path, labels: Sequence[int] = (0, 2, 1, 1)) -> Path:
    """Validation photos in one folder, with a table of their labels."""
    lines = ["file,class_index"]
    for number, label in enumerate(labels, 1):
        name = f"ILSVRC2012_val_{number:08d}.png"
        save(folder, f"val/{name}", number)
        lines.append(f"{name},{label}")
    (folder / "val" / "labels.csv").write_text("\n".join(lines))
    return folder


def cifar_batch(path: Path, n: int, *, seed: int = 0, key: str = "labels") -> np.ndarray:
    """A batch file with labels 0, 1, 2, ...; its pictures ``(n, 32, 32, 3)``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (n, 3, 32, 32), dtype=np.uint8)
    content = {
        b"data": pixels.reshape(n, 3072),
        key.encode(): [i % 10 for i in range(n)],
        b"batch_label": b"x",
    }
    path.write_bytes(pickle.dumps(content, protocol=4))
    return pixels.transpose(0, 2, 3, 1)


# ---- a dataset that does what a test tells it ------------------------------------------------------------------


class Scripted(Dataset):
    """Gray pictures whose brightness is their number; ``before`` runs in the thread that reads one."""

    title = "scripted"

    def __init__(
        self, n: int, before: Callable[[int], None] = lambda i: None, *, cropped: bool = False
    ) -> None:
        self.names = [f"picture-{i}" for i in range(n)]
        self.before, self.cropped = before, cropped
        self.started: list[int] = []
        self.lock = threading.Lock()

    def read(self, i: int) -> Image.Image:
        with self.lock:
            self.started.append(i)
        self.before(i)
        return Image.new("RGB", (4, 4), (i % 256, i % 256, i % 256))

    def truth(self, i: int) -> int | None:
        return None

    def digest(self, i: int) -> str:
        return f"{i:032x}"

    def settings(self) -> dict[str, object]:
        return {}
