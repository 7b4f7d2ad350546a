"""The paper's scores as metrics: worst-case completeness and soundness, and best effort; and scores of one label against another.

These scores are computed from a base metric g (Definition 3.3). It consists of a game, the fill and the range of its curve, and a
target h that is read from the net. The paper's AUC is the insertion game with the probability as its target. Every other choice
also defines a completeness and a soundness:

    alpha(x, a) = min( max(g, e1) / h , 1 ),    beta(x, a) = min( max(h, e2) / g , 1 ),    h = h(x, a) of the whole input.

An area can match f by cancellation: a curve that is at .1 for half of the steps and at .7 for the other half has the mean .4. So other
metrics summarise the points F(s) of the same curve, at the shares s of the positions, in ways other than the area:

    peak             max over s of F(s) / max(f, e2)                            how far the curve overshoots
    peak-soundness   min over s of beta(s) = min(1 / peak, 1)                   no part of the image proves more than the net believes
    reach            least s with F(s) >= part * f;  1 if there is none         how small the proof is
    steadiness       the share of s in [s0, 1] with alpha(s), beta(s) >= 1 / factor

The largest of several noisy points is larger than the largest of their means. With a random fill a point is a mean over ``draws``
backgrounds with a standard error e, and among S points the peak of a flat curve is about e * sqrt(2 ln S) too large. Two settings keep this
small: more ``draws``, and ``q`` below 1, which takes the q-quantile over s in place of the maximum: F is above it on a share 1 - q of the
curve. The curve is known only at the points that are played, so a spike narrower than a step may be missed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.tensors import exact
from proofmap.metrics import scores
from proofmap.metrics.areas import Deletion, GameMetric, Insertion
from proofmap.metrics.games import Game, InsertionGame
from proofmap.metrics.judged import Judged
from proofmap.metrics.metric import METRICS, Metric
from proofmap.metrics.scores import completeness, soundness
from proofmap.plugins.settings import Shortcuts, setting, setting_names, settings_of
from proofmap.session import Session

TOP = "the worst case is over this number of the most probable judged labels; none: over all"
E1 = "floor of the AUC in completeness: labels whose probability f is at most e1 count as proved"
E2 = "floor of the label's probability f: a smaller f counts as e2"
COUNTED = (
    "which labels other than the top one count, if the second label has a probability f >= .01; "
    "believed: those with f >= e1; paper: all, and those with f <= e1 count as proved"
)
REFERENCE = "Gupta, Saunshi, Yu, Lyu and Arora, NeurIPS 2022"


class ProofMetric(GameMetric):
    """Base class of metrics of the paper's definition. The shortcut ``thresholds`` sets e1 and e2; each metric uses one of them."""

    base: Game = setting(
        InsertionGame(),
        "the game that modifies the input; its fill, points and other settings are those of this metric",
    )

    higher_is_better = True
    limits = (0.0, 1.0)
    reference = REFERENCE
    shortcuts: ClassVar[Shortcuts] = {
        "thresholds": {name: asdict(pair) for name, pair in scores.THRESHOLDS.items()},
        **GameMetric.shortcuts,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        usual = {info.name: info.default for info in settings_of(type(self.base))}
        if any(value != usual[name] for name, value in self.base.curve().items()):
            raise InputError(
                f"{self.name}: the curve of base={self.base.name} is drawn with the settings of {self.name}; "
                "write fill=, points=, ... there"
            )
        if self.target.limits[0] < 0:
            raise InputError(
                f"{self.name} is a ratio, and the target {self.target.name!r} may be below zero; use one that is never below "
                "zero, such as probability, decision or rival"
            )

    @cached_property
    def game(self) -> Game:
        return self.base.changed(**self.curve())

    def record(self, session: Session) -> dict[str, object]:
        return {key: value for key, value in super().record(session).items() if key != "base"}

    @classmethod
    def expand_shortcut(cls, key: str, value: Any) -> Mapping[str, Any]:
        if key != "thresholds":
            return super().expand_shortcut(key, value)
        both = asdict(scores.thresholds(value))
        return {name: both[name] for name in setting_names(cls) if name in both}


class WorstOfLabels(ProofMetric):
    """A metric whose value for an image is that of its worst label, among all labels or among the ``top`` most probable ones."""

    if TYPE_CHECKING:  # declared by each metric, after its own settings
        top: int | None

    def from_pairs(self, judged: Judged, pairs: Tensor) -> Tensor:
        chosen = _of_most_probable(pairs, self.curves(judged).f, self.top)
        return scores.worst_case(chosen) if self.higher_is_better else -scores.worst_case(-chosen)


@METRICS.register
class Completeness(WorstOfLabels):
    """The smallest alpha(x, a) = min(max(AUC, e1) / f, 1) of an image's labels."""

    name = "completeness"
    kind = "completeness"
    description = "worst case over labels of min(max(AUC, e1) / f, 1): what the net believes is proved"
    e1: float = setting(0.01, E1, least=0, most=1)
    top: int | None = setting(None, TOP, least=1)

    def pairs(self, judged: Judged) -> Tensor:
        c = self.curves(judged)
        return scores.completeness(c.auc, c.h, self.e1)


@METRICS.register
class Soundness(WorstOfLabels):
    """The smallest beta(x, a) = min(max(f, e2) / AUC, 1) of an image's labels. Alone it does not order maps: a map that proves nothing is sound."""

    name = "soundness"
    kind = "soundness"
    description = "worst case over labels of min(max(f, e2) / AUC, 1): what it does not believe is not"
    e2: float = setting(0.001, E2, least=0, most=1)
    top: int | None = setting(None, TOP, least=1)

    def pairs(self, judged: Judged) -> Tensor:
        c = self.curves(judged)
        return scores.soundness(c.auc, c.h, self.e2)


@METRICS.register
class BestEffort(ProofMetric):
    """The smallest alpha(x, a) of labels other than the top one: those with f >= e1, or all (:func:`~proofmap.metrics.scores.best_effort`)."""

    name = "best-effort"
    revision = 2  # 1 counted images without such labels as perfect
    kind = "best-effort"
    description = "worst completeness over the labels with f >= e1 other than the top one"
    e1: float = setting(0.01, E1, least=0, most=1)
    counted: scores.Counted = setting("believed", COUNTED)

    def values(self, judged: Judged) -> Tensor:
        c = self.curves(judged)
        top2, f = judged.top2
        return scores.best_effort(c.auc, c.h, c.labels, top2, f[:, 1], self.e1, self.counted)


def default_metrics(
    thresholds: str | tuple[float, float] | scores.Thresholds = "paper",
    curve: str | Mapping[str, Any] = "paper",
) -> list[Metric]:
    """Completeness, soundness and best effort at these thresholds, insertion and deletion, on these curves.

    ``curve`` is a preset's name, or settings of a curve by name: ``{"fill": "blur", "points": 16}``.
    """
    drawn = {"curve": curve} if isinstance(curve, str) else dict(curve)
    proofs = [
        kind.build({"thresholds": thresholds, **drawn}) for kind in (Completeness, Soundness, BestEffort)
    ]
    return [*proofs, Insertion.build(drawn), Deletion.build(drawn)]


@METRICS.register
class ClassSensitivity(GameMetric):
    """How much more a label is proved by its own map than by the maps of the image's other labels:

        mean over labels a of  AUC(x, a, M_a) - mean over b != a of AUC(x, a, M_b)

    The value is zero if all labels have the same map, however good it is, and below zero if the maps of labels are swapped. The
    value also depends on the net: labels that share their pixels cannot be told apart. It is NaN if an image has one label. The
    metric needs no further passes, because it reads the label x label matrix of the game.
    """

    name = "class-sensitivity"
    higher_is_better = True
    limits = (-1.0, 1.0)
    description = "area of a label under its own map, less that under the other labels' maps"
    reference = "Rebuffi et al. 2020 (class sensitivity), on the paper's AUC"

    def pairs(self, judged: Judged) -> Tensor:
        matrix = self.curves(judged).matrix
        if matrix is None:
            raise InputError(
                "class-sensitivity reads the label x label matrix, which is kept up to 64 labels; "
                "judge fewer labels, such as top10"
            )
        own = matrix.diagonal(dim1=1, dim2=2)
        itself = torch.eye(matrix.shape[1], dtype=torch.bool, device=matrix.device)
        others = matrix.masked_fill(itself, torch.nan).nanmean(dim=1)
        return own - others

    def from_pairs(self, judged: Judged, pairs: Tensor) -> Tensor:
        return pairs.nanmean(dim=1)


@METRICS.register
class SecondSoundness(ProofMetric):
    """beta(x, a) of the label with the second-highest probability; NaN if this label was not judged.

    This is the label that is most easily confused with the top one. The label is the same for every method and every number of
    labels. So this score does not fall when more labels are judged, while the worst case over labels does.
    """

    name = "second-soundness"
    description = "min(max(f, e2) / AUC, 1) of the net's second label"
    e2: float = setting(0.001, E2, least=0, most=1)

    def values(self, judged: Judged) -> Tensor:
        curves = self.curves(judged)
        second = judged.labels == judged.top2[0][:, 1:]
        found = scores.soundness(curves.auc, curves.f, self.e2).masked_fill(~second, torch.nan)
        return scores.worst_case(found)


Q = "quantile of the curve that counts as its peak; 1: the largest point"


class ShapeMetric(WorstOfLabels):
    """Base class of metrics that summarise the points of an insertion curve F, without points at which nothing is shown. An image's
    value is that of its worst label.
    """

    top: int | None = setting(None, TOP, least=1)

    def _shown(self, judged: Judged) -> tuple[Tensor, Tensor, Tensor]:
        """The curve F ``(N, L, S)`` where something is shown, the share of the positions ``(S,)`` that is shown at each point, and the
        share of the curve ``(S,)`` that each point stands for.
        """
        c = self.curves(judged)
        some, values = c.counts > 0, exact(c.probabilities)
        weights = self.game.quadrature.nodes(c.positions).weights[some]
        shares = c.counts[some].double() / c.positions
        return (
            values[..., some.to(values.device)],
            shares.to(values),
            (weights / weights.sum()).to(values),
        )


@METRICS.register
class Peak(ShapeMetric):
    """The largest F(s) / max(f, e2) over the points s and the labels of an image: 1 if no part of the image gives more than the
    whole image.
    """

    name = "peak"
    kind = "peak"
    description = "largest point of the insertion curve, in units of f; worst case over labels"
    higher_is_better = False
    limits = (0.0, torch.inf)
    e2: float = setting(0.001, E2, least=0, most=1)
    q: float = setting(1.0, Q, above=0, most=1)

    def pairs(self, judged: Judged) -> Tensor:
        values, _, weights = self._shown(judged)
        f = self.curves(judged).h
        highest, believed = scores.peak_of(values, weights, self.q).to(f), f.clamp_min(self.e2)
        ratio = torch.where(believed > 0, highest / believed, torch.where(highest > 0, torch.inf, 1.0))
        return ratio.masked_fill(f.isnan(), torch.nan)


@METRICS.register
class PeakSoundness(ShapeMetric):
    """The smallest value of min(max(f, e2) / max over s of F(s), 1) over an image's labels."""

    name = "peak-soundness"
    kind = "peak-soundness"
    description = "worst case over labels of min(max(f, e2) / largest point of the curve, 1): no part proves more than the whole"
    e2: float = setting(0.001, E2, least=0, most=1)
    q: float = setting(1.0, Q, above=0, most=1)

    def pairs(self, judged: Judged) -> Tensor:
        values, _, weights = self._shown(judged)
        f = self.curves(judged).h
        return scores.soundness(scores.peak_of(values, weights, self.q).to(f), f, self.e2)


@METRICS.register
class ProofReach(ShapeMetric):
    """For each label the smallest share s with F(s) >= part * f; the score is the largest of these over labels with f >= e1.

    The share is found among the points that are played, so it is at most one step too large. The value is NaN if an image has no
    label with f >= e1.
    """

    name = "reach"
    kind = "reach"
    description = "least share of the positions that shows part * f; worst case over labels with f >= e1"
    higher_is_better = False
    e1: float = setting(0.01, "labels whose probability f is below e1 need no proof", least=0, most=1)
    part: float = setting(
        0.9, "share of f, the label's probability for the whole input, that the curve must reach", above=0
    )

    def pairs(self, judged: Judged) -> Tensor:
        values, shares, _ = self._shown(judged)
        f = self.curves(judged).h
        found = scores.reach_of(values, shares, f, self.part)
        return found.to(f).masked_fill(f.isnan() | (f < self.e1), torch.nan)


@METRICS.register
class Steadiness(ShapeMetric):
    """For each label, the share of the curve from s0 on that lies within a factor of f, so that alpha(s) and beta(s) are both at least
    1 / factor. The score is the smallest of these over an image's labels.
    """

    name = "steadiness"
    kind = "steadiness"
    description = "share of the curve within a factor of f, from a share s0 on; worst case over labels"
    e1: float = setting(0.01, E1, least=0, most=1)
    e2: float = setting(0.001, E2, least=0, most=1)
    factor: float = setting(
        1.5, "factor by which a point of the curve may differ from f, the label's probability", least=1
    )
    s0: float = setting(0.1, "share of shown positions from which on the curve counts", least=0, most=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.s0 > self.within[1]:
            raise InputError(
                f"steadiness: s0={self.s0} is beyond the end of the curve, within={self.within}; lower s0 or widen within"
            )

    def pairs(self, judged: Judged) -> Tensor:
        values, shares, weights = self._shown(judged)
        f = self.curves(judged).h
        share = steady_share(
            values, shares, weights, exact(f), e1=self.e1, e2=self.e2, factor=self.factor, s0=self.s0
        )
        return share.to(f).masked_fill(f.isnan(), torch.nan)


def _of_most_probable(pairs: Tensor, f: Tensor, top: int | None) -> Tensor:
    """The values ``(N, L)`` of each image's ``top`` most probable labels, NaN for the others. All values if ``top`` is None.

    >>> _of_most_probable(torch.tensor([[0.9, 0.4, 0.1]]), torch.tensor([[0.2, 0.7, 0.1]]), 2)
    tensor([[0.9000, 0.4000,    nan]])
    """
    if top is None:
        return pairs
    order = f.nan_to_num(nan=-1.0).argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    return pairs.masked_fill(order >= top, torch.nan)


def steady_share(
    values: Tensor,
    shares: Tensor,
    weights: Tensor,
    f: Tensor,
    *,
    e1: float = 0.01,
    e2: float = 0.001,
    factor: float = 1.5,
    s0: float = 0.1,
) -> Tensor:
    """The share ``(N, L)`` of each curve ``(N, L, S)`` that is within ``factor`` of f ``(N, L)``, counted from the share ``s0`` of
    the positions on. The points of the curve are at ``shares`` ``(S,)`` and have ``weights`` ``(S,)``.

    >>> curve, shares = torch.tensor([[[0.1, 0.3, 0.9, 0.5]]]), torch.tensor([0.05, 0.25, 0.5, 1.0])
    >>> steady_share(
    ...     curve, shares, torch.full((4,), 0.25), torch.tensor([[0.4]])
    ... ).item()  # .3 and .5 of three
    0.6666666865348816
    """
    believed = f[..., None].expand_as(values)
    complete, sound = completeness(values, believed, e1), soundness(values, believed, e2)
    steady = (complete >= 1 / factor) & (sound >= 1 / factor)
    late = weights * (shares >= s0)
    return (steady * late).sum(dim=-1) / late.sum()
