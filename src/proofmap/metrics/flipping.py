"""Pixel flipping: most relevant first (MoRF), least relevant first (LeRF), and what lies between the two curves (SRG)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from proofmap.metrics.areas import Deletion, GameMetric
from proofmap.metrics.context import Judged
from proofmap.metrics.games import DeletionGame, Game, LerfGame, ReadyGame, Shortcuts
from proofmap.metrics.metric import METRICS


@METRICS.register
@dataclass(frozen=True, kw_only=True)
class MoRF(Deletion):
    """Mean over s of f of the first label while the s most relevant positions are hidden: the deletion area by the name
    that it has in pixel flipping. f(x, a) minus it is AOPC.
    """

    name: ClassVar[str] = "morf"
    kind: ClassVar[str] = "morf"
    description: ClassVar[str] = "mean f while the most relevant positions are hidden first (as deletion)"
    reference: ClassVar[str] = "Samek et al. 2017"


@METRICS.register
@dataclass(frozen=True, kw_only=True)
class LeRF(Deletion):
    """Mean over s of f of the first label while the s least relevant positions are hidden."""

    name: ClassVar[str] = "lerf"
    kind: ClassVar[str] = "lerf"
    plays: ClassVar[type[Game]] = LerfGame
    higher_is_better: ClassVar[bool] = True
    description: ClassVar[str] = "mean f while the least relevant positions are hidden first"
    reference: ClassVar[str] = "Samek et al. 2017; Tomsett et al. 2020"


@METRICS.register
@dataclass(frozen=True, kw_only=True)
class SRG(GameMetric):
    """Symmetric relevance gain: LeRF minus MoRF, the area between the two curves.

        SRG(x, a, M) = mean over s of [ f(least relevant s hidden) - f(most relevant s hidden) ]

    A map in random order has 0 on average, whatever the fill: what the fill does to the net enters both curves. The
    inverse of a map has the opposite value.
    """

    name: ClassVar[str] = "srg"
    kind: ClassVar[str] = "srg"
    higher_is_better: ClassVar[bool] = True
    limits: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    description: ClassVar[str] = "symmetric relevance gain: LeRF minus MoRF of the first label"
    reference: ClassVar[str] = "Bluecher, Vielhaben and Strodthoff, TMLR 2024"
    shortcuts: ClassVar[Shortcuts] = DeletionGame.shortcuts

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = self.target.limits
        object.__setattr__(self, "limits", (low - high, high - low))

    def games(self) -> tuple[Game, ...]:
        return LerfGame(**self.curve()), DeletionGame(**self.curve())

    def pairs(self, judged: Judged) -> Tensor:
        least, most = (judged.play(game).auc for game in self.games())
        return least - most

    def record(self, games: Mapping[Game, ReadyGame]) -> dict[str, object]:
        drawn = games[self.games()[1]].record()
        return {**drawn, "game": "lerf minus deletion"}
