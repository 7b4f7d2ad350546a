"""Sanity checks (Adebayo et al. 2018): maps of a trained net must differ from those of an untrained one.

The weights of a copy of the net are randomised, in its last layer or in all (:mod:`proofmap.classifier.randomised`), the method runs
again, and the two maps are compared. Maps that do not change come from the input, not from what the net has learned.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.randomised import layers_of, randomised
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL
from proofmap.core.tensors import exact
from proofmap.methods.method import Cost, Method
from proofmap.metrics.boxes import unit_scale
from proofmap.metrics.judged import Judged
from proofmap.metrics.metric import METRICS, Metric
from proofmap.metrics.reliability import spearman
from proofmap.plugins.settings import Shortcuts, setting
from proofmap.session import Session

Similarity = Literal["rank", "abs-rank", "ssim"]
_SIGMA, _WINDOW = 1.5, 11


def ssim(a: Tensor, b: Tensor) -> Tensor:
    """Structural similarity ``(P,)`` (Wang et al. 2004) between the corresponding maps of a and b ``(P, *positions)``, with values
    in ``[0, 1]``.

        (2 ma mb + C1) (2 cov + C2) / ((ma^2 + mb^2 + C1) (va + vb + C2)),     C1 = .01^2, C2 = .03^2

    of means, variances and covariance under a Gaussian window of 11 positions a side, sigma 1.5 (fewer on smaller maps),
    averaged over the windows that lie inside the map.
    """
    axes = range(1, a.ndim)
    if math.prod(a.shape[1:]) < 2:
        raise InputError("structural similarity needs maps of two positions or more")
    a, b = exact(a), exact(b)
    moments = torch.stack([a, b, a * a, b * b, a * b])
    for axis in axes:
        moments = _window(moments, axis + 1)
    ma, mb, aa, bb, ab = moments
    va, vb, cov = aa - ma * ma, bb - mb * mb, ab - ma * mb
    c1, c2 = 0.01**2, 0.03**2
    local = (2 * ma * mb + c1) * (2 * cov + c2) / ((ma * ma + mb * mb + c1) * (va + vb + c2))
    found: Tensor = local.flatten(1).mean(dim=1)
    return found


def _window(values: Tensor, axis: int) -> Tensor:
    """Means under the Gaussian window along an axis, at all positions where the window lies inside the map."""
    side = values.shape[axis]
    width = min(_WINDOW, side - 1 + side % 2)  # odd
    distance = torch.arange(width, device=values.device, dtype=values.dtype) - width // 2
    weights = torch.exp(-0.5 * (distance / _SIGMA) ** 2)
    return values.unfold(axis, width, 1) @ (weights / weights.sum())


Layers = Literal["last", "all"]


@METRICS.register
class Randomisation(Metric):
    """Similarity between the maps of the net and of the randomised net; mean over an image's labels.

    ``preset=smooth`` is sMPRT (Hedstroem et al. 2024): both maps are means over 50 noisy copies of the image, so that gradient
    noise is not mistaken for sensitivity. ``layers=last`` is the check of the paper's appendix.
    """

    name = "randomisation"
    higher_is_better = False
    limits = (-1.0, 1.0)
    description = "similarity of a map with that of the net with randomised weights"
    reference = "Adebayo et al. 2018; Hedstroem et al. 2024"
    shortcuts: ClassVar[Shortcuts] = {"preset": {"smooth": {"samples": 50}}}

    layers: Layers = setting("all", "layers whose weights are randomised: the last one, or all")
    draw: int = setting(0, "another value gives other random weights for the same seed", least=0)
    similarity: Similarity = setting(
        "rank", "measure of similarity: rank correlation of values, or of absolute values, or SSIM"
    )
    samples: int = setting(
        1,
        "number of noisy copies of the image that maps are averaged over; 1: the image itself, without noise",
        least=1,
    )
    noise: float = setting(
        0.1,
        "standard deviation of the noise in the copies, as a share of the image's range of values",
        above=0,
    )

    def cost(self, labels: int, method: Cost | None) -> Cost | None:
        return None if method is None else method * (1 if self.samples == 1 else 2 * self.samples)

    def pairs(self, judged: Judged) -> Tensor:
        if self.similarity == "ssim" and not judged.inputs.has_neighbours:
            raise InputError(
                f"ssim needs neighbours; {judged.inputs.noun} have none, so take similarity=rank"
            )
        noise = self.noise if self.samples > 1 else 0.0
        first = judged.maps
        if self.samples > 1:
            first = judged.once(("smooth", self.samples, noise), lambda: self._maps(judged, judged.session))
        key = ("drawn anew", self.layers, self.draw, self.samples, noise)
        second = judged.once(key, lambda: self._maps(judged, judged.session.for_net(self._other(judged))))
        found = Randomisation.compared(first.flatten(0, 1), second.flatten(0, 1), self.similarity)
        return found.view(judged.labels.shape).masked_fill(judged.labels == NO_LABEL, torch.nan).float()

    def from_pairs(self, judged: Judged, pairs: Tensor) -> Tensor:
        return pairs.nanmean(dim=1)

    def _other(self, judged: Judged) -> Classifier:
        """A copy of the net in which the weights of the last layer, or of all layers, are randomised."""
        chosen = layers_of(judged.classifier)[-1 if self.layers == "last" else 0 :]
        seed = streams.key_of(judged.session.seed, self.draw)
        return randomised(judged.classifier, [name for layer in chosen for name in layer], seed=seed)

    def _maps(self, judged: Judged, session: Session) -> Tensor:
        session, how = session.like(shared=frozenset()), {"samples": self.samples, "noise": self.noise}
        return Randomisation.smooth_maps(session, judged.known_method, judged.images, judged.labels, **how)  # type: ignore[arg-type]

    @staticmethod
    def compared(a: Tensor, b: Tensor, how: Similarity) -> Tensor:
        """The similarity ``(P,)`` between the corresponding maps of a and b ``(P, *positions)``; 1 for equal maps.

        ``rank`` is Spearman's correlation of the values, ``abs-rank`` that of their absolute values, ``ssim`` is :func:`ssim` of the maps
        scaled to [0, 1]. 0 if one of the two is constant; NaN if both are.
        """
        flat, other = a.flatten(1), b.flatten(1)
        if how == "ssim":
            found = ssim(unit_scale(exact(a)), unit_scale(exact(b)))
        else:
            found = spearman(flat.abs(), other.abs()) if how == "abs-rank" else spearman(flat, other)
        still = [(row == row[:, :1]).all(dim=1) for row in (flat, other)]
        found = found.masked_fill(still[0] ^ still[1], 0.0)
        return found.masked_fill(still[0] & still[1], torch.nan)

    @staticmethod
    def smooth_maps(
        session: Session, method: Method, images: Tensor, labels: Tensor, *, samples: int, noise: float
    ) -> Tensor:
        """The mean of a method's maps ``(N, L, *positions)`` over noisy copies of each image. If ``samples`` is 1, the maps of the
        images without noise.

        The noise is Gaussian; its standard deviation is ``noise`` times the range of the image's values. Noisy copies are clipped to the limits
        of the inputs, if there are any.
        """
        if samples == 1:
            return session.maps(method, images, labels)
        inputs = session.inputs
        flat = images.flatten(1)
        width = noise * (flat.amax(dim=1) - flat.amin(dim=1))
        total: Tensor | None = None
        for k in range(samples):
            drawn = streams.normal(streams.image_keys(images, session.seed, "smooth", k), flat.shape[1])
            noisy = (flat + width[:, None] * drawn).view_as(images)
            noisy = noisy if inputs.limits is None else noisy.clamp(*inputs.limits)
            maps = session.maps(method, noisy, labels)
            total = maps if total is None else total + maps
        assert total is not None
        return total / samples
