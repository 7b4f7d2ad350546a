"""Texts as embedded tokens, for nets with gradients: a position is a word, or a token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Protocol

import numpy as np

from proofmap.core.deferred import Tensor, torch
from proofmap.core.errors import InputError
from proofmap.core.inputs.text import TextInputs

_STATE, _ID, _LETTERS, _FIRST = 0, 1, 8, 10
"""Channels of a slot, which is a column of a text's tensor and holds one token: the index of its state, the index of the vocabulary id, the
number of channels with letters, and the index of the first channel of the embedding."""

_Piece = tuple[str, tuple[int, ...]]
"""A position: its part of the text, and its tokens."""


class Reader(Protocol):
    """Turns a text into tokens and tokens into embeddings: a tokenizer with the embedding layer of a net."""

    def pieces(self, text: str, units: str, slots: int) -> list[_Piece]:
        """The positions of a text, each with at least one and at most ``slots`` tokens."""

    def embedding(self, tokens: Tensor) -> Tensor:
        """The embeddings ``(..., d)`` of tokens ``(...)``."""

    def token(self, which: str) -> int | None:
        """The vocabulary id of the token ``mask`` or ``unknown``; None if the tokenizer has no such token."""

    @property
    def most(self) -> int:
        """The maximum number of tokens in a text, not counting special tokens."""

    @property
    def mean(self) -> Tensor:
        """The mean embedding ``(d,)`` of all tokens."""


@dataclass(frozen=True, kw_only=True)
class Tokens(TextInputs):
    """Texts as embedded tokens. Nets that take embeddings have gradients with respect to them, so every method can explain these nets.

    A text is a tensor ``(10 + width, slots * length)``. Each column is a slot, which holds one token or is empty. Position p has the
    slots ``slots p`` to ``slots p + slots - 1``, one for each of its tokens. The channels of a slot are

        0         1 if there is a token, 0 if there is none or it was removed, -1 if attention to it is masked
        1         the vocabulary id of the token
        2 to 9    the letters of the position, eight in each slot: for people, not for the net
        10 on     the embedding of the token

    Special tokens, such as ``[CLS]``, are not positions: the net adds them, and they are never hidden. If only a share of a
    position is shown, its embedding is mixed with that of the fill.

    Args:
        width: the length of an embedding.
        slots: the largest number of tokens of a position. A word with more tokens is split into several positions.
        longer: what happens to a text with more tokens than the net takes: ``refuse`` it, ``cut`` it, or read it in ``windows``, if
            the net supports them.
        reader: the tokenizer and the embedding. Inputs rebuilt from a record have no reader: they can show texts, but not read new ones.
    """

    kind = "tokens"
    form = "(N, channels, slots)"
    fills = ("gray", "delete", "closed", "mask", "unknown", "zero", "mean-embedding", "images")
    shape_hint = "It must take embedded tokens: see proofmap.classifier.token_nets"
    may_be_longer = ("refuse", "cut", "windows")

    width: int
    slots: int = 6
    reader: Reader | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("width", "slots"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} of tokens must be at least 1, not {getattr(self, name)!r}")
        object.__setattr__(self, "mean", (0.0,) * (_FIRST + self.width))
        object.__setattr__(self, "std", (1.0,) * (_FIRST + self.width))
        super().__post_init__()

    @property
    def shape(self) -> tuple[int, ...]:
        return _FIRST + self.width, self.slots * self.length

    # ---- positions ----------------------------------------------------------------------------------------------

    def over_channels(self, values: Tensor) -> Tensor:
        return values.repeat_interleave(self.slots, dim=-1).unsqueeze(-2)

    def merged_channels(self, values: Tensor, how: str = "sum") -> Tensor:
        """Values ``(..., C, S)`` of C channels and S slots, merged into one number per position over its channels and slots."""
        apart: Tensor = values.unflatten(-1, (-1, self.slots)).transpose(-3, -2).flatten(-2)
        merged: Tensor = getattr(apart, "amax" if how == "max" else how)(dim=-1)
        return merged

    def cut(self, x: Tensor, n: int) -> Tensor:
        return x[..., : n * self.slots]

    def lengths(self, x: Tensor) -> Tensor:
        there: Tensor = (x[..., _STATE, :] != 0).unflatten(-1, (-1, self.slots)).any(dim=-1)
        return self._up_to_last(there)

    def sizes(self, x: Tensor, *, gradient: bool) -> Tensor:
        there = x[..., _STATE, :] != 0
        return (there | (x[..., _FIRST, :] != 0) if gradient else there).sum(dim=-1)

    def words(self, x: Tensor) -> list[str]:
        count = int(self.lengths(x[None])[0])
        return [
            self._spelt(row) for row in x.cpu()[_ID + 1 : _FIRST, : count * self.slots].T.reshape(count, -1)
        ]

    def varied(self, x: Tensor) -> Tensor:
        """Mask of the embeddings of tokens that exist, without empty slots."""
        kept = (x[..., _STATE : _STATE + 1, :] != 0).expand_as(x).clone()
        kept[..., :_FIRST, :] = False
        return kept

    # ---- what hidden words show ---------------------------------------------------------------------------------

    def blank_like(self, x: Tensor) -> Tensor:
        return self.removed(x)

    def replaced(self, x: Tensor, token: str) -> Tensor:
        """Texts with every token replaced by the token ``mask`` or ``unknown``. In a word of several tokens, each of them is replaced."""
        reader = self._reader()
        number = reader.token(token)
        if number is None:
            raise InputError(
                f"the tokenizer has no {token} token, so words cannot be hidden by it; use another fill: delete, closed, zero, images"
            )
        return self._all_showing(x, number, reader.embedding(torch.tensor(number)))

    def _all_showing(self, x: Tensor, number: int, embedding: Tensor) -> Tensor:
        """Texts in which every token has this vocabulary id and this embedding."""
        made = x.clone()
        there = (x[..., _STATE : _STATE + 1, :] != 0).to(x)
        made[..., _ID, :] = number * there[..., 0, :]
        made[..., _FIRST:, :] = embedding.to(x)[:, None] * there
        return made

    def zeroed(self, x: Tensor) -> Tensor:
        """Texts with the embedding of every token set to zero."""
        made = x.clone()
        made[..., _FIRST:, :] = 0
        return made

    def averaged(self, x: Tensor) -> Tensor:
        """Texts with every token replaced by the mean embedding of the vocabulary."""
        return self._all_showing(x, -1, self._reader().mean)

    def token_number(self, which: str) -> int | None:
        """The vocabulary id of the token ``mask`` or ``unknown``; None if there is no such token."""
        return self._reader().token(which)

    def token_numbers(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The vocabulary ids ``(N, S)`` of the tokens of texts, and a mask of the slots that hold a token."""
        return x[:, _ID].long(), x[:, _STATE] != 0

    @staticmethod
    def embedded(x: Tensor) -> tuple[Tensor, Tensor]:
        """The states ``(N, S)`` and the embeddings ``(N, S, d)`` of the S slots of texts ``(N, C, S)``, for nets."""
        return x[:, _STATE], x[:, _FIRST:].transpose(1, 2)

    def closed(self, x: Tensor) -> Tensor:
        """Texts in which attention to every token is masked, as for padding."""
        made = x.clone()
        made[..., _STATE, :] = -(x[..., _STATE, :] != 0).to(x)
        return made

    def removed(self, x: Tensor) -> Tensor:
        """Texts with every token removed. The embeddings stay in the tensor: the net does not read them, but the gradient with respect to
        them shows what the tokens would add."""
        made = x.clone()
        made[..., :_FIRST, :] = 0
        return made

    def of_others(self, x: Tensor, others: Tensor) -> Tensor:
        found = []
        for own, other in zip(x, others, strict=True):
            count, drawn = int(self.lengths(own[None])[0]), int(self.lengths(other[None])[0])
            slot = torch.arange(x.shape[-1], device=x.device)
            source = (slot // self.slots) % drawn * self.slots + slot % self.slots
            found.append(other[:, source] * (slot < count * self.slots))
        return torch.stack(found).to(x) if found else x

    # ---- reading ------------------------------------------------------------------------------------------------

    def _reader(self) -> Reader:
        if self.reader is None:
            raise InputError(
                "these inputs come from a record, without the tokenizer; load the model to read texts"
            )
        return self.reader

    def split_text(self, text: str) -> list[str]:
        return [piece for piece, _ in self._reader().pieces(text, self.units, self.slots)]

    def _read(self, text: object, which: str) -> Tensor:
        pieces, reader = (
            self._reader().pieces(self.checked(text, which), self.units, self.slots),
            self._reader(),
        )
        unknown, used = reader.token("unknown"), [token for _, tokens in pieces for token in tokens]
        if not used or all(token == unknown for token in used):
            raise InputError(
                f"{which} has no token that the net's tokenizer knows; check its language and encoding"
            )
        most = math.inf if self.longer == "windows" else reader.most
        ends = accumulate(len(tokens) for _, tokens in pieces)
        kept = sum(k < self.length and end <= most for k, end in enumerate(ends))
        if kept < len(pieces) and self.longer != "cut":
            raise InputError(
                f"{which} has {len(pieces):,} {self.units} and {len(used):,} tokens, and the net takes at most {self.length:,} "
                f"{self.units} and {reader.most:,} tokens at once; shorten it, give a larger length=, or ask for longer=cut to use its beginning "
                "alone, or for longer=windows"
            )
        return self._joined(pieces[:kept])

    def _encoded(self, positions: Sequence[str]) -> Tensor:
        """One text from its positions. Each position is tokenized separately."""
        reader = self._reader()
        found = []
        for position in positions:
            tokens = [token for _, own in reader.pieces(position, "words", self.slots) for token in own]
            found.append((position, tuple(tokens[: self.slots])))
        return self._joined(found)

    def _joined(self, pieces: Sequence[_Piece]) -> Tensor:
        x = torch.zeros(self.shape)
        places = [p * self.slots + k for p, (_, tokens) in enumerate(pieces) for k in range(len(tokens))]
        tokens = torch.tensor([token for _, own in pieces for token in own])
        x[_STATE, places], x[_ID, places] = 1.0, tokens.to(x)
        x[_FIRST:, places] = self._reader().embedding(tokens).detach().cpu().float().T
        room = _LETTERS * self.slots
        for p, (text, _) in enumerate(pieces):
            kept = text if len(text) <= room else text[: room - 2] + "…" + (self._gap(text)[:1])
            points = np.frombuffer(kept.ljust(room, "\0").encode("utf-32-le"), dtype="<u4").astype(np.float32)
            own = torch.from_numpy(points).view(self.slots, _LETTERS).T
            x[_ID + 1 : _FIRST, p * self.slots : (p + 1) * self.slots] = own
        return x
