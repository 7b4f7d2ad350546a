"""CIFAR-10 and CIFAR-100 in their usual pickled layout, read without trusting the pickle."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from proofmap.errors import InputError

_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}


class _ArraysOnly(pickle.Unpickler):
    """Refuses every global but those a numpy array needs, so a hostile file can run nothing."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise InputError(
                f"it asks to load {module}.{name}, which no CIFAR file needs; nothing was executed"
            )
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def load_cifar(path: str | Path) -> tuple[Tensor, Tensor]:
    """Images ``(N, 3, 32, 32)`` in [0, 1] and (fine) labels ``(N,)`` of one batch file.

    The two files that exist are ``data_batch_1`` .. ``test_batch`` of CIFAR-10, and ``train``, ``test`` of CIFAR-100.
    """
    path = Path(path)
    try:
        content = _ArraysOnly(io.BytesIO(path.read_bytes()), encoding="latin1").load()
        fields = {key.decode() if isinstance(key, bytes) else key: value for key, value in content.items()}
        pixels = np.asarray(fields["data"])
        labels = fields["labels"] if "labels" in fields else fields["fine_labels"]
        if (
            pixels.dtype != np.uint8
            or pixels.ndim != 2
            or pixels.shape[1] != 3072
            or len(labels) != len(pixels)
        ):
            raise InputError(f"its data has shape {pixels.shape}, expected (N, 3072) bytes with N labels")
        classes = torch.tensor(labels, dtype=torch.int64)
    except OSError as error:
        raise InputError(f"the CIFAR file {path} cannot be read: {error}") from None
    except Exception as error:
        raise InputError(f"{path} is not a CIFAR batch: {error}") from error
    images = torch.from_numpy(pixels.reshape(-1, 3, 32, 32).copy()).float() / 255.0
    return images, classes
