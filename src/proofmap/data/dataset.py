"""What every dataset offers, where its labels stand among a net's outputs, and which of its pictures to take."""

from __future__ import annotations

import difflib
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Box, Pictures
from proofmap.core.labels import canonical_name


class Dataset(ABC):
    """Pictures (or inputs of another kind) by number, with their names and, where known, their labels; nothing is decoded
    before it is asked for.

    Any thread may call :meth:`read`, :meth:`truth` and :meth:`digest`, several at once.

    Attributes:
        kind: of the inputs it holds, as :attr:`proofmap.core.inputs.Inputs.kind` says it.
        title: what a record of results calls the dataset: no folder of this machine.
        names: one per picture, all distinct, the same wherever and whenever the same data is opened.
        label_names: what :meth:`truth` points into; empty where labels are bare numbers, or unknown.
        cropped: a picture is already cut as the net shall see it, so the loader adds no margin before its crop.
    """

    kind: str = Pictures.kind
    title: str
    names: Sequence[str]
    label_names: Sequence[str] = ()
    cropped: bool = False

    def __len__(self) -> int:
        return len(self.names)

    @abstractmethod
    def read(self, i: int) -> Any:
        """Item ``i`` as :meth:`proofmap.core.inputs.Inputs.prepare` takes it: a picture in RGB or RGBA, or an array; raises
        an InputError that names the file if it cannot be read.
        """

    @abstractmethod
    def truth(self, i: int) -> int | None:
        """The label of picture ``i``, an index into ``label_names``; None where the dataset does not know.

        ImageNet's, Imagenette's and CIFAR's are the indices of the usual nets' outputs. For any other net, and for
        folders named by people, :func:`truths` finds the outputs by name.
        """

    @abstractmethod
    def digest(self, i: int) -> str:
        """A hash of picture ``i`` as it is stored (32 hexadecimal digits); reads it, but does not decode it."""

    def boxes(self, i: int) -> tuple[Box, ...]:
        """Where the labelled things are, in pixels of the stored picture; none where the dataset does not know."""
        return ()

    def stamp(self, i: int) -> str:
        """What changes when picture ``i`` is stored again, without reading it; empty where there is no such thing.

        An unchanged stamp is taken to mean an unchanged digest.
        """
        return ""

    @abstractmethod
    def settings(self) -> dict[str, object]:
        """Plain data from which :func:`proofmap.data.rebuild_dataset` opens the same dataset in another process."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.title}, {len(self)} {self.kind}, {len(self.label_names)} labels)"


def digest_of(*parts: bytes | str) -> str:
    """32 hexadecimal digits of the parts' content.

    >>> digest_of(b"ab") == digest_of("ab"), digest_of("a", "b") == digest_of("ab")
    (True, False)
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        if len(parts) > 1:
            digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


# ---- labels ---------------------------------------------------------------------------------------------------


def match_labels(label_names: Sequence[str], outputs: Sequence[str]) -> tuple[int | None, ...]:
    """Where each label stands among a net's outputs, given both lists of names; None for a label it does not have.

    Labels are found by name (case and ``_`` do not matter), or by index where the name is a number. Only where
    there are as many labels as outputs, and none is found at another place, are they taken to be the same list in
    other words: ImageNet has several vocabularies, and many a net just numbers its outputs.

    >>> match_labels(["cat", "dog"], ["dog", "cup", "Cat"])
    (2, 0)
    >>> match_labels(["cat", "dog"], ["0", "1"])
    (0, 1)
    """
    where: dict[str, int | None] = {str(k): k for k in range(len(outputs))}
    for k, name in enumerate(map(canonical_name, outputs)):
        if not name.isdecimal():
            where[name] = None if name in where else k  # a name that two outputs share is ambiguous
    found = [where.get(canonical_name(name)) for name in label_names]
    if len(label_names) == len(outputs) and all(at in (None, own) for own, at in enumerate(found)):
        return tuple(range(len(outputs)))
    return tuple(found)


def truths(
    dataset: Dataset, outputs: Sequence[str], indices: Sequence[int] | None = None
) -> list[int | None]:
    """The true label of each picture as an index into a classifier's outputs; None where it is not known.

    ``outputs`` are the classifier's ``names``. A dataset that knows labels, none of which the net has, is an error.
    """
    own = [dataset.truth(i) for i in (range(len(dataset)) if indices is None else indices)]
    if not dataset.label_names:
        highest = max((label for label in own if label is not None), default=-1)
        if highest >= len(outputs):
            raise InputError(
                f"{dataset.title} has the label {highest}, but the net has outputs 0 to {len(outputs) - 1}; "
                "choose the net that was trained on these labels"
            )
        return own
    places = match_labels(dataset.label_names, outputs)
    if all(place is None for place in places):
        raise InputError(
            f"none of the labels of {dataset.title} ({_some(dataset.label_names)}) is an output of the net "
            f"({_some(outputs)}); rename them as the net does, or give indices in a CSV file; folders named by WordNet ids are read with "
            "imagenette:FOLDER or imagenet:FOLDER"
        )
    return [None if label is None else places[label] for label in own]


# ---- selections -----------------------------------------------------------------------------------------------


def random_choice(names: Sequence[str], n: int, *, seed: int = 0) -> list[int]:
    """``n`` of the pictures at random, as indices, by name: the order in which they are listed does not matter.

    The first ``n`` of a larger choice are the choice of ``n``, so a study can grow without starting again.

    >>> random_choice(["a", "b", "c", "d"], 3)[:2] == random_choice(["a", "b", "c", "d"], 2)
    True
    """
    if not 0 <= n <= len(names):
        raise InputError(f"{n} pictures are asked for, but there are {len(names)}")
    drawn = sorted((streams.key_of(seed, name, "selection"), name, i) for i, name in enumerate(names))
    return [i for _, _, i in drawn[:n]]


def choose_names(names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """The indices of the wanted names, in the order they are wanted.

    >>> choose_names(["a.png", "b.png"], ["b.png"])
    [1]
    """
    where = {name: i for i, name in enumerate(names)}
    for name in wanted:
        if name not in where:
            close = difflib.get_close_matches(name, where, n=2)
            hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"there are {_some(names)}"
            raise InputError(f"no picture is named {name!r}; {hint}")
    return [where[name] for name in wanted]


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:3])) + (", ..." if len(names) > 3 else "")
