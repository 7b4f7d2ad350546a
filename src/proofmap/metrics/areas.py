"""Areas under the curve of a game: insertion, deletion, pixel flipping (MoRF, LeRF), and the difference LeRF - MoRF (SRG)."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

from torch import Tensor

from proofmap.metrics.curves import Curves
from proofmap.metrics.games import (
    CurveSettings,
    DeletionGame,
    Game,
    InsertionGame,
    LerfGame,
)
from proofmap.metrics.judged import Judged
from proofmap.metrics.metric import METRICS, Metric
from proofmap.plugins.settings import setting_names
from proofmap.session import Session


class GameMetric(CurveSettings, Metric):
    """Base class of metrics that read the curves of one game. The settings of the curve are settings of the metric."""

    plays: ClassVar[type[Game]] = InsertionGame

    @cached_property
    def game(self) -> Game:
        return self.plays(**self.curve())

    def games(self) -> tuple[Game, ...]:
        return (self.game,)

    def curves(self, judged: Judged) -> Curves:
        return judged.play(self.game)

    def record(self, session: Session) -> dict[str, object]:
        own = {k: v for k, v in self.settings().items() if k not in setting_names(CurveSettings)}
        return {**own, **self.game.record(session)}


@METRICS.register
class Insertion(GameMetric):
    """AUC(x, a, M) of an image's first label a: the mean over s of its probability f while the top s positions of the map M are
    shown.
    """

    name = "insertion"
    kind = "insertion"
    higher_is_better = True
    limits = (0.0, 1.0)
    description = "area under the insertion curve of the first label"
    reference = "Petsiuk et al. 2018 (RISE); the paper's AUC"

    def __post_init__(self) -> None:
        super().__post_init__()
        # the limits of this metric's target, unless a subclass declares its own; the class attribute has those of a probability
        if type(self).limits == Insertion.limits:
            object.__setattr__(self, "limits", self.target.limits)

    def pairs(self, judged: Judged) -> Tensor:
        return self.curves(judged).auc


@METRICS.register
class Deletion(Insertion):
    """The mean over s of the first label's probability f while the top s positions of the map are hidden."""

    name = "deletion"
    kind = "deletion"
    reads = "first"
    plays: ClassVar[type[Game]] = DeletionGame
    higher_is_better = False
    description = "area under the deletion curve of the first label"
    reference = "Petsiuk et al. 2018 (RISE)"
    shortcuts = DeletionGame.shortcuts


@METRICS.register
class MoRF(Deletion):
    """Most relevant first, as in pixel flipping: the mean over s of f of the first label while the s most relevant positions are
    hidden. This is the deletion area. AOPC is f(x, a) minus this value.
    """

    name = "morf"
    kind = "morf"
    description = "mean f while the most relevant positions are hidden first (as deletion)"
    reference = "Samek et al. 2017"


@METRICS.register
class LeRF(Deletion):
    """Least relevant first, as in pixel flipping: the mean over s of f of the first label while the s least relevant positions are
    hidden."""

    name = "lerf"
    kind = "lerf"
    plays = LerfGame
    higher_is_better = True
    description = "mean f while the least relevant positions are hidden first"
    reference = "Samek et al. 2017; Tomsett et al. 2020"


@METRICS.register
class SRG(GameMetric):
    """Symmetric relevance gain: LeRF minus MoRF, the area between the two curves.

        SRG(x, a, M) = mean over s of [ f(least relevant s hidden) - f(most relevant s hidden) ]

    A random order has 0 on average for any fill, because the effect of the fill on the net enters both curves. The inverse of a
    map has the opposite value.
    """

    name = "srg"
    reads = "first"
    higher_is_better = True
    limits = (-1.0, 1.0)
    description = "symmetric relevance gain: LeRF minus MoRF of the first label"
    reference = "Bluecher, Vielhaben and Strodthoff, TMLR 2024"
    shortcuts = DeletionGame.shortcuts

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = self.target.limits
        object.__setattr__(self, "limits", (low - high, high - low))

    def games(self) -> tuple[Game, ...]:
        return LerfGame(**self.curve()), DeletionGame(**self.curve())

    def pairs(self, judged: Judged) -> Tensor:
        least, most = (judged.play(game).auc for game in self.games())
        return least - most

    def record(self, session: Session) -> dict[str, object]:
        drawn = self.games()[1].record(session)
        return {**drawn, "game": "lerf minus deletion"}
