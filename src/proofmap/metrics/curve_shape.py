"""Steady proofs: does the curve of a map reach what the net believes, and stay there? Peak, reach and steadiness.

An area can match f by cancellation: a curve that is at .1 for half of the steps and at .7 for the other half has the mean .4.
Completeness and soundness of an area do not show this. Here every point F(s) of the same insertion curve, at the share s of the
positions, has its own completeness and soundness,

    alpha(s) = min( max(F(s), e1) / f , 1 ),        beta(s) = min( max(f, e2) / F(s) , 1 ),

and each metric below summarises these points in a way other than the area. Each is a base metric in the sense of the paper's
Definition 3.3. The metrics need no further passes.

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

from dataclasses import dataclass

import torch
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.metrics import proof
from proofmap.metrics.judged import Judged
from proofmap.metrics.metric import METRICS
from proofmap.metrics.proof_scores import E1, E2, TOP, WorstOfLabels
from proofmap.plugins.settings import setting

Q = "quantile of the curve that counts as its peak; 1: the largest point"


def peak_of(values: Tensor, weights: Tensor, q: float = 1.0) -> Tensor:
    """The q-quantile ``(N, L)`` of curves ``(N, L, S)`` whose points have the weights ``weights`` ``(S,)``: the least value such that
    the points above it have a total weight of at most 1 - q.

    >>> curve = torch.tensor([[[0.1, 0.9, 0.4, 0.4]]])
    >>> [round(peak_of(curve, torch.full((4,), 0.25), q).item(), 2) for q in (1.0, 0.75)]
    [0.9, 0.4]
    """
    falling, order = values.sort(dim=-1, descending=True)
    above = weights.to(values.device)[order].cumsum(dim=-1) - weights.to(values.device)[order]
    counts = above <= 1 - q + 1e-9
    return falling.gather(-1, (counts.sum(dim=-1, keepdim=True) - 1).clamp_min(0))[..., 0]


def reach_of(values: Tensor, shares: Tensor, f: Tensor, part: float = 0.9) -> Tensor:
    """The smallest of the shares ``(S,)`` at which curves ``(N, L, S)`` reach ``part * f``, ``(N, L)``; 1 if they never do.

    >>> curve = torch.tensor([[[0.1, 0.5, 0.4]]])
    >>> reach_of(curve, torch.tensor([0.2, 0.6, 1.0]), torch.tensor([[0.4]])).item()
    0.6000000238418579
    """
    there = values >= part * f[..., None]
    return torch.where(there.any(dim=-1), shares[there.int().argmax(dim=-1)], 1.0)


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
    complete, sound = proof.completeness(values, believed, e1), proof.soundness(values, believed, e2)
    steady = (complete >= 1 / factor) & (sound >= 1 / factor)
    late = weights * (shares >= s0)
    return (steady * late).sum(dim=-1) / late.sum()


@dataclass(frozen=True, kw_only=True)
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
        some, values = c.counts > 0, c.probabilities.double()
        weights = self.game.quadrature.nodes(c.positions).weights[some]
        shares = c.counts[some].double() / c.positions
        return (
            values[..., some.to(values.device)],
            shares.to(values.device),
            (weights / weights.sum()).to(values.device),
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
        highest, believed = peak_of(values, weights, self.q).to(f), f.clamp_min(self.e2)
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
        return proof.soundness(peak_of(values, weights, self.q).to(f), f, self.e2)


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
        found = reach_of(values, shares, f, self.part)
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
            values, shares, weights, f.double(), e1=self.e1, e2=self.e2, factor=self.factor, s0=self.s0
        )
        return share.to(f).masked_fill(f.isnan(), torch.nan)
