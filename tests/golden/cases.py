"""What is recorded: each case computes results by the public functions alone, and gives them as plain data."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import proofmap as pm
from tests.golden import nets, record

EXACT = 2e-6
"""Largest difference, relative to numbers above 1, unless a case says more: records have 7 digits."""
ELSEWHERE = 1 if platform.machine() == "x86_64" else 25
"""Factor of all tolerances on processors other than that of the records, which add in another order: occlusion's differences of f then move by 3e-5."""


@dataclass(frozen=True)
class Case:
    """A function that computes a record, and the parts of it whose tolerance is wider."""

    compute: Callable[[], Any]
    wider: dict[str, float] = field(default_factory=dict)

    def record(self) -> Any:
        return record.rounded(self.compute())

    @property
    def tolerances(self) -> dict[str, float]:
        return {part: ELSEWHERE * size for part, size in {"": EXACT, **self.wider}.items()}


CASES: dict[str, Case] = {}


def case(**wider: float) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Registers a function as a case by its name. ``wider``: tolerances of parts of the record, by names in which ``_`` stands for ``-``."""

    def register(compute: Callable[[], Any]) -> Callable[[], Any]:
        parts = {part.replace("_", "-"): tolerance for part, tolerance in wider.items()}
        CASES[compute.__name__.replace("_", "-")] = Case(compute, parts)
        return compute

    return register


ROWS = [[0, 1, 2], [3, 1], [2]]
"""Labels of three images, not as many for each: padded with -1."""

GRADIENTS = [
    "gradient",
    "gradient-x-input",
    "guided-backprop",
    "integrated-gradients:steps=16",
    "rect-grad:quantile=0.5",
    "smooth-grad:samples=3",
]
CAMS = ["grad-cam", "grad-cam++", "layer-cam", "score-cam"]
PROPAGATION = ["lrp", "contrastive-lrp", "deep-lift"]
PERTURBATION = [
    "occlusion:window=3",
    "rise:masks=40,grid=3",
    "kernel-shap:regions=9,superpixels=grid,samples=60",
    "shapley:regions=9,superpixels=grid,orders=3",
    "greedy-insertion:regions=9,superpixels=grid",
    "belief-order:regions=9,superpixels=grid,budget=60",
]
MASKS = [
    "learned-mask:steps=3,scale=2,fill=noise",
    "belief-mask:passes=12,grid=5,fills=gray+blur,closing=none",
    "extremal-perturbation:steps=4,areas=0.1:0.3",
    "fong-vedaldi:steps=3,grid=5,jitter=1",
    "rate-distortion:steps=3,grid=5",
    "diffmask:steps=3,grid=5,fill=noise",
    "iba:steps=3,samples=3,layer=3",
]
CONTROLS = [
    "random",
    "centered-gaussian",
    "edges",
    "top-label:gradient",
    "inverse:gradient-x-input",
    "blurred:gradient-x-input",
]


@case()
def methods_on_a_conv_net() -> Any:
    found = pm.evaluate(
        nets.conv(),
        nets.photos(3),
        methods=[*GRADIENTS, *CAMS, *PROPAGATION, *PERTURBATION, *CONTROLS],
        labels=ROWS,
        metrics=[
            "completeness:points=16",
            "soundness:points=16",
            "best-effort:points=16",
            "insertion:points=16",
        ],
    )
    return record.of(found, curves=["gradient-x-input", "random"])


@case(belief_mask=1e-5)
def learned_masks_on_a_conv_net() -> Any:
    found = pm.evaluate(
        nets.conv(),
        nets.photos(3),
        methods=MASKS,
        labels=ROWS,
        metrics=["completeness:points=16", "soundness:points=16"],
    )
    return record.of(found)
