"""Transformers whose inputs are embedded tokens (:class:`~proofmap.core.inputs.tokens.Tokens`), so that they have gradients with respect to
the embeddings.

A text is a tensor ``(N, C, S)`` of S slots. Each slot holds a token or is empty, and has a state: 1 for a token that is shown, 0 if there is
none or it was removed, -1 if attention to it is masked. A net adds its special tokens, moves existing tokens to the front, and passes
embeddings and an attention mask to the transformer. A removed token makes the text shorter. A masked token keeps its place, but no other
token attends to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from proofmap.core.errors import InputError, ModelError
from proofmap.core.inputs import TextInputs, Tokens
from proofmap.core.text import distinct

if TYPE_CHECKING:
    from proofmap.classifier import Classifier

_AJAR = 1e-3
"""The smallest gate (:meth:`TokenNet.gated`) of a token that is partly shown."""
_NEAR = 1e-3
"""Gates are used only if they change no logit by more than this, relative to the largest logit."""

_Piece = tuple[str, tuple[int, ...]]
"""A position: its part of the text, and its tokens."""
_USUAL_WINDOW = 512
"""Maximum number of tokens for a net that does not state its own."""
_CLOSE = 1e-3


class TokenNet(nn.Module):
    """A net that takes texts ``(N, C, S)`` and adds special tokens before and after each text. It is a model of transformers for sequence
    classification; subclasses compute logits in other ways.

    ``before`` and ``after`` are the embeddings ``(k, d)`` of the special tokens. If ``window`` is a number, a text with more tokens is read
    in windows of this number of tokens, each with its own special tokens. The text's logits are the mean over windows, weighted by the
    number of tokens in each window.
    """

    any_length = True
    one_pass = True
    """Whether a text is read once for all labels."""
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
        state, tokens = Tokens.embedded(x)
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
            state, tokens = Tokens.embedded(mixed)
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
        state, tokens = Tokens.embedded(x)
        return _those_there_first(self._framed(self.after, tokens, state)[1])[:, :count]

    def logits(self, tokens: Tensor, attention: Tensor | Gates) -> Tensor:
        """Logits ``(N, A)`` of embeddings ``(N, T, d)`` with an attention mask ``(N, T)`` or gates; here those of a model for sequence
        classification."""
        found: Tensor = TokenNet.run_model(self.model, tokens, attention).logits
        return found

    @staticmethod
    def run_model(model: Any, tokens: Tensor, attention: Tensor | Gates) -> Any:
        if isinstance(attention, Tensor):
            return model(inputs_embeds=tokens, attention_mask=attention)
        return model(inputs_embeds=tokens, attention_mask=attention.bias(), position_ids=attention.places)

    @staticmethod
    def check_one_pass(classifier: Classifier) -> None:
        """Raise if a text net does not read a text in one pass."""
        net = classifier.net
        if not isinstance(net, TokenNet):
            raise InputError(
                f"{classifier.name} is not a net of tokens that Proofmap knows; use a method without attention"
            )
        if not net.one_pass:
            raise InputError(
                f"{classifier.name} reads the text once for each label, so there is no attention that all labels share; use gradients, masks or "
                "belief-order"
            )
        if net.window is not None:
            raise InputError(
                f"{classifier.name} reads long texts in windows, and its layers do not see a text as a whole; leave longer=windows out, or use gradients, "
                "masks or belief-order"
            )

    @staticmethod
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


# ---- texts as tokens -----------------------------------------------------------------------------------------------


class TokenReader:
    """A fast tokenizer of transformers and the embedding table ``(V, d)`` of a net that messages call ``title``. ``before`` and ``after`` are the
    embeddings of the special tokens around a text, ``most`` is the largest number of its own tokens."""

    def __init__(self, title: str, model: Any, tokenizer: Any) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise ModelError(
                f"the tokenizer of {title} gives no offsets, so its tokens cannot be matched with words; save it as a fast tokenizer "
                "(tokenizer.json), or explain the model as a function of strings: pm.Classifier(function, inputs=Text())"
            )
        self.title, self.tokenizer = title, tokenizer
        self.table: Tensor = model.get_input_embeddings().weight.detach().cpu().float()
        self.window = _window(model, tokenizer)
        first, last = self.special()
        self.before, self.after = self.table[first], self.table[last]
        self.most = self.window - len(first) - len(last)

    def special(self, texts: int = 1) -> list[list[int]]:
        """The special tokens that the tokenizer adds before ``texts`` texts, between them, and after them."""
        marker, found = self.tokenizer("a", add_special_tokens=False)["input_ids"], []
        rest = self.tokenizer(*["a"] * texts)["input_ids"]
        for _ in range(texts):
            at = next((k for k in range(len(rest)) if rest[k : k + len(marker)] == marker), None)
            if at is None:
                raise ModelError(
                    "tokenizers that split a text differently next to special tokens are not supported"
                )
            found.append(rest[:at])
            rest = rest[at + len(marker) :]
        return [*found, rest]

    def pieces(self, text: str, units: str, slots: int) -> list[_Piece]:
        found = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        lasts = [last for _, last in found["offset_mapping"]]
        tokens = list(zip(found["input_ids"], lasts, strict=True))
        if units == "tokens":
            return _by_tokens(text, tokens, slots)
        pieces: list[_Piece] = []
        start = k = 0
        for end in accumulate(map(len, TextInputs.in_units(text, units))):
            own = []
            while k < len(tokens) and tokens[k][1] <= end:
                own.append(tokens[k])
                k += 1
            if not own and pieces:  # nothing that the net reads: part of the position before
                pieces[-1] = (pieces[-1][0] + text[start:end], pieces[-1][1])
            elif own:
                pieces += _in_slots(text, start, end, own, slots)
            start = end if pieces else start
        if start < len(text) and pieces:
            pieces[-1] = (pieces[-1][0] + text[start:], pieces[-1][1])
        return pieces

    def embedding(self, tokens: Tensor) -> Tensor:
        return self.table[tokens]

    @cached_property
    def mean(self) -> Tensor:
        return self.table.mean(dim=0)

    def token(self, which: str) -> int | None:
        found = getattr(self.tokenizer, {"mask": "mask_token_id", "unknown": "unk_token_id"}[which])
        return None if found is None else int(found)

    def sequence_net(self, model: Any) -> tuple[TokenNet, dict[str, Any]]:
        """A net of a transformer for sequence classification, and the names and the kind of its outputs."""
        config = model.config
        if config.num_labels < 2:
            raise ModelError(
                f"{self.title} has one output: it predicts a number, and Proofmap explains labels"
            )
        net = TokenNet(model, self.before, self.after)
        self.check(net, lambda **given: model(**given).logits)
        several = getattr(config, "problem_type", None) == "multi_label_classification"
        names = tuple(str(config.id2label[k]) for k in range(config.num_labels))
        return net, {"names": distinct(names), "outputs": "sigmoid" if several else "logits"}

    @torch.no_grad()
    def check(self, net: TokenNet, logits: Callable[..., Tensor]) -> None:
        """Raise if a net's outputs for embeddings differ from the ``logits`` for tokens, or if a text's outputs change in a batch with a longer
        text."""
        inputs = Tokens(width=self.table.shape[1], length=8, slots=4, reader=self)
        texts = ["a b c d", "a"]
        x = torch.stack([inputs.prepare(text) for text in texts])
        found = net(x)
        net.try_gates(x, [inputs.removed(x), inputs.closed(x)])
        for text, own in zip(texts, found, strict=True):
            tokens = self.tokenizer(text, return_tensors="pt")
            given = {"input_ids": tokens["input_ids"], "attention_mask": tokens["attention_mask"]}
            moved = float((logits(**given)[0] - own).abs().max() / (1 + own.abs().max()))
            if not moved <= _CLOSE:
                raise ModelError(
                    f"{self.title} gives other outputs for embeddings than for tokens, or for a text next to a longer one (by {moved:.2g}), so it "
                    "cannot be explained at its embedding; explain it as a function of strings: pm.Classifier(function, inputs=Text())"
                )


def _window(model: Any, tokenizer: Any) -> int:
    """The largest number of tokens that the net and the tokenizer allow."""
    known = [getattr(model.config, name, None) for name in ("max_position_embeddings", "n_positions")]
    known.append(getattr(tokenizer, "model_max_length", None))
    sizes = [int(size) for size in known if size and 0 < size < 10**6]
    if sizes and getattr(model.config, "model_type", "") in ("roberta", "xlm-roberta", "camembert"):
        sizes.append(sizes[0] - 2)  # their positions begin after the padding
    return min(sizes, default=_USUAL_WINDOW)


def _in_slots(text: str, start: int, end: int, tokens: list[tuple[int, int]], slots: int) -> list[_Piece]:
    """The part of a text from ``start`` to ``end``, such as a word, as one position, or as several if it has more than ``slots`` tokens."""
    pieces = []
    for k in range(0, len(tokens), slots):
        own = tokens[k : k + slots]
        last = end if k + slots >= len(tokens) else own[-1][1]
        pieces.append((text[start:last], tuple(number for number, _ in own)))
        start = last
    return pieces


def _by_tokens(text: str, tokens: list[tuple[int, int]], slots: int) -> list[_Piece]:
    """The positions of a text with one token each. Tokens that share a character, such as the bytes of an emoji, form one position."""
    pieces: list[_Piece] = []
    start = 0
    for number, last in tokens:
        if last <= start and pieces and len(pieces[-1][1]) < slots:
            pieces[-1] = (pieces[-1][0], (*pieces[-1][1], number))
            continue
        pieces.append((text[start:last], (number,)))
        start = max(start, last)
    if pieces and start < len(text):
        pieces[-1] = (pieces[-1][0] + text[start:], pieces[-1][1])
    return pieces
