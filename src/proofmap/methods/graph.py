"""The autograd graph of one forward pass, which shows what a net computed, however its code is written."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from torch import Tensor
from torch.autograd.graph import Node

from proofmap.core.errors import InputError

_LINEAR = """
    AccumulateGrad Add Sub Rsub Neg Mul Div Mm Mv Bmm Sum Mean Cumsum
    View UnsafeView ReshapeAlias Reshape Permute Transpose T Expand Repeat Squeeze Unsqueeze Slice Select Index IndexSelect Gather
    Narrow Cat Stack Split SplitWithSizes Unbind Unfold Flip Roll Clone ToCopy Alias AsStrided Copy CopySlices Contiguous Diagonal
    ConstantPadNd ReflectionPad1D ReflectionPad2D ReflectionPad3D ReplicationPad1D ReplicationPad2D ReplicationPad3D
    AvgPool2D AvgPool3D AdaptiveAvgPool2D AdaptiveAvgPool3D MkldnnAdaptiveAvgPool2D PixelShuffle PixelUnshuffle
    UpsampleNearest1D UpsampleNearest2D UpsampleNearest3D UpsampleLinear1D UpsampleBilinear2D UpsampleBicubic2D
"""
LINEAR = frozenset(_LINEAR.split())
"""Operations that are linear in their inputs, without an added constant."""
_PRODUCTS = {
    **dict.fromkeys(("Mul", "Mm", "Mv", "Bmm", "Div", "Convolution"), 0),
    **dict.fromkeys(("Addmm", "Addmv", "Addbmm", "Baddbmm"), 1),
}
"""Operations that are linear in one operand only, with the index of the first of their two factors. An operand before it is a summand."""


def nodes_behind(output: Tensor) -> Iterator[Node]:
    """All nodes of the autograd graph of an output, each once."""
    waiting, seen = [output.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            waiting.extend(before for before, _ in node.next_functions)


def kind(node: Node) -> str:
    """The name of the operation that a node computes: ``Add`` for ``AddBackward0``."""
    return re.sub(r"Backwards?\d*$", "", node.name().rpartition("::")[2]).lstrip("_")


def check_operations(
    method: str, output: Tensor, leaves: Collection[Tensor], known: Collection[str], seen: Collection[Node]
) -> None:
    """Raise if the net has an operation between the leaves and the output for which the method has no rule.

    ``known`` are the kinds of nodes that the method leaves to autograd, and ``seen`` are the nodes that the method created itself.
    """
    reached = _reaching(output, leaves)
    for node in reached:
        name = kind(node)
        operands = [place for place, (before, _) in enumerate(node.next_functions) if before in reached]
        factors = [place for place in operands if name in _PRODUCTS and 0 <= place - _PRODUCTS[name] < 2]
        product = len(factors) > 1 or (name == "Div" and factors == [1])
        if product:
            raise InputError(
                f"{method} has no rule for a product of two tensors that both depend on the input, such as attention or a "
                "gate; use integrated-gradients, or a method for transformers"
            )
        if name not in known and node not in seen:
            raise InputError(
                f"{method} has no rule for an operation of this net: {name} (a node of autograd's graph). It knows layers, "
                "rectifiers and other activations, pooling, batch-norm and sums; use integrated-gradients"
            )


def _reaching(output: Tensor, leaves: Iterable[Tensor]) -> dict[Node, None]:
    """The nodes between an output and any of the leaves, in a reproducible order, because error messages name the first one."""
    readers: dict[Node, list[Node]] = {}
    ends = []
    wanted = {id(leaf) for leaf in leaves}
    for node in nodes_behind(output):
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
