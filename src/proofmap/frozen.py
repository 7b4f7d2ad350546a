"""A net made fast for one purpose: many passes with fixed weights and gradients only with respect to the input.

Three changes, none of which alters the function: batch-norm is folded into the convolution before it (or becomes one
multiply-add), the memory layout is channels-last, and on a CPU the input gradient of a convolution is computed by the
forward convolution kernels. The generic backward of PyTorch falls back to slow kernels there, although the input
gradient of a convolution with fixed weights w is itself a convolution, with w flipped and its channels exchanged:

    dL/dx = conv(dL/dy, flip(w)^T)          (with dL/dy spread out by the stride where the stride is not 1)
"""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

_BatchNorm = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def freeze(net: nn.Module, *, dtype: torch.dtype, device: torch.device) -> nn.Module:
    """A folded copy of a net in evaluation mode; nets that ``torch.fx`` cannot trace are copied unfolded."""
    net = copy.deepcopy(net).eval().requires_grad_(False)
    net = _fold_batch_norm(net)
    if device.type == "cpu" and dtype == torch.float32:
        _replace_convolutions(net)
    return net.to(dtype=dtype, memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


class Affine(nn.Module):
    """A batch-norm with fixed statistics: ``scale * x + shift`` per channel."""

    def __init__(self, norm: nn.BatchNorm2d) -> None:
        super().__init__()
        assert norm.running_mean is not None and norm.running_var is not None
        scale = (norm.running_var + norm.eps).rsqrt()
        if norm.weight is not None:
            scale = scale * norm.weight
        shift = -norm.running_mean * scale
        if norm.bias is not None:
            shift = shift + norm.bias
        self.register_buffer("scale", scale.detach().clone().view(1, -1, 1, 1))
        self.register_buffer("shift", shift.detach().clone().view(1, -1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        scale, shift = self.get_buffer("scale"), self.get_buffer("shift")
        return torch.addcmul(shift, x, scale)


class InputGradientConv2d(nn.Module):
    """A convolution with fixed weights whose input gradient runs through forward kernels."""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.stride, self.padding, self.groups = conv.stride, conv.padding, conv.groups
        self.register_buffer("weight", conv.weight.detach().clone())
        self.register_buffer("bias", None if conv.bias is None else conv.bias.detach().clone())
        self.register_buffer("flipped", _flipped(conv.weight.detach(), conv.groups))

    @staticmethod
    def fits(conv: nn.Module) -> bool:
        """Plain zero-padded, undilated convolutions; others keep PyTorch's own backward."""
        return (
            type(conv) is nn.Conv2d
            and conv.padding_mode == "zeros"
            and not isinstance(conv.padding, str)
            and conv.dilation == (1, 1)
            and all(p <= k - 1 for p, k in zip(conv.padding, conv.kernel_size, strict=True))
        )

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = _FrozenConv.apply(x, self)
        return y


class _FrozenConv(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, conv: InputGradientConv2d) -> Tensor:
        ctx.conv, ctx.in_size = conv, x.shape[2:]
        weight, bias = conv.get_buffer("weight"), conv._buffers["bias"]
        return F.conv2d(x, weight, bias, conv.stride, conv.padding, 1, conv.groups)  # type: ignore[arg-type]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        conv = ctx.conv
        kernel = conv.weight.shape[2:]
        if conv.stride == (1, 1):
            pad = [k - 1 - p for k, p in zip(kernel, conv.padding, strict=True)]
            return F.conv2d(grad, conv.flipped, None, 1, pad, 1, conv.groups), None
        extra = [
            size - ((g - 1) * s - 2 * p + k)
            for size, g, s, p, k in zip(
                ctx.in_size, grad.shape[2:], conv.stride, conv.padding, kernel, strict=True
            )
        ]
        return F.conv_transpose2d(grad, conv.weight, None, conv.stride, conv.padding, extra, conv.groups), None


def _flipped(weight: Tensor, groups: int) -> Tensor:
    """The weights ``(O, I/g, h, w)`` of the input gradient: ``(I, O/g, h, w)``, flipped in space."""
    out, per_group = weight.shape[:2]
    kernel = weight.shape[2:]
    grouped = weight.reshape(groups, out // groups, per_group, *kernel).transpose(1, 2)
    return grouped.reshape(groups * per_group, out // groups, *kernel).flip(2, 3).contiguous()


def _fold_batch_norm(net: nn.Module) -> nn.Module:
    try:
        traced = fx.symbolic_trace(net)
    except Exception:  # fx refuses data-dependent control flow in many ways; folding is only a speed-up
        return net
    modules = dict(traced.named_modules())
    calls: dict[str, int] = {}
    for node in traced.graph.nodes:
        if node.op == "call_module":
            calls[node.target] = calls.get(node.target, 0) + 1
    for node in list(traced.graph.nodes):
        norm = modules.get(node.target) if node.op == "call_module" else None
        if not isinstance(norm, _BatchNorm) or norm.running_mean is None or calls[node.target] > 1:
            continue
        before = node.args[0]
        conv = modules.get(before.target) if before.op == "call_module" else None
        if type(conv) is nn.Conv2d and len(before.users) == 1 and calls[before.target] == 1:
            conv.weight, conv.bias = fuse_conv_bn_weights(  # type: ignore[assignment]
                conv.weight,
                conv.bias,
                norm.running_mean,
                norm.running_var,  # type: ignore[arg-type]
                norm.eps,
                norm.weight,
                norm.bias,
            )
            node.replace_all_uses_with(before)
            traced.graph.erase_node(node)
        elif isinstance(norm, nn.BatchNorm2d):
            _put(traced, node.target, Affine(norm))
    traced.graph.lint()
    traced.recompile()
    traced.delete_all_unused_submodules()
    return traced


def _replace_convolutions(net: nn.Module) -> None:
    for name, module in list(net.named_modules()):
        if name and isinstance(module, nn.Conv2d) and InputGradientConv2d.fits(module):
            _put(net, name, InputGradientConv2d(module))


def _put(root: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, leaf = name.rpartition(".")
    setattr(root.get_submodule(parent), leaf, module)
