"""Run a method on made nets and say which axioms it keeps.

    sensitivity (a)             input and baseline differ in one pixel, and the net's answer with it: the pixel is marked
    sensitivity (b)             what the net does not look at gets no attribution
    implementation invariance   nets that are the same function get the same maps

Scores here read maps by their order, so that the checks do too where the axiom speaks of zero: a mask's zero is not a
gradient's. Keeping them proves no method right, and breaking one is a fact about the method, not about a photo.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from proofmap.core import streams
from proofmap.core.inputs import Inputs
from proofmap.methods.method import Method, MethodLike, make_method
from proofmap.metrics.axioms.nets import (
    CHANNELS,
    PLACES,
    RESPONSES,
    REWRITTEN,
    SIZE,
    OnePixel,
    Small,
    classifier_of,
)
from proofmap.metrics.localisation.two_objects import outranks

REFERENCE = "Sundararajan, Taly and Yan 2017"
MARKED = 0.95
"""Sensitivity (a): the one pixel must outrank this share of the others, equal ones counted half."""
SAME = 0.01
"""Differences below this share of a map's range do not count: where a map is made of small differences of probabilities,
rounding alone comes to a thousandth."""


@dataclass(frozen=True)
class AxiomFinding:
    """One check: the axiom, the net, what was measured, and whether the axiom is kept there."""

    axiom: str
    net: str
    measured: float
    meaning: str
    kept: bool


@dataclass(frozen=True)
class AxiomReport:
    """What one method does on the made nets."""

    method: str
    findings: tuple[AxiomFinding, ...]

    @property
    def kept(self) -> dict[str, bool]:
        """Each axiom, and whether it is kept on every net."""
        axioms = dict.fromkeys(finding.axiom for finding in self.findings)
        return {axiom: all(f.kept for f in self.findings if f.axiom == axiom) for axiom in axioms}

    def __str__(self) -> str:
        rows = [
            f"  {'kept  ' if f.kept else 'broken'}  {f.axiom:<26} {f.net:<30} {f.measured:.3g} {f.meaning}"
            for f in self.findings
        ]
        return "\n".join([self.method, *rows])


def check_axioms(method: MethodLike, *, seed: int = 0, device: str | torch.device = "cpu") -> AxiomReport:
    """Which axioms a method keeps on the made nets.

    >>> report = check_axioms("gradient")
    >>> report.kept
    {'sensitivity (a)': False, 'sensitivity (b)': True, 'implementation invariance': True}
    """
    made, place = make_method(method), torch.device(device)
    findings = (
        *_sensitivity_a(made, seed, place),
        *_sensitivity_b(made, seed, place),
        *_invariance(made, seed, place),
    )
    return AxiomReport(made.title(), findings)


def _sensitivity_a(method: Method, seed: int, device: torch.device) -> Iterator[AxiomFinding]:
    """The picture is the baseline, gray, except for one white pixel, which alone decides the first label."""
    for name in RESPONSES:
        shares = []
        for place in PLACES:
            classifier = classifier_of(OnePixel(name, place), device)
            x = classifier.blank(2)
            x[0, :, place[0], place[1]] = 1.0
            x[1, :, place[1], place[0]] = 1.0  # another picture, for methods that compose several
            map_ = method(classifier, x, torch.zeros(2, 1, dtype=torch.long), seed=seed)[0, 0]
            others = torch.ones_like(map_, dtype=torch.bool)
            others[place] = False
            shares.append(float(outranks(map_[place].view(1), map_[others])))
        share = min(shares)
        yield AxiomFinding(
            "sensitivity (a)", f"one pixel, {name}", share, "of the others are below it", share >= MARKED
        )


def _sensitivity_b(method: Method, seed: int, device: torch.device) -> Iterator[AxiomFinding]:
    """Only the left half of the picture reaches the net."""
    for k in range(2):
        classifier = classifier_of(Small(k, left_half=True), device)
        maps = method(classifier, noise(classifier.inputs, device), _labels(device), seed=seed)
        used, dummy = maps[..., : SIZE // 2], maps[..., SIZE // 2 :]
        spread = (dummy.amax(dim=(2, 3)) - dummy.amin(dim=(2, 3))) / _range(maps)
        no_more = bool((dummy.mean(dim=(2, 3)).abs() <= used.abs().amax(dim=(2, 3))).all())
        worst = float(spread.max())
        yield AxiomFinding(
            "sensitivity (b)",
            f"left half only, {k + 1}",
            worst,
            "of the range among ignored pixels",
            worst <= SAME and no_more,
        )


def _invariance(method: Method, seed: int, device: torch.device) -> Iterator[AxiomFinding]:
    plain = classifier_of(Small(0), device)
    x, labels = noise(plain.inputs, device), _labels(device)
    expected = method(plain, x, labels, seed=seed)
    for name, build in REWRITTEN.items():
        found = method(classifier_of(build(0), device), x, labels, seed=seed)
        worst = float(((found - expected).abs().amax(dim=(2, 3)) / _range(expected)).max())
        yield AxiomFinding(
            "implementation invariance", name, worst, "of the range between the maps", worst <= SAME
        )


def noise(inputs: Inputs, device: torch.device) -> Tensor:
    """Three pictures of independent pixels."""
    keys = torch.tensor([streams.key_of("axioms", "picture", k) for k in range(3)])
    return streams.uniform(keys, inputs.count * CHANNELS).view(3, CHANNELS, SIZE, SIZE).to(device)


def _labels(device: torch.device) -> Tensor:
    return torch.tensor([[0, 1], [1, 2], [2, 0]], device=device)


def _range(maps: Tensor) -> Tensor:
    """The range of each map ``(N, L)``; 1 for a constant one."""
    span = maps.amax(dim=(2, 3)) - maps.amin(dim=(2, 3))
    return span.where(span > 0, 1.0)
