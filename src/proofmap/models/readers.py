"""Reads texts with a tokenizer of transformers: splits a text into positions (words or tokens that are shown or hidden as a whole), gives the
tokens of each position, and looks up their embeddings."""

from __future__ import annotations

from functools import cached_property
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from proofmap.core.errors import ModelError
from proofmap.core.inputs.tokens import Piece
from proofmap.core.inputs.words import SPLITS

_MOST = 512
"""Maximum number of tokens for a net that does not state its own."""


class TokenReader:
    """A fast tokenizer of transformers and the embedding table ``(V, d)`` of a net."""

    def __init__(self, tokenizer: Any, table: Tensor, window: int | None, special: int, title: str) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise ModelError(
                f"the tokenizer of {title} gives no offsets, so its tokens cannot be matched with words; save it as a fast tokenizer "
                "(tokenizer.json), or explain the model as a function of strings: pm.Classifier(function, inputs=Text())"
            )
        self.tokenizer, self.table = tokenizer, table.detach().cpu().float()
        self.most = min(window or _MOST, 1_000_000) - special

    def pieces(self, text: str, units: str, slots: int) -> list[Piece]:
        found = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        lasts = [last for _, last in found["offset_mapping"]]
        tokens = list(zip(found["input_ids"], lasts, strict=True))
        if units == "tokens":
            return _by_tokens(text, tokens, slots)
        pieces: list[Piece] = []
        start = k = 0
        for end in accumulate(map(len, SPLITS[units](text))):
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

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        return dict(self.tokenizer.get_vocab())

    def token(self, which: str) -> int | None:
        found = getattr(self.tokenizer, {"mask": "mask_token_id", "unknown": "unk_token_id"}[which])
        return None if found is None else int(found)


def _in_slots(text: str, start: int, end: int, tokens: list[tuple[int, int]], slots: int) -> list[Piece]:
    """The part of a text from ``start`` to ``end``, such as a word, as one position, or as several if it has more than ``slots`` tokens."""
    pieces = []
    for k in range(0, len(tokens), slots):
        own = tokens[k : k + slots]
        last = end if k + slots >= len(tokens) else own[-1][1]
        pieces.append((text[start:last], tuple(number for number, _ in own)))
        start = last
    return pieces


def _by_tokens(text: str, tokens: list[tuple[int, int]], slots: int) -> list[Piece]:
    """The positions of a text with one token each. Tokens that share a character, such as the bytes of an emoji, form one position."""
    pieces: list[Piece] = []
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


def special_tokens(tokenizer: Any, pair: bool = False) -> tuple[list[int], list[int]]:
    """The special tokens that a tokenizer adds before a text, and those that it adds after it. With ``pair``, those before the first of two
    texts, and those between the two.
    """
    marker = tokenizer("a", add_special_tokens=False)["input_ids"]
    whole = tokenizer("a", "a")["input_ids"] if pair else tokenizer("a")["input_ids"]
    at = next((k for k in range(len(whole)) if whole[k : k + len(marker)] == marker), None)
    if at is None:
        raise ModelError("tokenizers that split a text differently next to special tokens are not supported")
    return whole[:at], whole[at + len(marker) :]


def tokens_of(table: Tensor, numbers: list[int]) -> Tensor:
    """The embeddings ``(k, d)`` of tokens."""
    return table[torch.tensor(numbers, dtype=torch.long)] if numbers else table[:0]
