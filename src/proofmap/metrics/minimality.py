"""How little suffices: the smallest sufficient, contrastive and complete regions, read off any ranking.

With K(z) = "z keeps the label a", and the top s positions of the map shown, or hidden,

    sufficient     least s with K(top s shown)                                    a sufficient input subset
    contrastive    least s with K(top s shown) and not K(top s hidden)            ... without which the label is lost
    complete       least s that is contrastive, with f(top s shown) as large as f(x, a), up to a tolerance

All three sizes are read from one insertion curve and one deletion curve. If other metrics play these games too, there are no
further passes. Sizes are found on the grid of the curves. They are at most one step too large, provided that every larger size
keeps the label too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from proofmap.core import streams
from proofmap.core.ranking import Ties, rank
from proofmap.fills import Fill, Gray
from proofmap.metrics.context import Judged
from proofmap.metrics.curves import Curves
from proofmap.metrics.games import DeletionGame, Game, InsertionGame, ReadyGame
from proofmap.metrics.metric import METRICS, Metric
from proofmap.metrics.targets import Decision, Probability
from proofmap.plugins.settings import setting

Keeps = Literal["share", "value", "label"]


@dataclass(frozen=True, kw_only=True)
class RegionMetric(Metric):
    """The size of the smallest top part of a map that meets a condition, as a share of the positions.

    The value is NaN if no part meets the condition. The cause is then the net or the fill, not the map: f of the whole image is
    below the level, the net does not decide for the label, or the label stays when everything is hidden. An image's value is that
    of its first label.
    """

    higher_is_better = False
    limits = (0.0, 1.0)
    contrastive: ClassVar[bool] = False

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

    def _curve(self) -> dict[str, Any]:
        return {"fill": self.fill, "points": self.points, "ties": self.ties, "draws": self.draws}

    def _played(self) -> dict[str, Game]:
        """The games, by their use: is the label kept if the top positions are shown, and if they are hidden?"""
        target = Decision() if self.keeps == "label" else Probability()
        games: dict[str, Game] = {"shown": InsertionGame(**self._curve(), target=target)}
        if self.contrastive:
            games["hidden"] = DeletionGame(**self._curve(), target=target)
        return games

    def games(self) -> tuple[Game, ...]:
        return tuple(dict.fromkeys(self._played().values()))

    def kept(self, curves: Curves) -> Tensor:
        """K ``(N, L, S)``: whether the label is kept at each point of the curves."""
        if self.keeps == "share":
            return curves.probabilities >= self.level * curves.h[..., None]
        level = self.level if self.keeps == "value" else 0.5  # of decisions: in half of the draws
        return (curves.probabilities >= level) & (curves.h >= level)[..., None]

    def sought(self, played: Mapping[str, Curves]) -> Tensor:
        """Which sizes ``(N, L, S)`` meet the condition, given the curves of :meth:`_played`."""
        return self.kept(played["shown"])

    def counts(self, judged: Judged) -> Tensor:
        """The smallest number of positions ``(N, L)`` that meets the condition; NaN if none does."""
        played = {use: judged.play(game) for use, game in self._played().items()}
        found = self.sought(played)
        first = played["shown"].counts.to(found.device)[found.int().argmax(dim=2)].float()
        labelled = ~played["shown"].f.isnan()
        return first.where(found.any(dim=2) & labelled, torch.nan)

    def pairs(self, judged: Judged) -> Tensor:
        return self.counts(judged) / judged.inputs.count

    def regions(self, judged: Judged) -> Tensor:
        """The smallest regions ``(N, L, *positions)`` that meet the condition, as boolean masks; empty if there is none."""
        keys = streams.image_keys(judged.images, judged.seed, "ties").repeat_interleave(
            judged.labels.shape[1]
        )
        ranks = rank(judged.maps.flatten(0, 1), ties=self.ties, keys=keys)
        counts = self.counts(judged).nan_to_num(0).flatten()
        return (ranks < counts[:, None]).view(judged.maps.shape)

    def record(self, games: Mapping[Game, ReadyGame]) -> dict[str, object]:
        own = {key: value for key, value in self.settings().items() if key not in self._curve()}
        drawn = games[self._played()["shown"]].record()
        return {**own, **{key: value for key, value in drawn.items() if key not in ("game", "target")}}


@METRICS.register
class SufficientRegion(RegionMetric):
    """The smallest s for which the net still gives the label if only the top s positions are shown."""

    name = "sufficient-region"
    description = "smallest top share of the map that keeps the label when shown alone"
    reference = "Carter et al. 2019 (sufficient input subsets); Chockler et al. (ReX)"


@METRICS.register
class ContrastiveRegion(RegionMetric):
    """The smallest s for which the net still gives the label if only the top s positions are shown, and no longer gives it if only the
    others are.
    """

    name = "contrastive-region"
    contrastive = True
    description = "smallest top share that keeps the label, and loses it when hidden"
    reference = "Chockler et al. (ReX)"

    def sought(self, played: Mapping[str, Curves]) -> Tensor:
        return self.kept(played["shown"]) & ~self.kept(played["hidden"])


@METRICS.register
class CompleteRegion(ContrastiveRegion):
    """The smallest s that is contrastive and keeps the net's confidence: |f(top s shown) - f(x, a)| <= tolerance * f(x, a)."""

    name = "complete-region"
    description = "smallest contrastive top share with the same confidence as the whole input"
    tolerance: float = setting(
        0.05,
        "largest difference from the label's probability for the whole input, as a share of that probability",
        least=0,
    )

    def _played(self) -> dict[str, Game]:
        return {**super()._played(), "f": InsertionGame(**self._curve())}

    def sought(self, played: Mapping[str, Curves]) -> Tensor:
        f = played["f"].f[..., None]
        same = (played["f"].probabilities - f).abs() <= self.tolerance * f
        return super().sought(played) & same


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
