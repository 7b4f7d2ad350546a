"""Images as people hold them: tensors, arrays, pictures and frames in memory, loaders and batches."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.utils import data as torch_data

from proofmap.core.errors import InputError
from proofmap.core.files import digest_of, distinct_names
from proofmap.core.inputs import Box, Inputs, Pictures, TextInputs
from proofmap.core.labels import NO_LABEL
from proofmap.core.text import counted
from proofmap.data.arrays import checked_labels
from proofmap.data.dataset import Dataset, match_labels
from proofmap.data.huggingface import is_rows, texts_of_rows
from proofmap.data.specs import open_data
from proofmap.data.truth import Truth, label_rows

InMemory = Tensor | np.ndarray | Image.Image | Sequence[Image.Image]


ImagesLike = InMemory | Dataset | Iterable[Any]
"""Everything that :func:`as_dataset` takes."""


def is_in_memory(given: Any, inputs: Inputs) -> TypeGuard[InMemory]:
    """Whether :func:`images_as_tensor` accepts the object: a tensor, an array, pictures of Pillow, or a data frame for rows."""
    several = (
        isinstance(given, Sequence) and len(given) > 0 and all(isinstance(x, Image.Image) for x in given)
    )
    return several or isinstance(given, (Tensor, np.ndarray, Image.Image)) or inputs.takes(given)


def images_as_tensor(given: Any, inputs: Inputs) -> Tensor:
    """Images in memory as a tensor ``(N, *shape)`` that the net takes; one input may stand for itself. Pictures of Pillow, and arrays of bytes of
    another size, are resized and cropped like files. Arrays may have their channels last. A data frame is encoded by its columns.
    """
    if inputs.takes(given):
        return inputs.encode(given)
    if not is_in_memory(given, inputs):
        return inputs.check(given)  # says what is wrong
    if not isinstance(given, (Tensor, np.ndarray)):
        pictures = [given] if isinstance(given, Image.Image) else given
        return torch.stack([inputs.prepare(upright(picture)) for picture in pictures])
    if isinstance(given, Tensor):
        own: Tensor = given.clone() if given.is_inference() else given
        return own[None] if tuple(own.shape) == inputs.shape else own
    if (
        given.dtype == np.uint8
        and given.shape[-1:] == (3,)
        and given.ndim in (3, 4)
        and isinstance(inputs, Pictures)
    ):
        pictures = [Image.fromarray(each) for each in given.reshape(-1, *given.shape[-3:])]
        if any(picture.size != inputs.size[::-1] for picture in pictures):
            return torch.stack([inputs.prepare(picture) for picture in pictures])
    values = torch.from_numpy(np.ascontiguousarray(given, dtype=given.dtype.newbyteorder("=")))
    if values.dtype == torch.uint8:
        values = values.float() / 255
    shape = inputs.shape
    last = (*shape[1:], shape[0])
    if len(shape) == 3 and tuple(values.shape[-3:]) == last and last != shape:
        values = values.movedim(-1, -3)
    return values[None] if values.ndim == len(shape) else values


def upright(picture: Image.Image) -> Image.Image:
    """The picture, turned as its EXIF orientation says. Pictures in files are turned in the same way; ``Image.open`` does not turn them."""
    return ImageOps.exif_transpose(picture)


# ---- datasets ---------------------------------------------------------------------------------------------------


def as_dataset(
    given: Any,
    inputs: Inputs,
    names: Sequence[str] | None = None,
    truth: Truth | None = None,
    *,
    outputs: Sequence[str] = (),
) -> Dataset:
    """A dataset of the images in ``given``, which reach the net unchanged.

    Images from a loader are read again whenever they are needed, so at most one batch of them is in memory.

    Args:
        given: one of

            - a file, a folder, a dataset string, or a list of files;
            - a dataset of Proofmap, or one of ``torch.utils.data``. Its ``classes``, as in torchvision's ``ImageFolder``, are matched with
              ``outputs`` by name if they are in another order;
            - for texts, a ``datasets.Dataset`` with a column ``text`` or one column of strings;
            - a ``DataLoader``. Images are read from its dataset one by one, in the dataset's order, through its ``collate_fn``:
              ``shuffle`` and ``drop_last`` have no effect;
            - an iterable of batches, each a tensor or ``(images, labels)``. It must give the same batches each time it is iterated, and is read
              once to count the images.
        names: one per image; by default the names of the files or of the dataset, or ``image-0``, ``row-0``, ...
        truth: the true labels of each image, by name or index, instead of those in the data. Labels in batches are indices
            into the net's outputs; negative for unknown.
        outputs: the names of the net's outputs, for ``truth`` by name.

    >>> from proofmap.core.inputs import Rows
    >>> batches = [(torch.rand(3, 2), torch.tensor([0, 1, 1])), (torch.rand(1, 2), torch.tensor([0]))]
    >>> data = as_dataset(batches, Rows(columns=2, mean=(0, 0), std=(1, 1)))
    >>> data, data.names[3], data.true_labels(1)
    (_BatchData(rows, 4 rows, 0 labels), 'row-3', (1,))
    """
    found = given if isinstance(given, Dataset) else _opened(given, inputs)
    if truth is None and isinstance(found, _BatchData) and outputs:
        found.label_names = _names_of_labels(given, outputs)
    if names is None and truth is None:
        return found
    if names is not None and len(names) != len(found):
        raise InputError(f"{len(names)} names were given for {counted(len(found), inputs.singular)}")
    rows = None if truth is None else label_rows(truth, outputs, len(found), inputs.singular, of=given)
    return _Renamed(found, names, rows)


class _Renamed(Dataset):
    """A dataset under other names or with other labels."""

    def __init__(
        self, data: Dataset, names: Sequence[str] | None, labels: Sequence[tuple[int, ...]] | None
    ) -> None:
        self._data, self.labels, self._is_labelled = data, labels, labels is not None
        for same in ("kind", "title", "cropped", "sequential"):
            setattr(self, same, getattr(data, same))
        self.names = data.names if names is None else distinct_names(list(map(str, names)))
        self.label_names = () if self._is_labelled else data.label_names

    def read(self, i: int) -> Any:
        return self._data.read(i)

    def digest(self, i: int) -> str:
        return self._data.digest(i)

    def stamp(self, i: int) -> str:
        return self._data.stamp(i)

    def _labels_of(self, i: int) -> tuple[int, ...]:
        return super()._labels_of(i) if self._is_labelled else self._data.true_labels(i)

    def objects(self, i: int) -> Mapping[int, Sequence[Box]]:
        return {} if self._is_labelled else self._data.objects(i)


# ---- batches ----


def _opened(given: Any, inputs: Inputs) -> Dataset:
    """The dataset of a path, a dataset string or a list of paths; for a net of texts, of rows of Hugging Face; of a ``DataLoader``, of a dataset
    of ``torch.utils.data``, or of an iterable of batches."""
    several = isinstance(given, (list, tuple)) and len(given) > 0
    if isinstance(given, (str, Path)) or (several and all(isinstance(one, (str, Path)) for one in given)):
        return open_data(given)
    if isinstance(inputs, TextInputs) and is_rows(given):
        return texts_of_rows(given)
    if isinstance(given, torch_data.Dataset) and not isinstance(given, torch_data.IterableDataset):
        given = torch_data.DataLoader(given, collate_fn=itemgetter(0))  # samples as they are
    if (
        isinstance(given, torch_data.DataLoader)
        and given.batch_sampler is not None
        and not isinstance(given.dataset, torch_data.IterableDataset)
    ):
        samples = _Samples(given)
        return _BatchData(samples, inputs, names=[f"{inputs.singular}-{key}" for key in samples.keys])
    if isinstance(given, Iterator):
        raise InputError(
            f"{inputs.noun} are a {type(given).__name__}, which can be read only once, but they are read several times; "
            "give a list of batches, a DataLoader, or an object whose __iter__ starts again"
        )
    if isinstance(given, Iterable) and not isinstance(given, (Mapping, bytes)):
        return _BatchData(given, inputs)
    inputs.check(given)  # raises an error that says what is expected
    raise AssertionError(type(given))


class _BatchData(Dataset):
    """Inputs in batches. One batch is in memory at a time.

    An item that is read again must have the same values as before, so that all methods are judged on the same images.

    Args:
        batches: a sequence of batches, or an iterable that gives them again each time.
        names: one name per batch, if every batch has one item. If names are left out, the batches are read once to count their items.
    """

    sequential = True

    def __init__(self, batches: Iterable[Any], inputs: Inputs, names: Sequence[str] | None = None) -> None:
        self.kind, self.title, self._inputs = inputs.kind, inputs.noun, inputs
        self._batches = batches if isinstance(batches, Sequence) else _Stream(batches)
        self._lock = threading.Lock()
        self._held: tuple[int, list[Any]] = (-1, [])
        self._facts: dict[int, tuple[str, tuple[int, ...]]] = {}  # digest and labels of items seen so far
        self._starts: Sequence[int]
        if names is not None:
            self.names, self._starts = names, range(len(names) + 1)
            return
        self._starts = starts = [0]
        while (count := len(self._batch(len(starts) - 1))) or self._held[0] >= 0:
            starts.append(starts[-1] + count)
        self.names = [f"{inputs.singular}-{i}" for i in range(starts[-1])]

    def _batch(self, k: int) -> list[Any]:
        """The items of batch ``k``; none if there is no such batch."""
        if self._held[0] == k:
            return self._held[1]
        self._held = (-1, [])  # before the next one is made
        try:
            batch = self._batches[k]
        except IndexError:
            return []
        try:
            items, labels = _unpack(batch, self._inputs)
        except InputError as error:
            raise InputError(f"batch {k}: {error}") from None
        for i, (item, label) in enumerate(zip(items, labels, strict=True), self._starts[k]):
            fact = (_digest(item), (label,) if label >= 0 else ())
            if self._facts.setdefault(i, fact) != fact:
                raise InputError(
                    f"{self.names[i]} has other values or another label than when it was first read; turn off shuffling and random "
                    "transforms, so that every method is judged on the same images"
                )
        self._held = (k, items)
        return items

    def _item(self, i: int) -> Any:
        with self._lock:
            k = bisect_right(self._starts, i) - 1
            items = self._batch(k)
            if i - self._starts[k] >= len(items):
                raise InputError(
                    f"{self.names[i]} is gone: there are fewer {self.title} than when they were counted"
                )
            return items[i - self._starts[k]]

    def read(self, i: int) -> Any:
        item = self._item(i)
        return item.clone() if isinstance(item, Tensor) else item

    def _fact(self, i: int) -> tuple[str, tuple[int, ...]]:
        if i not in self._facts:
            self._item(i)
        return self._facts[i]

    def _labels_of(self, i: int) -> tuple[int, ...]:
        return self._fact(i)[1]

    def digest(self, i: int) -> str:
        return self._fact(i)[0]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock": None, "_held": (-1, [])}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())


class _Stream:
    """The batches of an iterable by index. Reading the next batch continues the iteration; reading an earlier one starts a new iteration."""

    def __init__(self, batches: Iterable[Any]) -> None:
        self._batches = batches
        self._iterator: Iterator[Any] | None = None
        self._next = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_iterator": None}

    def __getitem__(self, k: int) -> Any:
        if self._iterator is None or k < self._next:
            self._iterator, self._next = iter(self._batches), 0
        for batch in self._iterator:
            self._next += 1
            if self._next > k:
                return batch
            del batch  # before the next one is made
        self._iterator = None
        raise IndexError(k)


class _Samples(Sequence[Any]):
    """The items of a loader's dataset that the loader's sampler chooses, in the dataset's order, each as a batch of one."""

    def __init__(self, loader: torch_data.DataLoader[Any]) -> None:
        self._dataset, self._collate = loader.dataset, loader.collate_fn
        chosen = loader.batch_sampler
        if isinstance(chosen, torch_data.BatchSampler):  # without drop_last
            self.keys = sorted(set(chosen.sampler))
        else:
            self.keys = sorted({key for batch in chosen or () for key in batch})

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, k: Any) -> Any:
        return self._collate([self._dataset[self.keys[k]]])


def _unpack(batch: Any, inputs: Inputs) -> tuple[list[Any], list[int]]:
    """The items of a batch, each a picture of Pillow or a tensor of shape ``shape``, and the label of each item; -1 for unknown."""
    if isinstance(batch, Mapping):
        raise InputError(
            f"a batch is a dict with the keys {', '.join(map(repr, batch))}; expected a tensor or (images, labels). For a DataLoader, "
            "write a collate_fn that returns them"
        )
    images, labels = batch, None
    if isinstance(batch, (tuple, list)) and len(batch) > 1 and _are_labels(batch[1], batch[0]):
        images, labels = batch[:2]
    if isinstance(images, Image.Image):
        items = [upright(images)]
    elif isinstance(images, (tuple, list)) and labels is None:
        found = [_unpack(image, inputs) for image in images]
        return [item for some, _ in found for item in some], [label for _, some in found for label in some]
    else:
        values = images_as_tensor(images, inputs) if isinstance(images, (Tensor, np.ndarray)) else images
        if isinstance(values, Tensor) and values.ndim == len(inputs.shape):
            values = values[None]
        items = list(inputs.check(values).detach().to("cpu", torch.float32))
    if labels is None:
        return items, [NO_LABEL] * len(items)
    given = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    return items, checked_labels(np.atleast_1d(given), len(items), ()).tolist()


def _are_labels(second: Any, images: Any) -> bool:
    """Whether the second element of a batch is its labels, and not another image."""
    return not isinstance(second, Image.Image) and np.ndim(second) != np.ndim(images)


def _digest(item: Image.Image | Tensor) -> str:
    if isinstance(item, Image.Image):
        return digest_of(f"{item.mode} {item.size}", item.tobytes())
    return digest_of(f"{tuple(item.shape)}", item.numpy().tobytes())


def _names_of_labels(given: Any, outputs: Sequence[str]) -> tuple[str, ...]:
    """The names of the labels of a torch dataset or loader, such as the ``classes`` of torchvision's ``ImageFolder``, if its labels must be
    matched with the net's outputs by name.

    Empty if the labels are output indices already. This is so if the dataset has no names, if it changes its labels itself, or if there are
    as many names as outputs and no name contradicts the name of its output.
    """
    data = given.dataset if isinstance(given, torch_data.DataLoader) else given
    while isinstance(data, torch_data.Subset):
        data = data.dataset
    classes = getattr(data, "classes", None)
    if not isinstance(classes, (list, tuple)) or getattr(data, "target_transform", None) is not None:
        return ()
    names = tuple(", ".join(name) if isinstance(name, tuple) else str(name) for name in classes)
    places = match_labels(names, outputs)
    if len(names) == len(outputs) and all(at in (None, own) for own, at in enumerate(places)):
        return ()
    if None in places:
        raise InputError(
            f"the labels of the dataset are indices into its classes, but class {names[places.index(None)]!r} is not an output of the net "
            f"({', '.join(map(repr, outputs[:5]))}, ...), which has {len(outputs)}; pass truth=, or name classes and outputs alike"
        )
    return names
