"""Is a metric reliable? The three criteria of Tomsett et al., as metrics of a whole run.

inter-rater:    do the images, as raters, rank the methods in the same order?                Krippendorff's alpha, Kendall's W
inter-method:   is an image that is easy for one method easy for another?       Spearman's correlation
consistency:    do two metrics agree on one method's maps?               Spearman's correlation
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import torch
from torch import Tensor

from proofmap.core.tensors import exact
from proofmap.metrics.metric import METRICS, RunMetric, RunValues

REFERENCE = "Tomsett et al. 2020"


def mean_ranks(values: Tensor) -> Tensor:
    """Ranks ``(P, n)`` of rows ``(P, n)`` in float64: 1 is the smallest, equal values share the mean of their ranks.

    >>> mean_ranks(torch.tensor([[0.3, 0.1, 0.3, 0.9]]))
    tensor([[2.5000, 1.0000, 2.5000, 4.0000]], dtype=torch.float64)
    """
    ordered, order = values.sort(dim=1)
    n = values.shape[1]
    place = torch.arange(n, device=values.device).expand_as(order)
    changes = ordered[:, 1:] != ordered[:, :-1]
    edge = torch.ones_like(ordered[:, :1], dtype=torch.bool)
    first = torch.where(torch.cat([edge, changes], dim=1), place, 0).cummax(dim=1).values
    ends = torch.where(torch.cat([changes, edge], dim=1), place, n - 1)
    last = ends.flip(1).cummin(dim=1).values.flip(1)
    shared = exact(first + last) / 2 + 1
    return torch.empty_like(shared).scatter_(1, order, shared)


def pearson(a: Tensor, b: Tensor) -> Tensor:
    """Pearson's correlation ``(P,)`` between the corresponding rows of a and b ``(P, n)``; NaN if a row is constant."""
    a, b = exact(a), exact(b)
    a, b = a - a.mean(dim=1, keepdim=True), b - b.mean(dim=1, keepdim=True)
    product = (a * b).sum(dim=1)
    size = (a.square().sum(dim=1) * b.square().sum(dim=1)).sqrt()
    return torch.where(size > 0, product / size, torch.nan).clamp(-1.0, 1.0)


def spearman(a: Tensor, b: Tensor) -> Tensor:
    """Spearman's rank correlation ``(P,)`` between the corresponding rows of a and b ``(P, n)``; NaN if a row is constant.

    >>> spearman(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[9.0, 4.0, 1.0]]))
    tensor([-1.], dtype=torch.float64)
    """
    return pearson(mean_ranks(a), mean_ranks(b))


def krippendorff_alpha(ratings: Tensor) -> float:
    """Krippendorff's alpha of ordinal ratings ``(raters, things)``, in which NaN means not rated.

        alpha = 1 - D_observed / D_expected,      distance(c, k)^2 = (sum of n_g for g = c .. k, minus (n_c + n_k) / 2)^2

    where D_observed is the mean distance between two ratings of one thing, D_expected that between any two ratings, and n_g the number
    of times that g was given.
    1: all raters agree; 0: they agree as often as by chance. Things with one rating do not count; NaN where nothing can be compared.

    >>> krippendorff_alpha(torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]))
    1.0
    """
    values = ratings[~ratings.isnan()].unique()
    if len(values) < 2:
        return torch.nan
    given = (ratings[..., None] == values).double().sum(dim=0)  # (things, values)
    given = given[given.sum(dim=1) > 1]
    if len(given) == 0:
        return torch.nan
    often = given.sum(dim=0)
    raters = given.sum(dim=1, keepdim=True)
    pairs = given[:, :, None] * given[:, None, :] - torch.diag_embed(given)
    observed = (pairs / (raters[:, :, None] - 1)).sum(dim=0)
    expected = (often[:, None] * often - often.diag()) / (often.sum() - 1)
    middle = often.cumsum(dim=0) - often / 2  # ratings below a value, and half of those that give it
    distance = (middle[:, None] - middle).square()
    chance = float((expected * distance).sum())
    return 1 - float((observed * distance).sum()) / chance if chance > 0 else torch.nan


def mean_correlation(values: Tensor) -> float:
    """The mean of Spearman's correlations over all pairs of columns ``(n, K)`` with a defined correlation; NaN if there is none."""
    pairs = list(combinations(range(values.shape[1]), 2))
    if not pairs or len(values) < 2:
        return torch.nan
    rows = values.T
    found = spearman(rows[[a for a, _ in pairs]], rows[[b for _, b in pairs]])
    return float(found.nanmean())


class ScoreMetric(RunMetric):
    """A metric of a run with one number for each score that all methods have."""

    def over_run(self, run: RunValues) -> Mapping[str, tuple[float, int]]:
        tables = {name: run.table(*((method, name) for method in run.values)) for name in run.shared}
        return {name: (self.of_score(table), len(table)) for name, table in tables.items()}

    def of_score(self, values: Tensor) -> float:
        """The metric's number for one score, from the values ``(images, methods)``; larger values are better."""
        raise NotImplementedError(f"{type(self).__name__} gives no number for a score")


@METRICS.register
class InterRater(ScoreMetric):
    """Krippendorff's alpha of each score (:func:`krippendorff_alpha`). The raters are the images, which rank the methods. NaN for one method
    or image.
    """

    name = "inter-rater"
    higher_is_better = True
    limits = (-1.0, 1.0)
    description = "Krippendorff's alpha: whether images rank the methods alike, for each score"
    reference = f"{REFERENCE}; Krippendorff 2004"

    def of_score(self, values: Tensor) -> float:
        return torch.nan if min(values.shape) < 2 else krippendorff_alpha(mean_ranks(values))


@METRICS.register
class InterMethod(ScoreMetric):
    """The mean over pairs of methods of Spearman's correlation of their values over images, for each score.

    Near 1, the score depends mostly on the image, whichever method made the map. Near 0, it depends mostly on the map.
    """

    name = "inter-method"
    higher_is_better = True
    limits = (-1.0, 1.0)
    description = "Spearman: whether what is easy for one method is for others, for each score"
    reference = REFERENCE

    def of_score(self, values: Tensor) -> float:
        return mean_correlation(values)


@METRICS.register
class InternalConsistency(RunMetric):
    """The mean over methods of Spearman's correlation, over images, of two scores of one method's maps; larger = better
    in both. A low value means that the two scores do not measure the same thing.
    """

    name = "internal-consistency"
    higher_is_better = True
    limits = (-1.0, 1.0)
    description = "Spearman: whether two scores say the same of a method's maps"
    reference = REFERENCE

    def over_run(self, run: RunValues) -> Mapping[str, tuple[float, int]]:
        found = {}
        for a, b in combinations(run.shared, 2):
            tables = [run.table((method, a), (method, b)) for method in run.values]
            each = torch.tensor([mean_correlation(table) for table in tables], dtype=torch.float64)
            found[f"{a} and {b}"] = float(each.nanmean()), min(map(len, tables))
        return found


@METRICS.register
class RankingAgreement(ScoreMetric):
    """Kendall's coefficient of concordance W of each score, with the images as raters of the methods.

        W = 12 S / (m^2 (k^3 - k) - m T),    S = sum over methods of (R - mean R)^2

    with m images, k methods, R the sum of a method's ranks over images, and T the sum of t^3 - t over groups of t
    tied methods. 1 means that every image ranks the methods in the same order, so the mean is true for each image. 0 means that the
    images share no order.
    """

    name = "ranking-agreement"
    higher_is_better = True
    limits = (0.0, 1.0)
    description = "Kendall's W: whether the images agree on the order of the methods, for each score"
    reference = "Kendall and Babington Smith 1939; Tomsett et al. 2020"

    def of_score(self, values: Tensor) -> float:
        return concordance(values)


def concordance(values: Tensor) -> float:
    """Kendall's W of the values ``(m, k)`` that m raters give to k things, corrected for ties. NaN if m or k is below 2, or if all
    values are tied.

    >>> concordance(torch.tensor([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]]))
    1.0
    """
    m, k = values.shape
    if m < 2 or k < 2:
        return torch.nan
    equal = (values[:, :, None] == values[:, None, :]).sum(dim=2)
    sums = mean_ranks(values).sum(dim=0)
    s = (sums - sums.mean()).square().sum()
    ties = (equal.double().square() - 1).sum()  # a group of t adds t (t^2 - 1)
    denominator = m**2 * (k**3 - k) - m * ties
    return float(12 * s / denominator) if denominator > 0 else torch.nan
