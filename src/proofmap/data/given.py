"""The border for data: everything that a person hands over to be judged becomes :class:`Subjects`, copied and checked. Images are tensors,
arrays, pictures and frames in memory, loaders and batches; true labels are names or indices, in columns, or from datasets with classes."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.utils import data as torch_data

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.files import digest_of, distinct_names
from proofmap.core.inputs import Box, Inputs, Pictures, TextInputs
from proofmap.core.inputs.frames import library_of
from proofmap.core.labels import NO_LABEL, LabelRule, label_array, label_index
from proofmap.core.tensors import NamedImages, private_copy
from proofmap.core.text import counted
from proofmap.data.dataset import Dataset, match_labels, true_outputs
from proofmap.data.huggingface import HuggingFaceImages, is_rows, texts_of_rows
from proofmap.data.loader import load_blocks
from proofmap.data.specs import open_data

InMemory = Tensor | np.ndarray | Image.Image | Sequence[Image.Image]


ImagesLike = InMemory | Dataset | Iterable[Any]
"""Everything that :func:`as_dataset` takes."""

Truth = Sequence[int | str | Sequence[int | str | None] | None] | Tensor
"""The true label of each image, or a list of its true labels, by name or index; None, -1 or -100 for unknown. Or a tensor, an array or a
data frame with a column of 0 and 1 for each output."""
_UNKNOWN = (None, NO_LABEL, -100)  # the last is what torch's losses ignore


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
    if len(shape) >= 3 and tuple(values.shape[-len(shape) :]) == last and last != shape:
        values = values.movedim(-1, -len(shape))
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
            - a ``datasets.Dataset`` of Hugging Face with a column of images; for texts, with a column ``text`` or one column of strings;
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


# ---- batches ----------------------------------------------------------------------------------------------------


def _opened(given: Any, inputs: Inputs) -> Dataset:
    """The dataset of a path, a dataset string or a list of paths; for a net of texts, of rows of Hugging Face; of a ``DataLoader``, of a dataset
    of ``torch.utils.data``, or of an iterable of batches."""
    several = isinstance(given, (list, tuple)) and len(given) > 0
    if isinstance(given, (str, Path)) or (several and all(isinstance(one, (str, Path)) for one in given)):
        return open_data(given)
    if isinstance(inputs, (TextInputs, Pictures)) and is_rows(given):
        return texts_of_rows(given) if isinstance(inputs, TextInputs) else HuggingFaceImages(given)
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
    return items, Dataset.checked_labels(np.atleast_1d(given), len(items), ()).tolist()


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


# ---- true labels ------------------------------------------------------------------------------------------------


def label_rows(
    truth: Truth, outputs: Sequence[str], n: int, item: str = "image", of: Any = None
) -> list[tuple[int, ...]]:
    """The true labels of each of ``n`` inputs as output indices, each index once. A tuple is empty if the labels are unknown. Messages call
    an input ``item``. If the inputs are ``of`` a data frame, the labels must be in its order.

    >>> label_rows(["dog", None, [0, "dog"], -1, -100], ["cat", "dog"], 5)
    [(1,), (), (0, 1), (), ()]
    >>> label_rows(np.array([[0, 1, 1], [1, 0, 0]]), ["cat", "dog", "cow"], 2)  # a column for each output
    [(1, 2), (0,)]
    """
    _check_order(truth, of)
    given: Any = truth
    columns: Sequence[Any] = ()
    if library_of(truth) is not None:
        columns, given = list(given.columns), given.to_numpy()
        given = given[:, 0] if len(columns) == 1 else given
    is_array = isinstance(given, (Tensor, np.ndarray))
    given = given.tolist() if isinstance(given, (Tensor, np.ndarray)) else list(given)
    if len(given) != n:
        raise InputError(f"{len(given)} true labels were given for {counted(n, item)}")
    rows = [_as_list(entry) for entry in given]
    if _are_columns(rows, len(outputs), is_array, named=len(columns) > 1):
        places = _outputs_of(columns, outputs)
        return [tuple(sorted(a for a, mark in zip(places, row, strict=True) if mark)) for row in rows]
    return [tuple(dict.fromkeys(label_index(a, outputs) for a in row if a not in _UNKNOWN)) for row in rows]


def _are_columns(rows: Sequence[Sequence[Any]], outputs: int, is_array: bool, named: bool) -> bool:
    """Whether true labels are a table with a column of 0 and 1 for each output, and not rows of label indices.

    A list such as ``[0, 1]`` for two outputs may be both labels, so it is; an array or a data frame is a table.
    """
    width = len(rows[0]) if rows else 0
    if width < 2 or any(len(row) != width for row in rows):
        return False
    if any(isinstance(a, str) or a not in (0, 1, NO_LABEL) for row in rows for a in row):
        return False
    is_marked = all(a != NO_LABEL for row in rows for a in row)
    if is_marked and (width == outputs or named) and (width > 2 or is_array):
        return True
    if any(row.count(0) > 1 or row.count(1) > 1 for row in rows):  # no label is listed twice
        raise InputError(
            f"truth has {width} columns of 0{' and 1' if is_marked else ', 1 and -1'}, and the net has {outputs} outputs; give an array with a "
            f"column of 0 and 1 for each output{'' if is_marked else ' (truth == 1)'}, or lists with the names or indices of the true labels"
        )
    return False


def _outputs_of(columns: Sequence[Any], outputs: Sequence[str]) -> Sequence[int]:
    """The output that each column is for: by the names of a data frame's ``columns``, by position without names."""
    places = match_labels(list(map(str, columns)), outputs) if columns else range(len(outputs))
    for column, place in zip(columns, places, strict=False):
        if place is None:
            raise InputError(
                f"truth has the column {column!r} of 0 and 1, but the net has no output of this name; its outputs are "
                f"{', '.join(map(repr, outputs[:5]))}{', ...' if len(outputs) > 5 else ''}. Name the columns like the outputs, or give truth.to_numpy() "
                "with a column for each output in their order"
            )
    return [place for place in places if place is not None]


def _as_list(entry: object) -> Sequence[Any]:
    listed = hasattr(entry, "tolist") and entry.tolist()
    entry = listed if isinstance(listed, list) else entry
    return entry if isinstance(entry, (list, tuple)) else [entry]


def _check_order(truth: Any, given: Any) -> None:
    """Refuse true labels in a pandas Series if its index has the rows of the data frame ``given`` in another order."""
    own, rows = getattr(truth, "index", None), getattr(given, "index", None)
    if own is None or rows is None or not hasattr(own, "equals") or not hasattr(rows, "equals"):
        return
    if len(own) == len(rows) and not own.equals(rows) and own.isin(rows).all() and rows.isin(own).all():
        aligned = "write truth.loc[frame.index]" if rows.is_unique else "sort both alike"
        raise InputError(
            f"truth has the rows of the frame in another order, by its index; {aligned}, or write truth.to_numpy() if the order is meant"
        )


# ---- all that is judged -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Subjects:
    """Images to judge, and all that is known of them.

    Attributes:
        images: ``(N, *shape)`` on the net's device; no one else writes to them.
        labels: the labels to judge ``(N, L)``, padded with -1.
        truth: the true labels ``(N,)`` or ``(N, T)``, padded with -1; None if none is known.
        boxes: for each image, boxes around the objects of its true label; empty if unknown. By default they are taken from the objects of
            images with one true label.
        objects: for each image, the boxes of each of its labels; empty if unknown.
        rule: how the labels were chosen; None if that is not known. Then methods may ignore them.
        names: one distinct name per image.
        f: f(x, a) of the labels ``(N, L)``; NaN where a row has no label.
        source: the dataset that the images are a block of; None for images in memory.
        maps: maps that exist already: for a method, ``(N, L, *positions)``, or ``(N, 1, *positions)`` if its maps ignore the label.
    """

    images: Tensor
    labels: Tensor
    truth: Tensor | None = None
    boxes: Sequence[Sequence[Box]] = ()
    objects: Sequence[Mapping[int, Sequence[Box]]] = ()
    rule: LabelRule | None = None
    names: Sequence[str] = ()
    f: Tensor | None = None
    source: Dataset | None = None
    maps: Mapping[Any, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.boxes) or not len(self.objects):
            return
        truth = [] if self.truth is None else self.truth.reshape(len(self), -1).tolist()
        rows = [[a for a in row if a != NO_LABEL] for row in truth or [[]] * len(self)]
        boxes = [
            own.get(row[0], ()) if len(row) == 1 else () for own, row in zip(self.objects, rows, strict=True)
        ]
        object.__setattr__(self, "boxes", boxes)

    @staticmethod
    def truth_of(truths: Sequence[Sequence[int]]) -> Tensor | None:
        """The true labels of each image as a tensor ``(N,)``, or ``(N, T)`` if an image has several, padded with ``NO_LABEL``. None if no
        label is known.

        >>> (
        ...     Subjects.truth_of([[3], []]),
        ...     Subjects.truth_of([[3], [4, 5]]).tolist(),
        ...     Subjects.truth_of([[], []]),
        ... )
        (tensor([ 3, -1]), [[3, -1], [4, 5]], None)
        """
        if not any(map(len, truths)):
            return None
        table = torch.from_numpy(label_array(truths))
        return table[:, 0] if table.shape[1] == 1 else table

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, places: slice | list[int]) -> Subjects:
        """A part of the images with what is known of them: a slice, or the images with these indices, in this order."""
        which = range(len(self))[places] if isinstance(places, slice) else places
        return replace(
            self,
            images=self.images[places],
            labels=self.labels[places],
            truth=None if self.truth is None else self.truth[places],
            boxes=[self.boxes[i] for i in which] if len(self.boxes) else (),
            objects=[self.objects[i] for i in which] if len(self.objects) else (),
            names=[self.names[i] for i in which] if len(self.names) else (),
            f=None if self.f is None else self.f[places],
            maps={method: maps[places] for method, maps in self.maps.items()},
        )


def as_subjects(
    images: ImagesLike,
    classifier: Classifier,
    rule: LabelRule,
    *,
    seed: int = 0,
    names: Sequence[str] | None = None,
    truth: Truth | None = None,
    boxes: Sequence[Sequence[Box]] = (),
    objects: Sequence[Mapping[int | str, Sequence[Box]]] = (),
    block_size: int = 32,
    first: int = 0,
) -> Iterator[Subjects]:
    """Check everything that a person hands over, and yield it in blocks with the labels that ``rule`` chooses.

    Images in memory are one block, a copy of what was given. Of a dataset, one block of ``block_size`` images is in memory at a time. The
    arguments are those of :func:`proofmap.evaluate`. Images without names are numbered from ``first`` on.
    """
    inputs, outputs = classifier.inputs, classifier.names
    if is_in_memory(images, inputs):
        given = images_as_tensor(images, inputs)
        if len(given) == 0:
            raise InputError(f"there are no {inputs.noun} to evaluate on")
        inputs.check_given(given)
        rows = None if truth is None else label_rows(truth, outputs, len(given), inputs.singular, of=images)
        names = NamedImages.names_of(given) if names is None else names
        names = [f"{inputs.singular}-{first + i}" for i in range(len(given))] if names is None else names
        if len(names) != len(given):
            raise InputError(f"{len(names)} names were given for {counted(len(given), inputs.singular)}")
        copied = private_copy(classifier.check_images(given))
        yield _checked(copied, distinct_names(list(names)), rows, boxes, objects, classifier, rule, seed)
        return
    if boxes or objects:
        raise InputError("boxes and objects are for images in memory; a dataset has its own")
    data = as_dataset(images, inputs, names, truth, outputs=outputs)
    rule.check_rows(len(data), inputs.singular)
    for block in load_blocks(data, classifier, block_size=block_size):
        if block.failures:
            name, reason = next(iter(block.failures.items()))
            raise InputError(reason if name in reason else f"{name}: {reason}")
        truths = true_outputs(data, outputs, block.indices)
        around = block.objects if any(block.objects) else ()
        chosen, part = [data.names[i] for i in block.indices], rule.part(block.indices)
        yield replace(_checked(block.images, chosen, truths, (), around, classifier, part, seed), source=data)


def _checked(
    images: Tensor,
    names: Sequence[str],
    truths: Sequence[Sequence[int]] | None,
    boxes: Sequence[Sequence[Box]],
    objects: Sequence[Mapping[Any, Sequence[Box]]],
    classifier: Classifier,
    rule: LabelRule,
    seed: int,
) -> Subjects:
    """The images with their labels, and with boxes as plain numbers."""
    inputs = classifier.inputs
    truth = None if truths is None else Subjects.truth_of(truths)
    for given, what in (
        (boxes, f"{len(boxes)} lists of boxes"),
        (objects, f"objects of {len(objects)} images"),
    ):
        if len(given) not in (0, len(names)):
            raise InputError(f"{what} were given for {len(names)} images")
    for name, own, several in zip(names, boxes, truths or (), strict=False):
        if len(own) and len(several) > 1:
            raise InputError(
                f"boxes has boxes for {name!r}, which has several true labels; give the boxes of each label in objects"
            )
    f = classifier.frozen().probabilities(images)
    labels = rule.choose(f, classifier.label_set, truth, names, images, seed, inputs.singular)
    return Subjects(
        images,
        labels,
        truth,
        [inputs.checked_boxes(own, name) for own, name in zip(boxes, names, strict=False)],
        [
            {
                label_index(a, classifier.names): inputs.checked_boxes(around, name)
                for a, around in own.items()
            }
            for own, name in zip(objects, names, strict=False)
        ],
        rule,
        names,
        f.gather(1, labels.clamp_min(0)).masked_fill(labels == NO_LABEL, torch.nan),
    )
