"""Methods around another method: its maps, changed. Where both are judged, the maps are made once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.progress import Progress
from proofmap.methods.blur import blurred
from proofmap.methods.method import METHODS, Cost, Family, Method, MethodLike, Need, ReadyMethod, make_method
from proofmap.plugins.settings import required, setting


@dataclass(frozen=True, kw_only=True)
class Wrapper(Method):
    """A method whose maps are another method's, changed; written ``NAME:METHOD``.

    Where METHOD itself is judged too, its maps are taken, and cost nothing more.
    """

    family: ClassVar[Family] = "control"
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

    def prepare(self, classifier: Classifier) -> ReadyWrapper:
        return ReadyWrapper(self, classifier, self.of.prepare(classifier))

    def cost(self, labels: int) -> Cost | None:
        return self.of.cost(labels)

    @abstractmethod
    def changed_maps(self, maps: Tensor) -> Tensor:
        """The maps ``(N, L, *positions)`` that are shown in place of METHOD's ``(N, L, *positions)``."""

    @classmethod
    def build(cls, options: Mapping[str, Any]) -> Self:
        if "of" not in options:
            raise InputError(f"{cls.name} needs the method whose map it shows, such as {cls.name}:grad-cam")
        return super().build(options)

    @classmethod
    def wrap(cls, method: MethodLike, **settings: Any) -> Self:
        """The wrapper around any method, name or function."""
        return cls(of=make_method(method), **settings)


@dataclass(frozen=True, eq=False)
class ReadyWrapper(ReadyMethod):
    """The wrapper with the method inside it ready for the same net."""

    of: ReadyMethod

    def record(self) -> dict[str, object]:
        return {**super().record(), "of": self.of.record()}

    @property
    def made_from(self) -> ReadyMethod:
        return self.of

    def cost(self, labels: int) -> Cost | None:
        return self.of.cost(labels)

    def take(self, maps: Tensor, images: Tensor, labels: Tensor, *, seed: int, progress: Progress) -> Tensor:
        changed = cast(Wrapper, self.method).changed_maps(maps[:, :1] if self.label_free else maps)
        return self.spread(changed, labels)

    def compute(self, images: Tensor, labels: Tensor, *, seed: int, progress: Progress) -> Tensor:
        return cast(Wrapper, self.method).changed_maps(self.of(images, labels, seed=seed, progress=progress))


# ---- the order of values ----------------------------------------------------------------------------------------


@METHODS.register
@dataclass(frozen=True, kw_only=True)
class Inverse(Wrapper):
    """Another method's map turned round: what it finds least salient comes first. A method that is not better than its
    inverse says nothing.

    Signed maps are negated; others are subtracted from their largest value, so that they stay without signs.
    """

    name: ClassVar[str] = "inverse"
    description: ClassVar[str] = "another method's maps, their order turned round"

    def changed_maps(self, maps: Tensor) -> Tensor:
        if self.signed:
            return -maps
        return maps.flatten(2).amax(dim=2).view(*maps.shape[:2], *[1] * (maps.ndim - 2)) - maps


@METHODS.register
@dataclass(frozen=True, kw_only=True)
class Blurred(Wrapper):
    """Another method's map, blurred by a Gaussian: does it win by where it points, or by being smooth?

    Near the border the kernel is cut and its rest weighs one again. Columns of a table have no neighbours to blur with.
    """

    name: ClassVar[str] = "blurred"
    description: ClassVar[str] = "another method's maps, blurred"
    sigma: float = setting(0.05, "width of the Gaussian, a share of the shorter side", above=0)

    def prepare(self, classifier: Classifier) -> ReadyWrapper:
        inputs = classifier.inputs
        if not inputs.has_neighbours:
            raise InputError(
                f"maps of {inputs.noun} cannot be blurred: their {inputs.position_noun} have no neighbours"
            )
        return super().prepare(classifier)

    def changed_maps(self, maps: Tensor) -> Tensor:
        positions = maps.shape[2:]
        return blurred(maps, self.sigma * min(positions), len(positions))


# ---- the labels -------------------------------------------------------------------------------------------------


@METHODS.register
@dataclass(frozen=True, kw_only=True)
class TopLabel(Wrapper):
    """The map of each image's most probable label, shown for every label: what the paper calls cheating.

    It buys soundness without effort, and best effort shows it.
    """

    name: ClassVar[str] = "top-label"
    description: ClassVar[str] = "another method's map of the top label, shown for every label"
    revision: ClassVar[int] = 2
    of: Method = required("the method whose map of the top label is shown", main=True)

    label_free = True

    def prepare(self, classifier: Classifier) -> ReadyTopLabel:
        return ReadyTopLabel(self, classifier, self.of.prepare(classifier))

    def cost(self, labels: int) -> Cost | None:
        return _with_one_pass(self.of.cost(1))

    def changed_maps(self, maps: Tensor) -> Tensor:
        return maps


@dataclass(frozen=True, eq=False)
class ReadyTopLabel(ReadyWrapper):
    """The wrapper that asks the net for its top label."""

    def cost(self, labels: int) -> Cost | None:
        return _with_one_pass(self.of.cost(1))

    def take(self, maps: Tensor, images: Tensor, labels: Tensor, *, seed: int, progress: Progress) -> Tensor:
        """The top label's map among those that were made for all labels; made anew where it is not among them."""
        top = self.classifier.top(images, 1)
        there = labels == top
        first = there.to(torch.int64).argmax(dim=1)
        taken = maps[torch.arange(len(maps), device=maps.device), first][:, None]
        missing = ~there.any(dim=1)
        if bool(missing.any()):
            taken[missing] = self.of(images[missing], top[missing], seed=seed, progress=progress)
        return self.spread(taken, labels)

    def cost_of_taking(self) -> Cost:
        return Cost(forward=1)

    def compute(self, images: Tensor, labels: Tensor, *, seed: int, progress: Progress) -> Tensor:
        return self.of(images, self.classifier.top(images, 1), seed=seed, progress=progress)


def _with_one_pass(cost: Cost | None) -> Cost | None:
    return None if cost is None else cost + Cost(forward=1)
