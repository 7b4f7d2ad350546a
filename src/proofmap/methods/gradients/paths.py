"""Gradients at many points: SmoothGrad (around an image) and integrated gradients (on the path from a baseline to it).

All labels of an image share its points, so each point costs one forward pass and one backward pass per label. Points of several images may
share a batch, and points of one image may be in several batches: the sums are the same.

Some methods distribute a number over the positions. Integrated gradients and DeepLIFT distribute the change of the logit from a
baseline to the input; relevance propagation distributes the logit itself. The values of such a map must add up to that number.
:func:`check_sums` warns if they do not, because of too few steps or an operation that is handled wrongly.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.batching import in_batches
from proofmap.core.labels import NO_LABEL
from proofmap.core.progress import ProgressTask
from proofmap.core.tensors import exact
from proofmap.fills import Fill, Gray
from proofmap.fills.text import TextFill
from proofmap.methods.gradients.plain import CHANNELS_HELP, Channels, input_gradients
from proofmap.methods.method import METHODS, Cost, Method
from proofmap.plugins.settings import Shortcuts, setting
from proofmap.session import Session


class BaselineMethod(Method):
    """A method with a baseline x'. Any fill can be the baseline; a random fill is drawn ``draws`` times.

    Each method declares these settings itself, because titles list settings in the order of the class.
    """

    if TYPE_CHECKING:
        baseline: Fill
        draws: int

    @property
    def stochastic(self) -> bool:  # type: ignore[override]
        return self.baseline.random

    @property
    def ways(self) -> int:
        """Number of baselines of an image; one if the fill is not random."""
        return self.draws if self.baseline.random else 1

    def prepare(self, session: Session) -> None:
        super().prepare(session)
        TextFill.baseline_of(self.baseline, session.inputs).prepare(session)

    def baselines(self, session: Session, images: Tensor, keys: Tensor) -> Tensor:
        """The baselines ``(N, *shape)`` of images, drawn with stream keys ``(N,)``."""
        return TextFill.baseline_of(self.baseline, session.inputs)(session, images, keys)

    def record(self, session: Session) -> dict[str, object]:
        return {
            **self.settings(),
            "baseline": TextFill.baseline_of(self.baseline, session.inputs).record(session),
        }

    def keys_of_ways(self, images: Tensor, seed: int) -> list[Tensor]:
        """A list with one entry for each of an image's baselines: the stream keys ``(N,)`` (seeds) with which the baselines are
        drawn.
        """
        return [streams.image_keys(images, seed, way, self.name) for way in range(self.ways)]


TOLERANCE = 0.05
"""The relative gap above which a method warns (see :func:`gap`)."""


def gap(found: Tensor, expected: Tensor, labels: Tensor) -> float:
    """The relative gap sum |found - expected| / sum |expected|, summed over all (image, label) pairs ``(N, L)``; 0 if both are 0.

    >>> gap(Tensor([[1.0, 3.0]]), Tensor([[1.0, 4.0]]), Tensor([[0, 1]]))
    0.2
    """
    here = labels != NO_LABEL
    off = (exact(found) - exact(expected))[here].abs().sum()
    whole = exact(expected)[here].abs().sum()
    return 0.0 if float(off) == 0 else round(float(off / whole.clamp_min(1e-12)), 6)


def check_sums(method: str, found: Tensor, expected: Tensor, labels: Tensor, advice: str) -> None:
    """Warn if maps do not sum to the expected value. The warning states the measured gap and gives advice."""
    measured = gap(found, expected, labels)
    if measured > TOLERANCE:
        warnings.warn(
            f"the maps of {method} should add up to {float(expected[labels != NO_LABEL].abs().mean()):.3g} on average "
            f"and are off by {measured:.0%} of it; {advice}",
            stacklevel=2,
        )


Each = Callable[[Tensor], Tensor]
Points = Callable[[Tensor, Tensor], tuple[Tensor, Each]]
"""A function (index of the image ``(B,)``, index of its point ``(B,)``) -> (points ``(B, *shape)``, function that reduces a label's
gradient at these points).
"""


def sums_over_points(
    classifier: Classifier, labels: Tensor, count: int, points: Points, task: ProgressTask
) -> Tensor:
    """The sums ``(N, L, ...)`` over an image's ``count`` points of each label's gradient, after the reduction that ``points``
    returns.
    """
    fast, width = classifier.frozen(), labels.shape[1]

    def run(start: int, stop: int) -> list[tuple[int, Tensor]]:
        rows = torch.arange(start, stop, device=labels.device)
        image, point = rows // count, rows % count
        x, keep = points(image, point)
        cuts = [*range(start - start % count + count, stop, count)]  # where the next image begins
        sizes = [b - a for a, b in zip([start, *cuts], [*cuts, stop], strict=True)]

        def each(gradient: Tensor) -> Tensor:
            return torch.stack([part.sum(dim=0) for part in keep(gradient).split(sizes)])

        sums = input_gradients(fast, x, labels[image], each)
        task.advance((stop - start) * width)
        return list(enumerate(sums, start // count))

    totals: list[Tensor | None] = [None] * len(labels)
    for parts in in_batches(run, len(labels) * count, fast.batches[1]):
        for i, part in parts:
            before = totals[i]
            totals[i] = part if before is None else before + part
    return torch.stack([total for total in totals if total is not None])


def blocks(total: int, classifier: Classifier, count: int) -> list[slice]:
    """Blocks of images whose points fill a batch, so that only the sums of a few images are in memory."""
    size = max(1, classifier.frozen().batches[1].size // count)
    return [slice(start, min(start + size, total)) for start in range(0, total, size)]


Rule = Literal["gauss-legendre", "right", "middle"]


def path(rule: Rule, steps: int) -> tuple[Tensor, Tensor]:
    """The points t in [0, 1] and weights w of a quadrature rule, each ``(steps,)``: sum w g(t) approximates the integral of g.

    >>> [values.tolist() for values in path("right", 2)]
    [[0.5, 1.0], [0.5, 0.5]]
    """
    if rule == "gauss-legendre":
        nodes, weights = np.polynomial.legendre.leggauss(steps)
        return torch.from_numpy((nodes + 1) / 2).float(), torch.from_numpy(weights / 2).float()
    places = (torch.arange(steps) + (1.0 if rule == "right" else 0.5)) / steps
    return places, torch.full((steps,), 1 / steps)


@METHODS.register
class IntegratedGradients(BaselineMethod):
    """(x - x') * integral over t in [0, 1] of d logit_a / d x at x' + t (x - x') (Sundararajan et al. 2017).

    x' is the baseline, any fill: ``gray`` (the mean colour, zero for the net), ``gray:color=0`` (black), ``blur``, ...; a random
    fill is drawn ``draws`` times, and the maps are averaged (expected gradients, Erion et al. 2021, with random images). Values are
    signed and add up to logit_a(x) - logit_a(x'); if they do not, there are too few steps, and a warning says by how much.

    Presets: ``captum`` (the defaults: zero after normalisation, 50 Gauss-Legendre steps), ``sundararajan`` (black, a
    right Riemann sum of 300 steps, the most they say is needed).

    >>> IntegratedGradients.preset("sundararajan").title()
    'integrated-gradients:sundararajan'
    """

    name = "integrated-gradients"
    family = "gradients"
    reference = "Sundararajan et al. 2017"
    description = "gradients on the way from a baseline to the image, signed"
    needs = frozenset({"gradients"})
    signed = True
    shortcuts: ClassVar[Shortcuts] = {
        "preset": {
            "captum": {},
            "sundararajan": {"baseline": Gray(color=(0.0,)), "steps": 300, "rule": "right"},
        }
    }

    baseline: Fill = setting(Gray(), "the input at which the path starts; any fill")
    steps: int = setting(50, "number of gradients along each path; more make the sum more accurate", least=1)
    rule: Rule = setting(
        "gauss-legendre",
        "where gradients are computed: at Gauss-Legendre points, or at the right end or middle of equal steps",
    )
    draws: int = setting(1, "number of baselines to average over, if the baseline is a random fill", least=1)
    channels: Channels = setting("sum", CHANNELS_HELP)

    def cost(self, labels: int, session: Session | None = None) -> Cost:
        return Cost(gradient=labels * self.steps * self.ways, forward=1 + self.ways)

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        net, inputs = session.net, session.inputs
        keys, points = self.keys_of_ways(images, session.seed), self.steps * self.ways
        maps, sums, changes = [], [], []
        with session.progress.task(self.name, labels.numel() * points) as task:
            for some in blocks(len(images), net, points):
                x, a = images[some], labels[some]
                baselines = torch.stack([self.baselines(session, x, key[some]) for key in keys], dim=1)
                values = self._values(net, x, baselines, a, task)
                maps.append(inputs.merged_channels(values, self.channels))
                sums.append(values.flatten(2).sum(dim=2))
                changes.append(_changes(net, x, baselines, a))
        advice = "take more steps, or another baseline"
        check_sums(self.name, torch.cat(sums), torch.cat(changes), labels, advice)
        return torch.cat(maps)

    def _values(
        self, classifier: Classifier, images: Tensor, baselines: Tensor, labels: Tensor, task: ProgressTask
    ) -> Tensor:
        """Integrated gradients ``(N, L, *shape)``: x - x' times the integral of the gradient, averaged over the baselines x'
        ``(N, ways, *shape)``."""
        places, weights = (values.to(images) for values in path(self.rule, self.steps))
        ones = [1] * (images.ndim - 1)

        def points(image: Tensor, point: Tensor) -> tuple[Tensor, Each]:
            step, start = point % self.steps, baselines[image, point // self.steps]
            way = images[image] - start
            share = (weights[step] / self.ways).view(-1, *ones)
            return start + places[step].view(-1, *ones) * way, lambda gradient: gradient * way * share

        return sums_over_points(classifier, labels, self.steps * self.ways, points, task)


@torch.no_grad()
def _changes(classifier: Classifier, images: Tensor, baselines: Tensor, labels: Tensor) -> Tensor:
    """The changes of the logits, logit_a(x) - mean logit_a(x'), ``(N, L)``. The mean is over the baselines x' of an image."""
    fast, places = classifier.frozen(), labels.clamp_min(0)
    every = torch.cat([images[:, None], baselines], dim=1).flatten(0, 1)
    logits = torch.cat(in_batches(lambda a, b: fast(every[a:b]), len(every), fast.batches[0]))
    logits = logits.view(len(images), -1, logits.shape[1])
    return (logits[:, 0] - logits[:, 1:].mean(dim=1)).gather(1, places)


Noise = Literal["range", "normalised"]


@METHODS.register
class SmoothGrad(Method):
    """The mean over K noisy copies x_k = x + s e_k of v(x_k), e_k standard normal (Smilkov et al. 2017).

        of = gradient                   v = d logit_a / d x        the absolute value of the mean, |mean v|
        of = absolute-gradient          v = |d logit_a / d x|      the mean of the sizes
        of = gradient-x-input           v = x * d logit_a / d x    signed
        of = absolute-gradient-x-input  v = |x * d logit_a / d x|  the mean of the sizes

    all in normalised units. s is ``sigma`` times the range (largest minus smallest value) of the normalised image, or
    ``sigma`` itself with ``noise=normalised``. The copies are the same for all labels of an image, and are not clipped. For texts, noise
    is added to the embeddings of the text's tokens.

    Presets, because the sources differ: ``smilkov`` (the defaults) is the paper's, ``captum`` is the default of its NoiseTunnel around
    Saliency, ``gupta`` follows the text of Gupta et al. 2022 (samples and sigma, which they do not state, are Captum's). Their tables
    say "Smooth-Grad saliency" and were made with Captum, so they may have used the settings of ``captum``.

    >>> SmoothGrad.preset("captum").samples
    5
    """

    name = "smooth-grad"
    family = "gradients"
    reference = "Smilkov et al. 2017"
    description = "gradient, averaged over noisy copies of the image"
    needs = frozenset({"gradients"})
    shortcuts: ClassVar[Shortcuts] = {
        "preset": {
            "smilkov": {},
            "captum": {"of": "absolute-gradient", "samples": 5, "sigma": 1.0, "noise": "normalised"},
            "gupta": {"of": "gradient-x-input", "samples": 5, "sigma": 1.0, "noise": "normalised"},
        }
    }

    of: Literal["gradient", "absolute-gradient", "gradient-x-input", "absolute-gradient-x-input"] = setting(
        "gradient", "averaged value: the gradient, gradient times input, or the absolute value of either"
    )
    samples: int = setting(50, "noisy copies of each image", least=1)
    sigma: float = setting(
        0.15, "standard deviation of the noise, in the unit that the setting noise chooses", above=0
    )
    noise: Noise = setting("range", "unit of sigma: the range of the image's values, or normalised units")
    channels: Channels | None = setting(None, f"{CHANNELS_HELP}; none: sum if signed, else max")

    stochastic = True

    @property
    def signed(self) -> bool:  # type: ignore[override]
        return self.of == "gradient-x-input"

    def cost(self, labels: int, session: Session | None = None) -> Cost:
        return Cost(gradient=labels * self.samples)

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        keys = streams.image_keys(images, session.seed, "smooth-grad")
        with session.progress.task(self.name, labels.numel() * self.samples) as task:
            maps = [
                self._maps(session.net, images[some], labels[some], keys[some], task)
                for some in blocks(len(images), session.net, self.samples)
            ]
        return torch.cat(maps)

    def _maps(
        self, classifier: Classifier, images: Tensor, labels: Tensor, keys: Tensor, task: ProgressTask
    ) -> Tensor:
        inputs = classifier.inputs
        mean, std = classifier.inputs.scale(classifier.device)
        x = (images - mean) / std
        flat, varied = x.flatten(1), inputs.varied(images)
        spread = _ranges(flat, varied.flatten(1)) if self.noise == "range" else torch.ones_like(flat[:, 0])
        spread = (self.sigma * spread).view(-1, *[1] * len(inputs.shape)) * varied

        def points(image: Tensor, copy: Tensor) -> tuple[Tensor, Each]:
            own = streams.step_keys(keys[image], copy, 1)[:, 0]
            noise = streams.normal(own, flat.shape[1]).view(-1, *inputs.shape)
            noisy = x[image] + spread[image] * noise

            def averaged(gradient: Tensor) -> Tensor:
                v = gradient * std
                if self.of.endswith("gradient-x-input"):
                    v = v * noisy
                return v.abs() if self.of.startswith("absolute-") else v

            return noisy * std + mean, averaged

        values = sums_over_points(classifier, labels, self.samples, points, task) / self.samples
        values = values if self.signed else values.abs()
        return inputs.merged_channels(values, self.channels or ("sum" if self.signed else "max"))


def _ranges(x: Tensor, varied: Tensor) -> Tensor:
    """Range ``(N,)`` of the values of each input ``(N, n)``: maximum minus minimum over the ``varied`` values."""
    return x.masked_fill(~varied, -torch.inf).amax(dim=1) - x.masked_fill(~varied, torch.inf).amin(dim=1)
