"""Control methods, whose maps do not use the net, so that any useful method must beat them; and the choice of controls for a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from proofmap.core import streams
from proofmap.core.inputs import Inputs
from proofmap.core.ranking import center_distance
from proofmap.methods.method import METHODS, Cost, Method
from proofmap.methods.wrappers import Blurred, TopLabel, blurred
from proofmap.plugins.settings import setting
from proofmap.session import Session


@dataclass(frozen=True, kw_only=True)
class Blind(Method):
    """Base class of controls that do not use the net."""

    family = "control"

    def cost(self, labels: int, session: Session | None = None) -> Cost:
        return Cost()


@METHODS.register
class Random(Blind):
    """Independent standard normal values at every pixel; one map for all labels unless ``per_label``."""

    name = "random"
    description = "independent Gaussian noise"
    per_label: bool = setting(False, "a separate map for each label")
    seed_offset: int = setting(0, "another value gives other maps for the same seed")

    stochastic = True

    @property
    def label_free(self) -> bool:  # type: ignore[override]
        return not self.per_label

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        positions = session.inputs.positions
        if self.per_label:
            rows, columns = labels.shape
            pairs = [(i, int(labels[i, j])) for i in range(rows) for j in range(columns)]
            keys = streams.pair_keys(images, pairs, session.seed, self.seed_offset, "random map")
        else:
            keys = streams.image_keys(images, session.seed, self.seed_offset, "random map")
        return streams.normal(keys, session.inputs.count).view(*labels.shape, *positions)


@METHODS.register
class CenteredGaussian(Blind):
    """An isotropic Gaussian bump in the middle of the picture, where photographers place their subject.

    ``sigma`` is a share of the shorter side. It does not change scores that depend only on the order of positions, such as those of
    insertion curves. It does change the saliency metric, which draws a box around the values above a multiple of the map's mean. On 224 x
    224 pixels, the smallest box over the thresholds from 0 to 5 covers .09 of the area for sigma .1, below .05 for .2 to .35, .10 for .5
    and .18 for 1. Gupta et al. do not print their sigma.
    """

    name = "centered-gaussian"
    description = "a bump in the middle of the picture"
    needs = frozenset({"neighbours"})
    sigma: float = setting(
        0.25,
        "standard deviation of the bump, as a share of the shorter side; does not change the order of positions",
        above=0,
    )

    label_free = True

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        positions = session.inputs.positions
        distance = center_distance(positions, images.device)
        bump = torch.exp(-0.5 * distance / (self.sigma * min(positions)) ** 2)
        return bump.expand(len(images), 1, *positions)


@METHODS.register
class Edges(Blind):
    """Edges of the input: the magnitude of its gradient, by Sobel's filter.

        M(p) = sqrt( sum over channels and axes of (D x)^2 ),      D = (1, 0, -1) / 2 along the axis, (1, 2, 1) / 4 across it

    x is the normalised input, with edges repeated beyond the border, and D a filter. ``sigma`` blurs x first, as Canny does. Maps of
    several methods look like this whatever the net has learned (Adebayo et al. 2018).
    """

    name = "edges"
    reference = "Adebayo et al. 2018"
    description = "an edge detector: where the input changes, whatever the net"
    needs = frozenset({"neighbours"})
    sigma: float = setting(
        0.0, "standard deviation of a Gaussian blur before the edge filter, in positions; 0: no blur", least=0
    )

    label_free = True

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        inputs = session.inputs
        axes = range(-len(inputs.positions), 0)
        x = images / inputs.per_channel(images.new_tensor(inputs.std))
        if self.sigma > 0:
            x = blurred(x, self.sigma, len(inputs.positions))
        total = torch.zeros_like(x)
        for along in axes:
            gradient = x
            for axis in axes:
                gradient = _filtered(gradient, axis, (0.5, 0.0, -0.5) if axis == along else (0.25, 0.5, 0.25))
            total += gradient.square()
        return inputs.merged_channels(total).sqrt()[:, None]


@METHODS.register
class FirstWords(Blind):
    """Positions in the order of the input: M(p) = 1 - p / n for p = 0 .. n - 1. In a text the first words come first, in a picture the upper
    rows.
    """

    name = "first-words"
    description = "the first words of a text, whatever the model"
    needs = frozenset({"order"})

    label_free = True

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        positions, count = session.inputs.positions, session.inputs.count
        order = 1 - torch.arange(count, device=images.device) / count
        return order.view(positions).expand(len(images), 1, *positions)


def _filtered(x: Tensor, axis: int, weights: tuple[float, float, float]) -> Tensor:
    """``x`` filtered by three weights along an axis, with edges repeated."""
    side = x.shape[axis]
    place = torch.arange(side, device=x.device)
    before, after = (place - 1).clamp_min(0), (place + 1).clamp_max(side - 1)
    return (
        weights[0] * x.index_select(axis, before) + weights[1] * x + weights[2] * x.index_select(axis, after)
    )


def control_rows(methods: Sequence[Method], inputs: Inputs) -> list[Method]:
    """The controls to add to a comparison of ``methods``: ``random``, and ``top-label:METHOD`` for each method with one map per label. If
    positions have neighbours, also ``centered-gaussian`` and ``blurred:METHOD``.
    """
    wanted: list[Method] = [Random(), *([CenteredGaussian()] if inputs.has_neighbours else [])]
    for method in methods:
        if method.family == "control":
            continue
        if inputs.has_neighbours:
            wanted.append(Blurred(of=method))
        if not method.label_free:
            wanted.append(TopLabel(of=method))
    return [control for control in dict.fromkeys(wanted) if control not in methods]
