"""The saliency metric of Dabkowski and Gal: how small a box around a map can be while the net still recognises the label in the crop.

``saliency_sweep`` tunes its threshold on images that are not judged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL, Labels
from proofmap.methods.method import Cost, MethodLike, make_method
from proofmap.metrics.judged import Judged
from proofmap.metrics.metric import METRICS, Metric
from proofmap.metrics.regions import (
    Boxes,
    Piece,
    Reading,
    above_threshold,
    boxes_around,
    crops,
    largest_piece,
)
from proofmap.plugins.settings import setting
from proofmap.session import Session

LEAST_AREA = 0.05
"""Boxes that cover less than this share of the picture count as this large, and are flagged, because their crops consist of a few
enlarged pixels.
"""
LEAST_P = 1e-30
REFERENCE = "Dabkowski and Gal 2017"


@dataclass(frozen=True, kw_only=True)
class BoxMetric(Metric):
    """Base class of metrics of the box around the thresholded part of a map. An image's value is that of its first label.

    The map is scaled to run from 0 to 1. The paper's threshold delta runs from 0 to 5, but no value of a scaled map is above 1.
    ``reading=mean`` takes delta as a multiple of the map's mean, ``reading=value`` as a value.
    """

    reference = REFERENCE
    reads = "first"

    delta: float = setting(
        1.0,
        "threshold for the map, which is scaled to run from 0 to 1; tune it on other images with saliency_sweep",
        least=0,
    )
    reading: Reading = setting(
        "mean", "whether the threshold is delta times the map's mean, or the value delta itself"
    )
    piece: Piece = setting(
        "all",
        "what the box encloses: all positions that reach the threshold, or their largest connected piece",
    )
    empty: Literal["whole", "gray"] = setting(
        "whole", "what is used if no position reaches the threshold: the whole image, or a gray one of area 0"
    )

    def boxes(self, judged: Judged) -> Boxes:
        """The boxes, one for each map, in the order of ``judged.maps.flatten(0, 1)``."""
        if not judged.inputs.has_neighbours:
            raise InputError(
                f"{self.name} draws a box, and {judged.inputs.noun} have no neighbours; leave this metric out"
            )
        keep = above_threshold(judged.maps.flatten(0, 1), self.delta, self.reading)
        if self.empty == "whole":
            keep = keep | ~keep.flatten(1).any(dim=1).view(-1, *[1] * (keep.ndim - 1))
        return boxes_around(largest_piece(keep) if self.piece == "largest" else keep)

    def area(self, judged: Judged) -> Tensor:
        """The share of the picture ``(N, L)`` that the box covers; NaN without a label."""
        area = self.boxes(judged).area(judged.inputs.positions).view(judged.labels.shape)
        return area.float().masked_fill(judged.labels == NO_LABEL, torch.nan)

    def confidence(self, judged: Judged) -> Tensor:
        """p ``(N, L)``: f of the label on the crop, enlarged to the size of the input."""
        boxes = self.boxes(judged)
        gray = judged.inputs.blank(1).to(judged.images)

        def build(image: Tensor, place: Tensor) -> Tensor:
            pair = image * judged.labels.shape[1] + place
            own = Boxes(boxes.start[pair], boxes.stop[pair])
            seen = crops(judged.images[image], own, judged.inputs)
            empty = (own.stop == own.start).any(dim=1).view(-1, *[1] * (seen.ndim - 1))
            return torch.where(empty, gray, seen)

        return judged.read(("crop", self.delta, self.reading, self.piece, self.empty), build)


@METRICS.register
class SaliencyMetric(BoxMetric):
    """s(a, p) = log(max(a, 0.05)) - log p, with a the box's share of the picture and p the label's f on the crop.

    Lower is better. The whole picture with p = 1 scores 0. Also read the area and p: if the net has few labels, a crop of one pixel scores well without showing anything. With ten labels, a guess (p = .1) on a tiny box scores log 0.05 +
    2.3 = -0.7.
    """

    name = "saliency-metric"
    higher_is_better = False
    # LEAST_P only keeps the logarithm finite
    limits = (math.log(LEAST_AREA), math.inf)
    description = "log of the area of the map's box (at least 0.05) minus log f on the crop"

    def pairs(self, judged: Judged) -> Tensor:
        p = self.confidence(judged).clamp_min(LEAST_P)
        return self.area(judged).clamp_min(LEAST_AREA).log() - p.log()

    def cost(self, labels: int, method: Cost | None) -> Cost:
        return Cost(forward=labels)


@METRICS.register
class SaliencyArea(BoxMetric):
    """a: the share of the picture that the saliency metric's box covers."""

    name = "saliency-area"
    higher_is_better = False
    limits = (0.0, 1.0)
    description = "share of the picture inside the saliency metric's box"

    def pairs(self, judged: Judged) -> Tensor:
        return self.area(judged)


@METRICS.register
class SaliencyConfidence(BoxMetric):
    """p: the label's f on the saliency metric's crop."""

    name = "saliency-confidence"
    higher_is_better = True
    limits = (0.0, 1.0)
    description = "f of the label on the saliency metric's crop"

    def pairs(self, judged: Judged) -> Tensor:
        return self.confidence(judged)

    def cost(self, labels: int, method: Cost | None) -> Cost:
        return Cost(forward=labels)


DELTAS = tuple(round(0.2 * k, 1) for k in range(26))
"""0 to 5 in steps of 0.2, as the paper has it."""


@dataclass(frozen=True)
class SweepRow:
    """The results of one threshold on the holdout, images that are not judged: means over images, and the share of boxes below
    0.05.
    """

    delta: float
    value: float
    area: float
    confidence: float
    tiny: float


@dataclass(frozen=True)
class SaliencySweep:
    """The result of every threshold on the holdout. ``metric`` is the metric with the best threshold (the first, if several are equal)."""

    rows: tuple[SweepRow, ...]
    base: SaliencyMetric
    n: int

    @property
    def best(self) -> SweepRow:
        return min(self.rows, key=lambda row: row.value)

    @property
    def metric(self) -> SaliencyMetric:
        """The saliency metric with the tuned threshold."""
        return replace(self.base, delta=self.best.delta)

    @property
    def degenerate(self) -> bool:
        """Whether the boxes of the best threshold are too small to mean anything."""
        return self.best.area < LEAST_AREA or self.best.tiny > 0.5

    def __str__(self) -> str:
        lines = [" delta      s   area      p   tiny"]
        for r in self.rows:
            mark = " <" if r is self.best else ""
            lines.append(
                f"{r.delta:6.1f} {r.value:6.2f} {r.area:6.2f} {r.confidence:6.2f} {r.tiny:6.2f}{mark}"
            )
        if self.degenerate:
            lines.append(
                f"Degenerate: at the best threshold {self.best.tiny:.0%} of the boxes are below {LEAST_AREA} of the picture."
            )
        return "\n".join(lines)


def saliency_sweep(
    classifier: Classifier,
    method: MethodLike,
    holdout: Tensor,
    *,
    labels: Labels = "top1",
    metric: SaliencyMetric | None = None,
    deltas: Sequence[float] = DELTAS,
    seed: int = 0,
) -> SaliencySweep:
    """Try every threshold on a holdout: images that are not judged later. This takes one pass for each image and threshold.

    Args:
        labels: as in :func:`proofmap.evaluate`; each image is explained for the first of its labels.
        metric: the metric to tune; its settings other than the threshold are kept.
    """
    if len(holdout) == 0:
        raise InputError("the holdout is empty; give images that are not judged later")
    if not deltas:
        raise InputError("there are no thresholds to try")
    images = classifier.check_images(holdout)
    chosen = classifier.choose_labels(images, labels)[:, :1]
    maps = make_method(method)(classifier, images, chosen, seed=seed)
    judged = Judged(Session(classifier, seed=seed), images, chosen, maps)
    return sweep_of(judged, metric=metric, deltas=deltas)


def sweep_of(
    judged: Judged, *, metric: SaliencyMetric | None = None, deltas: Sequence[float] = DELTAS
) -> SaliencySweep:
    """:func:`saliency_sweep` for existing maps: every threshold, for the first label of each image."""
    base = metric or SaliencyMetric()
    rows = []
    for delta in deltas:
        one = replace(base, delta=delta)
        area = one.area(judged)[:, 0]
        value, confidence = one(judged), one.confidence(judged)[:, 0]
        tiny = (area < LEAST_AREA).float()
        rows.append(SweepRow(delta, *(float(v.mean()) for v in (value, area, confidence, tiny))))
    return SaliencySweep(tuple(rows), base, len(judged.images))
