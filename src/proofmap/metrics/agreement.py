"""Do the images agree on which method is better? A metric of a whole run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from proofmap.metrics.metric import METRICS
from proofmap.metrics.reliability import ScoreMetric


@METRICS.register
@dataclass(frozen=True, kw_only=True)
class RankingAgreement(ScoreMetric):
    """Kendall's coefficient of concordance W of each score, with the images as raters of the methods.

        W = 12 S / (m^2 (k^3 - k) - m T),    S = sum over methods of (R - mean R)^2

    with m images, k methods, R the sum of a method's ranks over images, and T the sum of t^3 - t over groups of t
    tied methods. 1: every image ranks the methods alike, so a mean says something about each; 0: there is no order.
    """

    name: ClassVar[str] = "ranking-agreement"
    kind: ClassVar[str] = "ranking-agreement"
    higher_is_better: ClassVar[bool] = True
    limits: ClassVar[tuple[float, float]] = (0.0, 1.0)
    description: ClassVar[str] = (
        "Kendall's W: whether the images agree on the order of the methods, for each score"
    )
    reference: ClassVar[str] = "Kendall and Babington Smith 1939; Tomsett et al. 2020"

    def of_score(self, values: Tensor) -> float:
        return concordance(values)


def concordance(values: Tensor) -> float:
    """Kendall's W of values ``(m, k)``, ties corrected; NaN for fewer than two raters or things, or if all are tied.

    >>> concordance(torch.tensor([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]]))
    1.0
    """
    m, k = values.shape
    if m < 2 or k < 2:
        return torch.nan
    below = (values[:, :, None] > values[:, None, :]).sum(dim=2)
    equal = (values[:, :, None] == values[:, None, :]).sum(dim=2)
    ranks = below + (equal + 1) / 2  # the mean rank of each group of ties
    sums = ranks.double().sum(dim=0)
    s = (sums - sums.mean()).square().sum()
    ties = (equal.double().square() - 1).sum()  # a group of t adds t (t^2 - 1)
    denominator = m**2 * (k**3 - k) - m * ties
    return float(12 * s / denominator) if denominator > 0 else torch.nan
