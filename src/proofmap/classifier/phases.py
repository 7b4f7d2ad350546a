"""The input gradient of a strided convolution, without a transposed convolution: phase by phase.

Along one axis, the convolution with the weights w is ``y[o] = sum_t w[t] x[s o + t - p]``, with stride s, kernel size k and p zeros before
x. A tap t is an index of w. A position of x is ``i = s q + r`` with a phase r of 0 .. s - 1. Only every s-th tap reaches this position,
``t = s u + r + p``:

    dL/dx[s q + r] = sum_u w[s u + r + p] dL/dy[q - u]

For each phase this is a convolution of stride 1 over dL/dy. All phases are computed by one convolution with s times as many
channels (s^2 in two axes), and its outputs are interleaved. Weights of taps outside of 0 .. k - 1 are zero.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_LANES = 16
"""Channels that oneDNN computes at once with AVX-512; with fewer, its transposed convolutions were slower."""


class Phases(nn.Module):
    """``(dL/dy, size of x) -> dL/dx`` for a convolution with fixed weights.

    Args:
        weight: the kernel ``(O, I / groups, h, w)``.
        stride: stride of the convolution, down and across.
        before: number of zeros above and left of x. The numbers below and right follow from the sizes.
        groups: number of groups of the convolution.
    """

    def __init__(
        self, weight: Tensor, *, stride: tuple[int, ...], before: tuple[int, int], groups: int
    ) -> None:
        super().__init__()
        self.stride, self.groups = stride, groups
        self.channels = weight.shape[1]  # of one group of x
        kernel = weight.reshape(groups, -1, *weight.shape[1:]).transpose(1, 2)  # (g, I/g, O/g, h, w)
        rows, self.down = _taps(weight.shape[2], stride[0], before[0])
        columns, self.across = _taps(weight.shape[3], stride[1], before[1])
        kernel = F.pad(kernel, (0, 1, 0, 1))  # the tap behind the last is zero
        kernel = kernel[..., rows[:, :, None, None], columns]  # (g, I/g, O/g, s, u, s, u)
        kernel = kernel.permute(0, 3, 5, 1, 2, 4, 6).flatten(0, 3)
        self.register_buffer("kernel", kernel.contiguous())

    @staticmethod
    def is_faster(conv: nn.Conv2d) -> bool:
        """Whether phases are faster than the transposed convolution of PyTorch on this CPU.

        Phases are faster if x has few channels, as photos do. Small groups count as few channels only on CPUs without AVX; with AVX, the
        transposed convolution was faster for them. See docs/decisions.md for the measurements.
        """
        few = conv.in_channels // conv.groups < _LANES
        no_phase_is_empty = all(k >= s for k, s in zip(conv.kernel_size, conv.stride, strict=True))
        transposed_groups_are_fast = torch.backends.cpu.get_cpu_capability().startswith("AVX")
        return (
            conv.stride != (1, 1)
            and few
            and no_phase_is_empty
            and (conv.groups == 1 or not transposed_groups_are_fast)
        )

    def forward(self, grad: Tensor, size: tuple[int, int]) -> Tensor:
        (down, top, height), (across, left, width) = (
            _window(*axis)
            for axis in zip(size, grad.shape[2:], self.stride, (self.down, self.across), strict=True)
        )
        phases = F.conv2d(grad, self.get_buffer("kernel"), None, 1, (down, across), 1, self.groups)
        phases = phases[:, :, top : top + height, left : left + width].permute(0, 2, 3, 1)
        phases = phases.unflatten(3, (self.groups, *self.stride, self.channels))  # (N, q, q', g, r, r', I/g)
        x: Tensor = phases.permute(0, 1, 4, 2, 5, 3, 6).reshape(
            len(grad), height * self.stride[0], width * self.stride[1], self.groups * self.channels
        )
        x = x[:, : size[0], : size[1]].permute(0, 3, 1, 2)
        last = grad.is_contiguous(memory_format=torch.channels_last)
        return x.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


def _taps(size: int, stride: int, before: int) -> tuple[Tensor, tuple[int, int]]:
    """The tap t for each phase r and each u, in a table with a row per phase and falling u from left to right; and the smallest and the
    largest u. A tap outside the kernel is given as the kernel size."""
    smallest, largest = -((stride - 1 + before) // stride), (size - 1 - before) // stride
    u = torch.arange(largest, smallest - 1, -1)
    taps = stride * u + torch.arange(stride)[:, None] + before
    return taps.where((taps >= 0) & (taps < size), size), (smallest, largest)


def _window(size: int, reached: int, stride: int, taps: tuple[int, int]) -> tuple[int, int, int]:
    """The padding of the convolution over dL/dy, and which of its outputs to keep: the index of the first, and their number.

    ``q - u`` runs from ``-largest`` to ``count - 1 - smallest``. A convolution pads both ends by the same number.
    """
    smallest, largest = taps
    count = -(-size // stride)
    pad = max(largest, count - smallest - reached, 0)
    return pad, pad - largest, count
