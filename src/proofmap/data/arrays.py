"""Inputs in memory, and pictures in NumPy arrays, in memory or in files; CIFAR-10 and CIFAR-100, whose pickles a restricted unpickler reads."""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors import SafetensorError
from safetensors.numpy import load_file
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.files import check_ends, digest_of, suggest_path
from proofmap.core.inputs import KINDS
from proofmap.data.dataset import Dataset, reader
from proofmap.data.folders import existing_folder
from proofmap.models.names import label_names

_NEEDED = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
}
"""All that the published files ask for, none of which a pickle can change. NumPy 2 moved the last one, so it is taken from an array."""


class _ArraysOnly(pickle.Unpickler):
    """Refuses every global except those of NumPy arrays, so a hostile file cannot run code."""

    def find_class(self, module: str, name: str) -> Any:
        found = _NEEDED.get((module.replace("numpy._core", "numpy.core"), name))
        if found is None:
            raise InputError(
                f"it asks to load {module}.{name}, which no CIFAR file needs; nothing was executed"
            )
        return found


def read_cifar(path: str | Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pixels ``(N, 3, 32, 32)`` as bytes, and labels ``(N,)`` (fine labels for CIFAR-100), of one batch file."""
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


Array = NDArray[Any]

_IMAGE_KEYS = ("images", "x", "data", "x_test", "arr_0")
_LABEL_KEYS = ("labels", "y", "label", "truth", "y_test", "arr_1")
_NAME_KEYS = ("label_names", "class_names", "classes")
_READ = frozenset({"series", *_IMAGE_KEYS, *_LABEL_KEYS, *_NAME_KEYS})
_LAYOUTS = ("auto", "nhwc", "nchw")


class ArrayImages(Dataset):
    """Pictures in an array ``(N, H, W, C)``, ``(N, C, H, W)`` or, for gray, ``(N, H, W)``: bytes, or floats in [0, 1].

    C is 1, 3 or 4 (the last is opacity). Floats are rounded to 256 steps. Pictures are taken to be cropped already: they are
    resized to the net's input, and cropped only if the proportions differ.

    Args:
        images: the array; it may be memory-mapped.
        labels: integers ``(N,)``; negative for unknown.
        label_names: the names of the labels.
        layout: ``nhwc`` or ``nchw``; ``auto`` infers it from the number of channels.
        prefix: the beginning of the pictures' names: ``test`` gives ``test-00017``.
    """

    cropped = True
    _advice = "save it with numpy.savez(FILE, images=..., labels=...) and name the file"

    def __init__(
        self,
        images: Array,
        labels: Array | Sequence[int] | None = None,
        *,
        label_names: Sequence[str] = (),
        layout: str = "auto",
        prefix: str = "image",
        title: str = "arrays",
        settings: Mapping[str, object] | None = None,
    ) -> None:
        images = np.asanyarray(images)
        if images.dtype != np.uint8 and images.dtype.kind != "f":
            raise InputError(f"images must be bytes (uint8) or floats in [0, 1], not {images.dtype}")
        self._images, self._layout = images, _layout_of(images.shape, layout)
        self.labels = None if labels is None else self.checked_labels(labels, len(images), label_names)
        self.title, self.label_names = title, tuple(map(str, label_names))
        self.names = [f"{prefix}-{i:05d}" for i in range(len(images))]
        self._settings = settings

    def read(self, i: int) -> Image.Image:
        picture = np.asarray(self._images[i])
        if self._layout == "nchw":
            picture = picture.transpose(1, 2, 0)
        if picture.dtype != np.uint8:
            low, high = picture.min(), picture.max()
            if not (low >= 0 and high <= 1):  # also refuses NaN
                raise InputError(
                    f"{self.names[i]} of {self.title} has values from {low:.3g} to {high:.3g}; expected floats in "
                    "[0, 1] or bytes (divide 8-bit pixels by 255, and undo any normalisation)"
                )
            picture = (picture * 255).round().astype(np.uint8)
        if picture.ndim == 3 and picture.shape[2] == 1:
            picture = picture[:, :, 0]
        image = Image.fromarray(np.ascontiguousarray(picture))
        return image if image.mode == "RGBA" else image.convert("RGB")

    def digest(self, i: int) -> str:
        picture = np.ascontiguousarray(self._images[i])
        return digest_of(f"{self._layout} {picture.dtype.str} {picture.shape}", picture.tobytes())


@reader(
    "npz",
    "npz:FILE?layout=nhwc|nchw|volumes",
    "NumPy arrays images and labels, bytes or floats in [0, 1]; also .npy and .safetensors; volumes",
)
def array_file(path: str | Path, *, layout: str = "auto") -> Dataset:
    """Pictures, or with the layout ``volumes`` volumes or videos, of a ``.npy`` file (pictures stay on disk), or of an ``.npz`` or ``.safetensors``
    file with their labels.

    An ``.npz`` file holds ``images`` (or ``x``, ``data``), and may hold ``labels`` (or ``y``) and ``label_names``.
    Python objects inside are never loaded. Volumes are ``(N, C, D, H, W)``, ``(N, D, H, W)`` or ``(D, H, W)`` with any values; bytes become
    numbers in [0, 1].
    """
    path = Path(os.path.abspath(path))
    fields = _tensors_in(path) if path.suffix.lower() == ".safetensors" else arrays_in(path, str(path))
    images = _first(fields, _IMAGE_KEYS)
    if images is None:
        raise InputError(
            f"{path} has no array named {' or '.join(_IMAGE_KEYS[:3])}, only {', '.join(fields)}"
        )
    names, labels = _first(fields, _NAME_KEYS), _first(fields, _LABEL_KEYS)
    label_names = () if names is None else [str(name) for name in names.ravel()]
    settings = {"dataset": "npz", "path": str(path), "layout": layout}
    try:
        if layout == "volumes" or images.ndim == 5:
            found = _volumes(images, labels, label_names, path.name)
            found._settings = settings
            return found
        return ArrayImages(
            images, labels, label_names=label_names, layout=layout, title=path.name, settings=settings
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _volumes(values: Array, labels: Array | None, label_names: Sequence[str], title: str) -> TensorData:
    """The volumes or videos in an array ``(N, C, D, H, W)``; ``(N, D, H, W)`` if there is one channel; ``(D, H, W)`` for one volume."""
    if values.ndim not in (3, 4, 5):
        raise InputError(
            "volumes must be (N, channels, depth, height, width), (N, depth, height, width) or (depth, height, width), got "
            f"{values.shape}"
        )
    values = values[None] if values.ndim == 3 else values
    values = values[:, None] if values.ndim == 4 else values
    values = values / np.float32(255) if values.dtype == np.uint8 else values
    return TensorData(values, labels, kind="volumes", label_names=label_names, title=title)


def _tensors_in(path: Path) -> dict[str, Array]:
    """The arrays of a safetensors file by name; an only array is called ``images``."""
    try:
        found: dict[str, Array] = load_file(path)
        return found if len(found) > 1 else dict.fromkeys(_IMAGE_KEYS[:1], *found.values())
    except FileNotFoundError:
        raise InputError(f"there is no file {path}.{suggest_path(path)}") from None
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path} cannot be read as safetensors: {error}") from None


@reader("cifar10", "cifar10:FOLDER[test|train]", "cifar-10-batches-py as unpacked")
def cifar10(path: str | Path, *, split: str = "test") -> ArrayImages:
    """CIFAR-10 from ``cifar-10-batches-py``, or from the folder that holds it: the test batch, or all training batches."""
    return _cifar(
        "cifar10", path, split, "cifar-10-batches-py", {"test": "test_batch", "train": "data_batch_*"}
    )


@reader("cifar100", "cifar100:FOLDER[test|train]", "cifar-100-python as unpacked")
def cifar100(path: str | Path, *, split: str = "test") -> ArrayImages:
    """CIFAR-100 with its fine labels, from ``cifar-100-python`` or from the folder that holds it."""
    return _cifar("cifar100", path, split, "cifar-100-python", {"test": "test", "train": "train"})


def _cifar(kind: Any, path: str | Path, split: str, usual: str, files: Mapping[str, str]) -> ArrayImages:
    if split not in files:
        raise InputError(f"{kind} has no split {split!r}; choose {' or '.join(files)}")
    root = existing_folder(path)
    folder = root / usual if (root / usual).is_dir() else root
    batches = sorted(file for file in folder.glob(files[split]) if file.is_file())
    if not batches:
        raise InputError(f"{folder} holds no file {files[split]}; {kind} is the folder {usual} as unpacked")
    pixels, labels = zip(*map(read_cifar, batches), strict=True)
    return ArrayImages(
        np.concatenate(pixels),
        np.concatenate(labels),
        label_names=label_names(kind),
        layout="nchw",
        prefix=split,
        title=f"{kind}[{split}]",
        settings={"dataset": kind, "path": str(root), "split": split},
    )


def _layout_of(shape: tuple[int, ...], layout: str) -> str:
    """The layout of an array of pictures with this shape: ``nhw``, ``nhwc`` or ``nchw``."""
    if layout not in _LAYOUTS:
        raise InputError(f"layout must be one of {', '.join(_LAYOUTS)}, not {layout!r}")
    if len(shape) == 3 and layout == "auto" and min(shape[1:]) > 0:
        return "nhw"
    channels = {"nhwc": shape[-1], "nchw": shape[1]} if len(shape) == 4 and min(shape[1:]) > 0 else {}
    channels = {name: c for name, c in channels.items() if layout in ("auto", name) and c in (1, 3, 4)}
    fitting = [name for name, c in channels.items() if c != 4] or list(channels)
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise InputError(f"images of shape {shape} may be nhwc or nchw; say which with layout")
    raise InputError(
        f"images must be (N, H, W, C) or (N, C, H, W) with 1, 3 or 4 channels, or (N, H, W); got {shape}"
        + ("" if layout == "auto" else f" with layout {layout}")
    )


def arrays_in(source: Path | io.BytesIO, title: str) -> dict[str, Array]:
    """The arrays of a ``.npz`` file by name, or the memory-mapped array of a ``.npy`` file, called ``images``. Only plain numbers and text are
    read."""
    if isinstance(source, Path):
        check_ends(source)
    try:
        if isinstance(source, Path) and source.suffix.lower() == ".npy":
            return {_IMAGE_KEYS[0]: np.load(source, mmap_mode="r", allow_pickle=False)}
        opened = source.open("rb") if isinstance(source, Path) else source
        with opened as file, np.load(file, allow_pickle=False) as archive:
            wanted = [key for key in archive.files if key in _READ]
            return {key: archive[key] for key in wanted or archive.files}
    except FileNotFoundError:
        raise InputError(f"there is no file {title}.{suggest_path(title)}") from None
    except Exception as error:  # a damaged file raises almost anything
        if "allow_pickle" in str(error) or "Python objects" in str(error):
            reason = "it holds Python objects, which are never loaded; nothing was executed"
        else:
            reason = str(error) or type(error).__name__
        raise InputError(f"{title} cannot be read as NumPy arrays: {reason}") from None


def _first(fields: Mapping[str, Array], keys: Sequence[str]) -> Array | None:
    return next((fields[key] for key in keys if key in fields), None)


class TensorData(Dataset):
    """Series ``(N, C, T)``, rows of a table ``(N, columns)`` or pictures ``(N, C, H, W)``, held in memory.

    Values are given before normalisation, which the classifier applies. They are not changed otherwise, so pictures must be in [0, 1] and
    have the net's size. Use :class:`~proofmap.data.ArrayImages` for pictures that must be resized. An item with NaN or infinity cannot be
    read; other items can.

    Args:
        values: the numbers, a tensor or an array.
        labels: integers ``(N,)``; negative for unknown.
        kind: ``pictures``, ``series``, ``rows`` or another registered kind of input.
        names: one per item, all distinct; by default ``image-00000``, ``series-00000`` or ``row-00000`` and so on.
        label_names: the names of the labels.

    >>> beats = TensorData([[[0.1, 0.9, 0.2]], [[0.3, 0.2, 0.1]]], [1, 0], kind="series", title="beats")
    >>> beats
    TensorData(beats, 2 series, 0 labels)
    >>> beats.names[1], beats.truth(1), beats.read(1).shape
    ('series-00001', 0, (1, 3))
    """

    def __init__(
        self,
        values: Tensor | NDArray[Any] | Sequence[Any],
        labels: NDArray[Any] | Tensor | Sequence[int] | None = None,
        *,
        kind: str,
        names: Sequence[str] | None = None,
        label_names: Sequence[str] = (),
        title: str = "tensors",
    ) -> None:
        if kind not in KINDS:
            raise InputError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
        form, singular = KINDS[kind].form, KINDS[kind].singular
        self._values = _numbers(values, kind)
        if self._values.ndim != 1 + form.count(",") or min(self._values.shape[1:]) < 1:
            raise InputError(f"{kind} must be {form}, got {self._values.shape}")
        n = len(self._values)
        self.kind, self.title, self.label_names = kind, title, tuple(map(str, label_names))
        self.names = [f"{singular}-{i:05d}" for i in range(n)] if names is None else list(map(str, names))
        if len(self.names) != n or len(set(self.names)) != n:
            raise InputError(f"names must be {n} distinct names, one per item, got {len(set(self.names))}")
        self.labels = None if labels is None else self.checked_labels(_plain_array(labels), n, label_names)

    def read(self, i: int) -> NDArray[np.float32]:
        item: NDArray[np.float32] = self._values[i].copy()
        if not np.isfinite(item).all():
            raise InputError(
                f"{self.names[i]} of {self.title} has NaN or infinity; remove this item, or replace the values"
            )
        return item

    def digest(self, i: int) -> str:
        item = self._values[i]
        return digest_of(f"{self.kind} {item.shape}", item.tobytes())


def _plain_array(values: Any) -> NDArray[Any]:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def _numbers(values: Any, kind: str) -> NDArray[np.float32]:
    """The values as float32; too large values become infinity."""
    try:
        array = _plain_array(values.float() if isinstance(values, Tensor) else values)
    except ValueError as error:  # lists of unequal lengths
        raise InputError(f"the values of {kind} must be one array of numbers: {error}") from None
    if array.dtype.kind not in "fiub":
        raise InputError(f"the values of {kind} must be numbers, not {array.dtype}")
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, dtype=np.float32)
