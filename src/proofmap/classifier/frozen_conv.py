"""A convolution with fixed weights whose input gradient runs through the forward kernels on a CPU.

On a CPU, PyTorch's backward pass uses slow kernels, although the input gradient of a convolution y = conv(x, w) with fixed weights w is a
convolution with w flipped and its input and output channels exchanged:

    dL/dx = conv(dL/dy, flip(w)^T)

With a stride other than 1, the input gradient is computed by one convolution for all phases (see :mod:`proofmap.classifier.phases`) if that
is faster, otherwise by a transposed convolution. A ReLU after the convolution and uneven zero padding before it are included, which saves
copies of large tensors.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proofmap.classifier.phases import Phases


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
