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
MAPS = 4e-5
"""That of maps, in units of their largest value: differences of f lose digits. Other kernels of the same processor move occlusion by 3e-5."""
ELSEWHERE = 1 if platform.machine() == "x86_64" else 10
"""Factor of all tolerances on other kinds of processor than that of the records."""


@dataclass(frozen=True)
class Case:
    """A function that computes a record, and the parts of it whose tolerance is wider."""

    compute: Callable[[], Any]
    wider: dict[str, float] = field(default_factory=dict)

    def record(self) -> Any:
        return record.rounded(self.compute())

    @property
    def tolerances(self) -> dict[str, float]:
        return {part: ELSEWHERE * size for part, size in {"": EXACT, "/maps": MAPS, **self.wider}.items()}


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


SCORES = ["completeness", "soundness", "best-effort", "insertion", "deletion"]
PATHS = ["gradient", "gradient-x-input", "integrated-gradients:steps=16", "smooth-grad:samples=3"]


@case(belief_mask=1e-5)
def methods_on_a_vision_transformer() -> Any:
    methods = [
        *PATHS,
        "grad-cam",
        "attention-rollout",
        "chefer",
        "attention-lrp",
        "occlusion:window=3",
        "rise:masks=40,grid=3",
        "learned-mask:steps=3,scale=2,fill=noise",
        "belief-mask:passes=12,grid=5,fills=gray+blur,closing=none",
        "random",
        "top-label:chefer",
    ]
    found = pm.evaluate(nets.vit(), nets.photos(3), methods=methods, labels=ROWS, metrics=SCORES)
    return record.of(found, curves=["chefer"])


@case(belief_mask=1e-5)
def methods_on_series() -> Any:
    methods = [
        *PATHS,
        "lrp",
        "deep-lift",
        "occlusion:window=3",
        "rise:masks=40,grid=3",
        "kernel-shap:regions=6,samples=40",
        "shapley:regions=6,orders=3",
        "greedy-insertion:regions=6",
        "belief-order:regions=6,budget=60",
        "learned-mask:steps=3,scale=2,fill=noise",
        "belief-mask:passes=12,grid=8,fills=gray+blur,closing=none",
        "fong-vedaldi:steps=3,grid=8,jitter=1",
        "rate-distortion:steps=3,grid=8",
        "diffmask:steps=3,grid=8,fill=noise",
        "random",
        "centered-gaussian",
        "edges",
        "top-label:gradient",
    ]
    f, x = nets.series(), nets.beats(3)
    found = pm.evaluate(
        f,
        x,
        methods=methods,
        labels=[[0, 1, 2], [2, 1], [0]],
        metrics=SCORES,
        fills=["gray", "time-reversal"],
    )
    cut = pm.evaluate(
        nets.series(segments=6),
        x,
        methods=["gradient-x-input", "occlusion", "belief-order:budget=40", "random"],
        labels=[[0, 1, 2], [2, 1], [0]],
        metrics=SCORES,
        fills=["blur", "time-shift"],
    )
    return {
        "every step": record.of(found, curves=["occlusion"]),
        "segments": record.of(cut, curves=["random"]),
    }


@case(belief_mask=1e-5)
def methods_on_rows() -> Any:
    methods = [
        *PATHS,
        "lrp",
        "deep-lift",
        "occlusion",
        "rise:masks=40",
        "kernel-shap:samples=40",
        "shapley:orders=3",
        "greedy-insertion",
        "belief-order:budget=60",
        "learned-mask:steps=3,fill=noise",
        "belief-mask:passes=12,fills=gray,closing=none",
        "rate-distortion:steps=3",
        "diffmask:steps=3,fill=noise",
        "random",
        "top-label:gradient",
    ]
    numbers = pm.evaluate(
        nets.rows(), nets.people(3), methods=methods, labels=[[0, 1, 2], [2, 1], [0]], metrics=SCORES
    )
    black_box = pm.evaluate(
        nets.table_model(),
        nets.TABLE[:4],
        methods=["occlusion", "kernel-shap:samples=20", "belief-order:budget=30", "random"],
        labels=["low", "high"],
        metrics=["completeness:draws=2", "soundness:draws=2"],
        fills=["gray", "images", "near-rows", "class-median"],
    )
    return {"numbers": record.of(numbers, curves=["occlusion"]), "black box": record.of(black_box)}


@case()
def methods_on_texts() -> Any:
    methods = [
        "occlusion:window=1",
        "rise:masks=40,grid=4",
        "kernel-shap:samples=40",
        "shapley:orders=3",
        "greedy-insertion",
        "belief-order:budget=90",
        "random",
        "first-words",
        "top-label:occlusion:window=1",
        "inverse:occlusion:window=1",
    ]
    f = nets.texts()
    every = pm.evaluate(f, nets.TEXTS, methods=methods, labels=["bad", "mixed", "good"], metrics=SCORES)
    fills = pm.evaluate(
        f,
        nets.TEXTS,
        methods=["occlusion:window=1", "random"],
        labels=[[0, 2], [2], [1, 0], [0]],
        metrics=["completeness:points=4", "deletion:points=4", "insertion:points=all"],
        fills=["delete", "mask", "unknown"],
    )
    return {"every method": record.of(every), "fills": record.of(fills)}


@case(belief_mask=1e-5)
def methods_on_tokens() -> Any:
    methods = [
        *PATHS,
        "attention-rollout",
        "chefer",
        "attention-lrp",
        "occlusion:window=1",
        "kernel-shap:samples=40",
        "belief-order:budget=90",
        "belief-mask:passes=12,fills=gray,closing=none",
        "learned-mask:steps=3,fill=mask",
        "random",
        "first-words",
    ]
    rows = [[0, 1, 2], [2, 1], [0], [1, 2]]
    found = pm.evaluate(nets.tokens(), nets.TEXTS, methods=methods, labels=rows, metrics=SCORES)
    fills = pm.evaluate(
        nets.tokens(),
        nets.TEXTS,
        methods=["gradient-x-input", "random"],
        labels=rows,
        metrics=["completeness:points=4", "soundness:points=4"],
        fills=["closed", "mask", "zero", "mean-embedding"],
    )
    return {"every method": record.of(found), "fills": record.of(fills)}
