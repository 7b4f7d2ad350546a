"""What replaces hidden pixels: the random part of the paper's input modification Gamma.

A fill is a frozen record of settings. ``fill.prepare(classifier)`` gives a fill that is ready for that classifier's
input; a ready fill maps images ``(N, C, H, W)`` and stream keys ``(N,)`` to backgrounds ``(N, C, H, W)`` in pixel
space, the same for the same key.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.errors import InputError


class Fill(ABC):
    """Settings of a fill; see the module's text for the two calls."""

    name: ClassVar[str]
    random: ClassVar[bool] = False
    """Whether two keys give two backgrounds; if not, one draw is as good as many."""

    def prepare(self, classifier: Classifier) -> Fill:
        """A fill that is ready for this classifier's input."""
        return self

    @abstractmethod
    def __call__(self, images: Tensor, keys: Tensor) -> Tensor:
        """Backgrounds ``(N, C, H, W)`` for images and stream keys ``(N,)``."""

    def settings(self) -> dict[str, object]:
        """What a record of results must carry."""
        return {"fill": self.name}


@dataclass(frozen=True)
class Gray(Fill):
    """One colour everywhere: the classifier's own gray (which normalises to 0) unless another is given.

    >>> Gray(color=(0.0, 0.5, 1.0))(torch.zeros(1, 3, 2, 2), torch.tensor([0]))[0, :, 0, 0]
    tensor([0.0000, 0.5000, 1.0000])
    """

    name: ClassVar[str] = "gray"
    color: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.color is not None and not all(0 <= c <= 1 for c in self.color):
            raise InputError(f"Gray color must lie in [0, 1] per channel, not {self.color}")

    def prepare(self, classifier: Classifier) -> Gray:
        color = tuple(classifier.gray.tolist()) if self.color is None else self.color
        if len(color) != classifier.channels:
            raise InputError(
                f"Gray color has {len(color)} channels, the classifier takes {classifier.channels}"
            )
        return Gray(color=color)

    def __call__(self, images: Tensor, keys: Tensor) -> Tensor:
        if self.color is None:
            raise InputError("Gray() has no colour yet; call prepare(classifier) or give color=")
        return images.new_tensor(self.color).view(1, -1, 1, 1).expand_as(images)

    def settings(self) -> dict[str, object]:
        return {"fill": self.name, "color": _rounded(self.color)}


@dataclass(frozen=True)
class Blur(Fill):
    """The image itself, blurred. The default is the substrate of RISE: an 11 x 11 kernel of sigma 5 whose mass
    outside the window is folded back, and gray beyond the border (zero padding after normalisation)."""

    name: ClassVar[str] = "blur"
    sigma: float = 5.0
    kernel: int = 11
    border: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not (self.sigma > 0 and self.kernel > 0 and self.kernel % 2 == 1):
            raise InputError(f"Blur needs sigma > 0 and an odd kernel, got {self.sigma} and {self.kernel}")

    def prepare(self, classifier: Classifier) -> Blur:
        return replace(self, border=self.border or tuple(classifier.gray.tolist()))

    def weights(self) -> Tensor:
        """The one-dimensional kernel: a Gaussian cut at 4 sigma, reflected at the window's edges; sums to 1."""
        radius = int(4 * self.sigma + 0.5)
        folded = torch.zeros(self.kernel, dtype=torch.float64)
        for offset in range(-radius, radius + 1):
            place = (self.kernel // 2 + offset) % (2 * self.kernel)
            folded[min(place, 2 * self.kernel - 1 - place)] += math.exp(-0.5 * (offset / self.sigma) ** 2)
        return (folded / folded.sum()).float()

    def __call__(self, images: Tensor, keys: Tensor) -> Tensor:
        if self.border is None:
            raise InputError("Blur() does not know its border colour yet; call prepare(classifier)")
        border = images.new_tensor(self.border).view(1, -1, 1, 1)
        line = self.weights().to(images)
        channels = images.shape[1]
        x = images - border  # so that zero padding means the border colour
        x = F.conv2d(
            x, line.view(1, 1, -1, 1).expand(channels, 1, -1, 1), padding=(len(line) // 2, 0), groups=channels
        )
        x = F.conv2d(
            x, line.view(1, 1, 1, -1).expand(channels, 1, 1, -1), padding=(0, len(line) // 2), groups=channels
        )
        return x + border

    def settings(self) -> dict[str, object]:
        return {
            "fill": self.name,
            "sigma": self.sigma,
            "kernel": self.kernel,
            "border": _rounded(self.border),
        }


@dataclass(frozen=True)
class Noise(Fill):
    """Independent Gaussian pixels around the classifier's gray, clipped to [0, 1]."""

    name: ClassVar[str] = "noise"
    random: ClassVar[bool] = True
    sigma: float = 0.2
    center: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not self.sigma > 0:
            raise InputError(f"Noise sigma must be positive, not {self.sigma}")

    def prepare(self, classifier: Classifier) -> Noise:
        return replace(self, center=self.center or tuple(classifier.gray.tolist()))

    def __call__(self, images: Tensor, keys: Tensor) -> Tensor:
        if self.center is None:
            raise InputError("Noise() does not know the gray yet; call prepare(classifier) or give center=")
        draws = streams.normal(keys, images[0].numel()).view(-1, *images.shape[1:])
        return (images.new_tensor(self.center).view(1, -1, 1, 1) + self.sigma * draws).clamp(0, 1)

    def settings(self) -> dict[str, object]:
        return {"fill": self.name, "sigma": self.sigma, "center": _rounded(self.center)}


@dataclass(frozen=True, eq=False)
class Images(Fill):
    """Random images: the paper's distractors, drawn with replacement from a fixed pool.

    ``source`` is a folder, a list of files, an array or tensor of images, any dataset (items may be (image, label)),
    or ``"samples"``: crops of the photographs inside scikit-image. Pictures that already have the input's size are
    taken as they are when ``crop`` is ``"none"``; ``"random"`` takes random resized crops and flips, one per draw of
    the pool, as the paper's code prepared its pool. ``size`` is the number of pictures in the pool.
    """

    name: ClassVar[str] = "images"
    random: ClassVar[bool] = True
    source: Any = "samples"
    size: int = 256
    crop: str = "random"
    seed: int = 0
    pool: Tensor | None = field(default=None, repr=False)
    digest: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InputError(f"Images size must be at least 1, not {self.size}")
        if self.crop not in ("random", "none"):
            raise InputError(f"Images crop must be 'random' or 'none', not {self.crop!r}")

    def prepare(self, classifier: Classifier) -> Images:
        if self.pool is not None and tuple(self.pool.shape[1:]) == (classifier.channels, *classifier.size):
            return (
                self
                if self.pool.device == classifier.device
                else replace(self, pool=self.pool.to(classifier.device))
            )
        from proofmap.data.pool import build_pool

        shape = (classifier.channels, *classifier.size)
        pool = build_pool(self.source, shape, size=self.size, crop=self.crop, seed=self.seed)
        digest = hashlib.blake2b(np.ascontiguousarray(pool.numpy()).tobytes(), digest_size=8).hexdigest()
        return replace(self, pool=pool.to(classifier.device), digest=digest)

    def __call__(self, images: Tensor, keys: Tensor) -> Tensor:
        if self.pool is None:
            raise InputError("Images() has no pool yet; call prepare(classifier)")
        index = streams.integers(keys, 1, len(self.pool))[:, 0]
        return self.pool[index].to(images.dtype) / 255.0

    def settings(self) -> dict[str, object]:
        source = str(self.source) if isinstance(self.source, (str, Path)) else type(self.source).__name__
        pool = {
            "source": source,
            "size": self.size,
            "crop": self.crop,
            "seed": self.seed,
            "digest": self.digest,
        }
        return {"fill": self.name, **pool}


def _rounded(color: tuple[float, ...] | None) -> list[float] | None:
    return None if color is None else [round(c, 6) for c in color]


FILLS: dict[str, type[Fill]] = {kind.name: kind for kind in (Gray, Blur, Noise, Images)}


def make_fill(fill: str | Fill) -> Fill:
    """A fill from its name, from ``images:FOLDER``, or as given.

    >>> make_fill("gray")
    Gray(color=None)
    """
    if isinstance(fill, Fill):
        return fill
    name, _, argument = fill.partition(":")
    if name == "images" and argument:
        return Images(source=Path(argument))
    if name not in FILLS or argument:
        raise InputError(f"no fill is named {fill!r}; known are {', '.join(FILLS)} and images:FOLDER")
    return FILLS[name]()
