"""CIFAR files as they are published, and files that only pretend to be."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from proofmap.core.errors import InputError
from proofmap.data.arrays import load_cifar

N = 6
PIXELS = np.random.default_rng(0).integers(0, 256, (N, 3, 32, 32), dtype=np.uint8)
LABELS = [3, 8, 8, 0, 6, 1]


def written(path: Path, content: Any, protocol: int = 2) -> Path:
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    return path


def batch(**changes: Any) -> dict[str, Any]:
    return {
        "data": PIXELS.reshape(N, 3072),
        "labels": LABELS,
        "batch_label": "testing batch 1 of 1",
        **changes,
    }


def assert_is_the_batch(path: Path) -> None:
    images, labels = load_cifar(path)
    assert images.dtype == torch.float32
    assert torch.equal(images, torch.from_numpy(PIXELS) / 255)
    assert labels.dtype == torch.int64
    assert labels.tolist() == LABELS


def test_a_file_of_python_2_is_read(tmp_path: Path) -> None:
    # the published files: protocol 2, Python 2 strings, and numpy's arrays under their old name
    pixels = PIXELS.reshape(N, 3072).tobytes()
    content = (
        b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01"
        + b"K"
        + bytes([N])
        + b"M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        + b"\x89T"
        + len(pixels).to_bytes(4, "little")
        + pixels
        + b"tbU\x06labels]("
        + b"".join(b"K" + bytes([label]) for label in LABELS)
        + b"eu."
    )
    path = tmp_path / "data_batch_1"
    path.write_bytes(content)
    assert_is_the_batch(path)


def test_images_come_by_colour_and_then_by_row(tmp_path: Path) -> None:
    row = np.zeros((1, 3072), dtype=np.uint8)
    row[0, 1024 + 2 * 32 + 5] = 255  # green, third row, sixth column
    images, _ = load_cifar(written(tmp_path / "one", {"data": row, "labels": [0]}))
    assert images.nonzero().tolist() == [[0, 1, 2, 5]]


class Hostile:
    """Runs a command when it is unpickled freely."""

    def __init__(self, function: Any, *arguments: object) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> tuple[Any, tuple[object, ...]]:
        return self.call


@pytest.mark.parametrize("place", ["whole", "data", "labels", "other"])
def test_a_hostile_file_runs_nothing(tmp_path: Path, place: str) -> None:
    proof = tmp_path / "executed"
    bomb = Hostile(os.system, f"touch {proof}")
    path = written(tmp_path / "evil", bomb if place == "whole" else batch(**{place: bomb}))
    with pytest.raises(
        InputError, match=r"evil is not a CIFAR batch: it asks to load .*nothing was executed"
    ):
        load_cifar(path)
    assert not proof.exists()
    pickle.loads(path.read_bytes())  # the file really is one
    assert proof.exists()


@pytest.mark.parametrize(
    "function", [eval, exec, getattr, open, __import__, np.load, np.fromfile, torch.load, pickle.loads]
)
def test_nothing_but_arrays_is_made(tmp_path: Path, function: Any) -> None:
    path = written(tmp_path / "evil", Hostile(function, "x"))
    with pytest.raises(InputError, match="it asks to load"):
        load_cifar(path)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_a_truncated_file_is_named(tmp_path: Path, share: float) -> None:
    whole = pickle.dumps(batch(), protocol=2)
    path = tmp_path / "half"
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(InputError, match="half is not a CIFAR batch"):
        load_cifar(path)
