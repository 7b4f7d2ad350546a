"""CIFAR-10 and CIFAR-100 in their usual pickled layout, read without trusting the pickle."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from proofmap.errors import InputError

_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}


class _ArraysOnly(pickle.Unpickler):
    """Refuses every global but those a numpy array needs, so a hostile file can run nothing."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):  # how Python 3 writes bytes in the old protocols
            return _latin1_encoder()
        if (module, name) not in _ALLOWED:
            raise InputError(
                f"it asks to load {module}.{name}, which no CIFAR file needs; nothing was executed"
            )
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def _latin1_encoder() -> Callable[[str, str], bytes]:
    """A new function each time: a pickle can set attributes of whatever it is given."""

    def encode(text: str, encoding: str) -> bytes:
        if encoding != "latin1":
            raise InputError(f"it asks for the encoding {encoding!r}, which no CIFAR file needs")
        return text.encode("latin1")

    return encode


def read_cifar(path: str | Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pixels ``(N, 3, 32, 32)`` and (fine) labels ``(N,)`` of one batch file, as they are stored."""
    path = Path(path)
    try:
        content = _ArraysOnly(io.BytesIO(path.read_bytes()), encoding="latin1").load()
        if not isinstance(content, dict):
            raise InputError(f"it holds a {type(content).__name__}, expected a dictionary")
        fields = {key.decode() if isinstance(key, bytes) else key: value for key, value in content.items()}
        if "data" not in fields or not fields.keys() & {"labels", "fine_labels"}:
            raise InputError(f"it has {sorted(map(str, fields))}, expected data and labels (or fine_labels)")
        pixels = np.asarray(fields["data"])
        labels = np.asarray(fields["labels"] if "labels" in fields else fields["fine_labels"])
        if pixels.dtype != np.uint8 or pixels.ndim != 2 or pixels.shape[1] != 3072:
            raise InputError(f"its data is {pixels.dtype} {pixels.shape}, expected bytes (N, 3072)")
        if labels.shape != (len(pixels),) or labels.dtype.kind not in "iu":
            raise InputError(f"its labels are {labels.dtype} {labels.shape}, expected {len(pixels)} integers")
    except OSError as error:
        raise InputError(f"the CIFAR file {path} cannot be read: {error}") from None
    except Exception as error:
        raise InputError(f"{path} is not a CIFAR batch: {error}") from error
    return pixels.reshape(-1, 3, 32, 32), labels.astype(np.int64)


def load_cifar(path: str | Path) -> tuple[Tensor, Tensor]:
    """Images ``(N, 3, 32, 32)`` in [0, 1] and (fine) labels ``(N,)`` of one batch file.

    The two files that exist are ``data_batch_1`` .. ``test_batch`` of CIFAR-10, and ``train``, ``test`` of CIFAR-100.
    """
    pixels, labels = read_cifar(path)
    return torch.from_numpy(pixels.copy()).float() / 255.0, torch.from_numpy(labels)
