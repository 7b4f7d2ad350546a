"""The figure of theorem 5.1: completeness and soundness of the interval search against the interval's length, in theory and in simulation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from proofmap.report.figures.drawing import COLOURS, SOFT, WIDTH, Figure, escaped, legend_below, registered
from proofmap.results.tables import number
from proofmap.theory.linear import MADE
from proofmap.theory.theorem import Curve

BLUE, ORANGE = COLOURS[:2]


@dataclass(frozen=True)
class TheoremFigure(Figure):
    """The figure of simulated probabilities of completeness and soundness, with the lower bounds of the theorem; one panel per curve."""

    name = "theorem"
    curves: tuple[Curve, ...]

    def caption(self) -> str:
        panels = "; ".join(_words(found) for found in self.curves)
        return (
            "Theorem 5.1 in simulation. Probability over random orders of the coordinates that the interval search is complete "
            "(some interval of length L certifies the label) and sound (none certifies the other label), against L / d. Solid: "
            "simulated; dashed: lower bounds, from each input's own margin, variance and range; dotted: the "
            f"share of inputs for which the greedy set does not certify the other label. Settings: {panels}; seed {self.curves[0].seed}."
        )

    def drawn(self, plt: Any) -> Any:
        across = min(2, len(self.curves))
        down = math.ceil(len(self.curves) / across)
        figure, axes = plt.subplots(
            down, across, figsize=(WIDTH, 1.75 * down + 0.5), sharex=True, sharey=True, squeeze=False
        )
        for place, axis in enumerate(axes.flat):
            if place >= len(self.curves):
                axis.set_visible(False)
                continue
            self._panel(axis, self.curves[place])
            axis.set_ylabel("probability" if place % across == 0 else "")
            axis.set_xlabel("L / d" if place + across >= len(self.curves) else "")
            axis.tick_params(labelbottom=place + across >= len(self.curves))
        handles, names = axes.flat[0].get_legend_handles_labels()
        legend_below(figure, handles, names)
        return figure

    def _panel(self, axis: Any, found: Curve) -> None:
        shares = [p.share for p in found.points]
        lines = (
            ("complete, simulated", [p.complete.value for p in found.points], BLUE, "-"),
            ("complete, at least", [p.complete_bound for p in found.points], BLUE, "--"),
            ("sound, simulated", [p.sound.value for p in found.points], ORANGE, "-"),
            ("sound, at least", [p.sound_bound for p in found.points], ORANGE, "--"),
            ("greedy, sound", [p.greedy_sound.value for p in found.points], SOFT, ":"),
        )
        for name, values, colour, style in lines:
            axis.plot(shares, values, color=colour, linestyle=style, label=name)
        axis.set(title=escaped(found.title), xlim=(0, 1), ylim=(-0.03, 1.03))
        axis.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", ".25", ".5", ".75", "1"])
        axis.set_yticks([0, 0.5, 1], ["0", ".5", "1"])


def _words(found: Curve) -> str:
    d, margin, bound = (
        _range([str(n) for n in found.d]),
        _range([number(m) for m in found.margin]),
        _range([f"{b:.1f}" for b in found.bound]),
    )
    many = "" if found.inputs == 1 else f"{found.inputs} inputs, "
    return f"{found.title} ({many}d {d}, margin {margin}, B {bound}, {found.trials} shuffles each)"


def _range(ends: Sequence[str]) -> str:
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


@registered("theorem", "theorem 5.1: the bounds beside simulation", "nothing")
def theorem(
    *, d: int = 256, gammas: Sequence[float] = (0.2, 0.4), trials: int = 200, points: int = 32, seed: int = 0
) -> TheoremFigure:
    """The figure for synthetic inputs, which need no data. Each kind of input has a panel for each margin in ``gammas``."""
    return TheoremFigure(
        tuple(
            Curve.simulated(
                f"{name}, margin {number(gamma)}",
                [make(d, gamma)],
                points=points,
                trials=trials,
                seed=seed,
            )
            for name, make in MADE.items()
            for gamma in gammas
        )
    )
