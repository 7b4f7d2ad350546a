"""What a masker has learned, at a glance: whether its maps vary over an image, and differ between labels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from proofmap.methods.method import ReadyMethod

IMAGES = 16
"""Images that are looked at, at most."""
_FLAT, _EQUAL, _LARGE = 1e-3, 0.98, 100.0
_MANY = 0.5


class MaskerWarning(UserWarning):
    """A masker whose maps look as if it had learned nothing, or that is asked for labels which it never saw."""


@dataclass(frozen=True)
class Learned:
    """The maps of the two likeliest labels of a few images of the training data.

    It costs next to nothing and finds failures that are silent otherwise. It does not say that maps are good proofs; metrics do.

    Attributes:
        images: how many images.
        mean: of all values of the maps.
        spread: the standard deviation over an image's positions, its mean over maps.
        flat: the share of maps with a deviation below .001; masks lie in [0, 1], maps of belief maskers have a deviation of 2.
        correlation: |r| between the maps of an image's two labels, its mean over images. Of flat maps r is 1 where both are flat, and
            0 where one is. None where one map serves all labels, or where there is one label.
        equal: the share of images with r > .98, None likewise.
    """

    images: int
    mean: float
    spread: float
    flat: float
    correlation: float | None = None
    equal: float | None = None

    def told(self) -> str:
        """The numbers in one line.

        >>> Learned(16, 0.1, 0.213, 0.0, 0.62, 0.0).told()
        'maps of 16 images of the data: mean 0.1, spread 0.213, |correlation| of the two likeliest labels 0.62'
        """
        text = f"maps of {self.images} images of the data: mean {self.mean:.3g}, spread {self.spread:.3g}"
        if self.correlation is None:
            return text
        return f"{text}, |correlation| of the two likeliest labels {self.correlation:.3g}"

    def doubts(self) -> list[str]:
        """What looks wrong, each as a sentence.

        >>> Learned(16, 0.005, 0.0001, 1.0).doubts()
        ['its maps are constant on most images, and rank nothing']
        """
        found = []
        if self.flat > _MANY:
            found.append("its maps are constant on most images, and rank nothing")
        if self.equal is not None and self.equal > _MANY:
            found.append(
                "its maps of the two likeliest labels are the same on most images, and say nothing of labels"
            )
        if self.spread > _LARGE:
            found.append(f"its maps are very large (spread {self.spread:.3g}): the training ran away")
        return found


def look(ready: ReadyMethod, images: Tensor) -> Learned:
    """What a masker's method makes of images ``(N, C, H, W)``."""
    classifier = ready.classifier
    labels = classifier.top(images, min(2, len(classifier.label_set)))
    maps = ready(images, labels).flatten(2).double()
    deviation = maps.std(dim=2, correction=0)
    flat = deviation < _FLAT
    found = Learned(len(images), _short(maps.mean()), _short(deviation.mean()), _short(flat.double().mean()))
    if ready.label_free or labels.shape[1] < 2:
        return found
    standard = (maps - maps.mean(dim=2, keepdim=True)) / deviation[..., None].clamp_min(_FLAT)
    r = standard.prod(dim=1).mean(dim=1).where(~flat.any(dim=1), flat.all(dim=1).double())
    correlation, equal = _short(r.abs().mean()), _short((r > _EQUAL).double().mean())
    return Learned(found.images, found.mean, found.spread, found.flat, correlation, equal)


def _short(value: Tensor) -> float:
    """Four digits: a record that rounding does not change."""
    return float(f"{float(torch.as_tensor(value)):.4g}")
