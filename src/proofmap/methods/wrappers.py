"""Methods that change the maps of another method. If both methods are judged, the maps are made once.

``top-label:METHOD`` uses the same maps by which METHOD is judged. Which maps a method uses depends only on the set of methods that are
judged together, never on their order or on where they run. If the maps of METHOD are missing, they are made as METHOD makes them, for all
labels of the block (the images that are processed together). So results are identical to the bit in a run that was interrupted, and on a
cluster.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.tensors import private_copy
from proofmap.methods.method import METHODS, Cost, Method, MethodLike, Need, make_method
from proofmap.plugins.settings import required, setting
from proofmap.session import Session


@dataclass(frozen=True, kw_only=True)
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
    def needs(self) -> frozenset[Need]:  # type: ignore[override]
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

    @classmethod
    def wrap(cls, method: MethodLike, **settings: Any) -> Self:
        """Return the wrapper around a method, given as an instance, a spec or a function."""
        return cls(of=make_method(method), **settings)


def shared_methods(methods: Iterable[Method]) -> frozenset[Method]:
    """The methods whose maps other methods in ``methods`` change."""
    judged = list(methods)
    return frozenset(
        method.source for method in judged if method.source is not None and method.source in judged
    )


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
    def needs(self) -> frozenset[Need]:  # type: ignore[override]
        return self.of.needs | {"neighbours"}

    def changed_maps(self, maps: Tensor) -> Tensor:
        positions = maps.shape[2:]
        return blurred(maps, self.sigma * min(positions), len(positions))


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
            part = session.like(watch=session.watch_at(places))
            found[missing] = part.maps(self.of, images[missing], top[missing])
        return found


def blurred(values: Tensor, sigma: float, axes: int) -> Tensor:
    """Values ``(..., *positions)`` blurred along their last ``axes`` axes; ``sigma`` is in positions.

    >>> blurred(torch.tensor([[0.0, 0.0, 1.0, 0.0, 0.0]]), 1.0, 1)
    tensor([[0.0772, 0.2571, 0.4026, 0.2571, 0.0772]])
    """
    for axis in range(values.ndim - axes, values.ndim):
        kernel = gaussian_matrix(values.shape[axis], sigma, values.device)
        values = torch.tensordot(values, kernel, dims=([axis], [1])).movedim(-1, axis)
    return values


def gaussian_matrix(side: int, sigma: float, device: torch.device) -> Tensor:
    """The matrix ``(side, side)`` of a Gaussian blur along one axis, cut at four sigma; every row sums to one.

    >>> gaussian_matrix(3, 1.0, torch.device("cpu"))
    tensor([[0.5741, 0.3482, 0.0777],
            [0.2741, 0.4519, 0.2741],
            [0.0777, 0.3482, 0.5741]])
    """
    line = torch.arange(side, device=device)
    distance = (line[:, None] - line).abs()
    weights = torch.exp(-0.5 * (distance / sigma) ** 2).masked_fill(distance > math.ceil(4 * sigma), 0.0)
    return weights / weights.sum(dim=1, keepdim=True)
