"""Games: positions are shown or hidden in the order of a map, and a value is read from the net at every step.

A game consists of an order of positions, a fill (what hidden positions show) and a target (the value that is read from the net).
Equal games on the same maps are played once.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.ranking import Ties, rank
from proofmap.core.registry import Registry
from proofmap.fills import Fill, Gray
from proofmap.metrics.targets import Probability, Target
from proofmap.plugins.settings import Plugin, Shortcuts, setting, setting_names
from proofmap.plugins.specs import make_plugin
from proofmap.session import Session

Rule = Literal["mean", "right", "trapezoid"]


@dataclass(frozen=True, kw_only=True)
class Quadrature:
    """A quadrature with ``points`` steps over ``within`` (a range of shares of the positions), summed by ``rule``.

    - ``mean``: the curve is interpolated linearly, and its values at all integer counts in the range are averaged (the paper's definition);
    - ``right``: the plain mean of the values after each step (the released code);
    - ``trapezoid``: as RISE does it.

    The paper's AUC is the mean of p(s) over every s = 1 .. n. Evaluating all n = 50,176 counts would take too long, so p is computed at evenly
    spaced *integer* counts and interpolated linearly between them. The mean of the interpolation over all s is a weighted sum of the computed
    values. With ``points="all"`` it is the definition itself.

    >>> nodes = Quadrature(points=2).nodes(4)
    >>> nodes.counts.tolist(), nodes.weights.tolist()
    ([0, 2, 4], [0.125, 0.5, 0.375])
    """

    points: int | Literal["all"] = 32
    rule: Rule = "mean"
    within: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        low, high = self.within
        if not 0 <= low < high <= 1:
            raise InputError(f"within must be a range of shares such as (0.2, 0.6), not {self.within}")

    def nodes(self, n: int) -> Nodes:
        """The counts that are evaluated for ``n`` positions, with weights that sum to one."""
        low, high = (_whole(n * share) for share in self.within)
        if high <= low:
            raise InputError(f"the range {self.within} holds none of {n} positions")
        if self.rule == "right":
            steps = n if self.points == "all" else min(self.points, n)
            first, last = (_whole(steps * share) for share in self.within)
            if last <= first:
                raise InputError(f"the range {self.within} holds none of {steps} points")
            counts = [round(j * n / steps) for j in range(first + 1, last + 1)]
            even = torch.full((len(counts),), 1 / len(counts), dtype=torch.float64)
            return Nodes(torch.tensor(counts), even, _halved(even, counts, self.rule))
        span = high - low
        steps = span if self.points == "all" else min(self.points, span)
        counts = [low + round(j * span / steps) for j in range(steps + 1)]
        weights = _interpolant(counts, self.rule)
        return Nodes(torch.tensor(counts), weights, _halved(weights, counts, self.rule))


@dataclass(frozen=True)
class Nodes:
    """The counts at which a curve p is evaluated, and their weights: ``AUC = sum(weights * p(counts))``. ``coarse`` are the weights
    of the same rule on every second count.
    """

    counts: Tensor
    weights: Tensor
    coarse: Tensor


def _whole(count: float) -> int:
    """The count rounded down, after rounding errors are removed: 100 * 0.29 = 28.999999999999996 gives 29."""
    return int(count + 1e-9)


def _interpolant(counts: list[int], rule: Rule) -> Tensor:
    """Weights of the values at ``counts`` in the mean of their linear interpolant: over the integers in (first, last] for ``mean``,
    otherwise as an integral.
    """
    weights = [0.0] * len(counts)
    for j, (a, b) in enumerate(pairwise(counts)):
        right = (b - a + 1) / 2 if rule == "mean" else (b - a) / 2
        weights[j] += (b - a) - right
        weights[j + 1] += right
    return torch.tensor(weights, dtype=torch.float64) / (counts[-1] - counts[0])


def _halved(weights: Tensor, counts: list[int], rule: Rule) -> Tensor:
    """The weights of the same rule on every second count. The difference of the two areas estimates the error from the step size."""
    n = len(counts)
    if n < 3 or (rule == "mean" and counts[-1] - counts[0] == n - 1):
        return weights  # nothing to halve, or every count was taken and there is no error
    kept = sorted({*range(n - 1, -1, -2), *([] if rule == "right" else [0])})
    coarse = torch.zeros_like(weights)
    picked = [counts[i] for i in kept]
    coarse[kept] = 1 / len(kept) if rule == "right" else _interpolant(picked, rule)
    return coarse


CURVES: Mapping[str, Mapping[str, Any]] = {
    "paper": {},
    "released": {"points": 28, "rule": "right"},
    "rise": {"fill": "blur", "points": 28, "rule": "trapezoid"},
    "restricted": {"points": 32, "within": (0.2, 0.6)},
    "road": {"fill": "road", "points": 10, "draws": 1},
}
"""Presets of curves, by name. ``paper``: mean over all s, gray. ``released``: 28 points, right Riemann, gray. ``rise``: trapezoid,
blur for insertion (its deletion uses gray). ``restricted``: the paper's range 0.2 to 0.6. ``road``: ten steps of a tenth, imputed
with noise, one draw.
"""


class CurveSettings(Plugin):
    """How a curve is computed. Games have these settings, and so do the metrics that are computed from the curve of a game."""

    shortcuts: ClassVar[Shortcuts] = {"curve": CURVES}

    fill: Fill = setting(Gray(), "what hidden positions show")
    points: int | Literal["all"] = setting(
        32, "number of steps of the curve; all: positions one by one", least=1
    )
    rule: Rule = setting(
        "mean",
        "how the curve becomes one number: mean of the interpolated curve, mean of the values after each step, or trapezoid rule",
    )
    within: tuple[float, float] = setting(
        (0.0, 1.0), "the part of the curve that counts, as shares of the positions, such as 0.2:0.6"
    )
    ties: Ties = setting(
        "index", "order of positions with equal values: by index, at random, or from the center"
    )
    draws: int = setting(10, "number of backgrounds to average over, if the fill is random", least=1)
    target: Target = setting(Probability(), "the value that is read from the net at every step")

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.quadrature  # refuses what cannot be summed

    @property
    def quadrature(self) -> Quadrature:
        return Quadrature(points=self.points, rule=self.rule, within=self.within)

    def curve(self) -> dict[str, Any]:
        """The settings of the curve alone, without those that a subclass adds."""
        return {name: getattr(self, name) for name in setting_names(CurveSettings)}


class Game(CurveSettings):
    """The settings of a game. A subclass defines which positions the net sees after the first ``count`` positions of the order
    (:meth:`shown`).
    """

    noun = "game"
    soft: ClassVar[bool] = False
    """Whether positions can be shown in part. If so, ``order`` and ``shown`` return weights from 0 to 1."""

    @classmethod
    def make(cls, spec: Any) -> Game:
        return make_plugin(GAMES, Game, spec)

    def order(self, maps: Tensor, keys: Tensor) -> Tensor:
        """Ranks ``(P, n)`` of maps ``(P, *positions)``; 0 comes first. Random ties use the stream keys ``(P,)``."""
        return rank(maps, ties=self.ties, keys=keys)

    def shown(self, ranks: Tensor, count: Tensor) -> Tensor:
        """Which positions ``(P, n)`` the net sees when ``count`` ``(P, 1)`` positions have been taken, both int32."""
        raise NotImplementedError(f"{type(self).__name__} must say which positions are shown")

    def read(self, classifier: Classifier, logits: Tensor) -> Tensor:
        """The values that a game reads from the net's outputs ``(B, A)``: by default those of the target."""
        return self.target.read(classifier, logits)

    def prepare(self, session: Session) -> None:
        """Find or build what the game needs, and raise an error if it cannot be played with this net."""
        self.fill.prepare(session)

    @property
    def backgrounds(self) -> int:
        """The number of backgrounds that are averaged over: ``draws``, or 1 if the fill is not random."""
        return self.draws if self.fill.random else 1

    @property
    def bare(self) -> tuple[Hashable, ...]:
        """A key for the value that is read when nothing is shown. On the same images, games with equal keys share this value."""
        usual = type(self).read is Game.read
        return self.fill, self.backgrounds, self.target if usual else self

    def record(self, session: Session) -> dict[str, object]:
        """How the curve was computed, for the record of a score."""
        own = {k: v for k, v in self.settings().items() if k not in setting_names(CurveSettings)}
        draws = {"draws": self.draws} if self.fill.random else {}
        steps = {"points": self.points, "rule": self.rule, "within": list(self.within), "ties": self.ties}
        target = {} if self.target == Probability() else {"target": self.target.title()}
        return {**own, **self.fill.record(session), **steps, **draws, **target}

    def passes(self, positions: int) -> int:
        """The number of masked inputs for one map. The two ends of the curve are not counted, because all maps share them."""
        counts = self.quadrature.nodes(positions).counts.tolist()
        inner = sum(self.all_shown(count, positions) is None for count in counts)
        return inner * self.backgrounds

    def all_shown(self, count: int, positions: int) -> bool | None:
        """True if everything is shown after ``count`` positions, False if nothing is; None in between."""
        if 0 < count < positions:
            return None
        shown = self.shown(torch.arange(positions)[None], torch.tensor([[count]]))
        return True if bool(shown.all()) else False if not bool(shown.any()) else None


GAMES: Registry[Game] = Registry("game", "proofmap.games")
"""The registered games, by name."""


@GAMES.register
class InsertionGame(Game):
    """The top s positions are shown, the rest is filled: the paper's AUC is the mean over s."""

    name = "insertion"
    description = "the top positions are shown, best first; the rest is filled"
    reference = "Petsiuk et al. 2018 (RISE)"

    def shown(self, ranks: Tensor, count: Tensor) -> Tensor:
        return ranks < count


@GAMES.register
class DeletionGame(Game):
    """The top s positions are hidden, s = 1 .. n."""

    name = "deletion"
    description = "the top positions are hidden, best first"
    reference = "Petsiuk et al. 2018 (RISE)"
    shortcuts: ClassVar[Shortcuts] = {"curve": {**CURVES, "rise": {**CURVES["rise"], "fill": "gray"}}}

    def shown(self, ranks: Tensor, count: Tensor) -> Tensor:
        return ranks >= count


@GAMES.register
class LerfGame(Game):
    """The bottom s positions are hidden, s = 1 .. n: least relevant first."""

    name = "lerf"
    description = "the bottom positions are hidden, worst first"
    reference = "Samek et al. 2017; Tomsett et al. 2020"
    shortcuts = DeletionGame.shortcuts

    def shown(self, ranks: Tensor, count: Tensor) -> Tensor:
        return ranks < ranks.shape[1] - count


def make_game(game: str | Game, **settings: Any) -> Game:
    """A game from its name, with settings as text (``deletion:fill=blur``) or as values. ``curve=NAME`` chooses one of ``CURVES``.

    >>> make_game("insertion", curve="released", fill="blur").points
    28
    """
    if isinstance(game, Game):
        return game.changed(**settings)
    return Game.make({"game": game, **settings})
