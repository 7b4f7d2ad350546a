"""The nets of trained maskers. Each reads feature maps ``(N, C, h, w)`` of the frozen net, the coarsest first.

``Scale.all_of`` finds the layers with such feature maps, and an :class:`Encoder` reads the maps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.methods.grids import enlarged, upsamplings
from proofmap.methods.probe import is_spatial, mixed_logits, module_of, watch_outputs

_COARSER = 4
"""A mask of Phang et al. is this many times coarser than the image, but at least as fine as the finest features that are read."""


class RealTimeNet(nn.Module):
    """The masking model of Dabkowski and Gal 2017: a U-Net on the frozen net, with a gate for the label on the top features T.

        evidence e_a(p) = <T(p), selector_a>,      T'_a(p) = T(p) sigmoid(e_a(p) - confidence)

    All features of the net, also T, are normalised to mean 0 and deviation 1 in each channel (running statistics): the fine
    ones of EfficientNet-Lite0 have a deviation of 7 to 9, and would outweigh the label.
    Each step up (at most three) doubles the map's size (3x3 convolution, batch-norm, ReLU, pixel shuffle), concatenates the
    net's features of that scale and mixes both by a bottleneck; widths are 4, 2 and 1 times ``width``. The last
    map has two channels a and b, and the mask is |a| / (|a| + |b|).
    """

    most_scales: ClassVar[int] = 4

    def __init__(self, channels: Sequence[int], labels: int, width: int = 64) -> None:
        super().__init__()
        steps = len(channels) - 1
        widths = [channels[0], *(width * 2 ** (steps - 1 - k) for k in range(steps))]
        self.norms = nn.ModuleList(nn.BatchNorm2d(count, affine=False) for count in channels)
        self.selector = nn.Embedding(labels, channels[0])
        nn.init.normal_(self.selector.weight, std=channels[0] ** -0.5)
        self.up = nn.ModuleList(
            _StepUp(before, after, beside)
            for (before, after), beside in zip(pairwise(widths), channels[1:], strict=True)
        )
        self.saliency = nn.Conv2d(widths[-1], 2, 1)

    @classmethod
    def for_net(cls, scales: Sequence[Scale], classifier: Classifier, width: int) -> RealTimeNet:
        """A masker with random weights that reads a net at these scales."""
        return cls([scale.channels for scale in scales], len(classifier.names), width)

    def evidence(self, top: Tensor, labels: Tensor) -> Tensor:
        """The evidence ``(N, L, h, w)`` for labels ``(N, L)``, from the net's top features ``(N, C, h, w)``."""
        return self._evidence(self.norms[0](top), labels)

    def _evidence(self, top: Tensor, labels: Tensor) -> Tensor:
        return torch.einsum("nchw,nlc->nlhw", top, self.selector(labels))

    def forward(self, features: Sequence[Tensor], labels: Tensor, confidence: float = 0.0) -> Tensor:
        """Masks ``(N, L, h, w)`` at the finest scale."""
        top, *finer = (norm(x) for norm, x in zip(self.norms, features, strict=True))
        many = labels.shape[1]
        gate = (self._evidence(top, labels) - confidence).sigmoid()
        x = (top[:, None] * gate[:, :, None]).flatten(0, 1)
        for step, beside in zip(self.up, finer, strict=True):
            x = step(x, beside.repeat_interleave(many, dim=0))
        a, b = self.saliency(x).abs().unbind(dim=1)
        masks: Tensor = a / (a + b).clamp_min(1e-8)
        return masks.view(*labels.shape, *masks.shape[1:])


class _StepUp(nn.Module):
    """One step up: doubles the size of the maps, then joins and mixes in the net's features of that scale."""

    def __init__(self, inputs: int, outputs: int, beside: int) -> None:
        super().__init__()
        self.larger = nn.Sequential(*_unit(inputs, 4 * outputs, 3), nn.PixelShuffle(2))
        narrow = max(1, outputs // 4)
        self.mix = nn.Sequential(
            *_unit(outputs + beside, narrow, 1),
            *_unit(narrow, narrow, 3),
            nn.Conv2d(narrow, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.past = nn.Conv2d(outputs + beside, outputs, 1)

    def forward(self, x: Tensor, beside: Tensor) -> Tensor:
        x = torch.cat([resized(self.larger(x), beside.shape[2:]), beside], dim=1)
        mixed: Tensor = self.mix(x) + self.past(x)
        return mixed.relu()


class PhangNet(nn.Module):
    """The masker of Phang et al. 2020: one mask for all labels.

    Each of the two coarsest feature maps passes a 1x1 convolution to ``width`` channels, batch-norm and ReLU, and is enlarged
    bilinearly to ``grid``. A 3x3 convolution of both and a sigmoid make the mask.
    """

    most_scales: ClassVar[int] = 2

    def __init__(self, channels: Sequence[int], grid: tuple[int, int], width: int = 64) -> None:
        super().__init__()
        self.grid = grid
        self.reduce = nn.ModuleList(nn.Sequential(*_unit(count, width, 1)) for count in channels)
        self.mask = nn.Conv2d(width * len(channels), 1, 3, padding=1)

    @classmethod
    def for_net(cls, scales: Sequence[Scale], classifier: Classifier, width: int) -> PhangNet:
        """A masker with random weights that reads a net at these scales."""
        finest, (height, image_width) = scales[-1].size, classifier.size
        grid = max(height // _COARSER, finest[0]), max(image_width // _COARSER, finest[1])
        return cls([scale.channels for scale in scales], grid, width)

    def forward(self, features: Sequence[Tensor]) -> Tensor:
        """Masks ``(N, 1, *grid)``."""
        reduced = [reduce(x) for reduce, x in zip(self.reduce, features, strict=True)]
        logits: Tensor = self.mask(torch.cat([resized(x, self.grid) for x in reduced], dim=1))
        return logits.sigmoid()


def resized(maps: Tensor, size: Sequence[int], *, nearest: bool = False) -> Tensor:
    """Maps ``(..., h, w)`` resized bilinearly to ``size``, or by nearest neighbours, with a deterministic gradient.

    >>> resized(torch.tensor([[0.0, 1.0]]), (1, 4), nearest=True)
    tensor([[0., 0., 1., 1.]])
    """
    if tuple(maps.shape[-2:]) == tuple(size):
        return maps
    pairs = zip(maps.shape[-2:], size, strict=True)
    return enlarged(maps, [_matrix(low, high, maps.device, nearest) for low, high in pairs])


@cache
def _matrix(low: int, high: int, device: torch.device, nearest: bool) -> Tensor:
    if nearest:
        return torch.eye(low, device=device)[torch.arange(high, device=device) * low // high]
    return upsamplings([low], [high], device=device)[0]


def _unit(inputs: int, outputs: int, kernel: int) -> tuple[nn.Module, nn.Module, nn.Module]:
    """The layers of a unit: convolution, batch-norm and ReLU."""
    conv = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)
    return conv, nn.BatchNorm2d(outputs), nn.ReLU()


_WHAT = "a masker"
_FINER = 1.5
"""Each scale must be finer than the one before by at least this factor, so that a padded map does not count as another scale."""


@dataclass(frozen=True)
class Scale:
    """A layer whose output is a spatial map ``(N, channels, *size)``; ``layer`` is its name."""

    layer: str
    channels: int
    size: tuple[int, int]

    @staticmethod
    def all_of(classifier: Classifier, *, most: int) -> tuple[Scale, ...]:
        """The scales at which a masker reads the net, the coarsest first, at most ``most``.

        A scale is a size of feature maps, with the image's proportions and more than one position. Several layers may have this size.
        The last one in order of execution among the least nested ones is chosen: a stage, not a convolution inside the next stage. Only
        layers that the logits depend on, as a gradient shows, are used.
        """
        found = _spatial_layers(classifier)
        best: dict[tuple[int, int], Scale] = {}
        for name, output in found.items():
            scale = _scale(name, output)
            other = best.get(scale.size)
            if other is None or name.count(".") <= other.layer.count("."):
                best[scale.size] = scale
        chosen: list[Scale] = []
        for size in sorted(best):
            if not chosen or max(size) >= _FINER * max(chosen[-1].size):
                chosen.append(best[size])
        if not chosen:
            raise InputError(
                "a masker reads spatial feature maps (N, C, h, w), and no layer of this net has one that its logits depend on"
            )
        return tuple(chosen[:most])


def _scale(name: str, output: Tensor) -> Scale:
    return Scale(name, output.shape[1], (output.shape[2], output.shape[3]))


def _spatial_layers(classifier: Classifier) -> dict[str, Tensor]:
    """The outputs for one image of all layers with a spatial map that the logits depend on, in order of execution."""
    net, ran = module_of(classifier, _WHAT), dict[str, Tensor]()

    def note(name: str, output: object) -> None:
        if isinstance(output, Tensor) and output.ndim == 4 and output.requires_grad:
            ran.pop(name, None)
            ran[name] = output

    with watch_outputs(net, [name for name, _ in net.named_modules() if name], note), torch.enable_grad():
        image = classifier.inputs.probe().to(classifier.device).requires_grad_(True)
        score = mixed_logits(classifier(image))
    ran = {
        name: output
        for name, output in ran.items()
        if len(output) == 1 and is_spatial(output.shape[2:], classifier.size)
    }
    if not ran or not score.requires_grad:
        return {}
    gradients = torch.autograd.grad(score, list(ran.values()), allow_unused=True)
    return {
        name: output.detach()
        for (name, output), gradient in zip(ran.items(), gradients, strict=True)
        if gradient is not None and bool(gradient.abs().sum() > 0)
    }


@dataclass(frozen=True)
class Encoder:
    """Reads the features of a net for a masker: the output of one layer at each scale. ``stretched`` scales pixels to 4 x - 2
    instead of normalising them.
    """

    classifier: Classifier
    scales: tuple[Scale, ...]
    stretched: bool = False

    @torch.no_grad()
    def __call__(self, images: Tensor) -> tuple[list[Tensor], Tensor]:
        """Feature maps ``(N, C, h, w)`` in float32, the coarsest first, and logits ``(N, A)``, from one pass of the net."""
        outputs: dict[str, Tensor] = {}
        layers = [scale.layer for scale in self.scales]
        x = 4 * images - 2 if self.stretched else self.classifier.normalised(images)
        with watch_outputs(module_of(self.classifier, _WHAT), layers, outputs.__setitem__):
            logits = self.classifier.from_normalised(x)
        return [outputs[layer].float() for layer in layers], logits
