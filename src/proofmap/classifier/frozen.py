"""A faster copy of a net with fixed weights, for many forward passes and for gradients with respect to the input.

The copy computes the same function as the net. Batch-norm is folded into the convolution before it, or becomes one multiply-add. The memory
layout is channels-last (on a GPU in float32 only if that is faster). On a CPU, convolutions with their padding and ReLU become
:class:`FrozenConv2d`. On a GPU, 1x1 convolutions become :class:`PointwiseConv2d`. If the output of the
copy would differ, the net is used unchanged.

On a CPU, PyTorch's backward pass uses slow kernels, although the input gradient of a convolution y = conv(x, w) with fixed weights w is a
convolution with w flipped and its input and output channels exchanged:

    dL/dx = conv(dL/dy, flip(w)^T)

With a stride other than 1, the input gradient is computed by one convolution for all phases (:class:`Phases`) if that is faster, otherwise by a
transposed convolution. A ReLU after the convolution and uneven zero padding before it are included, which saves
copies of large tensors.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from proofmap.classifier.kernels import steady_kernels
from proofmap.classifier.view import copy_net, has_hooks, tensors_of

_RECTIFIERS: dict[object, tuple[float, float]] = {
    nn.ReLU: (0.0, math.inf),
    nn.ReLU6: (0.0, 6.0),
    F.relu: (0.0, math.inf),
    F.relu6: (0.0, 6.0),
    torch.relu: (0.0, math.inf),
}


class Frozen(nn.Module):
    """A net with fixed weights, whose weights and inputs have the memory layout ``layout``."""

    def __init__(self, net: nn.Module, layout: torch.memory_format) -> None:
        super().__init__()
        self.net, self.layout = net, layout
        for tensor in tensors_of(net):
            if tensor.ndim == 4:
                # not contiguous(), which keeps the strides of kernels with one channel or one position; gradients would
                # then come out in the other layout
                tensor.data = tensor.data.to(memory_format=layout)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.net(x.contiguous(memory_format=self.layout))
        return out

    @staticmethod
    def of(net: nn.Module, example: Tensor, *, dtype: torch.dtype) -> Frozen:
        """A faster copy of a net in evaluation mode, for inputs of the shape of ``example`` with any batch size.

        Nets that ``torch.fx`` cannot trace are changed layer by layer. A net with hooks is only copied, because a hook may change outputs
        or gradients. A net with the attribute ``any_length`` is only copied too, because its operations depend on the input. A faster copy
        whose output or gradient differs from the net's is not used. If anything fails, the net is used unchanged, with a
        warning.
        """
        net = copy_net(net).eval()
        for weight in net.parameters():  # a TorchScript module has no requires_grad_ of its own
            weight.requires_grad_(False)
        frozen = Frozen(net, torch.contiguous_format)
        if not has_hooks(net) and not getattr(net, "any_length", False):
            try:
                frozen = _first_that_agrees(frozen, net, example, dtype)
            except Exception as error:  # only speed is lost
                warnings.warn(  # the same text each time, so that Python shows it once
                    f"the net could not be made faster ({type(error).__name__}: {error}), so it is used unchanged: "
                    "results stay the same, passes take longer",
                    stacklevel=2,
                )
        return frozen.to(dtype=dtype)


def _first_that_agrees(plain: Frozen, net: nn.Module, example: Tensor, dtype: torch.dtype) -> Frozen:
    """The fastest copy of ``net`` whose output and gradient agree with those of ``plain``; ``plain`` itself if there is none."""
    expected = _output_and_gradient(plain, example)
    for layout in _layouts(net, example, dtype):
        fast = Frozen(_optimised(copy_net(net), example, dtype, layout), layout)
        if _agree(fast, expected, example):
            return fast
    return plain


def _layouts(net: nn.Module, example: Tensor, dtype: torch.dtype) -> tuple[torch.memory_format, ...]:
    """The memory layouts to try, the faster one first.

    On a GPU in float32, channels-last is a fifth slower for a net that mostly has dense convolutions (see notes/decisions.md).
    """
    if example.is_cuda and dtype == torch.float32 and dense_conv_share(net, example) > 0.5:
        return (torch.contiguous_format,)
    return (torch.channels_last, torch.contiguous_format)


@torch.no_grad()
def dense_conv_share(net: nn.Module, example: Tensor) -> float:
    """The share of a net's convolution multiplications that are in dense convolutions larger than 1x1.

    >>> net = nn.Sequential(nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 3, groups=8))
    >>> round(dense_conv_share(net, torch.zeros(1, 8, 6, 6)), 2)  # 36 * 8 * (8 + 72) + 16 * 8 * 9
    0.86
    """
    joined, all_of_them = 0, 0

    def count(conv: nn.Conv2d, _: object, out: Tensor) -> None:
        nonlocal joined, all_of_them
        made = out.numel() * conv.weight[0].numel()
        all_of_them += made
        joined += made if len(conv.weight[0]) > 1 and conv.weight[0, 0].numel() > 1 else 0

    hooks = [m.register_forward_hook(count) for m in net.modules() if isinstance(m, nn.Conv2d)]
    try:
        net(example.repeat(2, *[1] * (example.ndim - 1)))
    finally:
        for hook in hooks:
            hook.remove()
    return joined / max(1, all_of_them)


def _optimised(net: nn.Module, example: Tensor, dtype: torch.dtype, layout: torch.memory_format) -> nn.Module:
    on_cpu = example.device.type == "cpu" and dtype == torch.float32
    with suppress(
        Exception
    ):  # fx refuses data-dependent control flow in many ways; folding is only a speed-up
        net = fx.symbolic_trace(net)
    if isinstance(net, fx.GraphModule):
        _fold_batch_norm(net)
        if on_cpu:
            _absorb_padding_and_rectifiers(net, example)
    _replace(net, lambda m: type(m) is nn.BatchNorm2d and m.running_mean is not None, Affine)
    if on_cpu:
        _replace(net, FrozenConv2d.fits, FrozenConv2d)
    if example.is_cuda and dtype == torch.float32 and layout == torch.channels_last:
        _replace(net, PointwiseConv2d.fits, PointwiseConv2d)
    return net


def _output_and_gradient(net: nn.Module, example: Tensor) -> tuple[Tensor, Tensor | None]:
    """The net's output and input gradient for two images of noise. Two are used because torch's batch-norm can fail on a single image."""
    noise = torch.randn(2, *example.shape[1:], generator=torch.Generator().manual_seed(0)).to(example)
    with torch.enable_grad(), steady_kernels(tf32=False):
        x = noise.requires_grad_(True)
        out = net(x.clone())  # a net may work on its input in place, which a leaf does not allow
        if not isinstance(out, Tensor) or not out.requires_grad:
            return out.detach(), None
        weights = torch.arange(1, 1 + out.shape[-1], device=out.device, dtype=out.dtype)
        (gradient,) = torch.autograd.grad((out * weights).mean(), x)
    return out.detach(), gradient


def _agree(fast: nn.Module, expected: tuple[Tensor, Tensor | None], example: Tensor) -> bool:
    """Whether the output and gradient of ``fast`` equal the expected ones up to rounding. Gradients may differ more than outputs, because
    rounding may move some activations across the kink of their ReLU (3 % in a random ResNet-164).
    """
    tolerance = 0.001 if example.dtype in (torch.float32, torch.float64) else 0.02
    try:
        out, gradient = _output_and_gradient(fast, example)
        if bool((out - expected[0]).abs().max() > tolerance * expected[0].abs().max()):
            return False
        if gradient is None or expected[1] is None:
            return gradient is expected[1]
        return bool((gradient - expected[1]).norm() <= 0.2 * expected[1].norm())
    except Exception:  # such as code that reads an attribute of a replaced layer, or a .view
        return False


class PointwiseConv2d(nn.Module):
    """A 1x1 convolution as a matrix product, for channels-last inputs.

    cuDNN has no float32 kernel for channels-last 1x1 convolutions: it would change the layout before and after, and add the bias in
    another pass.
    """

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.register_buffer("weight", conv.weight.detach().flatten(1).contiguous())
        self.register_buffer("bias", None if conv.bias is None else conv.bias.detach().clone())

    @staticmethod
    def fits(conv: object) -> bool:
        return (
            type(conv) is nn.Conv2d
            and conv.kernel_size == conv.stride == (1, 1)
            and conv.padding in ((0, 0), "valid", "same")
            and conv.groups == 1
        )

    def forward(self, input: Tensor) -> Tensor:  # the argument's name is that of nn.Conv2d
        y = F.linear(input.permute(0, 2, 3, 1), self.get_buffer("weight"), self._buffers["bias"])
        return y.permute(0, 3, 1, 2)


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

    def forward(self, input: Tensor) -> Tensor:  # the argument's name is that of nn.BatchNorm2d
        return torch.addcmul(self.get_buffer("shift"), input, self.get_buffer("scale"))


class _Calls:
    """The calls ``module(x)`` in a graph, for modules that are used nowhere else."""

    def __init__(self, traced: fx.GraphModule) -> None:
        self.modules: dict[str, nn.Module] = dict(traced.named_modules())
        targets = [node.target for node in traced.graph.nodes if node.op == "call_module"]
        read = {str(node.target).rpartition(".")[0] for node in traced.graph.nodes if node.op == "get_attr"}
        self.once = {target for target in targets if targets.count(target) == 1} - read

    def module(self, node: object) -> nn.Module | None:
        """The module that only this node calls."""
        if isinstance(node, fx.Node) and node.op == "call_module" and node.target in self.once:
            plain = len(node.args) == 1 and not node.kwargs
            return self.modules[str(node.target)] if plain else None
        return None


def _fold_batch_norm(traced: fx.GraphModule) -> None:
    if not any(isinstance(module, nn.BatchNorm2d) for module in traced.modules()):
        return
    calls = _Calls(traced)
    for node in list(traced.graph.nodes):
        norm = calls.module(node)
        if not isinstance(norm, nn.BatchNorm2d) or norm.running_mean is None or norm.running_var is None:
            continue
        before = node.args[0]
        conv = calls.module(before)
        if type(conv) is nn.Conv2d and len(before.users) == 1:
            conv.weight, conv.bias = fuse_conv_bn_weights(
                conv.weight, conv.bias, norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
            )
            node.replace_all_uses_with(before)
            traced.graph.erase_node(node)
        else:
            _set_submodule(traced, str(node.target), Affine(norm))
    traced.recompile()
    traced.delete_all_unused_submodules()


def _absorb_padding_and_rectifiers(traced: fx.GraphModule, example: Tensor) -> None:
    """Turn each ``pad -> conv -> rectifier`` (pad and rectifier optional) into one frozen convolution."""
    pads = _PadAmounts(traced)
    try:
        with torch.no_grad():
            pads.run(example.to(memory_format=torch.channels_last))
    except Exception:  # only the amounts of padding are lost
        pads.amounts.clear()
    calls = _Calls(traced)
    idle = {node for node in traced.graph.nodes if not node.users}  # they may work in place, so they stay
    for node in list(traced.graph.nodes):
        conv = calls.module(node)
        if not FrozenConv2d.fits(conv):
            continue
        assert isinstance(conv, nn.Conv2d)
        before = node.args[0]
        pad = (0, 0, 0, 0)
        if before in pads.amounts and FrozenConv2d.fits(conv, pads.amounts[before]):
            pad = pads.amounts[before]
            node.args = (before.args[0] if before.args else before.kwargs["input"],)
        frozen = FrozenConv2d(conv, pad=pad, bounds=_bounds_behind(node, calls))
        if frozen.bounds is not None:
            (rectifier,) = node.users
            rectifier.replace_all_uses_with(node)
            traced.graph.erase_node(rectifier)
        _set_submodule(traced, str(node.target), frozen)
    for node in reversed(list(traced.graph.nodes)):
        if not node.users and node not in idle:
            traced.graph.erase_node(node)
    traced.recompile()
    traced.delete_all_unused_submodules()
    calls = _Calls(traced)
    for node in traced.graph.nodes:
        conv = calls.module(node)
        if isinstance(conv, FrozenConv2d) and len(node.users) == 1:
            # the only reader is a frozen convolution, whose gradient is used nowhere else
            conv.owns_gradient = isinstance(calls.module(next(iter(node.users))), FrozenConv2d)


def _bounds_behind(node: fx.Node, calls: _Calls) -> tuple[float, float] | None:
    if len(node.users) != 1:
        return None
    (user,) = node.users
    if user.op == "call_module":
        return _RECTIFIERS.get(type(calls.modules[str(user.target)]))
    if user.op == "call_function" and user.target in _RECTIFIERS:
        return _RECTIFIERS[user.target]
    return None


class _PadAmounts(fx.Interpreter):
    """Runs the net once and records the amounts of each operation that pads height and width with zeros."""

    def __init__(self, traced: fx.GraphModule) -> None:
        super().__init__(traced)
        self.amounts: dict[Any, tuple[int, int, int, int]] = {}

    def run_node(self, node: fx.Node) -> Any:
        if node.op == "call_function" and node.target is F.pad:
            args, kwargs = self.fetch_args_kwargs_from_env(node)
            names = ("input", "pad", "mode", "value")
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            zero = given.get("mode", "constant") == "constant" and not given.get("value")
            if zero and len(given["pad"]) == 4 and min(given["pad"]) >= 0:
                left, right, top, bottom = (int(p) for p in given["pad"])
                self.amounts[node] = (left, right, top, bottom)
        return super().run_node(node)


def _replace(net: nn.Module, fits: Callable[[nn.Module], bool], by: Callable[[Any], nn.Module]) -> None:
    for name, module in list(net.named_modules()):
        if name and fits(module):
            _set_submodule(net, name, by(module))


def _set_submodule(root: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, leaf = name.rpartition(".")
    setattr(root.get_submodule(parent), leaf, module)


# ---- convolutions on a CPU --------------------------------------------------------------------------------------


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
