"""The records that the database stores: images, methods and metrics, and finished units."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from proofmap.study.store.errors import StoreError


@dataclass(frozen=True)
class ImageRow:
    """One image of a run, as the survey found it before methods are judged.

    ``labels`` are the labels to judge and ``f`` their probabilities, most probable first unless the labels were listed by the user.
    ``stamp`` changes when the file changes, ``eligible`` says whether the image passes the study's selection, and ``failure`` says why it
    cannot be read."""

    name: str
    digest: str
    stamp: str
    true_labels: tuple[int, ...] = ()
    eligible: bool = False
    labels: tuple[int, ...] = ()
    f: tuple[float, ...] = ()
    failure: str | None = None
    block: int | None = None
    id: int = 0

    @property
    def truth(self) -> int | None:
        """The one true label; None if it is not known, or if there are several."""
        return self.true_labels[0] if len(self.true_labels) == 1 else None


SIGNED = "signed"
"""The ``kind`` of a registered method whose maps have signed values."""


@dataclass(frozen=True)
class Registered:
    """A method or metric as stored in a run.

    ``flag`` is ``label_free`` for a method and ``higher_is_better`` for a metric. ``kind`` is ``SIGNED`` or empty for a method; for a metric
    it says what is measured. ``least`` and ``greatest`` are the limits of a metric's values."""

    id: int
    name: str
    flag: bool
    settings: Mapping[str, object]
    kind: str = ""
    least: float = -math.inf
    greatest: float = math.inf


@dataclass(frozen=True)
class UnitRow:
    """Everything that is stored for a finished unit. Methods, images and metrics are given by id.

    ``image_scores`` has (metric, image, value), and ``label_scores`` has (metric, image, index of the label, value)."""

    method: int
    block: int
    metrics: tuple[int, ...]
    key: str
    environment: int
    batches: tuple[int, int]
    seconds: float
    passes: int
    finished: str
    image_scores: Sequence[tuple[int, int, float]]  # metric, image, value
    label_scores: Sequence[tuple[int, int, int, float]]  # metric, image, place, value
    curves: Mapping[int, tuple[object, ...]]  # image -> the row after it in the table of curves
    failures: Mapping[int, str]
    maps: str | None = None
    maps_bytes: int | None = None


def plain_truth(true_labels: Sequence[int]) -> int | list[int] | None:
    """True labels in the form that unit keys contain: a single label is a number.

    >>> plain_truth([3]), plain_truth([]), plain_truth([3, 5])
    (3, None, [3, 5])
    """
    if len(true_labels) > 1:
        return list(true_labels)
    return true_labels[0] if true_labels else None


def curve_blob(values: np.ndarray | None) -> bytes | None:
    """The values of a curve as bytes, as the database stores them: float32, little-endian."""
    return None if values is None else np.ascontiguousarray(values, dtype="<f4").tobytes()


def curve_values(blob: bytes, *shape: int) -> np.ndarray:
    """The values of a stored curve as an array of this shape."""
    try:
        return np.frombuffer(blob, dtype="<f4").reshape(shape)
    except (TypeError, ValueError):
        raise StoreError("a stored curve has the wrong length: the run's database is damaged") from None
