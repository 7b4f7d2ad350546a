"""What the database keeps, as rows of plain values, and the digests that tell damage."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from proofmap.study.store.errors import StoreError
from proofmap.study.store.schema import seal_of


@dataclass(frozen=True)
class ImageRow:
    """A picture as the survey found it; labels with their probabilities, most probable first or as listed."""

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
"""The kind of a method whose maps are."""


@dataclass(frozen=True)
class Registered:
    """A method or a metric as the run has stored it; ``flag`` is label_free or higher_is_better. The kind of a metric says what
    it measures; that of a method is ``SIGNED`` or nothing."""

    id: int
    name: str
    flag: bool
    settings: Mapping[str, object]
    kind: str = ""


@dataclass(frozen=True)
class CurveRow:
    """One map's row of curves for all labels of an image, as float32 arrays; ``game`` names the note of their steps."""

    game: str
    probabilities: np.ndarray
    f: np.ndarray
    auc: np.ndarray
    error: np.ndarray
    matrix: np.ndarray | None


@dataclass(frozen=True)
class UnitRow:
    """Everything stored of a finished unit, by the ids of images and metrics and the places of labels."""

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
    curves: Mapping[int, CurveRow]
    failures: Mapping[int, str]
    maps: str | None = None
    maps_bytes: int | None = None
    maps_digest: str | None = None


def values_digest(
    image_scores: Iterable[tuple[int, int, float]], label_scores: Iterable[tuple[int, int, int, float]]
) -> str:
    """A digest of a unit's values, whatever their order; NaN and NULL are the same."""
    digest = hashlib.blake2b(digest_size=16)
    for metric, image, value in sorted((a, b, _no_nan(v)) for a, b, v in image_scores):
        digest.update(struct.pack("<qqd", metric, image, value))
    for metric, image, place, value in sorted((a, b, c, _no_nan(v)) for a, b, c, v in label_scores):
        digest.update(struct.pack("<qqqd", metric, image, place, value))
    return digest.hexdigest()


def is_digest(stored: object, digest: Callable[..., str], *values: object) -> bool:
    """Whether a stored digest is that of these values; it is not if damage has left values of another type."""
    try:
        return digest(*values) == stored
    except (TypeError, ValueError, AttributeError, struct.error):
        return False


def plain_truth(true_labels: Sequence[int]) -> int | list[int] | None:
    """True labels as digests have them: one label is a number, as it was before pictures had several.

    >>> plain_truth([3]), plain_truth([]), plain_truth([3, 5])
    (3, None, [3, 5])
    """
    if len(true_labels) > 1:
        return list(true_labels)
    return true_labels[0] if true_labels else None


def image_seal(image: ImageRow) -> str:
    """A digest of what the survey found; stamp and block may change later."""
    about = (
        image.name,
        image.digest,
        plain_truth(image.true_labels),
        int(image.eligible),
        image.failure,
    )
    return seal_of([*about, *image.labels, *image.f])


def blobs_digest(game: str, blobs: Iterable[bytes | None]) -> str:
    """A digest of the stored curves of one image."""
    digest = hashlib.blake2b(game.encode(), digest_size=16)
    for blob in blobs:
        digest.update(b"-" if blob is None else len(blob).to_bytes(8, "little") + blob)
    return digest.hexdigest()


def _no_nan(value: float | None) -> float:
    return math.inf if value is None or math.isnan(value) else value


def curve_blobs(curve: CurveRow) -> tuple[bytes | None, ...]:
    arrays = (curve.probabilities, curve.f, curve.auc, curve.error, curve.matrix)
    return tuple(None if a is None else np.ascontiguousarray(a, dtype="<f4").tobytes() for a in arrays)


def curve_values(blob: bytes, *shape: int) -> np.ndarray:
    """A stored curve as numbers of this shape."""
    try:
        return np.frombuffer(blob, dtype="<f4").reshape(shape)
    except (TypeError, ValueError):
        raise StoreError("a stored curve has the wrong length; see: proofmap verify") from None
