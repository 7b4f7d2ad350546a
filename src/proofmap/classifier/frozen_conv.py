"""A convolution with fixed weights whose input gradient runs through the forward kernels on a CPU.

On a CPU, PyTorch's backward pass uses slow kernels, although the input gradient of a convolution y = conv(x, w) with fixed weights w is a
convolution with w flipped and its input and output channels exchanged:

    dL/dx = conv(dL/dy, flip(w)^T)

With a stride other than 1, the input gradient is computed by one convolution for all phases (:class:`Phases`) if that is faster, otherwise by a
transposed convolution. A ReLU after the convolution and uneven zero padding before it are included, which saves
copies of large tensors.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class FrozenConv2d(nn.Module):
    """``clamp(conv(pad(x)), low, high)`` with fixed weights.

    Args:
        conv: a convolution that :meth:`fits`.
        pad: number of zeros added to the input (left, right, top, bottom), in addition to the padding of ``conv``.
        bounds: ``(low, high)`` of an activation after the convolution: (0, inf) for ReLU, (0, 6) for ReLU6, None if there is none.

    ``owns_gradient`` says whether the incoming gradient is used by this module alone, so that it may be overwritten.
    """

    def __init__(
        self,
        conv: nn.Conv2d,
        *,
        pad: tuple[int, int, int, int] = (0, 0, 0, 0),
        bounds: tuple[float, float] | None = None,
    ) -> None:
        super().__init__()
        assert not isinstance(conv.padding, str)
        left, right, top, bottom = pad
        weight = conv.weight.detach()
        self.phases = None
        if Phases.is_faster(conv):
            before = (conv.padding[0] + top, conv.padding[1] + left)
            self.phases = Phases(weight, stride=conv.stride, before=before, groups=conv.groups)
        # Uneven padding equals even padding with zero rows and columns added to the kernel on the thinner side.
        across, down = right - left, bottom - top
        weight = F.pad(weight, (max(across, 0), max(-across, 0), max(down, 0), max(-down, 0)))
        self.stride, self.groups = conv.stride, conv.groups
        self.padding = (conv.padding[0] + max(top, bottom), conv.padding[1] + max(left, right))
        self.bounds, self.owns_gradient = bounds, False
        self.register_buffer("weight", weight.clone())
        self.register_buffer("flipped", _flipped(weight, conv.groups))
        self.register_buffer("bias", None if conv.bias is None else conv.bias.detach().clone())

    @staticmethod
    def fits(conv: object, pad: tuple[int, int, int, int] = (0, 0, 0, 0)) -> bool:
        """Whether a convolution is zero-padded and undilated. Other convolutions keep PyTorch's backward pass."""
        if (
            type(conv) is not nn.Conv2d
            or conv.padding_mode != "zeros"
            or isinstance(conv.padding, str)
            or conv.dilation != (1, 1)
        ):
            return False
        left, right, top, bottom = pad
        (down, across), (height, width) = conv.padding, conv.kernel_size
        # the padding of the input gradient is k - 1 - p, which cannot be negative
        return (
            min(pad) >= 0 and down + min(top, bottom) <= height - 1 and across + min(left, right) <= width - 1
        )

    def forward(self, input: Tensor) -> Tensor:  # the argument's name is that of nn.Conv2d
        y: Tensor = _Function.apply(input, self)  # type: ignore[no-untyped-call]
        return y


class _Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, conv: FrozenConv2d) -> Tensor:
        weight, bias = conv.get_buffer("weight"), conv._buffers["bias"]
        y = F.conv2d(x, weight, bias, conv.stride, conv.padding, 1, conv.groups)
        ctx.conv, ctx.in_size = conv, x.shape[2:]
        if conv.bounds is not None:
            y.clamp_(*conv.bounds)
            ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        conv = ctx.conv
        if conv.bounds is not None:
            (y,) = ctx.saved_tensors
            low, high = conv.bounds
            if conv.owns_gradient and not torch.is_grad_enabled():
                grad = torch.ops.aten.hardtanh_backward.grad_input(grad, y, low, high, grad_input=grad)
            else:
                grad = torch.ops.aten.hardtanh_backward(grad, y, low, high)
        kernel = conv.weight.shape[2:]
        if conv.stride == (1, 1):
            pad = [k - 1 - p for k, p in zip(kernel, conv.padding, strict=True)]
            return F.conv2d(grad, conv.flipped, None, 1, pad, 1, conv.groups), None
        if conv.phases is not None and grad.device.type == "cpu" and grad.dtype == torch.float32:
            return conv.phases(grad, ctx.in_size), None
        extra = [
            size - ((g - 1) * s - 2 * p + k)
            for size, g, s, p, k in zip(
                ctx.in_size, grad.shape[2:], conv.stride, conv.padding, kernel, strict=True
            )
        ]
        return F.conv_transpose2d(
            grad, conv.weight, None, conv.stride, conv.padding, extra, conv.groups
        ), None


def _flipped(weight: Tensor, groups: int) -> Tensor:
    """The weights ``(O, I/g, h, w)`` rearranged for the input gradient: ``(I, O/g, h, w)``, flipped in space."""
    out, per_group = weight.shape[:2]
    kernel = weight.shape[2:]
    grouped = weight.reshape(groups, out // groups, per_group, *kernel).transpose(1, 2)
    return grouped.reshape(groups * per_group, out // groups, *kernel).flip(2, 3).contiguous()


# ---- phases of strided convolutions --------------------------------------------------------------------------------

_LANES = 16
"""Channels that oneDNN computes at once with AVX-512; with fewer, its transposed convolutions were slower."""


class Phases(nn.Module):
    """``(dL/dy, size of x) -> dL/dx`` for a strided convolution with fixed weights, without a transposed convolution: phase by phase.

    Along one axis, the convolution with the weights w is ``y[o] = sum_t w[t] x[s o + t - p]``, with stride s, kernel size k and p zeros before
    x. A tap t is an index of w. A position of x is ``i = s q + r`` with a phase r of 0 .. s - 1. Only every s-th tap reaches this position,
    ``t = s u + r + p``:

        dL/dx[s q + r] = sum_u w[s u + r + p] dL/dy[q - u]

    For each phase this is a convolution of stride 1 over dL/dy. All phases are computed by one convolution with s times as many
    channels (s^2 in two axes), and its outputs are interleaved. Weights of taps outside of 0 .. k - 1 are zero.

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
        transposed convolution was faster for them. See notes/decisions.md for the measurements.
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
