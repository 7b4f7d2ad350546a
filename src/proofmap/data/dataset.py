"""The interface of datasets, functions that match their labels with a net's outputs, and functions that choose items."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Box, Pictures
from proofmap.core.labels import NO_LABEL, canonical_name
from proofmap.core.ranges import range_of
from proofmap.core.text import counted, did_you_mean


@dataclass(frozen=True)
class DatasetInfo:
    """A kind of dataset.

    Attributes:
        name: the kind.
        form: how to write the dataset string. Words in capitals stand for your own values, and what follows them is optional.
        description: one line.
    """

    name: str
    form: str
    description: str


READERS: dict[str, tuple[DatasetInfo, Callable[..., Dataset]]] = {}
"""The kinds of datasets, each with the function that opens it. The keyword arguments of the function are the settings of the string."""
_Reader = TypeVar("_Reader", bound=Callable[..., "Dataset"])


def reader(kind: str, form: str, description: str) -> Callable[[_Reader], _Reader]:
    """A decorator that makes a function the reader of a kind of dataset."""

    def register(function: _Reader) -> _Reader:
        READERS[kind] = DatasetInfo(kind, form, description), function
        return function

    return register


def list_datasets() -> list[DatasetInfo]:
    """All kinds of dataset that :func:`proofmap.data.load_dataset` opens.

    >>> import proofmap.data
    >>> [info.form for info in list_datasets()][:2]
    ['FOLDER', 'csv:FILE']
    """
    return [info for info, _ in READERS.values()]


class Dataset(ABC):
    """Pictures, or inputs of another kind, by index. An item is decoded only when it is read.

    Any thread may call :meth:`read`, :meth:`truth`, :meth:`true_labels` and :meth:`digest`, several at once.

    Attributes:
        kind: the kind of input, as in :attr:`proofmap.core.inputs.Inputs.kind`.
        title: the name of the dataset in records of results, without a folder of this machine.
        names: one per item, all distinct. The same data always has the same names.
        labels: the true label of each item, or a list of its true labels, as indices into ``label_names``; None if unknown.
        label_names: the names of the labels; empty if labels are output indices of the net.
        cropped: whether pictures are cropped already, so that the loader adds no margin before its crop.
        sequential: whether items are read fastest in order. The loader then reads with one thread.
    """

    kind: str = Pictures.kind
    title: str
    names: Sequence[str]
    labels: Sequence[int | Sequence[int] | None] | NDArray[Any] | None = None
    label_names: Sequence[str] = ()
    cropped: bool = False
    sequential: bool = False
    _settings: Mapping[str, object] | None = None
    _advice = "pass the dataset itself: run_study(..., dataset=...)"

    def __len__(self) -> int:
        return len(self.names)

    @abstractmethod
    def read(self, i: int) -> Any:
        """Item ``i`` as :meth:`proofmap.core.inputs.Inputs.prepare` takes it: a picture of Pillow in RGB or RGBA, or numbers in the shape
        and range of the net's input. Raises an InputError that names the item if it cannot be read.
        """

    @abstractmethod
    def digest(self, i: int) -> str:
        """A hash of item ``i`` as it is stored, 32 hexadecimal digits. The item is read but not decoded."""

    def truth(self, i: int) -> int | None:
        """The only true label of item ``i``; None if it is unknown or if there are several.

        :func:`true_outputs` translates true labels to output indices of the net.
        """
        labels = self._labels_of(i)
        return labels[0] if len(labels) == 1 else None

    def true_labels(self, i: int) -> tuple[int, ...]:
        """All true labels of item ``i``, each once; empty if they are unknown. Override this method if an item can have several."""
        labels, label = self._labels_of(i), self.truth(i)
        return labels if label is None else (label,)

    def _labels_of(self, i: int) -> tuple[int, ...]:
        labels = None if self.labels is None else self.labels[i]
        if labels is None or isinstance(labels, Sequence):
            return tuple(labels or ())
        return (int(labels),) if labels >= 0 else ()

    @staticmethod
    def checked_labels(
        labels: NDArray[Any] | Sequence[int], n: int, label_names: Sequence[str]
    ) -> NDArray[Any]:
        """The labels of ``n`` items as integers ``(n,)``; negative for unknown."""
        array = np.asarray(labels)
        if array.shape == (n, 1):  # as Keras keeps them
            array = array[:, 0]
        if array.shape != (n,) or array.dtype.kind not in "iu":
            raise InputError(f"labels must be {n} integers, one per item, got {array.dtype} {array.shape}")
        if label_names and n and array.max() >= len(label_names):
            raise InputError(f"labels go up to {array.max()}, but there are {len(label_names)} label names")
        return array

    def objects(self, i: int) -> Mapping[int, Sequence[Box]]:
        """Boxes around objects by their label, in pixels of the upright picture, for every label with known objects."""
        return {}

    def stamp(self, i: int) -> str:
        """A text that changes when item ``i`` is stored again, such as a modification time. The item is not read. Empty if the dataset has
        no stamps.

        An unchanged stamp is taken to mean an unchanged digest.
        """
        return ""

    def settings(self) -> dict[str, object]:
        """Plain data from which :func:`proofmap.data.rebuild_dataset` opens the same dataset in another process."""
        if self._settings is None:
            raise InputError(
                f"{self.title} exists only in the memory of this process, so no other process can open it; {self._advice}"
            )
        return dict(self._settings)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.title}, {len(self)} {self.kind}, {counted(len(self.label_names), 'label')})"


# ---- labels ---------------------------------------------------------------------------------------------------


def numbered(
    labels: Sequence[Any], order: Callable[[Any], Any] | None = None
) -> tuple[tuple[str, ...], list[int]]:
    """The names of the labels, sorted, and the index of each label among them; None is an unknown label and has the index -1.

    >>> numbered(["dog", None, "cat", "dog"])
    (('cat', 'dog'), [1, -1, 0, 1])
    """
    known = sorted({label for label in labels if label is not None}, key=order)
    places = {label: k for k, label in enumerate(known)}
    return tuple(map(str, known)), [NO_LABEL if label is None else places[label] for label in labels]


_NUMBER = re.compile(r"(-?)0*(\d+)")
SAME_LIST = 0.95
"""If at least this share of names agrees at the same index, two lists of names are taken to be one list in two vocabularies."""


def match_labels(label_names: Sequence[str], outputs: Sequence[str]) -> tuple[int | None, ...]:
    """The output index of each label, given the names of both; None for a label that the net does not have.

    Labels are found by name (case and ``_`` do not matter, and 1.0 and 01 are 1), by one of several names ("tench" is "tench, Tinca tinca"),
    or by index if the label is a number. Labels are matched by position in only two cases. In one, the names of the net's outputs are
    numbers. In the other, nearly all names agree in position, and none of the remaining ones is the name of another output. The second case
    is for ImageNet, whose labels have several vocabularies. If the outputs are ranges of a number, a number is in one of them.

    >>> match_labels(["cat", "dog"], ["dog", "cup", "Cat"])
    (2, 0)
    >>> match_labels(["cat", "dog"], ["0", "1"])
    (0, 1)
    >>> match_labels(["cats", "dogs"], ["dog", "cat"])
    (None, None)
    """
    ranges = [range_of(name, outputs) for name in label_names]
    if None not in ranges:
        return tuple(ranges)
    known = [_comparable(name) for name in outputs]
    wanted = [_comparable(name) for name in label_names]
    if known == [str(k) for k in range(len(wanted))] and not any(name.isdecimal() for name in wanted):
        return tuple(range(len(known)))
    by_name = _output_by_name([[name] for name in known])
    if not _are_other_numbers(known):
        by_name = {**{str(k): k for k in range(len(known))}, **by_name}
    found = [by_name.get(name) for name in wanted]
    elsewhere = any(at not in (None, own) for own, at in enumerate(found))
    by_synonym = _output_by_name([_synonyms(name) for name in known])
    for i, name in enumerate(wanted):
        meant = {by_synonym[word] for word in _synonyms(name) if word in by_synonym}
        if found[i] is None and name not in by_name and len(meant) == 1:
            found[i] = meant.pop()
    agree = sum(at == own for own, at in enumerate(found))
    if len(wanted) == len(known) and not elsewhere and agree >= SAME_LIST * len(known):
        return tuple(range(len(known)))
    return tuple(found)


def _comparable(name: str) -> str:
    """A label name in the form used for comparison. A whole number has no zeros before it, and no .0 after it: pandas reads a column of
    whole numbers as 1.0, 2.0 if one is missing.

    >>> _comparable("007"), _comparable("7.0"), _comparable("Sea_Lion")
    ('7', '7', 'sea lion')
    """
    name = canonical_name(name)
    number = _NUMBER.fullmatch(name.removesuffix(".0"))
    return number[1] + number[2] if number else name


def _are_other_numbers(outputs: Sequence[str]) -> bool:
    """Whether outputs are named by numbers that are not their indices."""
    return any(name.isdecimal() and name != str(k) for k, name in enumerate(outputs))


def _are_indices(label_names: Sequence[str], outputs: Sequence[str]) -> bool:
    """Whether all labels are numbers, and so are taken as indices of the outputs."""
    numbers = all(_NUMBER.fullmatch(_comparable(name)) for name in label_names)
    return numbers and not _are_other_numbers([_comparable(name) for name in outputs])


def _output_by_name(names: Sequence[Sequence[str]]) -> dict[str, int | None]:
    """The output index for each name; None for a name that two outputs share."""
    where: dict[str, int | None] = {}
    for k, own in enumerate(names):
        for name in set(own):
            where[name] = None if name in where else k
    return where


def _synonyms(name: str) -> list[str]:
    return [part.strip() for part in name.split(",")]


def true_outputs(
    dataset: Dataset, outputs: Sequence[str], indices: Sequence[int] | None = None, *, strict: bool = False
) -> list[tuple[int, ...]]:
    """The true labels of each picture as output indices, each once; empty if they are unknown.

    ``outputs`` are the classifier's ``names``. It is an error if the net has none of the dataset's labels. A single label that the net does
    not have is left out; with ``strict`` it is an error.
    """
    chosen = range(len(dataset)) if indices is None else indices
    own = [dataset.true_labels(i) for i in chosen]
    places = match_labels(dataset.label_names, outputs) if dataset.label_names else None
    if places is None:
        highest = max((label for labels in own for label in labels), default=-1)
        if highest >= len(outputs):
            raise InputError(
                f"{dataset.title} has the label {highest}, but the net has outputs 0 to {len(outputs) - 1}; "
                "choose the net that was trained on these labels"
            )
        return own
    if None in places and _are_indices(dataset.label_names, outputs):
        raise InputError(
            f"{dataset.title} has the label {dataset.label_names[places.index(None)]}, but the net has outputs 0 to {len(outputs) - 1} "
            f"({_some(outputs, 10)}); name the outputs as the data names its labels (names=), or choose the net that was trained on these labels"
        )
    if all(place is None for place in places):
        raise InputError(
            f"none of the labels of {dataset.title} ({_some(dataset.label_names, 10)}) is an output of the net "
            f"({_some(outputs, 10)}); rename them as the net does, or give indices in a CSV file with the columns file and "
            "class_index; folders named by WordNet ids are read with imagenette:FOLDER or imagenet:FOLDER"
        )
    if strict:
        for i, labels in zip(chosen, own, strict=True):
            for label in labels:
                if places[label] is None:
                    name = dataset.label_names[label]
                    raise InputError(
                        f"{dataset.names[i]} in {dataset.title} has the label {name!r}, which is not an output of the net.{did_you_mean(name, outputs)}"
                    )
    return [
        tuple(dict.fromkeys(at for label in labels if (at := places[label]) is not None)) for labels in own
    ]


# ---- selections -----------------------------------------------------------------------------------------------


def random_choice(names: Sequence[str], n: int, *, seed: int = 0) -> list[int]:
    """Indices of ``n`` random items. The draw depends on their names and the seed, not on the order of ``names``.

    A smaller choice is the beginning of a larger one, so a study can grow without starting again.

    >>> random_choice(["a", "b", "c", "d"], 3)[:2] == random_choice(["a", "b", "c", "d"], 2)
    True
    """
    if not 0 <= n <= len(names):
        raise InputError(f"{n} items were requested, but there are only {len(names)}")
    drawn = sorted((streams.key_of(seed, name, "selection"), name, i) for i, name in enumerate(names))
    return [i for _, _, i in drawn[:n]]


def _some(names: Sequence[str], most: int = 3) -> str:
    return ", ".join(map(repr, names[:most])) + (", ..." if len(names) > most else "")
