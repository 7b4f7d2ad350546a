"""Relevance propagation for transformers, as gradient times input under changed operations.

For a layer that is linear in its input, the epsilon rule of LRP with epsilon = 0 gives each input the relevance x * dR/dx. So relevances are
x * d logit_a / d x, if every operation that is not linear is replaced by a linear one with the same output:

    normalisation   x / std(x):          std counts as a constant
    activation      g(x):                x * (g(x) / x), the quotient counts as a constant (GELU, SiLU, tanh, ...; ReLU is this already)
    attention       softmax(q k) v:      halved: a half of the relevance goes to v, a half to the softmax, and a quarter to each of q and k
                                         constant: the softmax counts as a constant, all goes to v

``halved`` is AttnLRP (Achtibat et al. 2024); ``constant`` is the conservative propagation of Ali et al. 2022. Biases and special
tokens keep their share of the relevance, so maps add up to less than the logit. Products of two activations, as in gated layers,
follow the ordinary gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.methods.gradients.plain import GradientMethod, input_gradients
from proofmap.methods.method import METHODS
from proofmap.methods.probe import AttentionMaps
from proofmap.plugins.settings import setting

Attention = Literal["halved", "constant"]
_ACTIVATIONS = (
    F.gelu,
    F.silu,
    F.tanh,
    torch.tanh,
    Tensor.tanh,
    F.elu,
    F.mish,
    F.softplus,
    F.hardswish,
    torch.sigmoid,
    Tensor.sigmoid,
)
_SMALL = 1e-6


class LinearOperations(AttentionMaps):
    """A context in which operations have unchanged outputs, but gradients that follow the rules of this module. Attention is computed by its
    formula.
    """

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.rule = attention

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _ACTIVATIONS:
            return _scaled(func, *args, **kwargs)
        if func is F.layer_norm:
            return _layer_norm(*args, **kwargs)
        if func in (torch.rsqrt, Tensor.rsqrt):  # of a mean of squares, as written out in many nets
            return func(*args, **kwargs).detach()
        if func is F.rms_norm:
            return _rms_norm(*args, **kwargs)
        return super().__torch_function__(func, types, args, kwargs)

    def _note(self, attention: Tensor) -> Tensor:
        return attention.detach() if self.rule == "constant" else attention

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if self.rule == "halved":
            query, key, value = _share(query, 0.25), _share(key, 0.25), _share(value, 0.5)
        return super()._attend(query, key, value, *args, **kwargs)


def _share(x: Tensor, share: float) -> Tensor:
    """``x``, with its gradient multiplied by ``share``."""
    found = x.view_as(x)
    if found.requires_grad:
        found.register_hook(lambda gradient: gradient * share)
    return found


def _scaled(func: Callable[..., Tensor], x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """g(x), with the gradient of x * c, where c = g(x) / x counts as a constant. Near x = 0, where c is not defined, the gradient
    is that of g.
    """
    kwargs.pop("inplace", None)
    found = func(x, *args, **kwargs)
    safe = x.detach().abs() > _SMALL
    factor = torch.where(safe, found.detach() / torch.where(safe, x.detach(), 1.0), 0.0)
    return torch.where(safe, x * factor, found)


def _layer_norm(
    x: Tensor, shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    axes = tuple(range(-len(shape), 0))
    centred = x - x.mean(dim=axes, keepdim=True)
    found = centred * (centred.square().mean(dim=axes, keepdim=True) + eps).rsqrt().detach()
    found = found if weight is None else found * weight
    return found if bias is None else found + bias


def _rms_norm(x: Tensor, shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    axes = tuple(range(-len(shape), 0))
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    found = x * (x.square().mean(dim=axes, keepdim=True) + eps).rsqrt().detach()
    return found if weight is None else found * weight


@METHODS.register
class AttentionLRP(GradientMethod):
    """Relevance propagation through attention (AttnLRP, Achtibat et al. 2024), for transformers of pictures and of texts.

    The rules are at the top of :mod:`proofmap.methods.propagation.attention_lrp`. ``attention=constant`` is the rule of Ali et al. 2022.
    """

    name = "attention-lrp"
    family = "propagation"
    reference = "Achtibat et al. 2024"
    description = "relevance propagated through attention, normalisation and activations, signed"
    needs = frozenset({"attention", "gradients"})
    signed = True
    attention: Attention = setting(
        "halved",
        "how attention passes relevance on; halved: half to the values, half to the softmax; constant: all to the values",
    )

    def attribution(self, gradient: Tensor, x: Tensor) -> Tensor:
        return gradient * x

    def gradients(
        self, classifier: Classifier, images: Tensor, labels: Tensor, each: Callable[[Tensor], Tensor]
    ) -> Tensor:
        def linear(x: Tensor) -> Tensor:
            with LinearOperations(self.attention):
                return classifier(x)

        return input_gradients(linear, images, labels, each)
