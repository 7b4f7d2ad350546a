"""Belief masks: maps whose proofs are exactly as strong as the net's belief. What is learned: :mod:`~proofmap.methods.masks.belief_problem`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs, Pictures, TextInputs
from proofmap.fills import Blur, Fill, Gray, Images, Noise
from proofmap.methods.cams import GradCAM
from proofmap.methods.gradients.plain import GradientInput
from proofmap.methods.masks.belief_problem import BeliefProblem, BeliefState, CurveProblem, Target
from proofmap.methods.masks.method import MaskMethod, ReadyMask, WholeNet, chosen_precision
from proofmap.methods.method import METHODS, Cost, ReadyMethod
from proofmap.plugins.code import provenance
from proofmap.plugins.settings import setting


@METHODS.register
class BeliefMask(WholeNet, MaskMethod):
    """Masks learned until the AUC of the insertion game equals f, for several fills at once. The defaults are the preset ``fast``.

    Presets: ``fast`` (200 passes per label), ``thorough`` (600, and less smoothing), ``smooth`` (600, and more), ``steady`` (600, and
    every point of the curve equals f, in place of its area).

    >>> BeliefMask.preset("thorough").steps
    200
    """

    name = "belief-mask"
    revision = 4
    description = "a mask learned until its proof is as strong as the net's belief"
    needs = frozenset({"gradients", "distractors"})
    shortcuts: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
        "preset": {
            "fast": {},
            "thorough": {"passes": 600, "smoothness": 0.01},
            "smooth": {"passes": 600, "smoothness": 0.15},
            "steady": {"passes": 600, "smoothness": 0.03, "target": "curve", "learning_rate": 0.35},
        }
    }

    passes: int = setting(200, "maximum number of composites through the net for each label", least=1)
    grid: int = setting(56, "cells of the mask along the longest side", least=1)
    fills: tuple[Fill, ...] = setting(
        (Gray(), Blur(), Images()),
        "what hidden positions show, one after the other; noise if there are no random images, no blur without neighbours",
    )
    smoothness: float = setting(0.1, "weight of the total variation once f is matched", least=0)
    target: Target = setting(
        "f",
        "f: areas must reach f; curve: every point of the curve must; strongest and weakest push areas up or down regardless of f",
    )
    tolerance: float = setting(
        0.0,
        "start the closing fit once all areas are this near to f, as a logarithm; 0 takes all passes",
        least=0,
    )
    pull: float = setting(
        0.5,
        "largest control of a proof that is too strong; 2 for nets whose probability jumps from 0 to 1 within a few pixels",
        above=0,
    )
    learning_rate: float = setting(1.0, "first step size of Adam; falls to zero quadratically", above=0)
    temperature: float = setting(0.3, "width of the soft step that gives the hard mask its gradient", above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.passes < len(self.fills):
            raise InputError(
                f"passes must be at least {len(self.fills)}, one for each fill, not {self.passes}"
            )

    @property
    def steps(self) -> int:
        """Steps of Adam with all fills; each takes one pass per fill."""
        return self.steps_with(len(self.fills))

    def steps_with(self, fills: int) -> int:
        """Steps of Adam with this number of fills."""
        return self.passes // fills

    def state_for(self, classifier: Classifier) -> BeliefState:
        fills = tuple(fill.prepare(classifier) for fill in _possible(self.fills, classifier.inputs))
        dtype = chosen_precision(classifier, self.precision)
        return BeliefState(dtype, fills=fills, start=_first_maps(classifier))

    def record(self, ready: ReadyMethod) -> dict[str, object]:
        state: BeliefState = ready.state
        fills = [fill.record() for fill in state.fills]
        start = {**state.start.record(), **provenance(state.start.method)}
        return {**super().record(ready), "fills": fills, "start": start}

    def problem(self, ready: ReadyMask, fast: Classifier) -> BeliefProblem:
        kind = CurveProblem if self.target == "curve" else BeliefProblem
        return kind(self, ready.classifier, fast, ready.state)

    def cost(self, labels: int) -> Cost:
        return self.cost_with(len(self.fills), labels)

    def cost_on(self, ready: ReadyMethod, labels: int) -> Cost:
        return self.cost_with(len(ready.state.fills), labels)

    def cost_with(self, fills: int, labels: int) -> Cost:
        """The cost with this number of fills. Each label starts with two passes: one gives f, one the first map."""
        return Cost(forward=2 * labels, gradient=labels * self.steps_with(fills) * fills)


def _possible(fills: tuple[Fill, ...], inputs: Inputs) -> tuple[Fill, ...]:
    """The fills; for inputs other than pictures, the default three without those that are impossible."""
    photographs = isinstance(inputs, Pictures) and inputs.channels in (1, 3)
    if photographs or [type(fill) for fill in fills] != [Gray, Blur, Images]:
        return fills
    gray, blur, images = fills
    if isinstance(inputs, TextInputs):  # often a single text, with no others to draw from
        return (gray,)
    drawn = Noise() if cast(Images, images).is_usual else images
    return (gray, blur, drawn) if inputs.has_neighbours else (gray, drawn)


def _first_maps(classifier: Classifier) -> ReadyMethod:
    """The method of the first maps: Grad-CAM, or gradient x input if no layer is spatial."""
    try:
        return GradCAM().prepare(classifier)
    except InputError:
        return GradientInput().prepare(classifier)
