"""A toy tokenizer with an embedding, for tests of nets of texts: no library is needed."""

from __future__ import annotations

from torch import Tensor

from proofmap.core.inputs import Tokens
from proofmap.core.inputs.tokens import Piece
from proofmap.core.inputs.words import SPLITS
from proofmap.testing.nets import normal

WIDTH, SLOTS, MASK, UNKNOWN = 8, 3, 0, 1


class ToyReader:
    """Tokens are pieces of three letters; the number of a piece follows from its letters."""

    most = 40
    has_mask = True

    def __init__(self) -> None:
        self.table = normal(64, WIDTH, seed=7)

    def numbers(self, word: str) -> list[int]:
        word = word.strip().lower()
        found = [word[k : k + 3] for k in range(0, len(word), 3)]
        return [UNKNOWN if "?" in piece else 2 + sum(map(ord, piece)) % 62 for piece in found]

    def pieces(self, text: str, units: str, slots: int) -> list[Piece]:
        found: list[Piece] = []
        for word in SPLITS[units](text):
            numbers = self.numbers(word)
            for k in range(0, len(numbers), slots):
                last = k + slots >= len(numbers)
                found.append(
                    (word[3 * k :] if last else word[3 * k : 3 * (k + slots)], tuple(numbers[k : k + slots]))
                )
        return found

    def embedding(self, tokens: Tensor) -> Tensor:
        return self.table[tokens]

    @property
    def mean(self) -> Tensor:
        return self.table.mean(dim=0)

    @property
    def vocabulary(self) -> dict[str, int]:
        return {str(number): number for number in range(len(self.table))}

    def token(self, which: str) -> int | None:
        return (MASK if self.has_mask else None) if which == "mask" else UNKNOWN


def toy_tokens(length: int = 12) -> Tokens:
    """Texts of up to ``length`` words for nets of toy tokens."""
    return Tokens(width=WIDTH, slots=SLOTS, length=length, reader=ToyReader())
