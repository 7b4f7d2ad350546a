"""Maps that know nothing of the net: any method worth its cost must beat them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.progress import Progress
from proofmap.core.ranking import center_distance
from proofmap.methods.method import METHODS, Cost, Family, Method, MethodLike, ReadyMethod, make_method
from proofmap.plugins.settings import required, setting


@METHODS.register
@dataclass(frozen=True, kw_only=True)
class Random(Method):
    """Independent standard normal values at every pixel; one map for all labels unless ``per_label``."""

    name: ClassVar[str] = "random"
    family: ClassVar[Family] = "control"
    description: ClassVar[str] = "independent Gaussian noise"
    per_label: bool = setting(False, "a map of its own for each label")
    seed_offset: int = setting(0, "other maps for the same seed")

    stochastic = True

    @property
    def label_free(self) -> bool:  # type: ignore[override]
        return not self.per_label

    def cost(self, labels: int) -> Cost:
        return Cost()

    def compute(
        self, classifier: Classifier, images: Tensor, labels: Tensor, *, seed: int, progress: Progress
    ) -> Tensor:
        positions = classifier.inputs.positions
        if self.per_label:
            rows, columns = labels.shape
            pairs = [(i, int(labels[i, j])) for i in range(rows) for j in range(columns)]
            keys = streams.pair_keys(images, pairs, seed, self.seed_offset, "random map")
        else:
            keys = streams.image_keys(images, seed, self.seed_offset, "random map")
        return streams.normal(keys, classifier.inputs.count).view(*labels.shape, *positions)


@METHODS.register
@dataclass(frozen=True, kw_only=True)
class CenteredGaussian(Method):
    """An isotropic Gaussian bump in the middle: photographers put things there.

    Only the order of distances matters for curves; ``sigma``, a share of the shorter side, is for display.
    """

    name: ClassVar[str] = "centered-gaussian"
    family: ClassVar[Family] = "control"
    description: ClassVar[str] = "a bump in the middle of the picture"
    sigma: float = setting(0.25, "width of the bump, a share of the shorter side; for display", above=0)

    label_free = True

    def cost(self, labels: int) -> Cost:
        return Cost()

    def compute(
        self, classifier: Classifier, images: Tensor, labels: Tensor, *, seed: int, progress: Progress
    ) -> Tensor:
        positions = classifier.inputs.positions
        distance = center_distance(positions, images.device)
        bump = torch.exp(-0.5 * distance / (self.sigma * min(positions)) ** 2)
        return bump.expand(len(images), 1, *positions)


@METHODS.register
@dataclass(frozen=True, kw_only=True)
class TopLabel(Method):
    """The map of each image's most probable label, shown for every label: what the paper calls cheating.

    It buys soundness without effort, and best effort shows it. Written ``top-label:METHOD``. Where METHOD itself is judged
    too, its maps are taken, and cost nothing more.
    """

    name: ClassVar[str] = "top-label"
    family: ClassVar[Family] = "control"
    description: ClassVar[str] = "another method's map of the top label, shown for every label"
    revision: ClassVar[int] = 2
    of: Method = required("the method whose map of the top label is shown", main=True)

    label_free = True

    @property
    def stochastic(self) -> bool:  # type: ignore[override]
        return self.of.stochastic

    @property
    def signed(self) -> bool:  # type: ignore[override]
        return self.of.signed

    def prepare(self, classifier: Classifier) -> ReadyTopLabel:
        return ReadyTopLabel(self, classifier, self.of.prepare(classifier))

    def cost(self, labels: int) -> Cost | None:
        inner = self.of.cost(1)
        return None if inner is None else inner + Cost(forward=1)

    @classmethod
    def build(cls, options: Mapping[str, Any]) -> Self:
        if "of" not in options:
            raise InputError("top-label needs the method whose map it shows, such as top-label:grad-cam")
        return super().build(options)

    @classmethod
    def wrap(cls, method: MethodLike) -> TopLabel:
        """The wrapper around any method, name or function."""
        return cls(of=make_method(method))


@dataclass(frozen=True, eq=False)
class ReadyTopLabel(ReadyMethod):
    """The wrapper with the method inside it ready for the same net."""

    of: ReadyMethod

    def record(self) -> dict[str, object]:
        return {**super().record(), "of": self.of.record()}

    @property
    def made_from(self) -> ReadyMethod:
        return self.of

    def take(self, maps: Tensor, images: Tensor, labels: Tensor, *, seed: int, progress: Progress) -> Tensor:
        """The top label's map among those that were made for all labels; made anew where it is not among them."""
        top = self.classifier.top(images, 1)
        there = labels == top
        taken = maps[torch.arange(len(maps), device=maps.device), there.to(torch.int64).argmax(dim=1)][
            :, None
        ]
        missing = ~there.any(dim=1)
        if bool(missing.any()):
            taken[missing] = self.of(images[missing], top[missing], seed=seed, progress=progress)
        return self.spread(taken, labels)

    def cost_of_taking(self) -> Cost:
        return Cost(forward=1)

    def compute(self, images: Tensor, labels: Tensor, *, seed: int, progress: Progress) -> Tensor:
        return self.of(images, self.classifier.top(images, 1), seed=seed, progress=progress)
