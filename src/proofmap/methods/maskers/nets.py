"""The nets of trained maskers. Each reads feature maps ``(N, C, h, w)`` of the frozen net, the coarsest first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.methods.grids import enlarged, upsamplings

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
    def for_net(
        cls, channels: Sequence[int], finest: tuple[int, int], classifier: Classifier, width: int
    ) -> RealTimeNet:
        """A masker with random weights that reads feature maps with these numbers of channels, the finest of this size."""
        return cls(channels, len(classifier.names), width)

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
    def for_net(
        cls, channels: Sequence[int], finest: tuple[int, int], classifier: Classifier, width: int
    ) -> PhangNet:
        """A masker with random weights that reads feature maps with these numbers of channels, the finest of this size."""
        height, image_width = classifier.size
        grid = max(height // _COARSER, finest[0]), max(image_width // _COARSER, finest[1])
        return cls(channels, grid, width)

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
