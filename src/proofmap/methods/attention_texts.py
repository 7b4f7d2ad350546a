"""Attention in nets that read texts: which tokens the logits are read from, and how relevances of tokens become maps of words."""

from __future__ import annotations

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.methods.attention_maps import AttentionMaps
from proofmap.methods.probe import mixed_logits
from proofmap.models.token_nets import PerLabelNet, TokenNet


def check_text_net(classifier: Classifier) -> None:
    """Raise if a text net has no attention, or reads a text in several passes."""
    check_one_pass(classifier)
    with torch.no_grad(), AttentionMaps() as recorded:
        classifier(classifier.inputs.probe().to(classifier.device))
    if not recorded.maps:
        raise InputError(f"{classifier.name} has no attention; use gradients, masks or belief-order")


def check_one_pass(classifier: Classifier) -> None:
    """Raise if a text net does not read a text in one pass."""
    net = classifier.net
    if not isinstance(net, TokenNet):
        raise InputError(
            f"{classifier.name} is not a net of tokens that Proofmap knows; use a method without attention"
        )
    if isinstance(net, PerLabelNet):
        raise InputError(
            f"{classifier.name} reads the text once for each label, so there is no attention that all labels share; use gradients, masks or "
            "belief-order"
        )
    if net.window is not None:
        raise InputError(
            f"{classifier.name} reads long texts in windows, and its layers do not see a text as a whole; leave longer=windows out, or use gradients, "
            "masks or belief-order"
        )


def read_rows(logits: Tensor, last: Tensor, n: int) -> Tensor:
    """The weights ``(N, T)`` of the tokens from which the logits ``(N, A)`` are read. Tokens whose rows of the last attention matrix have a
    gradient get equal weights, the others 0.

    After the last attention, tokens no longer interact. Padding has no gradient, so its weight is 0.
    """
    (gradient,) = torch.autograd.grad(mixed_logits(logits), last, retain_graph=True)
    used = gradient.reshape(n, -1, *gradient.shape[-2:]).abs().sum(dim=(1, 3)) > 0
    return used.float() / used.sum(dim=1, keepdim=True).clamp_min(1)


def of_words(found: Tensor, texts: Tensor, classifier: Classifier) -> Tensor:
    """Maps ``(N, L, n)`` of the n words of texts ``(N, *shape)``, from the relevances ``(N, L, T)`` of the tokens that the net reads."""
    net, inputs = classifier.net, classifier.inputs
    assert isinstance(net, TokenNet)
    order = net.order(texts, found.shape[2])
    slots = torch.zeros(
        *found.shape[:2], len(net.before) + texts.shape[-1] + len(net.after), device=found.device
    )
    slots.scatter_(2, order[:, None].expand_as(found), found)
    own = slots[..., len(net.before) : len(net.before) + texts.shape[-1]]
    return inputs.merged_channels(own[..., None, :])
