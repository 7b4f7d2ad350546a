"""What the database stores, as records of plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from proofmap.study.store.errors import StoreError


@dataclass(frozen=True)
class ImageRow:
    """One image of a run, as stored before methods are judged. ``labels`` are the labels to judge and ``f`` their probabilities,
    most probable first unless the labels were listed by the user."""

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
"""The kind of a method with signed maps."""


@dataclass(frozen=True)
class Registered:
    """A stored method or metric; ``flag`` is label_free or higher_is_better. The kind of a metric says what it measures; that of
    a method is ``SIGNED`` or empty. ``least`` and ``greatest`` are the limits of a metric's values."""

    id: int
    name: str
    flag: bool
    settings: Mapping[str, object]
    kind: str = ""
    least: float = -math.inf
    greatest: float = math.inf


@dataclass(frozen=True)
class UnitRow:
    """Everything stored of a finished unit, by the ids of images and metrics and the indices of labels."""

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
    maps_digest: str | None = None


def plain_truth(true_labels: Sequence[int]) -> int | list[int] | None:
    """True labels in the form that unit keys contain: a single label is a number.

    >>> plain_truth([3]), plain_truth([]), plain_truth([3, 5])
    (3, None, [3, 5])
    """
    if len(true_labels) > 1:
        return list(true_labels)
    return true_labels[0] if true_labels else None


def curve_blob(values: np.ndarray | None) -> bytes | None:
    """Curves as the database stores them."""
    return None if values is None else np.ascontiguousarray(values, dtype="<f4").tobytes()


def curve_values(blob: bytes, *shape: int) -> np.ndarray:
    """The numbers of a stored curve, in this shape."""
    try:
        return np.frombuffer(blob, dtype="<f4").reshape(shape)
    except (TypeError, ValueError):
        raise StoreError("a stored curve has the wrong length; see: proofmap verify") from None
