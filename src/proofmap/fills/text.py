"""Fills for texts: what hidden words become.

With the common fills ``gray`` and ``images`` (the words of another text), these are the usual ways to hide words. ``gray`` deletes
the hidden words, as ``delete`` does. A model reads a text as a whole, so scores can differ much between fills.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs, TextInputs, Tokens
from proofmap.fills.fill import FILLS, Fill, title_of
from proofmap.fills.simple import Gray
from proofmap.models.hubs import load_transformer, special_tokens
from proofmap.plugins.identity import identity
from proofmap.plugins.settings import required
from proofmap.session import Session


class TextFill(Fill):
    """Base class of fills that are only for texts. A subclass defines :meth:`hidden`."""

    takes = TextInputs

    def prepare(self, session: Session) -> None:
        super().prepare(session)
        # refuses a token that there is not
        self.backgrounds(session, session.inputs.probe(), torch.empty(0))

    def backgrounds(self, session: Session, images: Tensor, keys: Tensor) -> Tensor:
        assert isinstance(session.inputs, TextInputs)
        return self.hidden(images, session.inputs)

    def hidden(self, texts: Tensor, inputs: TextInputs) -> Tensor:
        """Texts ``(N, *shape)`` with every position hidden."""
        raise NotImplementedError


@FILLS.register
class MaskToken(TextFill):
    """Hidden words show the token for a masked word, such as ``[MASK]``."""

    name = "mask"
    description = "the token for a masked word in place of each hidden word"

    def hidden(self, texts: Tensor, inputs: TextInputs) -> Tensor:
        return inputs.replaced(texts, "mask")


@FILLS.register
class UnknownToken(TextFill):
    """Hidden words show the token for an unknown word, such as ``[UNK]``."""

    name = "unknown"
    description = "the token for an unknown word in place of each hidden word"

    def hidden(self, texts: Tensor, inputs: TextInputs) -> Tensor:
        return inputs.replaced(texts, "unknown")


@FILLS.register
class DeletedWords(TextFill):
    """Hidden words are deleted, together with the white space after them, so the text gets shorter."""

    name = "delete"
    description = "nothing: hidden words are deleted, and the text is shorter"

    def hidden(self, texts: Tensor, inputs: TextInputs) -> Tensor:
        return inputs.removed(texts)


@FILLS.register
class ClosedAttention(TextFill):
    """Hidden tokens keep their positions, but no other token attends to them, as with padding."""

    name = "closed"
    description = "attention to hidden tokens is closed, as for padding; for nets of tokens"

    def hidden(self, texts: Tensor, inputs: TextInputs) -> Tensor:
        return _tokens_of(self, inputs).closed(texts)


@FILLS.register
class ZeroEmbedding(TextFill):
    """Hidden tokens show an embedding of zeros."""

    name = "zero"
    description = "an embedding of zeros in place of each hidden token; for nets of tokens"

    def hidden(self, texts: Tensor, inputs: TextInputs) -> Tensor:
        return _tokens_of(self, inputs).zeroed(texts)


@FILLS.register
class MeanEmbedding(TextFill):
    """Hidden tokens show the mean embedding of all tokens that the net knows."""

    name = "mean-embedding"
    description = "the mean embedding of all tokens in place of each hidden token; for nets of tokens"

    def hidden(self, texts: Tensor, inputs: TextInputs) -> Tensor:
        return _tokens_of(self, inputs).averaged(texts)


def baseline_of(fill: Fill, inputs: Inputs) -> Fill:
    """The fill that path methods, such as integrated gradients, use as their baseline. This is ``fill``, except for ``gray`` with
    tokens.

    ``gray`` deletes words, and there is no path of values from a deleted word. So it is replaced by the mask token, or by the
    unknown token if there is no mask token, or else by an embedding of zeros.
    """
    if type(fill) is not Gray or not isinstance(inputs, Tokens) or inputs.reader is None:
        return fill
    known = {"mask": MaskToken, "unknown": UnknownToken}
    return next(
        (kind() for token, kind in known.items() if inputs.token_number(token) is not None), ZeroEmbedding()
    )


def _tokens_of(fill: Fill, inputs: Inputs) -> Tokens:
    """``inputs``, if they are tokens; otherwise an error that names the fill."""
    if isinstance(inputs, Tokens):
        return inputs
    taken = "strings" if isinstance(inputs, TextInputs) else inputs.noun
    raise InputError(
        f"the fill {fill.name} is for nets of tokens, and this model takes {taken}; use one of {', '.join(inputs.fills)}"
    )


# ---- words drawn by a masked language model -------------------------------------------------------------------------

_Predictor = Callable[[Tensor, Tensor], Tensor]
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

    def check_inputs(self, inputs: Inputs) -> None:
        if _tokens_of(self, inputs).token_number("mask") is None:
            raise InputError(
                "the tokenizer has no mask token, so no masked language model can fill words in; use another fill"
            )

    def prepare(self, session: Session) -> None:
        super().prepare(session)
        self._predictor(session)

    def backgrounds_behind(self, session: Session, images: Tensor, keys: Tensor, keep: Tensor) -> Tensor:
        inputs = _tokens_of(self, session.inputs)
        predict, _ = self._predictor(session)
        numbers, there = inputs.token_numbers(images)
        hidden = ~inputs.over_channels(keep)[..., 0, :].bool() & there
        mask = inputs.token_number("mask")
        order = (~there).to(torch.uint8).argsort(dim=1, stable=True)[:, : int(there.sum(dim=1).max())]
        given = numbers.masked_fill(hidden, mask or 0).gather(1, order)
        with torch.no_grad():
            logits = predict(given, there.gather(1, order).long())
        if logits.shape[:2] != given.shape:
            raise InputError(
                f"the masked language model returned {tuple(logits.shape)} for tokens {tuple(given.shape)}, expected logits (N, T, V)"
            )
        places = streams.uniform(keys, numbers.shape[1]).to(logits).gather(1, order)
        below = logits.softmax(dim=-1).cumsum(dim=-1)
        drawn = torch.searchsorted(below, (places[..., None] * below[..., -1:]).contiguous())[..., 0]
        found = numbers.scatter(1, order, drawn.clamp_max(logits.shape[-1] - 1))
        return inputs.with_tokens(images, torch.where(hidden, found, numbers), hidden)

    def record(self, session: Session) -> dict[str, object]:
        return {**self.settings(), **self._predictor(session)[1]}

    def _predictor(self, session: Session) -> tuple[_Predictor, Mapping[str, object]]:
        """The language model, and the record of its code if it is a function."""

        def build() -> tuple[_Predictor, Mapping[str, object]]:
            if isinstance(self.model, str):
                found = load_masked_model(self.model)
                if found.vocabulary != _tokens_of(self, session.inputs).vocabulary:
                    raise InputError(
                        f"the masked language model {self.model} has other tokens than the net, so its words cannot be shown to the net; give "
                        "one with the same tokenizer"
                    )
                return found, {}
            if not callable(self.model):
                raise InputError(
                    f"masked-lm needs model = a folder or a function {_FORM}, not {type(self.model).__name__}"
                )
            return self.model, {"code": identity(self.model)}

        return (session.whole or session).pool((self, "model"), build)

    def settings(self) -> dict[str, object]:
        return {**super().settings(), "model": title_of(self.model)}

    def changes(self) -> list[str]:
        return [f"model={title_of(self.model)}"]


class _MaskedModel:
    """A masked language model of transformers as a function from tokens ``(N, T)`` and their attention mask ``(N, T)``, with padding at the
    end, to logits ``(N, T, V)`` over a vocabulary of V tokens.

    Special tokens are added before and after each text. They are never predicted.
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model = model
        self.vocabulary: dict[str, int] = tokenizer.get_vocab()
        self.first, self.last = special_tokens(tokenizer)
        self.special = sorted(set(tokenizer.all_special_ids))

    @torch.no_grad()
    def __call__(self, tokens: Tensor, attention: Tensor) -> Tensor:
        model, before, after = self.model.to(tokens.device), len(self.first), len(self.last)
        n, length = tokens.shape
        given = torch.zeros(n, before + length + after, dtype=torch.long, device=tokens.device)
        open_to = torch.zeros_like(given)
        given[:, :before] = torch.tensor(self.first, device=tokens.device)
        given[:, before : before + length], open_to[:, before : before + length] = tokens, attention
        ends = before + attention.sum(dim=1, keepdim=True) + torch.arange(after, device=tokens.device)
        given.scatter_(1, ends, torch.tensor(self.last, device=tokens.device).expand(n, -1))
        open_to[:, :before] = 1
        open_to.scatter_(1, ends, 1)
        logits: Tensor = model(input_ids=given, attention_mask=open_to).logits[:, before : before + length]
        logits[..., self.special] = -torch.inf
        return logits


@lru_cache(maxsize=2)
def load_masked_model(name: str) -> _MaskedModel:
    """A masked language model from a folder or the hub."""
    return _MaskedModel(*load_transformer("masked-lm", name, "AutoModelForMaskedLM"))
