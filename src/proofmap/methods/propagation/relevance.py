"""Relevance through a net, layer by layer, for every rule of layer-wise relevance propagation.

The relevance of a unit is written R = a c, its activation times a coefficient. At the output c = 1 for the label, so R is its
logit. A layer z_j = sum_i x_i w_ij + b_j takes R_j = z_j c_j and gives x_i a share by a rule. With P_j the sum of
the positive contributions x_i w_ij, N_j that of the negative ones, the bias b+ or b- included:

    epsilon      R_i = sum_j  x_i w_ij / (z_j + e sign z_j)  R_j
    gamma        R_i = sum_j  (x_i w_ij + g [x_i w_ij]^s) / (z_j + g [P_j or N_j])  R_j    ^s: those with the sign of z_j
    alpha-beta   R_i = sum_j  (alpha [x_i w_ij]+ / P_j  -  beta [x_i w_ij]- / N_j)  R_j
                 if there are none of one sign, the others take all of R_j; with beta = 0 negative ones take nothing
    box          R_i = sum_j  (x_i w_ij - l_i w_ij+ - h_i w_ij-) / (the sum of these over i)  R_j     l <= x <= h: first layer
    w-squared    R_i = sum_j  w_ij^2 / (sum of w_ij^2)  R_j        flat   the same with 1 for w^2: first layer

Every rule except the last three has R_i = x_i c_i, where c is a gradient of the layer with other slopes. So autograd computes c,
and sums, means, pooling, reshaping and branches need no rule. Activations pass R on: c_x = c a(x) / x.
Batch-norm is folded into the layer before it; without such a layer it is a layer itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.graph import Node

from proofmap.methods.graph import LINEAR
from proofmap.methods.propagation.rewriting import (
    ELEMENTWISE,
    Notes,
    Rewriting,
    elementwise,
    fixed_batch_norm,
    is_constant,
    per_feature,
    ratio,
    with_slopes,
)

KNOWN = LINEAR | {
    "Slopes",
    "MaxPool2DWithIndices",
    "MaxPool3DWithIndices",
    "AdaptiveMaxPool2D",
    "AdaptiveMaxPool3D",
    "MkldnnMaxPool2D",
    "Max",
    "Amax",
    "Maximum",
}
"""Operations that need no rule: linear operations without a shift, and maxima."""

_HOMOGENEOUS = frozenset({"relu", "leaky_relu"})
"""Activations with a(x) = x a'(x), whose gradient passes relevance on unchanged."""
_CONVOLUTIONS = ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
_MOVED = """
    pad flatten view reshape permute transpose movedim unsqueeze squeeze contiguous to float half bfloat16 double type clone
    __getitem__ view_as expand dropout dropout2d alpha_dropout feature_dropout
"""
_MOVES = frozenset(_MOVED.split())
_SCALES = ("mul", "div", "true_divide", "__rmul__", "__truediv__")
_SUMS = ("add", "sub", "rsub", "__radd__", "__rsub__")


_NOTHING = 1e-12
"""Replaces epsilon where no relevance may be lost."""
_ROUNDING = 1e-6
"""Negative contributions are computed as a difference. If they are below this share of the positive ones, they count as zero."""


class Rule(NamedTuple):
    """One of the rules of this module, with its parameters."""

    name: Literal["epsilon", "gamma", "alpha-beta"]
    gamma: float = 0.25
    alpha: float = 1.0
    beta: float = 0.0


@dataclass(frozen=True)
class Composite:
    """The rules of all layers. ``last`` is the rule of the last layer, if it differs; ``layers`` is then the number of layers."""

    conv: Rule
    dense: Rule
    first: Literal["box", "w-squared", "flat", "none"]
    epsilon: float
    absorb: bool
    last: Rule | None = None
    layers: int = 0


class Raw(NamedTuple):
    """Tensors that follow the input to the first layer: ones, whose gradient is the relevance, and the lower and upper limits of the
    values.
    """

    ones: Tensor
    low: Tensor
    high: Tensor


class LinearCall(NamedTuple):
    """A call of a linear layer that can be repeated with other inputs and weights. Features are on the last axis (dense layer) or the
    second (convolution).
    """

    call: Callable[[Tensor, Tensor], Tensor]
    x: Tensor
    weight: Tensor
    bias: Tensor | None
    rule: Rule
    dense: bool
    folds: bool


class Relevance(Rewriting):
    """Runs a net so that its gradient is the coefficient c of relevance.

    ``shares`` are ones ``(N,)``. Their gradient is the relevance that biases and other constants absorb. ``seen`` are the nodes of
    autograd's graph that rules created.
    """

    rewrites: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(ELEMENTWISE - _HOMOGENEOUS, "_activation"),
        **dict.fromkeys(_CONVOLUTIONS, "_convolution"),
        **dict.fromkeys(_SUMS, "_sum"),
        **dict.fromkeys(("matmul", "mm", "__matmul__"), "_product"),
        "linear": "_linear",
        "batch_norm": "_batch_norm",
    }

    def __init__(self, composite: Composite, shares: Tensor, start: Tensor, raw: Raw) -> None:
        super().__init__()
        self.composite, self.shares, self.calls = composite, shares, 0
        self.seen: set[Node] = set()
        self._raw, self._layers = Notes[Raw](), Notes[LinearCall]()
        self._raw[start] = raw

    # ---- layers ------------------------------------------------------------------------------------------------

    def _convolution(
        self, func: Any, x: Tensor, weight: Any, bias: Any = None, *rest: Any, **more: Any
    ) -> Tensor | None:
        def call(x: Tensor, weight: Tensor) -> Tensor:
            out: Tensor = func(x, weight, None, *rest, **more)
            return out

        rule, folds = self.composite.conv, "transpose" not in func.__name__
        return self._layer(LinearCall(call, x, weight, bias, rule, dense=False, folds=folds))

    def _linear(self, func: Any, x: Tensor, weight: Any, bias: Any = None) -> Tensor | None:
        rule = self.composite.dense
        return self._layer(LinearCall(F.linear, x, weight, bias, rule, dense=True, folds=x.ndim == 2))

    def _product(self, func: Any, x: Tensor, weight: Any) -> Tensor | None:
        plain = isinstance(weight, Tensor) and weight.ndim == 2 and is_constant(weight)
        return self._linear(func, x, weight.T) if plain else None

    def _layer(self, layer: LinearCall) -> Tensor | None:
        if not layer.x.requires_grad or not is_constant(layer.weight) or not is_constant(layer.bias):
            return None
        self.calls += 1
        if self.composite.last is not None and self.calls == self.composite.layers:
            layer = layer._replace(rule=self.composite.last)
        out = self._related(layer)
        self._layers[out] = layer
        return out

    def _batch_norm(self, func: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor | None:
        affine = fixed_batch_norm(func, x, *args, **kwargs)
        if affine is None or not x.requires_grad:
            return None
        scale, shift = affine
        before = self._layers[x]
        if before is not None and before.folds:
            folded = before.weight.detach() * scale.view(-1, *[1] * (before.weight.ndim - 1))
            moved = shift if before.bias is None else shift + scale * before.bias.detach()
            return self._related(before._replace(weight=folded, bias=moved))
        scaled = x.float() * per_feature(scale, x.float())
        return self._ruled(Rule("epsilon"), scaled, per_feature(shift, scaled), None).to(x.dtype)

    # ---- rules -------------------------------------------------------------------------------------------------

    def _related(self, layer: LinearCall) -> Tensor:
        x, weight = layer.x.float(), layer.weight.detach().float()
        raw = self._raw[layer.x] if self.composite.first != "none" else None
        if raw is not None:
            return self._first(layer, weight, raw).to(layer.x.dtype)

        def positive() -> Tensor:
            """Positive contributions: of positive inputs with positive weights, and of negative inputs with negative weights."""
            total = self._seen(layer.call(self._seen(x.clamp_min(0)), weight.clamp_min(0)))
            if bool((x.detach() < 0).any()):
                total = total + self._seen(layer.call(self._seen(x.clamp_max(0)), weight.clamp_max(0)))
            return total

        plain = self._seen(layer.call(x, weight))
        return self._ruled(layer.rule, plain, _shift(layer, plain), positive).to(layer.x.dtype)

    def _ruled(
        self, rule: Rule, plain: Tensor, shift: Tensor | None, positive: Callable[[], Tensor] | None
    ) -> Tensor:
        """The output ``plain + shift`` of a layer, with the gradient of a rule. ``plain`` is the output without the bias ``shift``."""
        value = plain.detach().clone() if shift is None else plain.detach() + shift
        whole = self._biased(plain, shift)
        under, epsilon = whole.detach(), self.composite.epsilon
        if rule.name == "epsilon" or positive is None:
            return with_slopes(value, (whole, ratio(value, under, epsilon)))
        above = self._biased(positive(), None if shift is None else shift.clamp_min(0))
        up, down = above.detach(), under - above.detach()
        if rule.name == "gamma":
            g = rule.gamma
            rising = ratio(value, under + g * up, epsilon) * (under > 0)
            falling = ratio(value, under + g * down, epsilon) * (under <= 0)
            return with_slopes(value, (whole, rising + (1 + g) * falling), (above, g * (rising - falling)))
        if rule.beta == 0:
            return with_slopes(value, (above, rule.alpha * ratio(value, up, epsilon)))
        down = torch.where(down.abs() > _ROUNDING * up, down, 0.0)
        kept = rule.alpha - rule.beta
        # for a contrast, alpha = beta, nothing is kept, and the others do not take all
        alpha = torch.where(down == 0, kept or rule.alpha, rule.alpha)
        beta = torch.where(up == 0, -kept or rule.beta, rule.beta)
        gain, loss = alpha * ratio(value, up, epsilon), beta * ratio(value, down, epsilon)
        return with_slopes(value, (whole, -loss), (above, gain + loss))

    def _first(self, layer: LinearCall, weight: Tensor, raw: Raw) -> Tensor:
        ones, low, high = (tensor.float() for tensor in raw)
        x = layer.x.detach().float()
        if self.composite.first == "box":
            shared = self._seen(layer.call(ones * x, weight))
            shared = shared - self._seen(layer.call(ones * low, weight.clamp_min(0)))
            shared = shared - self._seen(layer.call(ones * high, weight.clamp_max(0)))
        else:
            each = weight.square() if self.composite.first == "w-squared" else torch.ones_like(weight)
            shared = self._seen(layer.call(ones, each))
        value = layer.call(x, weight)
        shift = _shift(layer, value)
        value = value if shift is None else value + shift
        return with_slopes(value, (shared, ratio(value, shared.detach(), self.composite.epsilon)))

    def _biased(self, sums: Tensor, shift: Tensor | None) -> Tensor:
        """Sums plus a bias, which gets its share of relevance. If biases are ignored, the sums alone."""
        if shift is None or not self.composite.absorb:
            return sums
        return sums + shift * self._shares_for(sums)

    def _shares_for(self, like: Tensor) -> Tensor:
        if len(like) != len(self.shares):  # places were moved into the batch: what they absorb is not counted
            return torch.ones((), device=like.device, dtype=like.dtype)
        return self.shares.to(like.dtype).view(-1, *[1] * (like.ndim - 1))

    def _activation(self, func: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor | None:
        if not x.requires_grad:
            return None
        value, in_place = elementwise(func, x, args, kwargs)
        new = with_slopes(value, (x, self._passed(value, x)))
        return self.in_place(x, new) if in_place else new

    def _sum(self, func: Any, x: Tensor, other: Any, **kwargs: Any) -> Tensor | None:
        """The sum of a tensor that depends on the input and a constant. The constant is treated as a bias."""
        if is_constant(x) == is_constant(other):
            return None
        constant, varying = (x, other) if is_constant(x) else (other, x)
        constant = torch.as_tensor(constant, device=varying.device).detach().to(varying.dtype)

        def added(varying: Tensor, constant: Tensor) -> Tensor:
            pair = (constant, varying) if is_constant(x) else (varying, constant)
            out: Tensor = func(*pair, **kwargs)
            return out

        if self.composite.absorb and constant.ndim <= varying.ndim:
            out = added(varying.clone(), constant * self._shares_for(varying))
        else:
            value = added(varying.detach().clone(), constant)
            out = with_slopes(value, (varying.expand_as(value), self._passed(value, varying)))
        self._follow(self._raw[varying], out, lambda limit: added(limit, constant))
        return out

    def _passed(self, value: Tensor, x: Tensor) -> Tensor:
        """The slope value / x, which passes all relevance of ``value`` on to x."""
        most = torch.finfo(value.dtype).max
        return ratio(value.float(), x.detach().float(), _NOTHING).clamp_(-most, most).to(value.dtype)

    # ---- from the input to the first layer ---------------------------------------------------------------------

    def plain(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        x = args[0] if args else None
        raw = self._raw[x] if isinstance(x, Tensor) else None
        out = func(*args, **kwargs)
        if name in _HOMOGENEOUS:
            self._seen(out)
        if raw is not None and isinstance(out, Tensor):
            if name in _MOVES:
                self._raw[out] = Raw(*(func(tensor.clone(), *args[1:], **kwargs) for tensor in raw))
            elif name in _SCALES and is_constant(args[1]):
                self._follow(raw, out, lambda limit: func(limit, *args[1:], **kwargs))
        return out

    def in_place(self, x: Tensor, new: Tensor) -> Tensor:
        raw = self._raw[new]
        out = super().in_place(x, new)
        if raw is not None:
            self._raw[out] = raw
        return out

    def _follow(self, raw: Raw | None, out: Tensor, change: Callable[[Tensor], Tensor]) -> None:
        """Record the limits of the input's values after a shift or a scaling."""
        if raw is not None and out.shape == raw.ones.shape:
            ends = change(raw.low.clone()), change(raw.high.clone())
            self._raw[out] = Raw(raw.ones, torch.minimum(*ends), torch.maximum(*ends))

    def _seen(self, tensor: Tensor) -> Tensor:
        """Mark the tensor's node of the graph as created by a rule."""
        if tensor.grad_fn is not None:
            self.seen.add(tensor.grad_fn)
        return tensor


def _shift(layer: LinearCall, like: Tensor) -> Tensor | None:
    """The layer's bias, in a shape that broadcasts with its output."""
    if layer.bias is None:
        return None
    bias = layer.bias.detach().float()
    return bias if layer.dense else per_feature(bias, like)
