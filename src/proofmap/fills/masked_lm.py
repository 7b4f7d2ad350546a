"""Words drawn by a masked language model: hidden words are replaced by other words that fit the shown ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Tokens
from proofmap.fills.fill import FILLS, Fill, ReadyBehind, title_of
from proofmap.fills.text import tokens_of
from proofmap.plugins.code import code_record
from proofmap.plugins.settings import required

Predictor = Callable[[Tensor, Tensor], Tensor]
_FORM = "(tokens, attention) -> logits"


@FILLS.register
class MaskedLM(Fill):
    """Hidden tokens are drawn by a masked language model, given the shown tokens.

        x'_t ~ p(. | the text with the mask token at every hidden position),    independently for each hidden token.

    ``model`` is the folder or name of a masked language model with the same tokens as the net, or a function from tokens
    ``(N, T)``, with the mask token at hidden positions, and their attention mask ``(N, T)`` to logits ``(N, T, V)``. The fill
    depends on what is shown, so it is for games and metrics; methods take other fills.
    """

    name = "masked-lm"
    description = "words drawn by a masked language model of yours (for judging)"
    reference = "Kim et al. 2020"
    random = True
    reads_mask = True
    model: Any = required(f"FOLDER or name of a masked language model, or a function {_FORM}", main=True)

    def prepare(self, classifier: Classifier) -> ReadyMaskedLM:
        inputs = tokens_of(self, classifier.inputs)
        if inputs.token_number("mask") is None:
            raise InputError(
                "the tokenizer has no mask token, so no masked language model can fill words in; use another fill"
            )
        predict: Predictor = self.model
        if isinstance(self.model, str):
            from proofmap.models.masked_lm import check_same_tokens, load_masked_model  # when it is needed

            found = load_masked_model(self.model)
            check_same_tokens(found, inputs.vocabulary, self.model)
            predict = found
        elif not callable(self.model):
            raise InputError(
                f"masked-lm needs model = a folder or a function {_FORM}, not {type(self.model).__name__}"
            )
        told = {**self.settings(), **({} if isinstance(self.model, str) else code_record(self.model))}
        return ReadyMaskedLM(self, inputs, told, predict)

    def settings(self) -> dict[str, object]:
        return {**super().settings(), "model": title_of(self.model)}

    def changes(self) -> list[str]:
        return [f"model={title_of(self.model)}"]


@dataclass(frozen=True, eq=False)
class ReadyMaskedLM(ReadyBehind):
    """The prepared fill, with its language model."""

    predict: Predictor

    def behind(self, images: Tensor, keys: Tensor, keep: Tensor) -> Tensor:
        inputs = self.inputs
        assert isinstance(inputs, Tokens)
        numbers, there = inputs.token_numbers(images)
        hidden = ~inputs.over_channels(keep)[..., 0, :].bool() & there
        mask = inputs.token_number("mask")
        order = (~there).to(torch.uint8).argsort(dim=1, stable=True)[:, : int(there.sum(dim=1).max())]
        given = numbers.masked_fill(hidden, mask or 0).gather(1, order)
        with torch.no_grad():
            logits = self.predict(given, there.gather(1, order).long())
        if logits.shape[:2] != given.shape:
            raise InputError(
                f"the masked language model returned {tuple(logits.shape)} for tokens {tuple(given.shape)}, expected logits (N, T, V)"
            )
        places = streams.uniform(keys, numbers.shape[1]).to(logits).gather(1, order)
        below = logits.softmax(dim=-1).cumsum(dim=-1)
        drawn = torch.searchsorted(below, (places[..., None] * below[..., -1:]).contiguous())[..., 0]
        found = numbers.scatter(1, order, drawn.clamp_max(logits.shape[-1] - 1))
        return inputs.with_tokens(images, torch.where(hidden, found, numbers), hidden)
