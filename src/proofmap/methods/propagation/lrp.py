"""Layer-wise relevance propagation, its contrastive form, and its rules.

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

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.graph import Node
from torch.utils.weak import WeakTensorKeyDictionary

from proofmap.classifier import Classifier
from proofmap.core.batching import in_batches
from proofmap.core.errors import InputError
from proofmap.methods.gradients.paths import check_sums
from proofmap.methods.gradients.plain import CHANNELS_HELP, Channels, check_differentiable
from proofmap.methods.graph import Rewriting
from proofmap.methods.method import METHODS, Cost, Method
from proofmap.plugins.settings import Shortcuts, setting
from proofmap.session import Session

_KNOWN = frozenset(
    (
        "MaxPool2DWithIndices",
        "MaxPool3DWithIndices",
        "AdaptiveMaxPool2D",
        "AdaptiveMaxPool3D",
        "MkldnnMaxPool2D",
        "Max",
        "Amax",
        "Maximum",
    )
)
"""Operations that need no rule, in addition to linear ones: maxima."""

T = TypeVar("T")

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


class _Rule(NamedTuple):
    """One of the rules of this module, with its parameters."""

    name: Literal["epsilon", "gamma", "alpha-beta"]
    gamma: float = 0.25
    alpha: float = 1.0
    beta: float = 0.0


@dataclass(frozen=True)
class _Composite:
    """The rules of all layers. ``last`` is the rule of the last layer, if it differs; ``layers`` is then the number of layers."""

    conv: _Rule
    dense: _Rule
    first: Literal["box", "w-squared", "flat", "none"]
    epsilon: float
    absorb: bool
    last: _Rule | None = None
    layers: int = 0


class _Raw(NamedTuple):
    """Tensors that follow the input to the first layer: ones, whose gradient is the relevance, and the lower and upper limits of the
    values.
    """

    ones: Tensor
    low: Tensor
    high: Tensor


class _LinearCall(NamedTuple):
    """A call of a linear layer that can be repeated with other inputs and weights. Features are on the last axis (dense layer) or the
    second (convolution).
    """

    call: Callable[[Tensor, Tensor], Tensor]
    x: Tensor
    weight: Tensor
    bias: Tensor | None
    rule: _Rule
    dense: bool
    folds: bool


def _ratio(over: Tensor, under: Tensor, epsilon: float) -> Tensor:
    """over / (under + epsilon sign(under)); 0 where ``under`` is 0."""
    small = torch.full((), epsilon, device=under.device, dtype=under.dtype)
    return (over / (under + torch.copysign(small, under))).masked_fill_(under == 0, 0.0)


def _is_constant(value: Any) -> bool:
    """Whether a value does not depend on the input: a number, a weight, or a tensor made from weights."""
    return not isinstance(value, Tensor) or not value.requires_grad or value.is_leaf


class _Notes(Generic[T]):
    """A mapping from tensors to notes. A note is valid until its tensor is changed in place or freed."""

    def __init__(self) -> None:
        self._notes: MutableMapping[Tensor, tuple[int, T]] = WeakTensorKeyDictionary()

    def __getitem__(self, tensor: Tensor) -> T | None:
        found = self._notes.get(tensor)
        return found[1] if found is not None and found[0] == tensor._version else None

    def __setitem__(self, tensor: Tensor, note: T) -> None:
        self._notes[tensor] = (tensor._version, note)


class _Relevance(Rewriting):
    """Runs a net so that its gradient is the coefficient c of relevance.

    ``shares`` are ones ``(N,)``. Their gradient is the relevance that biases and other constants absorb. ``seen`` are the nodes of
    autograd's graph that rules created.
    """

    rewrites: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(Rewriting.ACTIVATIONS - _HOMOGENEOUS, "_activation"),
        **dict.fromkeys(_CONVOLUTIONS, "_convolution"),
        **dict.fromkeys(_SUMS, "_sum"),
        **dict.fromkeys(("matmul", "mm", "__matmul__"), "_product"),
        "linear": "_linear",
        "batch_norm": "_batch_norm",
    }

    def __init__(self, composite: _Composite, shares: Tensor, start: Tensor, raw: _Raw) -> None:
        super().__init__()
        self.composite, self.shares, self.calls = composite, shares, 0
        self.seen: set[Node] = set()
        self._raw, self._layers = _Notes[_Raw](), _Notes[_LinearCall]()
        self._raw[start] = raw

    # ---- layers ------------------------------------------------------------------------------------------------

    def _convolution(
        self, func: Any, x: Tensor, weight: Any, bias: Any = None, *rest: Any, **more: Any
    ) -> Tensor | None:
        def call(x: Tensor, weight: Tensor) -> Tensor:
            out: Tensor = func(x, weight, None, *rest, **more)
            return out

        rule, folds = self.composite.conv, "transpose" not in func.__name__
        return self._layer(_LinearCall(call, x, weight, bias, rule, dense=False, folds=folds))

    def _linear(self, func: Any, x: Tensor, weight: Any, bias: Any = None) -> Tensor | None:
        rule = self.composite.dense
        return self._layer(_LinearCall(F.linear, x, weight, bias, rule, dense=True, folds=x.ndim == 2))

    def _product(self, func: Any, x: Tensor, weight: Any) -> Tensor | None:
        plain = isinstance(weight, Tensor) and weight.ndim == 2 and _is_constant(weight)
        return self._linear(func, x, weight.T) if plain else None

    def _layer(self, layer: _LinearCall) -> Tensor | None:
        if not layer.x.requires_grad or not _is_constant(layer.weight) or not _is_constant(layer.bias):
            return None
        self.calls += 1
        if self.composite.last is not None and self.calls == self.composite.layers:
            layer = layer._replace(rule=self.composite.last)
        out = self._related(layer)
        self._layers[out] = layer
        return out

    def _batch_norm(self, func: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor | None:
        affine = self.fixed_batch_norm(func, x, *args, **kwargs)
        if affine is None or not x.requires_grad:
            return None
        scale, shift = affine
        before = self._layers[x]
        if before is not None and before.folds:
            folded = before.weight.detach() * scale.view(-1, *[1] * (before.weight.ndim - 1))
            moved = shift if before.bias is None else shift + scale * before.bias.detach()
            return self._related(before._replace(weight=folded, bias=moved))
        scaled = x.float() * self.per_feature(scale, x.float())
        return self._ruled(_Rule("epsilon"), scaled, self.per_feature(shift, scaled), None).to(x.dtype)

    # ---- rules -------------------------------------------------------------------------------------------------

    def _related(self, layer: _LinearCall) -> Tensor:
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
        self, rule: _Rule, plain: Tensor, shift: Tensor | None, positive: Callable[[], Tensor] | None
    ) -> Tensor:
        """The output ``plain + shift`` of a layer, with the gradient of a rule. ``plain`` is the output without the bias ``shift``."""
        value = plain.detach().clone() if shift is None else plain.detach() + shift
        whole = self._biased(plain, shift)
        under, epsilon = whole.detach(), self.composite.epsilon
        if rule.name == "epsilon" or positive is None:
            return self.with_slopes(value, (whole, _ratio(value, under, epsilon)))
        above = self._biased(positive(), None if shift is None else shift.clamp_min(0))
        up, down = above.detach(), under - above.detach()
        if rule.name == "gamma":
            g = rule.gamma
            rising = _ratio(value, under + g * up, epsilon) * (under > 0)
            falling = _ratio(value, under + g * down, epsilon) * (under <= 0)
            return self.with_slopes(
                value, (whole, rising + (1 + g) * falling), (above, g * (rising - falling))
            )
        if rule.beta == 0:
            return self.with_slopes(value, (above, rule.alpha * _ratio(value, up, epsilon)))
        down = torch.where(down.abs() > _ROUNDING * up, down, 0.0)
        kept = rule.alpha - rule.beta
        # for a contrast, alpha = beta, nothing is kept, and the others do not take all
        alpha = torch.where(down == 0, kept or rule.alpha, rule.alpha)
        beta = torch.where(up == 0, -kept or rule.beta, rule.beta)
        gain, loss = alpha * _ratio(value, up, epsilon), beta * _ratio(value, down, epsilon)
        return self.with_slopes(value, (whole, -loss), (above, gain + loss))

    def _first(self, layer: _LinearCall, weight: Tensor, raw: _Raw) -> Tensor:
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
        return self.with_slopes(value, (shared, _ratio(value, shared.detach(), self.composite.epsilon)))

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
        value, in_place = self.elementwise(func, x, args, kwargs)
        new = self.with_slopes(value, (x, self._passed(value, x)))
        return self.in_place(x, new) if in_place else new

    def _sum(self, func: Any, x: Tensor, other: Any, **kwargs: Any) -> Tensor | None:
        """The sum of a tensor that depends on the input and a constant. The constant is treated as a bias."""
        if _is_constant(x) == _is_constant(other):
            return None
        constant, varying = (x, other) if _is_constant(x) else (other, x)
        constant = torch.as_tensor(constant, device=varying.device).detach().to(varying.dtype)

        def added(varying: Tensor, constant: Tensor) -> Tensor:
            pair = (constant, varying) if _is_constant(x) else (varying, constant)
            out: Tensor = func(*pair, **kwargs)
            return out

        if self.composite.absorb and constant.ndim <= varying.ndim:
            out = added(varying.clone(), constant * self._shares_for(varying))
        else:
            value = added(varying.detach().clone(), constant)
            out = self.with_slopes(value, (varying.expand_as(value), self._passed(value, varying)))
        self._follow(self._raw[varying], out, lambda limit: added(limit, constant))
        return out

    def _passed(self, value: Tensor, x: Tensor) -> Tensor:
        """The slope value / x, which passes all relevance of ``value`` on to x."""
        most = torch.finfo(value.dtype).max
        return _ratio(value.float(), x.detach().float(), _NOTHING).clamp_(-most, most).to(value.dtype)

    # ---- from the input to the first layer ---------------------------------------------------------------------

    def plain(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        x = args[0] if args else None
        raw = self._raw[x] if isinstance(x, Tensor) else None
        out = func(*args, **kwargs)
        if name in _HOMOGENEOUS:
            self._seen(out)
        if raw is not None and isinstance(out, Tensor):
            if name in _MOVES:
                self._raw[out] = _Raw(*(func(tensor.clone(), *args[1:], **kwargs) for tensor in raw))
            elif name in _SCALES and _is_constant(args[1]):
                self._follow(raw, out, lambda limit: func(limit, *args[1:], **kwargs))
        return out

    def in_place(self, x: Tensor, new: Tensor) -> Tensor:
        raw = self._raw[new]
        out = super().in_place(x, new)
        if raw is not None:
            self._raw[out] = raw
        return out

    def _follow(self, raw: _Raw | None, out: Tensor, change: Callable[[Tensor], Tensor]) -> None:
        """Record the limits of the input's values after a shift or a scaling."""
        if raw is not None and out.shape == raw.ones.shape:
            ends = change(raw.low.clone()), change(raw.high.clone())
            self._raw[out] = _Raw(raw.ones, torch.minimum(*ends), torch.maximum(*ends))

    def _seen(self, tensor: Tensor) -> Tensor:
        """Mark the tensor's node of the graph as created by a rule."""
        if tensor.grad_fn is not None:
            self.seen.add(tensor.grad_fn)
        return tensor


def _shift(layer: _LinearCall, like: Tensor) -> Tensor | None:
    """The layer's bias, in a shape that broadcasts with its output."""
    if layer.bias is None:
        return None
    bias = layer.bias.detach().float()
    return bias if layer.dense else Rewriting.per_feature(bias, like)


RuleName = Literal["epsilon", "gamma", "alpha-beta"]
Biases = Literal["absorb", "ignore"]

_MEMORY = 3
"""The memory of a pass with rules, as a multiple of that of a pass with gradients."""


class RelevanceMethod(Method):
    """Base class of methods that propagate relevance from the logits to the input. Subclasses define the relevance at the logits."""

    family = "propagation"
    needs = frozenset({"gradients"})

    conv: RuleName = setting("gamma", "relevance rule for convolutions")
    dense: RuleName = setting("epsilon", "relevance rule for dense layers")
    first: Literal["auto", "box", "w-squared", "flat", "none"] = setting(
        "auto",
        "relevance rule for the first layer; auto: box if inputs have limits, as pixels do, else w-squared",
    )
    epsilon: float = setting(1e-6, "small number that keeps denominators away from zero", above=0)
    gamma: float = setting(
        0.25,
        "in the gamma rule, additional weight of contributions with the sign of the unit's output",
        least=0,
    )
    alpha: float = setting(
        2.0,
        "in the alpha-beta rule, weight of positive contributions; negative ones have beta = alpha - 1",
        least=1,
    )
    biases: Biases = setting("absorb", "whether biases absorb their share of relevance, or are ignored")
    channels: Channels = setting("sum", CHANNELS_HELP)

    def composite(self, classifier: Classifier) -> _Composite:
        """The rules of this method for the classifier's kind of input."""
        limited = classifier.inputs.limits is not None
        if self.first == "box" and not limited:
            raise InputError(
                f"the box rule needs inputs with limits, and {classifier.inputs.noun} have none; use first=w-squared"
            )
        first = self.first if self.first != "auto" else "box" if limited else "w-squared"
        conv, dense = (
            _Rule(name, gamma=self.gamma, alpha=self.alpha, beta=self.alpha - 1)
            for name in (self.conv, self.dense)
        )
        return _Composite(conv, dense, first, self.epsilon, absorb=self.biases == "absorb")

    def begin(self, classifier: Classifier, logits: Tensor, labels: Tensor) -> Tensor:
        """The coefficients c ``(N, L, A)`` of the logits with which relevance starts, for each label."""
        raise NotImplementedError

    def finish(self, maps: Tensor) -> Tensor:
        """The maps, from relevance per position ``(N, L, *positions)``; by default unchanged."""
        return maps

    def check(self, arrived: Tensor, begun: Tensor, labels: Tensor) -> None:
        """Compare the total relevance that arrived with the total that started, ``(N, L)``. By default nothing is checked, because
        the totals of a difference of two relevances mean nothing.
        """

    def cost(self, labels: int, session: Session | None = None) -> Cost:
        return Cost(gradient=labels)

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        Rewriting.check_logits(self.name, session.net)
        composite = self.composite(session.net)
        mean, std = session.inputs.scale(session.net.device)
        with session.progress.task(self.name, labels.numel()) as task:

            def run(start: int, stop: int) -> tuple[Tensor, Tensor, Tensor]:
                x = (images[start:stop] - mean) / std
                found = self._propagated(session.net, composite, x, labels[start:stop])
                task.advance((stop - start) * labels.shape[1])
                return found

            parts = in_batches(run, len(images), session.net.batches[1], cost=_MEMORY)
        values, arrived, begun = (torch.cat(each) for each in zip(*parts, strict=True))
        self.check(arrived, begun, labels)
        return self.finish(values)

    def _propagated(
        self, classifier: Classifier, composite: _Composite, x: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Relevance per position ``(N, L, *positions)``, and two totals ``(N, L)``: what arrived at the input and at biases, and what
        started.
        """
        inputs = classifier.inputs
        limits = inputs.limits or (0.0, 0.0)
        mean, std = classifier.inputs.scale(classifier.device)
        low, high = (((limit - mean) / std).expand_as(x) for limit in limits)
        with torch.enable_grad():
            leaf, ones = x.detach().requires_grad_(True), torch.ones_like(x).requires_grad_(True)
            shares = torch.ones(len(x), device=x.device).requires_grad_(True)
            entering = leaf.clone()  # a net may work on its input in place
            mode = _Relevance(composite, shares, entering, _Raw(ones, low, high))
            with mode:
                logits = classifier.from_normalised(entering)
            check_differentiable(logits)
            Rewriting.check_operations(self.name, logits, (leaf, ones), _KNOWN, mode.seen)
            begin = self.begin(classifier, logits.detach(), labels)
            maps, sums = [], []
            for j in range(labels.shape[1]):
                at_input, at_ones, absorbed = torch.autograd.grad(
                    logits,
                    (leaf, ones, shares),
                    begin[:, j],
                    retain_graph=j + 1 < labels.shape[1],
                    allow_unused=True,
                )
                relevance = torch.zeros_like(x)
                if at_input is not None:
                    relevance = relevance + x * at_input
                if at_ones is not None:
                    relevance = relevance + at_ones
                total = relevance.flatten(1).sum(dim=1)
                sums.append(total if absorbed is None else total + absorbed)
                maps.append(inputs.merged_channels(relevance, self.channels))
        started = (begin * logits.detach()[:, None]).sum(dim=2)
        return torch.stack(maps, dim=1), torch.stack(sums, dim=1), started


@METHODS.register
class LRP(RelevanceMethod):
    """Layer-wise relevance propagation (Bach et al. 2015): the logit is distributed layer by layer back to the input.

    The rules are in :mod:`proofmap.methods.propagation.lrp`. The defaults, the preset ``epsilon-gamma-box``, are those of
    Montavon et al. 2019: gamma for convolutions, epsilon for dense layers, and at the input the box rule for pictures, w-squared
    for inputs without limits. Other presets: ``epsilon`` (the epsilon rule everywhere), ``captum`` (the same with a smaller
    epsilon), ``epsilon-plus`` (only positive contributions for convolutions), ``epsilon-plus-flat`` and
    ``epsilon-alpha2-beta1-flat`` (Kohlbrenner et al. 2020).

    Values are signed. Together with what biases absorb they add up to the logit; if not, a
    warning reports the difference. A net with an operation without a rule
    (attention, gates, layer-norm) is refused.

    >>> LRP.preset("epsilon").conv
    'epsilon'
    """

    name = "lrp"
    reference = "Bach et al. 2015"
    description = "the logit, shared out layer by layer down to the input, signed"
    signed = True
    shortcuts: ClassVar[Shortcuts] = {
        "preset": {
            "epsilon-gamma-box": {},
            "epsilon": {"conv": "epsilon", "first": "none"},
            "captum": {"conv": "epsilon", "first": "none", "epsilon": 1e-9},
            "epsilon-plus": {"conv": "alpha-beta", "alpha": 1.0, "first": "none"},
            "epsilon-plus-flat": {"conv": "alpha-beta", "alpha": 1.0, "first": "flat"},
            "epsilon-alpha2-beta1-flat": {"conv": "alpha-beta", "alpha": 2.0, "first": "flat"},
        }
    }

    def begin(self, classifier: Classifier, logits: Tensor, labels: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(labels.clamp_min(0), logits.shape[1]).to(logits.dtype)

    def check(self, arrived: Tensor, begun: Tensor, labels: Tensor) -> None:
        advice = "some layer loses or makes relevance: try other rules, biases=absorb, or full precision"
        check_sums(self.name, arrived, begun, labels, advice)


@METHODS.register
class ContrastiveLRP(RelevanceMethod):
    """max(0, R - R'): the relevance R of the label minus the relevance R' of its dual, which starts with the same amount (Gu et al.
    2018).

    R starts with |logit_a| at the label. The dual R' is the evidence for everything else:

        others      the same amount, spread evenly over the other labels of the label set (CLRP1 as printed)
        weighted    ... in proportion to the size of their logits (CLRP1 as released)
        negated     the same amount at the label, with the last layer's weights negated (CLRP2)

    For a net with one output, whose labels are no and yes, each label is the other with its weights negated: all three are
    ``negated``.

    The rules are the paper's: only positive contributions (alpha 1), the box rule at the input, no biases. R - R' takes one
    backward pass, because relevance is linear in its start. The difference is clamped at zero after the channels are added.
    Presets: ``paper`` (the defaults), ``released``.
    """

    name = "contrastive-lrp"
    reference = "Gu et al. 2018"
    description = "relevance of the label less that of the other labels"
    shortcuts: ClassVar[Shortcuts] = {"preset": {"paper": {}, "released": {"dual": "weighted"}}}
    conv: RuleName = setting("alpha-beta", "relevance rule for convolutions")
    dense: RuleName = setting("alpha-beta", "relevance rule for dense layers")
    alpha: float = setting(
        1.0,
        "in the alpha-beta rule, weight of positive contributions; negative ones have beta = alpha - 1",
        least=1,
    )
    biases: Biases = setting("ignore", "whether biases absorb their share of relevance, or are ignored")
    dual: Literal["others", "weighted", "negated"] = setting(
        "others",
        "what the label is contrasted with: the other labels equally, the others weighted by their logits, or the label with negated weights",
    )

    def composite(self, classifier: Classifier) -> _Composite:
        rules = super().composite(classifier)
        if self.dual != "negated" and not classifier.one_output:
            return rules
        return replace(
            rules, last=_Rule("alpha-beta", alpha=1.0, beta=1.0), layers=_layers(classifier, rules)
        )

    def begin(self, classifier: Classifier, logits: Tensor, labels: Tensor) -> Tensor:
        own = torch.nn.functional.one_hot(labels.clamp_min(0), logits.shape[1]).to(logits.dtype)
        amount = logits.abs().gather(1, labels.clamp_min(0))[..., None]
        relevance = amount * own
        # logits (-z, z): one label has all evidence for z, the other all against it
        if classifier.one_output:
            return _ratio(relevance, logits[:, None, 1:].expand_as(relevance), self.epsilon)
        if self.dual != "negated":
            counting = torch.zeros_like(logits)
            counting[:, list(classifier.label_set)] = 1.0
            weights = counting * logits.abs() if self.dual == "weighted" else counting
            others = weights[:, None] * (1 - own)
            if len(classifier.label_set) < 2:
                raise InputError(
                    f"{self.name} contrasts a label with others, and the label set has only one label"
                )
            relevance = relevance - amount * others / others.sum(dim=2, keepdim=True).clamp_min(1e-12)
        return _ratio(relevance, logits[:, None].expand_as(relevance), self.epsilon)

    def finish(self, maps: Tensor) -> Tensor:
        return maps.clamp_min(0)


def _layers(classifier: Classifier, composite: _Composite) -> int:
    """The number of linear layers that one pass of the net calls."""
    x = classifier.inputs.probe().to(classifier.device).requires_grad_(True)
    with torch.enable_grad():
        mode = _Relevance(composite, torch.ones(1, device=x.device), x, _Raw(x, x, x))
        with mode:
            classifier.from_normalised(x.clone())
    return mode.calls
