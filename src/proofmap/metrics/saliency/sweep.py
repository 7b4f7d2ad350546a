"""The threshold of the saliency metric, tuned on images that are not judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.labels import Labels
from proofmap.methods.method import MethodLike, make_method
from proofmap.metrics.context import Judged
from proofmap.metrics.saliency.box import LEAST_AREA, SaliencyMetric

DELTAS = tuple(round(0.2 * k, 1) for k in range(26))
"""0 to 5 in steps of 0.2, as the paper has it."""


@dataclass(frozen=True)
class SweepRow:
    """One threshold on the holdout: means over its images, and the share whose box is below 0.05."""

    delta: float
    value: float
    area: float
    confidence: float
    tiny: float


@dataclass(frozen=True)
class SaliencySweep:
    """What every threshold gives on the holdout; ``metric`` has the best, the first of equals."""

    rows: tuple[SweepRow, ...]
    base: SaliencyMetric
    n: int

    @property
    def best(self) -> SweepRow:
        return min(self.rows, key=lambda row: row.value)

    @property
    def metric(self) -> SaliencyMetric:
        """The saliency metric with the tuned threshold: judge with it."""
        return replace(self.base, delta=self.best.delta)

    @property
    def degenerate(self) -> bool:
        """Whether the best threshold leaves boxes that are too small to mean anything."""
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
    """Try every threshold on a holdout: images that are not judged later. One pass for each image and threshold.

    Args:
        labels: for which label each image is explained: the first of those that ``labels`` means for :func:`proofmap.evaluate`.
        metric: its other settings, such as the reading of the threshold.
    """
    if len(holdout) == 0:
        raise InputError("the holdout is empty; give images that are not judged later")
    if not deltas:
        raise InputError("there are no thresholds to try")
    frozen = classifier.frozen()
    images = classifier.check_images(holdout)
    chosen = classifier.choose_labels(images, labels)[:, :1]
    maps = make_method(method)(classifier, images, chosen, seed=seed)
    return sweep_of(Judged(frozen, images, chosen, maps, seed=seed), metric=metric, deltas=deltas)


def sweep_of(
    judged: Judged, *, metric: SaliencyMetric | None = None, deltas: Sequence[float] = DELTAS
) -> SaliencySweep:
    """The same for maps that are there: every threshold, for the first label of each image."""
    base = metric or SaliencyMetric()
    rows = []
    for delta in deltas:
        one = replace(base, delta=delta)
        area = one.area(judged)[:, 0]
        value, confidence = one(judged), one.confidence(judged)[:, 0]
        tiny = (area < LEAST_AREA).float()
        rows.append(SweepRow(delta, *(float(v.mean()) for v in (value, area, confidence, tiny))))
    return SaliencySweep(tuple(rows), base, len(judged.images))
