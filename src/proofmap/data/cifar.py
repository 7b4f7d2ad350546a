"""CIFAR-10 and CIFAR-100 in their pickled layout, read by a restricted unpickler."""

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

from proofmap.core.errors import InputError

_ALLOWED = {("numpy", "ndarray"), ("numpy", "dtype")}


class _ArraysOnly(pickle.Unpickler):
    """Refuses every global except those of NumPy arrays, so a hostile file cannot run code."""

    def find_class(self, module: str, name: str) -> Any:
        module = module.replace("numpy.core", "numpy._core")
        if (module, name) in _REPLACED:
            return _REPLACED[module, name]()
        if (module, name) not in _ALLOWED:
            raise InputError(
                f"it asks to load {module}.{name}, which no CIFAR file needs; nothing was executed"
            )
        return super().find_class(module, name)


def _encoder() -> Callable[[str, str], bytes]:
    """Decodes bytes of old pickle protocols. Only this encoding is allowed, because any other would be imported by name."""

    def encode(text: str, encoding: str) -> bytes:
        if encoding != "latin1":
            raise InputError(f"it asks for the encoding {encoding!r}, which no CIFAR file needs")
        return text.encode("latin1")

    return encode


def _array_maker() -> Callable[..., NDArray[Any]]:
    """Makes arrays of the newest protocol; NumPy refuses Python objects here."""

    def from_buffer(content: bytes, dtype: Any, shape: Any, order: Any) -> NDArray[Any]:
        return np.frombuffer(content, dtype=dtype).reshape(shape, order=order)

    return from_buffer


def _array_builder() -> Callable[..., NDArray[Any]]:
    """Makes arrays of other protocols. NumPy 2 moved the function, so it is taken from an array."""
    builder: Callable[..., NDArray[Any]] = np.empty(0).__reduce__()[0]  # type: ignore[assignment]
    return builder


# Made again for each use, as a pickle can set attributes of a function.
_REPLACED: dict[tuple[str, str], Callable[[], Callable[..., Any]]] = {
    ("_codecs", "encode"): _encoder,
    ("numpy._core.multiarray", "_reconstruct"): _array_builder,
    ("numpy._core.numeric", "_frombuffer"): _array_maker,
}


def read_cifar(path: str | Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pixels ``(N, 3, 32, 32)`` and (fine) labels ``(N,)`` of one batch file, as they are stored."""
    path = Path(path)
    try:
        content = _ArraysOnly(io.BytesIO(path.read_bytes()), encoding="latin1").load()
        if not isinstance(content, dict):
            raise InputError(f"it holds a {type(content).__name__}, expected a dictionary")
        fields = {key.decode() if isinstance(key, bytes) else key: value for key, value in content.items()}
        wanted = ("data", "labels" if "labels" in fields else "fine_labels")
        missing = [key for key in wanted if key not in fields]
        if missing:
            raise InputError(f"it has no {missing[0]!r}, only {sorted(map(str, fields))}")
        pixels, labels = (np.asarray(fields[key]) for key in wanted)
        if (
            pixels.dtype != np.uint8
            or pixels.ndim != 2
            or pixels.shape[1] != 3072
            or labels.shape != (len(pixels),)
            or labels.dtype.kind not in "iu"
        ):
            raise InputError(
                f"its data must have shape (N, 3072) of uint8, with N integer labels; found data {pixels.shape} of {pixels.dtype} "
                f"and labels {labels.shape} of {labels.dtype}"
            )
    except OSError as error:
        raise InputError(f"the CIFAR file {path} cannot be read: {error}") from None
    except Exception as error:
        raise InputError(f"{path} is not a CIFAR batch: {error}") from error
    return pixels.reshape(-1, 3, 32, 32), labels.astype(np.int64)


def load_cifar(path: str | Path) -> tuple[Tensor, Tensor]:
    """Images ``(N, 3, 32, 32)`` in [0, 1] and (fine) labels ``(N,)`` of one batch file.

    Files are ``data_batch_1`` to ``data_batch_5`` and ``test_batch`` of CIFAR-10, ``train`` and ``test`` of CIFAR-100.
    """
    pixels, labels = read_cifar(path)
    return torch.from_numpy(pixels.copy()).float() / 255.0, torch.from_numpy(labels)
