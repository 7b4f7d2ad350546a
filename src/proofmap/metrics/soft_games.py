"""Games of one step in which the map itself is the mask: each position is shown as much as the map says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.ranking import keep_top
from proofmap.metrics.games import GAMES, Game, Shortcuts
from proofmap.metrics.quadrature import Rule
from proofmap.metrics.scaled import unit_scale
from proofmap.plugins.settings import setting


@GAMES.register
@dataclass(frozen=True, kw_only=True)
class SoftInsertionGame(Game):
    """One look at the explanation: w x + (1 - w) x', with w the map scaled to run from 0 to 1 and x' the fill.

    With a ``share``, w is 1 on so many top positions and 0 on the others. There is no curve: what is read at this one
    step is the area.
    """

    name: ClassVar[str] = "soft-insertion"
    description: ClassVar[str] = (
        "one step: each position is shown as much as the map says, the rest is filled"
    )
    reference: ClassVar[str] = "Chattopadhay et al. 2018 (Grad-CAM++)"
    shortcuts: ClassVar[Shortcuts] = {}
    soft: ClassVar[bool] = True
    points: int | Literal["all"] = setting(1, "always one step", least=1)
    rule: Rule = setting("right", "always what is read at this step")
    share: float | None = setting(
        None, "show this share of the positions whole, and no other; none: as the map says", above=0, most=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.points, self.rule, self.within) != (1, "right", (0.0, 1.0)):
            raise InputError(f"{self.name} has one step: it takes points=1, rule=right and no other range")

    def order(self, maps: Tensor, keys: Tensor) -> Tensor:
        """How much of each position the map picks ``(P, n)``, from 0 to 1."""
        if self.share is None:
            return unit_scale(maps).flatten(1)
        return keep_top(maps, self.share, ties=self.ties, keys=keys).flatten(1).float()

    def shown(self, ranks: Tensor, count: Tensor) -> Tensor:
        return ranks

    def all_shown(self, count: int, positions: int) -> bool | None:
        return None


@GAMES.register
@dataclass(frozen=True, kw_only=True)
class SoftDeletionGame(SoftInsertionGame):
    """One look at the rest: (1 - w) x + w x', with w the map scaled to run from 0 to 1 and x' the fill."""

    name: ClassVar[str] = "soft-deletion"
    description: ClassVar[str] = "one step: each position is hidden as much as the map says"
    reference: ClassVar[str] = "Jung and Oh 2021 (LIFT-CAM)"

    def shown(self, ranks: Tensor, count: Tensor) -> Tensor:
        return 1 - ranks
