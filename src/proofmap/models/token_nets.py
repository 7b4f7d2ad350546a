"""Nets of embedded tokens: transformers that are given :class:`~proofmap.core.inputs.tokens.Tokens`, with gradients at the embedding.

A net adds its special tokens, moves the tokens that are there to the front, and passes embeddings and an attention mask on. A removed token
makes the text shorter; a closed one keeps its place, and no other token attends to it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proofmap.core.inputs.tokens import embedded


class TokenNet(nn.Module):
    """A net of texts ``(N, C, S)`` with special tokens before and after each; a subclass reads the labels off the transformer.

    ``before`` and ``after`` are the embeddings ``(k, d)`` of special tokens. With a ``window``, a text with more tokens is read in windows of this number of
    tokens, each with special tokens of its own. Its logits are the mean over windows, weighted by their numbers of tokens.
    """

    any_length = True
    before: Tensor
    after: Tensor
    window: int | None = None

    def __init__(self, model: nn.Module, before: Tensor, after: Tensor) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("before", before.detach().clone())
        self.register_buffer("after", after.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        state, tokens = embedded(x)
        if self.window is None or state.shape[1] <= self.window:
            return self.read(state, tokens)
        order = _those_there_first(state)
        total = weights = torch.zeros(len(x), 1, device=x.device)
        for start in range(0, max(1, order.shape[1]), self.window):
            own = order[:, start : start + self.window]
            part = tokens.gather(1, own[..., None].expand(-1, -1, tokens.shape[2]))
            share = (state.gather(1, own).detach().abs() > 0.5).sum(dim=1, keepdim=True)
            share = share.clamp_min(1) if start == 0 else share  # of an empty text, the first window
            total = total + share * self.read(state.gather(1, own), part)
            weights = weights + share
        return total / weights

    def read(self, state: Tensor, tokens: Tensor) -> Tensor:
        """Logits ``(N, A)`` of tokens ``(N, S, d)`` with states ``(N, S)``, in one pass."""
        return self.logits(*self.packed(state, tokens, self.after))

    def packed(self, state: Tensor, tokens: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings ``(N, T, d)`` with special tokens, those that are there first, and the attention mask ``(N, T)``."""
        n = len(tokens)
        ends = [end.to(tokens).expand(n, -1, -1) for end in (self.before, after)]
        whole = torch.cat([ends[0], tokens, ends[1]], dim=1)
        state = torch.cat([torch.ones_like(ends[0][..., 0]), state, torch.ones_like(ends[1][..., 0])], dim=1)
        order = _those_there_first(state)
        found = whole.gather(1, order[..., None].expand(-1, -1, whole.shape[2]))
        return found, (state > 0.5).gather(1, order).to(torch.long)

    def order(self, x: Tensor, count: int) -> Tensor:
        """Where each of the ``count`` tokens that the model is given for texts comes from ``(N, count)``: among the special tokens before, the slots of
        the text, and the special tokens after."""
        state, _ = embedded(x)
        ends = [torch.ones(len(x), len(end), device=x.device) for end in (self.before, self.after)]
        return _those_there_first(torch.cat([ends[0], state, ends[1]], dim=1))[:, :count]

    @abstractmethod
    def logits(self, tokens: Tensor, attention: Tensor) -> Tensor:
        """Logits ``(N, A)`` of embeddings ``(N, T, d)`` under an attention mask ``(N, T)``."""


def _those_there_first(state: Tensor) -> Tensor:
    """The order of tokens ``(N, T)`` with these states ``(N, S)``: those that are there, and then others up to the longest text."""
    there = state.detach().abs() > 0.5
    return (~there).to(torch.uint8).argsort(dim=1, stable=True)[:, : int(there.sum(dim=1).max())]


class SequenceNet(TokenNet):
    """A model of transformers for sequence classification."""

    def logits(self, tokens: Tensor, attention: Tensor) -> Tensor:
        found: Tensor = self.model(inputs_embeds=tokens, attention_mask=attention).logits
        return found


class SentenceNet(TokenNet):
    """Zero-shot by sentence embeddings: ``logit_a(x) = scale * cos(sentence of x, sentence of label a)``.

    A sentence is the mean of the last hidden states of all tokens, special ones included, as in Reimers and Gurevych (2019), *Sentence-BERT*.
    """

    sentences: Tensor

    def __init__(
        self, model: nn.Module, before: Tensor, after: Tensor, sentences: Tensor, scale: float
    ) -> None:
        super().__init__(model, before, after)
        self.register_buffer("sentences", sentences.detach().clone())
        self.scale = scale

    def logits(self, tokens: Tensor, attention: Tensor) -> Tensor:
        return self.scale * self.sentence(tokens, attention) @ self.sentences.to(tokens).T

    def sentence(self, tokens: Tensor, attention: Tensor) -> Tensor:
        """Sentences ``(N, d)`` of length one."""
        return mean_sentence(self.model, tokens, attention)


def mean_sentence(model: Any, tokens: Tensor, attention: Tensor) -> Tensor:
    """The mean of the last hidden states under the attention mask, with length one, ``(N, d)``."""
    states = model(inputs_embeds=tokens, attention_mask=attention).last_hidden_state
    share = attention.to(states)[..., None]
    return F.normalize((states * share).sum(dim=1) / share.sum(dim=1).clamp_min(1e-9), dim=-1)


class PerLabelNet(TokenNet):
    """A net that reads the text once for each label, followed by that label's tokens: ``endings`` are their embeddings ``(k_a, d)``."""

    def __init__(self, model: nn.Module, before: Tensor, endings: Sequence[Tensor]) -> None:
        super().__init__(model, before, before[:0])
        self.count = len(endings)
        for k, ending in enumerate(endings):
            self.register_buffer(f"ending{k}", ending.detach().clone())

    def ending(self, label: int) -> Tensor:
        found: Tensor = getattr(self, f"ending{label}")
        return found

    def read(self, state: Tensor, tokens: Tensor) -> Tensor:
        return torch.stack([self.of_label(state, tokens, label) for label in range(self.count)], dim=1)

    @abstractmethod
    def of_label(self, state: Tensor, tokens: Tensor, label: int) -> Tensor:
        """The logit ``(N,)`` of one label."""

    def logits(self, tokens: Tensor, attention: Tensor) -> Tensor:
        raise NotImplementedError("the logits are those of each label's own pass")


class EntailmentNet(PerLabelNet):
    """Zero-shot by entailment (Yin et al. 2019): the logit of a label is that of "the text entails: this text is about LABEL"."""

    def __init__(self, model: nn.Module, before: Tensor, endings: Sequence[Tensor], entails: int) -> None:
        super().__init__(model, before, endings)
        self.entails = entails

    def of_label(self, state: Tensor, tokens: Tensor, label: int) -> Tensor:
        found: Tensor = self.model(
            **dict(
                zip(
                    ("inputs_embeds", "attention_mask"),
                    self.packed(state, tokens, self.ending(label)),
                    strict=True,
                )
            )
        ).logits
        return found[:, self.entails]


class ContinuationNet(PerLabelNet):
    """A language model as a classifier: ``logit_a(x) = log p(continuation a | x)``, the sum over the tokens of the continuation.

    ``continuations`` are the tokens of each label.
    """

    def __init__(
        self,
        model: nn.Module,
        before: Tensor,
        endings: Sequence[Tensor],
        continuations: Sequence[Sequence[int]],
    ) -> None:
        super().__init__(model, before, endings)
        self.continuations = [tuple(tokens) for tokens in continuations]

    def of_label(self, state: Tensor, tokens: Tensor, label: int) -> Tensor:
        continuation = self.continuations[label]
        packed, attention = self.packed(state, tokens, self.ending(label))
        scores = self.model(inputs_embeds=packed, attention_mask=attention).logits.log_softmax(dim=-1)
        there = (state.detach().abs() > 0.5).sum(dim=1) + len(self.before)  # tokens before the continuation
        total = torch.zeros(len(packed), device=packed.device, dtype=scores.dtype)
        rows = torch.arange(len(packed), device=packed.device)
        for k, token in enumerate(continuation):
            total = total + scores[rows, there + k - 1, token]
        return total
