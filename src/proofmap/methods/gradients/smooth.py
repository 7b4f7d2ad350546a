"""SmoothGrad: the gradient, averaged over noisy copies of the image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.progress import Progress, Task
from proofmap.methods.gradients.plain import CHANNELS_HELP, Channels, scale_of
from proofmap.methods.gradients.points import Each, blocks, sums_over_points
from proofmap.methods.method import METHODS, Cost, Family, Method, Need
from proofmap.plugins.settings import setting

Of = Literal["gradient", "absolute-gradient", "gradient-x-input"]
Statistic = Literal["mean", "squared", "variance"]
Noise = Literal["range", "normalised"]


@METHODS.register
@dataclass(frozen=True, kw_only=True)
class SmoothGrad(Method):
    """The mean over K noisy copies x_k = x + s e_k of v(x_k), e_k standard normal (Smilkov et al. 2017).

        of = gradient              v = d logit_a / d x      the size of the mean, |mean v|
        of = absolute-gradient     v = |d logit_a / d x|    the mean of the sizes
        of = gradient-x-input      v = x * d logit_a / d x  signed

    all in normalised units. ``squared`` is the mean of v^2 (Hooker et al. 2019), ``variance`` that of v (Adebayo et al.
    2018), both for each channel. s is ``sigma`` times the range (largest less smallest value) of the normalised image, or
    ``sigma`` itself with ``noise=normalised``. The copies are the same for all labels of an image, and are not clipped.

    Presets, because the sources differ: ``smilkov`` (the defaults) is the paper's, ``captum`` what its NoiseTunnel around
    Saliency does by default, ``gupta`` what Gupta et al. 2022 describe (samples and sigma are not said there: Captum's).

    >>> SmoothGrad.preset("captum").samples
    5
    """

    name: ClassVar[str] = "smooth-grad"
    family: ClassVar[Family] = "gradients"
    reference: ClassVar[str] = "Smilkov et al. 2017"
    description: ClassVar[str] = "gradient, averaged over noisy copies of the image"
    needs: ClassVar[frozenset[Need]] = frozenset({"gradients"})
    shortcuts: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
        "preset": {
            "smilkov": {},
            "captum": {"of": "absolute-gradient", "samples": 5, "sigma": 1.0, "noise": "normalised"},
            "gupta": {"of": "gradient-x-input", "samples": 5, "sigma": 1.0, "noise": "normalised"},
        }
    }

    of: Of = setting("gradient", "what is averaged: the gradient, its size, or gradient times input")
    samples: int = setting(50, "noisy copies of each image", least=1)
    sigma: float = setting(0.15, "standard deviation of the noise", above=0)
    noise: Noise = setting("range", "sigma is a share of the image's range, or in normalised units")
    statistic: Statistic = setting("mean", "over the copies: their mean, mean square, or variance")
    channels: Channels | None = setting(None, f"{CHANNELS_HELP}; none: sum if signed, else max")

    stochastic = True

    @property
    def signed(self) -> bool:  # type: ignore[override]
        return self.of == "gradient-x-input" and self.statistic == "mean"

    def cost(self, labels: int) -> Cost:
        return Cost(gradient=labels * self.samples)

    def compute(
        self, classifier: Classifier, images: Tensor, labels: Tensor, *, seed: int, progress: Progress
    ) -> Tensor:
        keys = streams.image_keys(images, seed, "smooth-grad")
        with progress.task(self.name, labels.numel() * self.samples) as task:
            maps = [
                self._maps(classifier, images[some], labels[some], keys[some], task)
                for some in blocks(len(images), classifier, self.samples)
            ]
        return torch.cat(maps)

    def _maps(
        self, classifier: Classifier, images: Tensor, labels: Tensor, keys: Tensor, task: Task
    ) -> Tensor:
        inputs = classifier.inputs
        mean, std = scale_of(classifier)
        x = (images - mean) / std
        flat = x.flatten(1)
        spread = flat.amax(dim=1) - flat.amin(dim=1) if self.noise == "range" else torch.ones_like(flat[:, 0])
        spread = (self.sigma * spread).view(-1, *[1] * len(inputs.shape))

        def points(image: Tensor, copy: Tensor) -> tuple[Tensor, Each]:
            own = streams.step_keys(keys[image], copy, 1)[:, 0]
            noise = streams.normal(own, flat.shape[1]).view(-1, *inputs.shape)
            noisy = x[image] + spread[image] * noise

            def moments(gradient: Tensor) -> Tensor:
                v = gradient * std
                if self.of == "gradient-x-input":
                    v = v * noisy
                elif self.of == "absolute-gradient":
                    v = v.abs()
                return {
                    "mean": lambda: v[:, None],
                    "squared": lambda: v.square()[:, None],
                    "variance": lambda: torch.stack([v, v.square()], dim=1),
                }[self.statistic]()

            return noisy * std + mean, moments

        sums = sums_over_points(classifier, labels, self.samples, points, task) / self.samples
        values = sums[:, :, 0]
        if self.statistic == "variance":
            values = (sums[:, :, 1] - values.square()).clamp_min(0)
        elif not self.signed:
            values = values.abs()
        return inputs.merged_channels(values, self.channels or ("sum" if self.signed else "max"))
