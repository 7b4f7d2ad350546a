"""Belief masks: maps whose proofs are exactly as strong as the net's belief.

The belief is f, the net's probability of the label for the whole input. The proof of a map is the area under its insertion curve: the
probability while the top positions of the map are shown over a fill (a background). :mod:`~proofmap.methods.masks.belief_problem` says how
masks are learned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs, Pictures, TextInputs
from proofmap.fills import Blur, Fill, Gray, Images, Noise
from proofmap.methods.cams import GradCAM
from proofmap.methods.gradients.plain import GradientInput
from proofmap.methods.masks.belief_problem import BeliefProblem, CurveProblem
from proofmap.methods.masks.method import MaskMethod, WholeNet
from proofmap.methods.method import METHODS, Cost, Method
from proofmap.methods.perturbation.belief_order import BeliefOrder
from proofmap.plugins.identity import provenance
from proofmap.plugins.settings import setting
from proofmap.session import Session

_FEW = 128
"""Largest number of positions at which a search over orders corrects the last errors of masks by default."""
_LEARNED = 0.1
"""Share of the passes that learn the mask with gradients, if a search over orders follows."""


@dataclass(frozen=True)
class _Parts:
    """What belief masks use for one net: the fills that suit its inputs, the method whose maps are the initial masks, and the search over
    orders that corrects the last errors; None if the closing fit does this.
    """

    fills: tuple[Fill, ...]
    start: Method
    closer: BeliefOrder | None


@METHODS.register
class BeliefMask(WholeNet, MaskMethod):
    """Masks learned until the area under the insertion curve equals f, for several fills at once.

    f is the net's probability of the label for the whole input. A fill is the background that hidden positions show.

    **Closing.** Learning leaves small errors of the area, which the last passes of the net correct. With several fills, or many positions,
    this is done by a fit (:class:`~proofmap.methods.masks.belief_problem.ClosingFit`). With one fill that is not random, and at most 128
    words, columns or segments, it is done by a search over orders of the positions. Then a tenth of the passes learns the mask. The other
    passes, which are forward passes only, are used for the search of :class:`~proofmap.methods.perturbation.belief_order.BeliefOrder`. The search starts from the
    order of the learned mask, exchanges positions, and keeps an exchange if it lowers the misfit

        |log (A + e) - log (f + e)|  +  .1 * mean over s of min(|F(s) - f| / (f + e), 1),        e = .0005,

    where F(s) is the insertion curve with s positions shown, and A its area. The search ends when the misfit is .01 or less. The map is
    then 1 for the first of n positions and 1/n for the last. The search also shows every position alone, and everything without that
    position. This takes 2 n + 2 passes for each input, which all labels share.

    By default there are 200 passes per label. Presets: ``thorough`` (600, and less smoothing), ``robust`` (600; the proof survives a blur
    of the map, because half of what is shown are blurred and moved copies), ``steady`` (600; every point of the curve is moved to f, instead
    of the area).

    >>> BeliefMask.preset("thorough").steps
    200
    """

    name = "belief-mask"
    revision = 4
    description = "a mask learned until its proof is as strong as the net's belief"
    needs = frozenset({"gradients", "distractors"})
    shortcuts: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
        "preset": {
            "thorough": {"passes": 600, "smoothness": 0.01},
            "robust": {"passes": 600, "smoothness": 0.01, "copies": 0.5},
            "steady": {"passes": 600, "smoothness": 0.03, "target": "curve", "learning_rate": 0.35},
        }
    }

    passes: int = setting(200, "maximum number of masked inputs that the net sees for each label", least=1)
    grid: int = setting(56, "cells of the mask along the longest side", least=1)
    fills: tuple[Fill, ...] = setting(
        (Gray(), Blur(), Images()),
        "what hidden positions show; areas are matched with every fill. By default, texts have only gray, tables no blur, and noise "
        "replaces images if a series or table has no others to draw from",
    )
    smoothness: float = setting(
        0.1,
        "weight of the mask's total variation, in full only once areas match f, the net's probability; larger gives smoother masks",
        least=0,
    )
    copies: float = setting(
        0.0,
        "share of the masked inputs that show a copy of the mask, blurred by up to a cell and moved by up to half a cell at random, so that "
        "proofs survive a blur; not used if positions have no neighbours",
        least=0,
        most=0.9,
    )
    target: Literal["f", "curve", "strongest", "weakest"] = setting(
        "f",
        "f: the area under the insertion curve must equal f, the net's probability; curve: every point of the curve must; strongest and "
        "weakest: as large or small an area as possible",
    )
    pull: float = setting(
        0.5,
        "largest weight of the loss that weakens a proof that is too strong; 2 suits nets whose probability jumps from 0 to 1 within a "
        "few pixels",
        above=0,
    )
    pull_below: float = setting(
        1.0,
        "pull applies to labels whose probability f is at most this; others have .5. With .01, completeness at its floor e1 = .01 is that "
        "of a pull of .5",
        above=0,
        most=1,
    )
    closing: Literal["fit", "order"] | None = setting(
        None,
        "how the last errors of the area are corrected: fit uses gradients, order searches without them; none: order for at most 128 "
        "words, columns or segments with one fill that is not random, else fit",
    )
    learning_rate: float = setting(1.0, "first step size of Adam; it falls to zero quadratically", above=0)
    temperature: float = setting(
        0.3, "width of the sigmoid whose gradient replaces that of the hard mask", above=0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.passes < len(self.fills):
            raise InputError(
                f"passes must be at least {len(self.fills)}, one for each fill, not {self.passes}"
            )

    @property
    def steps(self) -> int:
        """Number of Adam steps with all fills; each step takes one pass per fill."""
        return self.steps_with(len(self.fills))

    @property
    def sets(self) -> int:
        """Number of sets of positions that the search over orders may show for each label, in addition to the sets of its first scan."""
        return self.passes - self.steps_with(1, by_order=True)

    def steps_with(self, fills: int, *, by_order: bool = False) -> int:
        """Number of Adam steps with this number of fills; fewer if a search over orders follows."""
        return (max(1, round(_LEARNED * self.passes)) if by_order else self.passes) // fills

    def prepare(self, session: Session) -> None:
        super().prepare(session)
        parts = self.parts_in(session)
        for fill in parts.fills:
            fill.prepare(session)
        if parts.closer is not None:
            session.prepare(parts.closer)

    def parts_in(self, session: Session) -> _Parts:
        """The fills, the first maps and the search over orders that are used for this net."""

        def find() -> _Parts:
            inputs = session.inputs
            fills = _possible(self.fills, session)
            closer = self._search(fills, inputs, math.prod(inputs.positions))
            return _Parts(fills, _first_maps(session), closer)

        return session.memo((self, "parts"), find)

    def _search(self, fills: tuple[Fill, ...], inputs: Inputs, count: int) -> BeliefOrder | None:
        """The search over orders that corrects the last errors of masks with ``count`` positions; None if the closing fit is used instead."""
        needed = BeliefOrder().least_sets(count, given=True)
        lacking = {
            "target=f": self.target != "f",
            "one fill, and not a random one": len(fills) > 1 or fills[0].random,
            "words, columns or segments, and not pictures": isinstance(inputs, Pictures),
            f"more passes for {count} {inputs.position_noun}": needed > self.sets,
        }
        if self.closing == "order" and any(lacking.values()):
            raise InputError(f"closing=order needs {next(what for what, yes in lacking.items() if yes)}")
        if any(lacking.values()) or self.closing == "fit" or (self.closing is None and count > _FEW):
            return None
        return BeliefOrder(fill=fills[0], budget=BeliefOrder.scan_sets(count) + self.sets)

    def record(self, session: Session) -> dict[str, object]:
        parts, inputs = self.parts_in(session), session.inputs
        fills = [fill.record(session) for fill in parts.fills]
        start = {**parts.start.record(session), **provenance(parts.start)}
        found = {**super().record(session), "fills": fills, "start": start}
        by_order = parts.closer is not None
        if isinstance(inputs, TextInputs):
            # a run has texts of many lengths, and those with few words are searched
            by_order = self._search(parts.fills, inputs, 1) is not None
        return {**found, "closing": {"by": "order", "most positions": _FEW}} if by_order else found

    def problem(self, session: Session, fast: Classifier) -> BeliefProblem:
        kind = CurveProblem if self.target == "curve" else BeliefProblem
        return kind(self, session, fast)

    def closed(self, session: Session, images: Tensor, labels: Tensor, maps: Tensor) -> Tensor:
        search = self.parts_in(session).closer
        return maps if search is None else search.improved(session, images, labels, maps)

    def cost(self, labels: int, session: Session | None = None) -> Cost:
        if session is None:
            return self.cost_with(len(self.fills), labels)
        parts = self.parts_in(session)
        if parts.closer is None:
            return self.cost_with(len(parts.fills), labels)
        count = math.prod(session.inputs.positions)
        searched = Cost(forward=BeliefOrder.scan_sets(count) + labels * self.sets if count > 1 else 0)
        return self.cost_with(1, labels, by_order=True) + searched

    def cost_with(self, fills: int, labels: int, *, by_order: bool = False) -> Cost:
        """The cost of learning with ``fills`` fills. Each label also takes two forward passes: one gives f, the other the first map."""
        return Cost(forward=2 * labels, gradient=labels * self.steps_with(fills, by_order=by_order) * fills)


def _possible(fills: tuple[Fill, ...], session: Session) -> tuple[Fill, ...]:
    """The fills to use for these inputs. The three default fills suit photographs; for other inputs they are replaced by fills that suit them.
    Fills chosen by the user are kept.
    """
    inputs = session.inputs
    photographs = isinstance(inputs, Pictures) and inputs.channels in (1, 3) and not inputs.unlimited
    if photographs or [type(fill) for fill in fills] != [Gray, Blur, Images]:
        return fills
    gray, blur, images = fills
    if isinstance(inputs, TextInputs):  # often a single text, with no others to draw from
        return (gray,)
    drawn = Noise() if cast(Images, images).is_usual and session.source() is None else images
    return (gray, blur, drawn) if inputs.has_neighbours else (gray, drawn)


def _first_maps(session: Session) -> Method:
    """The method that makes the initial maps: Grad-CAM, or gradient x input if the net has no spatial layer."""
    method: Method = GradCAM()
    try:
        session.prepare(method)
    except InputError:
        method = GradientInput()
        session.prepare(method)
    return method
