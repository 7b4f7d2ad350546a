"""Random images as backgrounds: the paper's distractors."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs, Pictures
from proofmap.fills.fill import FILLS, Fill, ReadyFill
from proofmap.plugins.settings import setting

Crop = Literal["random", "none"]
SAMPLES = "samples"


@FILLS.register
@dataclass(frozen=True, kw_only=True, eq=False)
class Images(Fill):
    """Random images: the paper's distractors, drawn with replacement from a fixed pool.

    ``source`` is a folder, a list of files, an array or tensor of images, any dataset (items may be (image, label)),
    or ``"samples"``: crops of the photographs inside scikit-image. Pictures that already have the input's size are
    taken as they are when ``crop`` is ``"none"``; ``"random"`` takes random resized crops and flips, one per draw of
    the pool, as the paper's code prepared its pool. ``size`` is the number of pictures in the pool. For other kinds
    of input the source is an array or tensor ``(M, *shape)``.
    """

    name: ClassVar[str] = "images"
    description: ClassVar[str] = "random images from a pool: the paper's distractors"
    random: ClassVar[bool] = True
    source: Any = setting(SAMPLES, "a folder, or samples: crops of scikit-image's photographs", main=True)
    size: int = setting(256, "pictures in the pool", least=1)
    crop: Crop = setting("random", "random resized crops and flips, or none")
    seed: int = setting(0, "of the random crops")

    @property
    def is_usual(self) -> bool:
        """Whether the pool is the one of someone who named none: the sample photographs."""
        return isinstance(self.source, str) and self.source == SAMPLES

    def prepare(self, classifier: Classifier) -> ReadyImages:
        from proofmap.data import pool as pools  # when it is first needed: datasets take a while to import

        inputs = classifier.inputs
        if isinstance(inputs, Pictures):
            shape = (inputs.channels, *inputs.size)
            pool = pools.build_pool(self.source, shape, size=self.size, crop=self.crop, seed=self.seed)
        else:
            pool = self._values(inputs)
        digest = hashlib.blake2b(np.ascontiguousarray(pool.numpy()).tobytes(), digest_size=8).hexdigest()
        return ReadyImages(self, inputs, pool.to(classifier.device), digest)

    def _values(self, inputs: Inputs) -> Tensor:
        if isinstance(self.source, (str, Path)):
            raise InputError(
                f"distractors for {inputs.noun} need source = an array (M, {', '.join(map(str, inputs.shape))}), "
                f"not {self.source!r}; or use another fill"
            )
        pool = inputs.check(torch.as_tensor(self.source).float())
        order = streams.permutations(torch.tensor(streams.key_of(self.seed, "pool order")), len(pool))
        return pool[order[: self.size]]

    def settings(self) -> dict[str, object]:
        return {**super().settings(), "source": self._source_text()}

    def _source_text(self) -> str:
        return str(self.source) if isinstance(self.source, (str, Path)) else type(self.source).__name__

    def _changed(self) -> tuple[str, list[str]]:
        """What has no text, such as an array, is not written."""
        main, changed = super()._changed()
        written = isinstance(self.source, (str, Path))
        return main, [part for part in changed if written or not part.startswith("source=")]

    def _identity(self) -> tuple[object, ...]:
        plain = isinstance(self.source, (str, Path)) or (
            isinstance(self.source, tuple) and all(isinstance(item, (str, Path)) for item in self.source)
        )
        return (self.source if plain else id(self.source), self.size, self.crop, self.seed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Images) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())


@dataclass(frozen=True, eq=False)
class ReadyImages(ReadyFill):
    """The pool on the device: bytes for pictures, floats otherwise; known by the digest of its content."""

    pool: Tensor
    digest: str

    def __call__(self, images: Tensor, keys: Tensor) -> Tensor:
        index = streams.integers(keys, 1, len(self.pool))[:, 0]
        drawn = self.pool[index].to(images.dtype)
        return drawn / 255.0 if self.pool.dtype == torch.uint8 else drawn

    def record(self) -> dict[str, object]:
        return {**self.fill.settings(), "digest": self.digest}
