"""Transformers whose inputs are embedded tokens (:class:`~proofmap.core.inputs.tokens.Tokens`), so that they have gradients with respect to
the embeddings.

A text is a tensor ``(N, C, S)`` of S slots. Each slot holds a token or is empty, and has a state: 1 for a token that is shown, 0 if there is
none or it was removed, -1 if attention to it is masked. A net adds its special tokens, moves existing tokens to the front, and passes
embeddings and an attention mask to the transformer. A removed token makes the text shorter. A masked token keeps its place, but no other
token attends to it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proofmap.core.inputs.tokens import embedded

_AJAR = 1e-3
"""The smallest gate (:meth:`TokenNet.gated`) of a token that is partly shown."""
_NEAR = 1e-3
"""Gates are used only if they change no logit by more than this, relative to the largest logit."""


class TokenNet(nn.Module):
    """A net that takes texts ``(N, C, S)`` and adds special tokens before and after each text. Subclasses compute logits with the transformer.

    ``before`` and ``after`` are the embeddings ``(k, d)`` of the special tokens. If ``window`` is a number, a text with more tokens is read
    in windows of this number of tokens, each with its own special tokens. The text's logits are the mean over windows, weighted by the
    number of tokens in each window.
    """

    any_length = True
    gates = False
    """Whether hidden tokens have a gradient: see :meth:`gated`."""
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
        if not self.gates and _needs_gates(state, tokens):
            tokens = tokens * _gates(state, tokens)[..., None]  # what gradient there is without gates
        if self.window is None or state.shape[1] <= self.window:
            return self.read(state, tokens)
        order = _those_there_first(state)
        total = weights = torch.zeros(len(x), 1, device=x.device)
        for start in range(0, max(1, order.shape[1]), self.window):
            own = order[:, start : start + self.window]
            share = (state.gather(1, own).detach().abs() > 0.5).sum(dim=1, keepdim=True)
            share = share.clamp_min(1) if start == 0 else share  # of an empty text, the first window
            total = total + share * self.read(state.gather(1, own), _taken(tokens, own))
            weights = weights + share
        return total / weights

    def read(self, state: Tensor, tokens: Tensor) -> Tensor:
        """Logits ``(N, A)`` of tokens ``(N, S, d)`` with states ``(N, S)``, in one pass."""
        if self.gates and _needs_gates(state, tokens):
            return self.logits(*self.gated(state, tokens))
        return self.logits(*self.packed(state, tokens, self.after))

    def gated(self, state: Tensor, tokens: Tensor) -> tuple[Tensor, Gates]:
        """Embeddings as from :meth:`packed`, but with hidden tokens too, and the gates of all tokens. The gate m_j is 1 if token j is shown, 0
        if it is hidden, and in between if it is partly shown. Gates enter the attention p_j to token j, with attention score s_j, and the
        sentence embedding, with last hidden states h_j:

            p_j = m_j exp(s_j) / sum over k of m_k exp(s_k),      sentence = sum m_j h_j / sum m_j

        The fills ``delete`` and ``closed`` hide a token without another embedding, so the gradient with respect to the embedding says
        little about hiding the token. The gradient with respect to the gate of a shown token says what its removal changes. The gradient
        with respect to the gate of a hidden token is that of the sentence formula alone. Attention to the token is left out, because the
        slope at zero is far steeper than the change from zero to one. (In a net that reads one token's hidden state, hidden tokens have no
        gradient.) Shown tokens have the positions that they would have without the removed tokens. Gates have a gradient only in texts
        with hidden tokens.
        """
        values = _gates(state, tokens), _holds_token(state, tokens), state.detach().abs() > 0.5
        whole, m, there, kept = self._framed(self.after, tokens, *values)
        order = _first(there)
        places = (kept.long().cumsum(dim=1) - kept.long()).gather(1, order)
        there = there.gather(1, order)
        return _taken(whole, order), Gates(m.gather(1, order).where(there, 0.0), places.where(there, 0))

    @torch.no_grad()
    def try_gates(self, x: Tensor, hidden: Sequence[Tensor]) -> None:
        """Use gates from now on if the model supports them. To find out, the first half of each text in ``x`` is replaced by each version
        in ``hidden``, in which words are hidden; gates must hardly change the logits."""
        for each in hidden:
            mixed = x.clone()
            mixed[..., : x.shape[-1] // 2] = each[..., : x.shape[-1] // 2]
            state, tokens = embedded(mixed)
            try:
                exact, found = self.read(state, tokens), self.logits(*self.gated(state, tokens))
            except Exception:  # a model that takes no such mask, or no places
                return
            if not bool((exact - found).abs().max() <= _NEAR * (1 + exact.abs().max())):
                return
        self.gates = True

    def packed(self, state: Tensor, tokens: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings ``(N, T, d)`` with special tokens, existing tokens first, and the attention mask ``(N, T)``."""
        whole, state = self._framed(after, tokens, state)
        order = _those_there_first(state)
        return _taken(whole, order), (state > 0.5).gather(1, order).to(torch.long)

    def _framed(self, after: Tensor, tokens: Tensor, *values: Tensor) -> list[Tensor]:
        """A list: the tokens ``(N, S, d)`` with the special tokens before and after them, then each of ``values`` ``(N, S)`` with ones in the
        places of the special tokens."""
        ends = [end.to(tokens).expand(len(tokens), -1, -1) for end in (self.before, after)]
        ones = [[value.new_ones(end.shape[:2]) for end in ends] for value in values]
        framed = [torch.cat([own[0], value, own[1]], dim=1) for own, value in zip(ones, values, strict=True)]
        return [torch.cat([ends[0], tokens, ends[1]], dim=1), *framed]

    def order(self, x: Tensor, count: int) -> Tensor:
        """For each of the ``count`` tokens that the model gets, its index ``(N, count)`` in the sequence of special tokens before the text,
        slots of the text, and special tokens after the text.
        """
        state, tokens = embedded(x)
        return _those_there_first(self._framed(self.after, tokens, state)[1])[:, :count]

    @abstractmethod
    def logits(self, tokens: Tensor, attention: Tensor | Gates) -> Tensor:
        """Logits ``(N, A)`` of embeddings ``(N, T, d)`` with an attention mask ``(N, T)`` or gates."""


@dataclass(frozen=True)
class Gates:
    """The gates ``m`` ``(N, T)`` of tokens (see :meth:`TokenNet.gated`), and the position ``places`` ``(N, T)`` of each token."""

    m: Tensor
    places: Tensor

    def bias(self) -> Tensor:
        """The bias ``(N, 1, T, T)`` that is added to the attention scores: log m."""
        lowest = torch.finfo(self.m.dtype).min / 2
        bias = self.m.clamp_min(_AJAR).log().masked_fill(self.m.detach() <= 0, lowest)
        return bias[:, None, None, :].expand(-1, -1, bias.shape[1], -1)


def _taken(tokens: Tensor, order: Tensor) -> Tensor:
    """The tokens ``(N, T, d)`` with these indices ``(N, T)``."""
    return tokens.gather(1, order[..., None].expand(-1, -1, tokens.shape[2]))


def _run(model: Any, tokens: Tensor, attention: Tensor | Gates) -> Any:
    if isinstance(attention, Tensor):
        return model(inputs_embeds=tokens, attention_mask=attention)
    return model(inputs_embeds=tokens, attention_mask=attention.bias(), position_ids=attention.places)


def _holds_token(state: Tensor, tokens: Tensor) -> Tensor:
    return (state.detach().abs() > 0.5) | (tokens.detach() != 0).any(dim=2)


def _needs_gates(state: Tensor, tokens: Tensor) -> bool:
    """Whether gates are needed: a token is partly shown, or it is hidden and a gradient may be computed."""
    x, holds = state.detach(), _holds_token(state, tokens)
    asked = (x > 0) & (x < 1)
    if torch.is_grad_enabled() and state.requires_grad:
        asked = asked | (x <= 0.5)
    return bool((asked & holds).any())


def _gates(state: Tensor, tokens: Tensor) -> Tensor:
    """The gates ``(N, S)``: 1 for a shown token, 0 for a removed or closed one. Texts with nothing hidden have constant gates."""
    x = state.detach()
    m = state + (x < -0.5)
    hidden = ((x < 1) & _holds_token(state, tokens)).any(dim=1, keepdim=True)
    return m.where(hidden, m.detach())


def _those_there_first(state: Tensor) -> Tensor:
    """The indices ``(N, T)`` of the tokens with states ``state``: first the tokens that exist, then empty ones up to the longest text."""
    return _first(state.detach().abs() > 0.5)


def _first(there: Tensor) -> Tensor:
    return (~there).to(torch.uint8).argsort(dim=1, stable=True)[:, : int(there.sum(dim=1).max())]


class SequenceNet(TokenNet):
    """A model of transformers for sequence classification."""

    def logits(self, tokens: Tensor, attention: Tensor | Gates) -> Tensor:
        found: Tensor = _run(self.model, tokens, attention).logits
        return found


class SentenceNet(TokenNet):
    """Zero-shot by sentence embeddings: ``logit_a(x) = scale * cos(sentence of x, sentence of label a)``.

    A sentence embedding is the mean of the last hidden states of all tokens, including special tokens, as in Reimers and Gurevych (2019),
    *Sentence-BERT*.
    """

    sentences: Tensor

    def __init__(
        self, model: nn.Module, before: Tensor, after: Tensor, sentences: Tensor, scale: float
    ) -> None:
        super().__init__(model, before, after)
        self.register_buffer("sentences", sentences.detach().clone())
        self.scale = scale

    def logits(self, tokens: Tensor, attention: Tensor | Gates) -> Tensor:
        return self.scale * mean_sentence(self.model, tokens, attention) @ self.sentences.to(tokens).T


def mean_sentence(model: Any, tokens: Tensor, attention: Tensor | Gates) -> Tensor:
    """The sentence embedding ``(N, d)``: the mean of the last hidden states under the attention mask, scaled to length one."""
    states = _run(model, tokens, attention).last_hidden_state
    share = (attention if isinstance(attention, Tensor) else attention.m).to(states)[..., None]
    return F.normalize((states * share).sum(dim=1) / share.sum(dim=1).clamp_min(1e-9), dim=-1)


class PerLabelNet(TokenNet):
    """A net that reads the text once for each label, with the tokens of the label after it. ``endings`` has the embeddings ``(k_a, d)`` of the
    k_a tokens of each label a."""

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
        """The logits ``(N,)`` of one label for N texts."""

    def logits(self, tokens: Tensor, attention: Tensor | Gates) -> Tensor:
        raise NotImplementedError("the logits are those of each label's own pass")


class EntailmentNet(PerLabelNet):
    """Zero-shot by entailment (Yin et al. 2019): the logit of a label is the logit that the text entails "this text is about LABEL"."""

    def __init__(self, model: nn.Module, before: Tensor, endings: Sequence[Tensor], entails: int) -> None:
        super().__init__(model, before, endings)
        self.entails = entails

    def of_label(self, state: Tensor, tokens: Tensor, label: int) -> Tensor:
        found: Tensor = _run(self.model, *self.packed(state, tokens, self.ending(label))).logits
        return found[:, self.entails]


class ContinuationNet(PerLabelNet):
    """A language model as a classifier: ``logit_a(x) = log p(continuation a | x)``, a sum over the tokens of the continuation.

    ``continuations`` has the tokens of each label.
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

    def read(self, state: Tensor, tokens: Tensor) -> Tensor:
        if any(len(continuation) > 1 for continuation in self.continuations):
            return super().read(state, tokens)
        # one pass has every label's only token
        scores = _run(self.model, *self.packed(state, tokens, self.after)).logits
        own: Tensor = scores[self._last(state)].log_softmax(dim=-1)
        return own[:, [token for (token,) in self.continuations]]

    def of_label(self, state: Tensor, tokens: Tensor, label: int) -> Tensor:
        packed = self.packed(state, tokens, self.ending(label))
        scores = _run(self.model, *packed).logits.log_softmax(dim=-1)
        rows, last = self._last(state)
        total = torch.zeros(len(rows), device=rows.device, dtype=scores.dtype)
        for k, token in enumerate(self.continuations[label]):
            total = total + scores[rows, last + k, token]
        return total

    def _last(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """The index of each text, and the index of its last token before a continuation, both ``(N,)``."""
        last = (state.detach().abs() > 0.5).sum(dim=1) + len(self.before) - 1
        return torch.arange(len(state), device=state.device), last
