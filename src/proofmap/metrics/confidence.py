"""The net's confidence when it sees only the explanation: a game of one step, and the metrics that read it."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, Literal

import torch
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.ranking import Ties, keep_top
from proofmap.fills import Fill, Gray
from proofmap.metrics.boxes import unit_scale
from proofmap.metrics.games import GAMES, Game, Rule
from proofmap.metrics.judged import Judged
from proofmap.metrics.metric import METRICS, Metric
from proofmap.plugins.settings import Shortcuts, setting
from proofmap.session import Session


@GAMES.register
class SoftInsertionGame(Game):
    """The net sees the explanation only, in one step: w x + (1 - w) x', with w the map scaled to run from 0 to 1 and x' the fill.

    With a ``share``, w is 1 on this share of the top positions and 0 on the others. There is no curve: the area is the value at this
    one step.
    """

    name = "soft-insertion"
    description = "one step: each position is shown as much as the map says, the rest is filled"
    reference = "Chattopadhay et al. 2018 (Grad-CAM++)"
    shortcuts: ClassVar[Shortcuts] = {}
    soft = True
    points: int | Literal["all"] = setting(1, "number of steps; always 1", least=1)
    rule: Rule = setting("right", "how the curve becomes one number; always the value at the one step")
    share: float | None = setting(
        None,
        "the explanation is this share of the positions, the map's top ones; none: each position counts in proportion to the map",
        above=0,
        most=1,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.points, self.rule, self.within) != (1, "right", (0.0, 1.0)):
            raise InputError(f"{self.name} has one step: it takes points=1, rule=right and no other range")

    def order(self, maps: Tensor, keys: Tensor) -> Tensor:
        """The weight ``(P, n)`` of each position, from 0 (hidden) to 1 (shown): the scaled map, or its top ``share``."""
        if self.share is None:
            return unit_scale(maps).flatten(1)
        return keep_top(maps, self.share, ties=self.ties, keys=keys).flatten(1).float()

    def shown(self, ranks: Tensor, count: Tensor) -> Tensor:
        return ranks

    def all_shown(self, count: int, positions: int) -> bool | None:
        return None


class ConfidenceMetric(Metric):
    """A metric that compares f(x, a) with o, the same probability for one modified input. The value of an image is that of its first label."""

    limits = (0.0, 1.0)
    reads = "first"

    fill: Fill = setting(Gray(), "what hidden positions show")
    share: float | None = setting(
        None,
        "the explanation is this share of the positions, the map's top ones; none: each position counts in proportion to the map",
        above=0,
        most=1,
    )
    ties: Ties = setting(
        "index",
        "order of positions with equal values, if there is a share: by index, at random, or from the center",
    )
    draws: int = setting(10, "number of backgrounds to average over, if the fill is random", least=1)

    @cached_property
    def game(self) -> Game:
        return SoftInsertionGame(fill=self.fill, share=self.share, ties=self.ties, draws=self.draws)

    def games(self) -> tuple[Game, ...]:
        return (self.game,)

    def pairs(self, judged: Judged) -> Tensor:
        seen = judged.play(self.game)
        return self.compare(seen.f, seen.auc).where(~seen.f.isnan(), torch.nan)

    def compare(self, f: Tensor, o: Tensor) -> Tensor:
        """The metric's values ``(N, L)``, from the label's probability f for the whole input and o for the modified input."""
        raise NotImplementedError

    def record(self, session: Session) -> dict[str, object]:
        return {**self.game.record(session)}


def drop(f: Tensor, o: Tensor) -> Tensor:
    """The relative drop max(0, f - o) / f, elementwise; 0 if f = 0, because then nothing can drop.

    >>> drop(torch.tensor([0.8, 0.5, 0.0]), torch.tensor([0.2, 0.6, 0.0]))
    tensor([0.7500, 0.0000, 0.0000])
    """
    return ((f - o).clamp_min(0) / f).where(f > 0, 0.0)


@METRICS.register
class AverageDrop(ConfidenceMetric):
    """The relative drop max(0, f - o) / f, with o the confidence when each position is shown in proportion to the map's value.

    The mean over images is the average drop (a percentage in the paper, a share here).
    """

    name = "average-drop"
    higher_is_better = False
    description = "share of the confidence that is lost when only the explanation is shown"
    reference = "Chattopadhay et al. 2018 (Grad-CAM++)"

    def compare(self, f: Tensor, o: Tensor) -> Tensor:
        return drop(f, o)


@METRICS.register
class IncreaseInConfidence(ConfidenceMetric):
    """1 if o > f, so the net is more confident about the explanation than about the whole input; otherwise 0. The mean is a share
    of images.
    """

    name = "increase-in-confidence"
    higher_is_better = True
    description = "whether showing only the explanation makes the net more confident"
    reference = "Chattopadhay et al. 2018 (Grad-CAM++)"

    def compare(self, f: Tensor, o: Tensor) -> Tensor:
        return (o > f).float()
