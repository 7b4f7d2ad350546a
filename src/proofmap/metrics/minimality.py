"""How little suffices: the smallest top part of a map that keeps the label, read off the map's insertion curve.

Sizes are found on the grid of the curve. They are at most one step too large, provided that every larger size keeps the label too.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from proofmap.core import streams
from proofmap.core.ranking import Ties, rank
from proofmap.fills import Fill, Gray
from proofmap.metrics.curves import Curves
from proofmap.metrics.games import Game, InsertionGame
from proofmap.metrics.judged import Judged
from proofmap.metrics.metric import METRICS, Metric
from proofmap.metrics.targets import Decision, Probability
from proofmap.plugins.settings import setting
from proofmap.session import Session

Keeps = Literal["share", "value", "label"]


@METRICS.register
class SufficientRegion(Metric):
    """The smallest s for which the net still gives the label if only the top s positions are shown, as a share of the positions.

    The value is NaN if no part keeps the label. The cause is then the net or the fill, not the map: f of the whole image is below the
    level, or the net does not decide for the label. An image's value is that of its first label.
    """

    name = "sufficient-region"
    reads = "first"
    description = "smallest top share of the map that keeps the label when shown alone"
    reference = "Carter et al. 2019 (sufficient input subsets); Chockler et al. (ReX)"
    higher_is_better = False
    limits = (0.0, 1.0)

    keeps: Keeps = setting(
        "share",
        "when the label is kept; share: its probability is at least level times that for the whole input; value: it is at least level; "
        "label: the net decides for it",
    )
    level: float = setting(
        0.9, "the probability, or share of it, that keeps the label; not used by keeps=label", above=0, most=1
    )
    fill: Fill = setting(Gray(), "what hidden positions show")
    points: int | Literal["all"] = setting(
        32, "number of sizes that are tried; all: every number of positions", least=1
    )
    ties: Ties = setting(
        "index", "order of positions with equal values: by index, at random, or from the center"
    )
    draws: int = setting(10, "number of backgrounds to average over, if the fill is random", least=1)

    @cached_property
    def game(self) -> Game:
        """Is the label kept if the top positions are shown?"""
        target = Decision() if self.keeps == "label" else Probability()
        return InsertionGame(
            fill=self.fill, points=self.points, ties=self.ties, draws=self.draws, target=target
        )

    def games(self) -> tuple[Game, ...]:
        return (self.game,)

    def kept(self, curves: Curves) -> Tensor:
        """Whether the label is kept at each point of the curves ``(N, L, S)``."""
        if self.keeps == "share":
            return curves.probabilities >= self.level * curves.h[..., None]
        level = self.level if self.keeps == "value" else 0.5  # of decisions: in half of the draws
        return (curves.probabilities >= level) & (curves.h >= level)[..., None]

    def counts(self, judged: Judged) -> Tensor:
        """The smallest number of positions ``(N, L)`` that keeps the label; NaN if none does."""
        curves = judged.play(self.game)
        found = self.kept(curves)
        first = curves.counts.to(found.device)[found.int().argmax(dim=2)].float()
        return first.where(found.any(dim=2) & ~curves.f.isnan(), torch.nan)

    def pairs(self, judged: Judged) -> Tensor:
        return self.counts(judged) / judged.inputs.count

    def regions(self, judged: Judged) -> Tensor:
        """The smallest regions ``(N, L, *positions)`` that keep the label, as boolean masks; empty if there is none."""
        keys = streams.image_keys(judged.images, judged.session.seed, "ties").repeat_interleave(
            judged.labels.shape[1]
        )
        ranks = rank(judged.maps.flatten(0, 1), ties=self.ties, keys=keys)
        counts = self.counts(judged).nan_to_num(0).flatten()
        return (ranks < counts[:, None]).view(judged.maps.shape)

    def record(self, session: Session) -> dict[str, object]:
        drawn = self.game.record(session)
        own = {"keeps": self.keeps, "level": self.level}
        return {**own, **{key: value for key, value in drawn.items() if key not in ("game", "target")}}


@torch.no_grad()
def sufficient_subsets(judged: Judged, metric: SufficientRegion | None = None, *, most: int = 8) -> Tensor:
    """Disjoint sufficient subsets of the input ``(R, N, L, *positions)``, boolean, in the order in which the map finds them.

    The first is the smallest sufficient region. Each further subset is the smallest top part of the remaining positions that keeps the
    label by itself. The search ends when the remaining positions do not keep the label, or after ``most`` subsets. If there are several
    subsets, the net has several reasons for the label; a map that is a proof shows one of them.
    """
    metric = metric or SufficientRegion()
    sides = (*judged.labels.shape, *[1] * len(judged.inputs.positions))
    left = (judged.labels >= 0).view(sides).expand_as(judged.maps).clone()
    found = []
    for _ in range(most):
        rest = replace(judged, maps=judged.maps.masked_fill(~left, -torch.inf))
        fits = metric.counts(rest) <= left.flatten(2).sum(dim=2)  # a larger part would take positions again
        some = metric.regions(rest) & left & fits.view(sides)
        if not bool(some.any()):
            break
        found.append(some)
        left &= ~some
        left &= some.flatten(2).any(dim=2).view(sides)
    return torch.stack(found) if found else left.new_zeros(0, *left.shape)
