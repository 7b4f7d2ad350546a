"""Checks which axioms of attribution (Sundararajan et al. 2017) a method satisfies, on nets made for this purpose.

    sensitivity (a) input and baseline differ in one pixel, and the net's outputs differ: the map marks the pixel
    sensitivity (b)             what the net does not look at gets no attribution
    implementation invariance   nets that are the same function get the same maps

Scores use only the order of a map's values. If an axiom is about zero, the checks use only the order too, because zero means different
things in a mask and in a gradient.
A method that satisfies the axioms may still be wrong. A violation is a property of the method, not of a photo.

Two kinds of net are defined first: nets whose evidence is known, and nets that compute the same function in another way. All take pictures
of 16 x 16 pixels whose neutral gray is 0 after normalisation. They have convolutions, for methods that need a layer, and the same weights
on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.inputs import Inputs
from proofmap.methods.method import Method, MethodLike, make_method

SIZE, CHANNELS = 16, 3
PLACES = ((5, 9), (2, 3), (8, 12), (10, 6))
"""Positions of the one pixel that a net of the first kind looks at. There are several, so that no map is right by chance."""


def classifier_of(net: nn.Module, device: torch.device) -> Classifier:
    half = (0.5,) * CHANNELS
    return Classifier(net.eval().to(device), size=SIZE, mean=half, std=half, name=type(net).__name__)


# ---- one pixel ---------------------------------------------------------------------------------------------------

RESPONSES: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda h: h,
    "saturated": lambda h: 1 - (1 - 2 * h).relu(),  # flat at the input: its gradient there is zero
    "late": lambda h: 0.1 * h + 1.8 * (h - 0.5).relu(),  # almost flat at the baseline
}
"""The functions g of the nets that look at one pixel; g is 0 at the baseline and 1 at the input."""


class OnePixel(nn.Module):
    """A net with the logits (6 g(h), -6 g(h)), where h is the mean over the channels of one pixel and g one of ``RESPONSES``."""

    def __init__(self, response: str, place: tuple[int, int]) -> None:
        super().__init__()
        self.mean = nn.Conv2d(CHANNELS, 1, 1, bias=False)
        with torch.no_grad():
            self.mean.weight.fill_(1 / CHANNELS)
        self.response, self.place = response, place

    def forward(self, x: Tensor) -> Tensor:
        h = self.mean(x)[:, 0, self.place[0], self.place[1]]
        z = 6 * RESPONSES[self.response](h)
        return torch.stack([z, -z], dim=1)


# ---- half a picture, and one function written in several ways ----------------------------------------------------


class Small(nn.Module):
    """A net of two convolutions, each followed by a ReLU, then pooling and a linear layer for three labels. With ``left_half``, the
    right half of the input is set to 0 first.
    """

    def __init__(self, seed: int, *, left_half: bool = False, width: int = 6) -> None:
        super().__init__()
        self.first = nn.Conv2d(CHANNELS, width, 3, padding=1)
        self.rectifier = nn.ReLU()
        self.second = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.last_rectifier = nn.ReLU()
        self.head = nn.Linear(2 * width, 3)
        keep = torch.ones(SIZE, SIZE)
        if left_half:
            keep[:, SIZE // 2 :] = 0
        self.keep: Tensor
        self.register_buffer("keep", keep)
        draw_weights(self, seed)

    def forward(self, x: Tensor) -> Tensor:
        h = self.rectifier(self.first(x * self.keep))
        h = self.last_rectifier(self.second(h))
        out: Tensor = self.head(h.mean(dim=(2, 3)))
        return 4 * out


class Absolute(nn.Module):
    """A rectifier, computed as (z + |z|) / 2."""

    def forward(self, z: Tensor) -> Tensor:
        return (z + z.abs()) / 2


def with_absolutes(seed: int) -> Small:
    net = Small(seed)
    net.rectifier, net.last_rectifier = Absolute(), Absolute()  # type: ignore[assignment]
    return net


def reordered(seed: int) -> Small:
    """``Small(seed)`` as the same function, with inner channels in another order and on another scale: max(c z, 0) / c = max(z, 0)."""
    net = Small(seed)
    with torch.no_grad():
        order = torch.arange(net.first.out_channels).flip(0)
        scale = torch.linspace(0.5, 3, len(order))
        net.first.weight.copy_(net.first.weight[order] * scale.view(-1, 1, 1, 1))
        assert net.first.bias is not None, "it was made with one"
        net.first.bias.copy_(net.first.bias[order] * scale)
        net.second.weight.copy_(net.second.weight[:, order] / scale.view(1, -1, 1, 1))
    return net


REWRITTEN: dict[str, Callable[[int], Small]] = {
    "rectifier as (z + |z|) / 2": with_absolutes,
    "channels reordered and scaled": reordered,
}
"""Nets that compute the same function as ``Small(seed)`` in another way."""


def draw_weights(net: nn.Module, seed: int) -> None:
    """Replace the net's weights by random ones that depend only on the seed."""
    with torch.no_grad():
        for k, weight in enumerate(net.parameters()):
            fan_in = weight[0].numel() if weight.ndim > 1 else 8
            drawn = streams.normal(torch.tensor(streams.key_of(seed, "axioms", k)), weight.numel())
            weight.copy_(drawn.view(weight.shape) * (2 / fan_in) ** 0.5)


REFERENCE = "Sundararajan, Taly and Yan 2017"
MARKED = 0.95
"""Sensitivity (a): the one pixel must have a larger value than this share of the other pixels. A pixel of equal value counts half.
"""
SAME = 0.01
"""Differences below this share of a map's range do not count. If a map consists of small differences between probabilities,
rounding errors alone reach a thousandth of its range.
"""


@dataclass(frozen=True)
class AxiomFinding:
    """The result of one check: the axiom, the net, the ``measured`` value and its ``meaning``, and whether the axiom holds
    (``kept``).
    """

    axiom: str
    net: str
    measured: float
    meaning: str
    kept: bool


@dataclass(frozen=True)
class AxiomReport:
    """The findings about one method on the test nets."""

    method: str
    findings: tuple[AxiomFinding, ...]

    @property
    def kept(self) -> dict[str, bool]:
        """For each axiom, whether it holds on every net."""
        axioms = dict.fromkeys(finding.axiom for finding in self.findings)
        return {axiom: all(f.kept for f in self.findings if f.axiom == axiom) for axiom in axioms}

    def __str__(self) -> str:
        rows = [
            f"  {'kept  ' if f.kept else 'broken'}  {f.axiom:<26} {f.net:<30} {f.measured:.3g} {f.meaning}"
            for f in self.findings
        ]
        return "\n".join([self.method, *rows])


def check_axioms(method: MethodLike, *, seed: int = 0, device: str | torch.device = "cpu") -> AxiomReport:
    """Check which axioms a method satisfies on small nets that are built for this test.

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
    """Check sensitivity (a). The picture equals the gray baseline except for one white pixel, and only this pixel decides the first
    label.
    """
    for name in RESPONSES:
        shares = []
        for place in PLACES:
            classifier = classifier_of(OnePixel(name, place), device)
            x = classifier.blank(2)
            x[0, :, place[0], place[1]] = 1.0
            x[1, :, place[1], place[0]] = 1.0  # another picture, for methods that compose several
            map_ = method(classifier, x, torch.zeros(2, 1, dtype=torch.long), seed=seed)[0, 0]
            below, same = (map_ < map_[place]).sum(), (map_ == map_[place]).sum() - 1  # without itself
            shares.append(float((below + same / 2) / (map_.numel() - 1)))
        share = min(shares)
        yield AxiomFinding(
            "sensitivity (a)", f"one pixel, {name}", share, "of the others are below it", share >= MARKED
        )


def _sensitivity_b(method: Method, seed: int, device: torch.device) -> Iterator[AxiomFinding]:
    """Check sensitivity (b). Only the left half of the picture reaches the net."""
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
    """Three pictures of independent random values in [0, 1)."""
    keys = torch.tensor([streams.key_of("axioms", "picture", k) for k in range(3)])
    return streams.uniform(keys, inputs.count * CHANNELS).view(3, CHANNELS, SIZE, SIZE).to(device)


def _labels(device: torch.device) -> Tensor:
    return torch.tensor([[0, 1], [1, 2], [2, 0]], device=device)


def _range(maps: Tensor) -> Tensor:
    """The range ``(N, L)`` of each map, its largest minus its smallest value; 1 for a constant map."""
    span = maps.amax(dim=(2, 3)) - maps.amin(dim=(2, 3))
    return span.where(span > 0, 1.0)
