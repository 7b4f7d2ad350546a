"""Nets of which it is known what they look at, and nets that are the same function written in another way.

All take pictures of 16 x 16 pixels whose neutral gray is 0 after normalisation, have convolutions for methods that need
a layer, and weights that are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core import streams

SIZE, CHANNELS = 16, 3
PLACES = ((5, 9), (2, 3), (8, 12), (10, 6))
"""Where the one pixel is that the first kind of net looks at: several, so that no map is right by chance."""


def classifier_of(net: nn.Module, device: torch.device) -> Classifier:
    half = (0.5,) * CHANNELS
    return Classifier(net.eval().to(device), size=SIZE, mean=half, std=half, name=type(net).__name__)


# ---- one pixel ---------------------------------------------------------------------------------------------------

RESPONSES: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda h: h,
    "saturated": lambda h: 1 - (1 - 2 * h).relu(),  # flat at the input: its gradient there is zero
    "late": lambda h: 0.1 * h + 1.8 * (h - 0.5).relu(),  # almost flat at the baseline
}
"""What the net makes of the one pixel, 0 at the baseline and 1 at the input."""


class OnePixel(nn.Module):
    """Logits (6 g(h), -6 g(h)), with h the mean over channels of one pixel."""

    def __init__(self, response: str, place: tuple[int, int]) -> None:
        super().__init__()
        self.mean = nn.Conv2d(CHANNELS, 1, 1, bias=False)
        with torch.no_grad():
            self.mean.weight.fill_(1 / CHANNELS)
        self.response, self.place = response, place

    def forward(self, x: Tensor) -> Tensor:
        h = self.mean(x)[:, 0, self.place[0], self.place[1]]
        z = 6 * RESPONSES[self.response](h)
        return torch.stack([z, -z], dim=1)


# ---- half a picture, and one function written in several ways ----------------------------------------------------


class Small(nn.Module):
    """Two convolutions with a rectifier after each, pooling, three labels; the right half may be cut off first."""

    def __init__(self, seed: int, *, left_half: bool = False, width: int = 6) -> None:
        super().__init__()
        self.first = nn.Conv2d(CHANNELS, width, 3, padding=1)
        self.rectifier = nn.ReLU()
        self.second = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.last_rectifier = nn.ReLU()
        self.head = nn.Linear(2 * width, 3)
        keep = torch.ones(SIZE, SIZE)
        if left_half:
            keep[:, SIZE // 2 :] = 0
        self.keep: Tensor
        self.register_buffer("keep", keep)
        draw_weights(self, seed)

    def forward(self, x: Tensor) -> Tensor:
        h = self.rectifier(self.first(x * self.keep))
        h = self.last_rectifier(self.second(h))
        out: Tensor = self.head(h.mean(dim=(2, 3)))
        return 4 * out


class Absolute(nn.Module):
    """A rectifier by another name: (z + |z|) / 2."""

    def forward(self, z: Tensor) -> Tensor:
        return (z + z.abs()) / 2


class Twice(nn.Module):
    """A convolution, then a mixing of its channels, then the opposite mixing: the convolution itself."""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        n = conv.out_channels
        self.conv = conv
        mixing = torch.eye(n) + torch.diag(torch.full((n - 1,), 0.5), 1)
        self.there, self.back = (nn.Conv2d(n, n, 1, bias=False) for _ in range(2))
        with torch.no_grad():
            self.there.weight.copy_(mixing.view(n, n, 1, 1))
            self.back.weight.copy_(torch.linalg.inv(mixing).view(n, n, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.back(self.there(self.conv(x)))
        return out


def with_absolutes(seed: int) -> Small:
    net = Small(seed)
    net.rectifier, net.last_rectifier = Absolute(), Absolute()  # type: ignore[assignment]
    return net


def reordered(seed: int) -> Small:
    """Inner channels in another order and on another scale: max(c z, 0) / c = max(z, 0)."""
    net = Small(seed)
    with torch.no_grad():
        order = torch.arange(net.first.out_channels).flip(0)
        scale = torch.linspace(0.5, 3, len(order))
        net.first.weight.copy_(net.first.weight[order] * scale.view(-1, 1, 1, 1))
        assert net.first.bias is not None, "it was made with one"
        net.first.bias.copy_(net.first.bias[order] * scale)
        net.second.weight.copy_(net.second.weight[:, order] / scale.view(1, -1, 1, 1))
    return net


def in_two_steps(seed: int) -> Small:
    net = Small(seed)
    net.first = Twice(net.first)  # type: ignore[assignment]
    return net


REWRITTEN: dict[str, Callable[[int], Small]] = {
    "rectifier as (z + |z|) / 2": with_absolutes,
    "channels reordered and scaled": reordered,
    "a convolution in three steps": in_two_steps,
}
"""The same function as ``Small(seed)``, written in another way."""


def draw_weights(net: nn.Module, seed: int) -> None:
    """Weights that depend on the seed alone."""
    with torch.no_grad():
        for k, weight in enumerate(net.parameters()):
            fan_in = weight[0].numel() if weight.ndim > 1 else 8
            drawn = streams.normal(torch.tensor(streams.key_of(seed, "axioms", k)), weight.numel())
            weight.copy_(drawn.view(weight.shape) * (2 / fan_in) ** 0.5)
