"""Maps that know nothing of the net: any method worth its cost must beat them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.progress import Progress
from proofmap.core.ranking import center_distance
from proofmap.methods.method import METHODS, Cost, Method, MethodLike, make_method


@METHODS.register
@dataclass(frozen=True, kw_only=True)
class Random(Method):
    """Independent standard normal values at every pixel; one map for all labels unless ``per_label``."""

    name: ClassVar[str] = "random"
    meaning: ClassVar[str] = "independent Gaussian noise"
    per_label: bool = False
    seed_offset: int = 0

    stochastic = True

    @property
    def label_free(self) -> bool:  # type: ignore[override]
        return not self.per_label

    def cost(self, labels: int) -> Cost:
        return Cost()

    def compute(
        self, classifier: Classifier, images: Tensor, labels: Tensor, *, seed: int, progress: Progress
    ) -> Tensor:
        n = images[0, 0].numel()
        if self.per_label:
            rows, columns = labels.shape
            pairs = [(i, int(labels[i, j])) for i in range(rows) for j in range(columns)]
            keys = streams.pair_keys(images, pairs, seed, self.seed_offset, "random map")
        else:
            keys = streams.image_keys(images, seed, self.seed_offset, "random map")
        return streams.normal(keys, n).view(*labels.shape, *images.shape[2:])


@METHODS.register
@dataclass(frozen=True, kw_only=True)
class CenteredGaussian(Method):
    """An isotropic Gaussian bump in the middle: photographers put things there.

    Only the order of distances matters for curves; ``sigma``, a share of the shorter side, is for display.
    """

    name: ClassVar[str] = "centered-gaussian"
    meaning: ClassVar[str] = "a bump in the middle of the picture"
    sigma: float = 0.25

    label_free = True

    def __post_init__(self) -> None:
        if not self.sigma > 0:
            raise InputError(f"sigma must be positive, not {self.sigma}")

    def cost(self, labels: int) -> Cost:
        return Cost()

    def compute(
        self, classifier: Classifier, images: Tensor, labels: Tensor, *, seed: int, progress: Progress
    ) -> Tensor:
        positions = images.shape[2:]
        distance = center_distance(positions, images.device)
        bump = torch.exp(-0.5 * distance / (self.sigma * min(positions)) ** 2)
        return bump.expand(len(images), 1, *positions)


@METHODS.register
@dataclass(frozen=True, kw_only=True)
class TopLabel(Method):
    """The map of each image's most probable label, shown for every label: what the paper calls cheating.

    It buys soundness without effort, and best effort shows it. Written ``top-label:METHOD``.
    """

    name: ClassVar[str] = "top-label"
    meaning: ClassVar[str] = "another method's map of the top label, shown for every label"
    of: Method

    label_free = True

    @property
    def stochastic(self) -> bool:  # type: ignore[override]
        return self.of.stochastic

    def prepare(self, classifier: Classifier) -> TopLabel:
        return TopLabel(of=self.of.prepare(classifier))

    def cost(self, labels: int) -> Cost | None:
        inner = self.of.cost(1)
        return None if inner is None else inner + Cost(forward=1)

    @classmethod
    def from_text(cls, text: str) -> TopLabel:
        if not text:
            raise InputError("top-label needs the method whose map it shows, such as top-label:grad-cam")
        return cls(of=make_method(text))

    @classmethod
    def wrap(cls, method: MethodLike) -> TopLabel:
        """The wrapper around any method, name or function."""
        return cls(of=make_method(method))

    def compute(
        self, classifier: Classifier, images: Tensor, labels: Tensor, *, seed: int, progress: Progress
    ) -> Tensor:
        return self.of(classifier, images, classifier.top(images, 1), seed=seed, progress=progress)
