"""Layers of text nets, for libraries: the embedding layer, and its token attributions as maps of words."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.inputs import Tokens
from proofmap.methods.attention_texts import check_one_pass, of_words
from proofmap.methods.probe import module_of, watch_outputs


def first_token_layer(classifier: Classifier) -> str:
    """The first module, in order of execution, that gives a vector for each token that the net reads: the embeddings."""
    check_one_pass(classifier)
    net, found = module_of(classifier, "the layer of the embeddings"), list[str]()
    text = classifier.inputs.probe().to(classifier.device)
    count = _tokens_read(classifier, text)

    def see(name: str, output: Any) -> None:
        if isinstance(output, Tensor) and output.ndim == 3 and output.shape[:2] == (1, count):
            found.append(name)

    with torch.no_grad(), watch_outputs(net, [name for name, _ in net.named_modules() if name], see):
        classifier(text)
    if not found:
        raise InputError(
            f"no layer of {classifier.name} gives a vector for each token; name a layer with layer=, or use a method without layers"
        )
    return found[0]


def of_token_layer(found: Any, texts: Tensor, classifier: Classifier, channels: str) -> Any:
    """Attributions ``(N, T, d)`` of the tokens that the net reads as maps ``(N, n)`` of words; others as they are."""
    values = found[0] if isinstance(found, (tuple, list)) else found
    inputs = classifier.inputs
    if not isinstance(values, Tensor) or values.ndim != 3 or tuple(values.shape[1:]) == inputs.shape:
        return found
    if values.shape[1] != _tokens_read(classifier, texts):
        raise InputError(
            f"the layer gives {tuple(values.shape[1:])} for each text, not a vector for each of its tokens; name another layer with layer="
        )
    one = values.amax(dim=2) if channels == "max" else values.sum(dim=2)
    one = one / values.shape[2] if channels == "mean" else one
    return of_words(one.detach()[:, None].float(), texts, classifier)[:, 0]


def _tokens_read(classifier: Classifier, texts: Tensor) -> int:
    """The number of tokens that the net reads for the longest text, special tokens included."""
    net: Any = classifier.net
    assert isinstance(classifier.inputs, Tokens)
    there = int(classifier.inputs.token_numbers(texts)[1].sum(dim=1).max())
    return there + len(net.before) + len(net.after)
