"""Controls for a comparison: maps that do not use the net, and wrappers, which change the maps of another method.

If a wrapper and its METHOD are both judged, the maps are made once: ``top-label:METHOD`` uses the same maps by which METHOD is judged.
Which maps a method uses depends only on the set of methods that are judged together, never on their order or on where they run. If the
maps of METHOD are missing, they are made as METHOD makes them, for all labels of the block (the images that are processed together). So
results are identical to the bit in a run that was interrupted, and on a cluster.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs
from proofmap.core.ranking import center_distance
from proofmap.core.tensors import private_copy
from proofmap.methods.given import GivenMaps
from proofmap.methods.grids import shorter_side
from proofmap.methods.method import METHODS, Cost, Method
from proofmap.plugins.settings import required, setting
from proofmap.session import Session


class Wrapper(Method):
    """A method that changes the maps of another method; written ``NAME:METHOD``.

    If METHOD itself is judged too, its maps are used again at no further cost.
    """

    family = "control"
    reads_all_labels = True  # so that the maps by which METHOD is judged are found
    of: Method = required("the method whose maps are changed", main=True)

    @property
    def stochastic(self) -> bool:  # type: ignore[override]
        return self.of.stochastic

    @property
    def label_free(self) -> bool:  # type: ignore[override]
        return self.of.label_free

    @property
    def signed(self) -> bool:  # type: ignore[override]
        return self.of.signed

    @property
    def needs(self) -> frozenset[str]:  # type: ignore[override]
        return self.of.needs

    @property
    def source(self) -> Method:
        return self.of

    def prepare(self, session: Session) -> None:
        super().prepare(session)
        session.prepare(self.of)

    def record(self, session: Session) -> dict[str, object]:
        return {**self.settings(), "of": self.of.record(session)}

    def cost(self, labels: int, session: Session | None = None) -> Cost | None:
        cost = self.of.cost(labels, session)
        return None if cost is None else cost + self.own_cost

    @property
    def own_cost(self) -> Cost:
        """The passes for one image if METHOD's maps exist already."""
        return Cost()

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        maps = private_copy(session.shared_maps(self.of, images, labels))
        return self.changed_maps(maps[:, :1] if self.label_free else maps)

    @abstractmethod
    def changed_maps(self, maps: Tensor) -> Tensor:
        """The changed maps ``(N, L, *positions)``, from METHOD's maps ``(N, L, *positions)``."""

    @classmethod
    def build(cls, options: Mapping[str, Any]) -> Self:
        if "of" not in options:
            raise InputError(f"{cls.name} needs the method whose map it shows, such as {cls.name}:grad-cam")
        return super().build(options)


def map_sources(methods: Mapping[str, Method]) -> dict[str, str]:
    """The names of methods that use the maps of another method in ``methods``, each with the name of that other method."""
    names = {method: name for name, method in reversed(list(methods.items()))}
    sources = {name: method.source for name, method in methods.items()}
    return {name: names[source] for name, source in sources.items() if source is not None and source in names}


# ---- the order of values ----------------------------------------------------------------------------------------


@METHODS.register
class Inverse(Wrapper):
    """Another method's map inverted: the least salient position comes first. A method that is not better than its inverse carries no
    information.

    Signed maps are negated. Other maps are subtracted from their largest value, so they stay non-negative.
    """

    name = "inverse"
    description = "another method's maps, their order turned round"

    def changed_maps(self, maps: Tensor) -> Tensor:
        if self.signed:
            return -maps
        return maps.flatten(2).amax(dim=2).view(*maps.shape[:2], *[1] * (maps.ndim - 2)) - maps


@METHODS.register
class Blurred(Wrapper):
    """Another method's map, blurred by a Gaussian. This control shows whether a method wins because of where it points, or because it is
    smooth.

    Near the border the kernel is cropped and renormalised. Columns of a table have no neighbours and are refused.
    """

    name = "blurred"
    description = "another method's maps, blurred"
    sigma: float = setting(
        0.05, "standard deviation of the Gaussian, as a share of the shorter side; larger blurs more", above=0
    )

    @property
    def needs(self) -> frozenset[str]:  # type: ignore[override]
        return self.of.needs | {"neighbours"}

    def changed_maps(self, maps: Tensor) -> Tensor:
        positions = maps.shape[2:]
        return _blurred(maps, self.sigma * shorter_side(positions), len(positions))


# ---- the labels -------------------------------------------------------------------------------------------------


@METHODS.register
class TopLabel(Wrapper):
    """The map of each image's most probable label, shown for every label: what the paper calls cheating.

    Such a map is sound without effort, and the best-effort metric shows this.
    """

    name = "top-label"
    description = "another method's map of the top label, shown for every label"
    revision = 2
    of: Method = required("the method whose map of the top label is shown", main=True)

    label_free = True

    def cost(self, labels: int, session: Session | None = None) -> Cost | None:
        return super().cost(1, session)

    @property
    def own_cost(self) -> Cost:
        return Cost(forward=1)

    def changed_maps(self, maps: Tensor) -> Tensor:
        return maps

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        """The top label's map ``(N, 1, *positions)``: taken from the maps by which METHOD is judged, and made where it is not among them."""
        top = session.net.top(images, 1)
        if self.of not in session.shared:
            return session.maps(self.of, images, top)
        maps, there = session.shared_maps(self.of, images, labels), labels == top
        first = there.to(torch.int64).argmax(dim=1)
        found = maps[torch.arange(len(maps), device=maps.device), first][:, None]
        missing = ~there.any(dim=1)
        if bool(missing.any()):
            places = missing.nonzero()[:, 0].tolist()
            part = session.like(watch=Session.watch_at(session.watch, places))
            found[missing] = part.maps(self.of, images[missing], top[missing])
        return found


def _blurred(values: Tensor, sigma: float, axes: int) -> Tensor:
    """Values ``(..., *positions)`` blurred along their last ``axes`` axes; ``sigma`` is in positions.

    >>> _blurred(torch.tensor([[0.0, 0.0, 1.0, 0.0, 0.0]]), 1.0, 1)
    tensor([[0.0772, 0.2571, 0.4026, 0.2571, 0.0772]])
    """
    for axis in range(values.ndim - axes, values.ndim):
        kernel = _gaussian_matrix(values.shape[axis], sigma, values.device)
        values = torch.tensordot(values, kernel, dims=([axis], [1])).movedim(-1, axis)
    return values


def _gaussian_matrix(side: int, sigma: float, device: torch.device) -> Tensor:
    """The matrix ``(side, side)`` of a Gaussian blur along one axis, cut at four sigma; every row sums to one.

    >>> _gaussian_matrix(3, 1.0, torch.device("cpu"))
    tensor([[0.5741, 0.3482, 0.0777],
            [0.2741, 0.4519, 0.2741],
            [0.0777, 0.3482, 0.5741]])
    """
    line = torch.arange(side, device=device)
    distance = (line[:, None] - line).abs()
    weights = torch.exp(-0.5 * (distance / sigma) ** 2).masked_fill(distance > math.ceil(4 * sigma), 0.0)
    return weights / weights.sum(dim=1, keepdim=True)


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
        bump = torch.exp(-0.5 * distance / (self.sigma * shorter_side(positions)) ** 2)
        return bump.expand(len(images), 1, *positions)


@METHODS.register
class Edges(Blind):
    """Edges of the input: the magnitude of its gradient, by Sobel's filter.

        M(p) = sqrt( sum over channels and axes of (D x)^2 ),      D = (1, 0, -1) / 2 along the axis, (1, 2, 1) / 4 across it

    x is the normalised input, with edges repeated beyond the border, and D a filter. Maps of
    several methods look like this whatever the net has learned (Adebayo et al. 2018).
    """

    name = "edges"
    reference = "Adebayo et al. 2018"
    description = "an edge detector: where the input changes, whatever the net"
    needs = frozenset({"neighbours"})
    label_free = True

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        inputs = session.inputs
        axes = range(-len(inputs.positions), 0)
        x = images / inputs.per_channel(images.new_tensor(inputs.std))
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
        if not method.label_free and not isinstance(method, GivenMaps):
            wanted.append(TopLabel(of=method))
    return [control for control in dict.fromkeys(wanted) if control not in methods]
