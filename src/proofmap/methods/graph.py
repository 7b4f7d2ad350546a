"""The autograd graph of one forward pass, which shows what a net computed, however its code is written; and nets run with another backward
pass: their values are unchanged, and their gradients follow a rule.

A :class:`Rewriting` is active while the net runs. It intercepts every call of torch, from a module, a function or a method, and may
return its own value; :meth:`Rewriting.with_slopes` gives a tensor any gradient. The net is not changed, and nothing remains after the pass.
Operations that are not intercepted, such as those inside TorchScript, appear in autograd's graph and are refused
(:meth:`Rewriting.check_operations`).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.graph import Node
from torch.overrides import TorchFunctionMode

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError

_NAMES = """
    AccumulateGrad Add Sub Rsub Neg Mul Div Mm Mv Bmm Sum Mean Cumsum
    View UnsafeView ReshapeAlias Reshape Permute Transpose T Expand Repeat Squeeze Unsqueeze Slice Select Index IndexSelect Gather
    Narrow Cat Stack Split SplitWithSizes Unbind Unfold Flip Roll Clone ToCopy Alias AsStrided Copy CopySlices Contiguous Diagonal
    ConstantPadNd ReflectionPad1D ReflectionPad2D ReflectionPad3D ReplicationPad1D ReplicationPad2D ReplicationPad3D
    AvgPool2D AvgPool3D AdaptiveAvgPool2D AdaptiveAvgPool3D MkldnnAdaptiveAvgPool2D PixelShuffle PixelUnshuffle
    UpsampleNearest1D UpsampleNearest2D UpsampleNearest3D UpsampleLinear1D UpsampleBilinear2D UpsampleBicubic2D Slopes
"""
_LINEAR = frozenset(_NAMES.split())
"""Operations that are linear in their inputs, without an added constant; ``Slopes`` are those of :class:`Rewriting`."""
_PRODUCTS = {
    **dict.fromkeys(("Mul", "Mm", "Mv", "Bmm", "Div", "Convolution"), 0),
    **dict.fromkeys(("Addmm", "Addmv", "Addbmm", "Baddbmm"), 1),
}
"""Operations that are linear in one operand only, with the index of the first of their two factors. An operand before it is a summand."""


def _kind(node: Node) -> str:
    """The name of the operation that a node computes: ``Add`` for ``AddBackward0``."""
    return re.sub(r"Backwards?\d*$", "", node.name().rpartition("::")[2]).lstrip("_")


def _reaching(output: Tensor, leaves: Iterable[Tensor]) -> dict[Node, None]:
    """The nodes between an output and any of the leaves, in a reproducible order, because error messages name the first one."""
    readers: dict[Node, list[Node]] = {}
    ends = []
    wanted = {id(leaf) for leaf in leaves}
    for node in Rewriting.nodes_behind(output):
        if id(getattr(node, "variable", None)) in wanted:
            ends.append(node)
        for before, _ in node.next_functions:
            if before is not None:
                readers.setdefault(before, []).append(node)
    found: dict[Node, None] = {}
    while ends:
        node = ends.pop()
        if node not in found:
            found[node] = None
            ends.extend(readers.get(node, []))
    return found


_ACTIVATIONS = """
    relu relu6 hardtanh clamp clamp_min clamp_max clip threshold _threshold leaky_relu prelu rrelu elu selu celu gelu silu mish softplus
    softsign hardswish hardsigmoid hardshrink softshrink tanhshrink sigmoid expit tanh logsigmoid
"""


class _Slopes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: list[Tensor], slopes: Sequence[Tensor], *terms: Tensor) -> Tensor:
        ctx.save_for_backward(*slopes)
        return value.pop()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return None, None, *(gradient * slope for slope in ctx.saved_tensors)


class Rewriting(TorchFunctionMode):
    """A context in which calls of torch functions are replaced. ``rewrites`` maps the name of a function to the name of a method of
    this class, which is called as ``method(func, x, *args, **kwargs)``. If the method returns None, the call is not changed.

    A call in place is replaced in place.
    """

    # names: a mode that held its methods would keep the graph alive
    rewrites: ClassVar[Mapping[str, str]] = {}
    ACTIVATIONS: ClassVar = frozenset(_ACTIVATIONS.split())
    """The names of torch's elementwise activation functions."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if not args and "input" in kwargs:
            args = (kwargs.pop("input"),)
        called = str(getattr(func, "__name__", ""))
        in_place = called.endswith("_") and not called.endswith("__")
        name = called[:-1] if in_place else called
        rewrite = self.rewrites.get(name)
        if rewrite is not None and args and isinstance(args[0], Tensor):
            new: Tensor | None = getattr(self, rewrite)(func, *args, **kwargs)
            if new is not None:
                return self.in_place(args[0], new) if in_place else new
        return self.plain(func, name, args, kwargs)

    def plain(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a call that is not rewritten."""
        return func(*args, **kwargs)

    def in_place(self, x: Tensor, new: Tensor) -> Tensor:
        """The result of a call that works in place: x, with the new values."""
        return x.copy_(new)

    @staticmethod
    def with_slopes(value: Tensor, *parts: tuple[Tensor, Tensor]) -> Tensor:
        """The value as a new tensor. Its gradient is the sum of slope * (gradient of term) over the parts (term, slope).

        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> y = Rewriting.with_slopes(torch.tensor(9.0), (2 * x, torch.tensor(10.0)))
        >>> y.item(), torch.autograd.grad(y, x)[0].item()
        (9.0, 20.0)
        """
        terms, slopes = zip(*parts, strict=True)
        return cast(Tensor, _Slopes.apply([value], slopes, *terms))  # type: ignore[no-untyped-call]

    @staticmethod
    def elementwise(
        func: Any, x: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Tensor, bool]:
        """The output of an activation, and whether its arguments (such as ``inplace=True``) make it work in place. Names such as
        ``relu_`` do not count.
        """
        given = x.detach().clone()
        value: Tensor = func(given, *args, **kwargs)
        in_place = value.data_ptr() == given.data_ptr() and not str(func.__name__).endswith("_")
        return value.detach(), in_place

    @staticmethod
    def fixed_batch_norm(func: Any, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor] | None:
        """Scale and shift ``(C,)`` of a batch-norm with fixed statistics, scale * x + shift, from its call; None for any other call.

        >>> Rewriting.fixed_batch_norm(
        ...     F.batch_norm, torch.ones(1, 1), torch.tensor([2.0]), running_var=torch.tensor([4.0]), eps=0.0
        ... )
        (tensor([0.5000]), tensor([-1.]))
        """
        if func is not F.batch_norm:
            return None
        call = inspect.signature(func).bind(*args, **kwargs)
        call.apply_defaults()
        _, mean, var, weight, bias, training, _, eps = call.args
        if training or mean is None or var is None:
            return None
        scale = (var.detach() + eps).rsqrt()
        if weight is not None:
            scale = scale * weight.detach()
        shift = -mean.detach() * scale
        return scale, shift if bias is None else shift + bias.detach()

    @staticmethod
    def per_feature(values: Tensor, like: Tensor) -> Tensor:
        """Values per feature ``(C,)``, in a shape that broadcasts with ``(N, C, ...)``."""
        return values.to(like.dtype).view(1, -1, *[1] * (like.ndim - 2))

    @staticmethod
    def nodes_behind(output: Tensor) -> Iterator[Node]:
        """All nodes of the autograd graph of an output, each once."""
        waiting, seen = [output.grad_fn], set()
        while waiting:
            node = waiting.pop()
            if node is not None and node not in seen:
                seen.add(node)
                yield node
                waiting.extend(before for before, _ in node.next_functions)

    @staticmethod
    def check_logits(method: str, classifier: Classifier) -> None:
        """Raise an error if the net ends in a softmax or sigmoid."""
        if classifier.outputs not in ("logits", "sigmoid"):
            raise InputError(
                f"{method} starts at the logits, and this net returns {classifier.outputs}; pass the net without its last "
                "softmax or sigmoid"
            )

    @staticmethod
    def check_operations(
        method: str,
        output: Tensor,
        leaves: Collection[Tensor],
        known: Collection[str],
        seen: Collection[Node],
    ) -> None:
        """Raise if the net has an operation between the leaves and the output for which the method has no rule.

        ``known`` are the kinds of nodes that the method leaves to autograd, in addition to linear operations without a shift. ``seen`` are the
        nodes that the method created itself.
        """
        reached = _reaching(output, leaves)
        for node in reached:
            name = _kind(node)
            operands = [place for place, (before, _) in enumerate(node.next_functions) if before in reached]
            factors = [place for place in operands if name in _PRODUCTS and 0 <= place - _PRODUCTS[name] < 2]
            product = len(factors) > 1 or (name == "Div" and factors == [1])
            if product:
                raise InputError(
                    f"{method} has no rule for a product of two tensors that both depend on the input, such as attention or a "
                    "gate; use integrated-gradients, or a method for transformers"
                )
            if name not in _LINEAR and name not in known and node not in seen:
                raise InputError(
                    f"{method} has no rule for an operation of this net: {name} (a node of autograd's graph). It knows layers, "
                    "rectifiers and other activations, pooling, batch-norm and sums; use integrated-gradients"
                )
