"""Texts: a position is a word, and texts have different numbers of them."""

from __future__ import annotations

import re
import unicodedata
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from proofmap.core.deferred import Tensor, torch
from proofmap.core.errors import InputError
from proofmap.core.inputs.base import Inputs
from proofmap.core.text import one_line, shortened

Units = Literal["words", "sentences", "tokens"]
Longer = Literal["refuse", "cut", "windows"]
_WIDTHS = {"words": 24, "tokens": 24, "sentences": 400}
_LENGTHS = {"sentences": 64}  # others: 512
_LAST = 0x10FFFF
_EXAMPLES = 1024
_CELL, _BAND, _PER_LINE = 72, 16, 6  # pixels of a word in a picture, and words of a line
_INK, _PAPER = 40, 250


@dataclass(frozen=True, kw_only=True)
class TextInputs(Inputs):
    """Texts of up to ``length`` positions. Each text has its own number of positions; the remaining ones, at the end, are padding
    and never count.

    Code that ranks, hides or scores positions gets each text at its own length: :meth:`at_length` describes texts of exactly n
    positions.
    """

    noun = "texts"
    singular = "text"
    has_neighbours = False
    neutral_words = "nothing: hidden words are deleted"
    same_as_gray = "delete"
    shape_hint = "It is given a list of strings, also empty ones: check that it takes them"

    may_be_longer: ClassVar[tuple[Longer, ...]] = ("refuse", "cut")
    """The allowed values of ``longer``, which says what happens to texts that are too long."""

    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    length: int = 256
    units: Units = "words"
    longer: Longer = "refuse"
    whole: int | None = None
    """None, or, for inputs that :meth:`at_length` made, the ``length`` of the inputs that they were made from."""

    def record(self) -> dict[str, object]:
        record = {**super().record(), "length": self.whole or self.length}
        return {name: value for name, value in record.items() if name not in ("mean", "std", "whole")}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        return super().from_record({key: record[key] for key in record if key not in ("mean", "std")})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.longer not in self.may_be_longer:
            raise InputError(
                f"longer must be one of {', '.join(self.may_be_longer)}, not {self.longer!r}: what to do with texts that are too long"
            )

    @property
    def position_noun(self) -> str:  # type: ignore[override]
        return self.units

    @property
    def positions(self) -> tuple[int, ...]:
        return (self.length,)

    @property
    def has_sums(self) -> bool:
        return False

    @property
    def shown_as(self) -> str:
        return "words"

    @property
    def position_names(self) -> tuple[str, ...]:
        return tuple(f"{self.units[:-1]} {k + 1}" for k in range(self.length))

    def names_of(self, x: Tensor) -> tuple[str, ...]:
        """The words of a text, without punctuation around them."""
        return tuple(_bare(one_line(word)) for word in self.words(x))

    # ---- texts of different lengths -----------------------------------------------------------------------------

    @abstractmethod
    def lengths(self, x: Tensor) -> Tensor:
        """The number of positions ``(N,)`` of each text."""

    def at_length(self, n: int) -> Self:
        return self if n == self.length else replace(self, length=n, whole=self.whole or self.length)

    @abstractmethod
    def words(self, x: Tensor) -> list[str]:
        """The positions of one text ``x``, as strings, each with the white space after it."""

    def text(self, x: Tensor) -> str:
        """The string of one text ``x``."""
        return "".join(self.words(x))

    def value_text(self, x: Tensor, position: int) -> str:
        words = self.words(x)
        return one_line(words[position]).strip() or "-" if position < len(words) else "-"

    def decode(self, x: Tensor) -> Any:
        return [self.text(one) for one in x.cpu()]

    # ---- what hidden words show ---------------------------------------------------------------------------------

    @abstractmethod
    def replaced(self, x: Tensor, token: str) -> Tensor:
        """Texts ``(N, *shape)`` with every position replaced by a token, ``mask`` or ``unknown``."""

    @abstractmethod
    def removed(self, x: Tensor) -> Tensor:
        """Texts ``(N, *shape)`` with every position removed."""

    @abstractmethod
    def of_others(self, x: Tensor, others: Tensor) -> Tensor:
        """Texts as long as ``x`` ``(N, *shape)``, with the words of other texts ``(N, *shape of whole texts)``. If the other text
        is shorter, its words are repeated from the first."""

    # ---- reading ------------------------------------------------------------------------------------------------

    def reads(self, kind: str) -> bool:
        return kind in (self.kind, "text")

    def takes(self, given: object) -> bool:
        if isinstance(given, (str, bytes)):
            return True
        if isinstance(given, Sequence):
            return len(given) > 0 and any(isinstance(item, (str, bytes)) for item in given)
        return (
            getattr(getattr(given, "dtype", None), "kind", "") in ("O", "U")
            and getattr(given, "ndim", 0) == 1
        )

    def encode(self, given: Any) -> Tensor:
        """Texts ``(N, *shape)`` from one string or several strings."""
        texts = [given] if isinstance(given, (str, bytes)) else list(given)
        return torch.stack([self._read(text, f"text {i}") for i, text in enumerate(texts)])

    def prepare(self, item: Any, *, cropped: bool = False) -> Tensor:
        return self._read(item, "a text") if isinstance(item, (str, bytes)) else super().prepare(item)

    def _read(self, text: object, which: str) -> Tensor:
        text = self.checked(text, which)
        positions = self.split_text(text)
        if len(positions) > self.length:
            if self.longer == "refuse":
                raise InputError(
                    f"{which} has {len(positions):,} {self.units}, and at most {self.length:,} are taken; give a larger length, such as "
                    f"inputs={type(self).__name__}(length={len(positions)}) or, in a model string, ?length={len(positions)}, or longer='cut' to "
                    f"use the first {self.length:,} alone"
                )
            positions = positions[: self.length]
        return self._encoded(positions)

    @staticmethod
    def checked(text: object, which: str) -> str:
        """The text as a string; bytes are decoded as UTF-8. Refuses a text without visible characters, or with characters that are not
        valid."""
        if isinstance(text, bytes):
            try:
                text = text.decode()
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{which} has bytes that are not UTF-8, from byte {error.start} on; decode it with its own encoding"
                ) from None
        if not isinstance(text, str):
            raise InputError(f"{which} must be a string, not {type(text).__name__}")
        if not text.strip():
            raise InputError(f"{which} is empty; leave it out: there is nothing to show or to hide")
        odd = next((letter for letter in text if letter == "\0" or "\ud800" <= letter <= "\udfff"), None)
        if odd is not None:
            raise InputError(
                f"{which} has the character {odd!r} (NUL, or half of a surrogate pair), which no text has; remove it, or read the text again with "
                "its own encoding"
            )
        return text

    @staticmethod
    def in_units(text: str, units: str) -> list[str]:
        """The ``words`` or ``sentences`` of a text. Joined, they are the text; white space belongs to the one before it.

        Words are split at white space. Ideographs and kana are written without spaces, so each of them is a word. Sentences end at ``. ! ?``
        before white space, at their full-width forms, and at the end of a line.

        >>> TextInputs.in_units("It works, mostly.", "words"), TextInputs.in_units("我爱 Berlin。", "words")
        (['It ', 'works, ', 'mostly.'], ['我', '爱 ', 'Berlin。'])
        >>> TextInputs.in_units("It rains. Does it? Yes.", "sentences")
        ['It rains. ', 'Does it? ', 'Yes.']
        """
        return _UNITS[units].findall(text)

    @abstractmethod
    def split_text(self, text: str) -> list[str]:
        """The positions of a text, which make up the text when they are joined."""

    @abstractmethod
    def _encoded(self, positions: Sequence[str]) -> Tensor:
        """The tensor of one text, of shape ``shape``, from its positions."""

    def probe(self) -> Tensor:
        return self._encoded([f"{letter} " for letter in "abcdefgh"[: self.length]])[None]

    def strong_noise(self, n: int) -> Tensor:
        """``n`` texts ``(n, *shape)`` of the full length with words of random letters."""
        from proofmap.core import streams

        letters = streams.integers(torch.tensor(streams.key_of("letters")), 3 * self.length * n, 26).tolist()
        spelt = "".join(chr(97 + letter) for letter in letters)
        made = [spelt[k : k + 3] + " " for k in range(0, len(spelt), 3)]
        each = (made[k : k + self.length] for k in range(0, len(made), self.length))
        return torch.stack([self._encoded(own) for own in each]) if n else self.blank(0)

    @staticmethod
    def _spelt(points: Tensor) -> str:
        """The string that these code points spell; zeros are left out."""
        return (
            points.detach()
            .cpu()
            .numpy()
            .astype("<u4")
            .tobytes()
            .decode("utf-32-le", "replace")
            .replace("\0", "")
        )

    @staticmethod
    def _gap(position: str) -> str:
        """The white space at the end of a position."""
        return position[len(position.rstrip()) :]

    @staticmethod
    def _up_to_last(there: Tensor) -> Tensor:
        """For each of the N rows of the boolean mask ``there``, the number of entries up to and including the last true one, at least 1.
        The result is ``(N,)``."""
        return (there * torch.arange(1, there.shape[-1] + 1, device=there.device)).amax(dim=-1).clamp_min(1)

    # ---- pictures -----------------------------------------------------------------------------------------------

    @property
    def _per_line(self) -> int:
        return min(_PER_LINE, self.length)

    def picture_size(self) -> tuple[int, int]:
        return _BAND * -(-self.length // self._per_line), _CELL * self._per_line

    def pixel_positions(self) -> Tensor:
        height, width = self.picture_size()
        line, place = torch.arange(height)[:, None] // _BAND, torch.arange(width) // _CELL
        return (line * self._per_line + place).clamp_max(self.length - 1)

    def picture(self, x: Tensor) -> np.ndarray:
        """A picture of the words in a table, from left to right and from top to bottom. Reports show the text itself."""
        height, width = self.picture_size()
        page = Image.new("RGB", (width, height), (_PAPER,) * 3)
        draw, font = ImageDraw.Draw(page), ImageFont.load_default(11)
        for k, word in enumerate(self.words(x)[: self.length]):
            line, place = divmod(k, self._per_line)
            seen = shortened(one_line(word).strip(), _CELL - 6, measure=lambda t: draw.textlength(t, font))
            draw.text((place * _CELL + 3, line * _BAND + 1), seen, (_INK,) * 3, font)
        return np.asarray(page)


@dataclass(frozen=True, kw_only=True)
class Text(TextInputs):
    """Texts for a model that takes a list of strings. Text is carried as the code points of its characters.

    A text is ``(width, length)``: column k holds the characters of position k, with the white space after it, and zeros. The joined
    positions are exactly the text. A hidden position that shows nothing (zeros) is deleted, with its white space.

    Args:
        length: the largest number of positions of a text; 512 by default, and 64 sentences.
        units: what a position is: ``words`` or ``sentences``; ``tokens`` needs ``split``.
        width: the largest number of characters of a position. A longer word, such as a web address, is split into several positions.
        longer: what happens to a text with more than ``length`` positions: ``refuse`` it, or ``cut`` it after the first ``length``.
        mask_token, unknown_token: what the fills ``mask`` and ``unknown`` show.
        split: a function from a text to its positions in place of ``units``, such as ``list``, which gives its characters, or the pieces of a tokenizer. Joined, they must be the text.
        pool: texts that the fill ``images`` draws from, instead of those that are explained.

    >>> inputs = Text(length=8)
    >>> x = inputs.encode(["It works, mostly."])
    >>> x.shape, inputs.lengths(x), inputs.decode(x)
    (torch.Size([1, 24, 8]), tensor([3]), ['It works, mostly.'])
    >>> keep = torch.tensor([True, False, True, *[False] * 5])
    >>> inputs.decode(inputs.composite(keep, x, inputs.replaced(x, "mask")))
    ['It [MASK] mostly.']
    """

    kind = "text"
    form = "(N, characters, positions)"
    fills = ("gray", "delete", "mask", "unknown", "images")

    length: int = 0
    width: int = 0
    mask_token: str = "[MASK]"
    unknown_token: str = "[UNK]"
    split: Callable[[str], Sequence[str]] | None = field(default=None, compare=False, repr=False)
    pool: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.units not in _WIDTHS:
            raise InputError(f"units must be one of {', '.join(_WIDTHS)}, not {self.units!r}")
        object.__setattr__(self, "width", self.width or _WIDTHS[self.units])
        object.__setattr__(self, "length", self.length or _LENGTHS.get(self.units, 512))
        object.__setattr__(self, "pool", tuple(self.pool))
        super().__post_init__()
        if self.width < 2:
            raise InputError(f"width must be at least 2 characters, not {self.width!r}")

    @classmethod
    def of(cls, texts: Sequence[str], **settings: Any) -> Self:
        """The description of texts like ``texts``. Longer texts are taken too: ``length`` is that of the longest text, and at least the
        default. Up to 1,024 texts, chosen at random with a fixed seed, are the ``pool``.

        >>> Text.of(["one two", "one two three"]).length
        512
        """
        kept = [cls.checked(text, f"text {i}") for i, text in enumerate(texts)]
        if not kept:
            raise InputError("there are no texts to describe; give at least one")
        described = cls(**settings)
        if "length" not in settings:
            longest = max(len(described.split_text(text)) for text in kept)
            described = replace(described, length=max(longest, described.length))
        from proofmap.core import streams

        order = streams.permutations(torch.tensor(streams.key_of(0, "examples of texts")), len(kept))
        return replace(described, pool=tuple(kept[i] for i in sorted(order[:_EXAMPLES].tolist())))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.width, self.length

    @property
    def examples(self) -> Tensor | None:
        if not self.pool or self.whole:
            return None
        return torch.stack([replace(self, longer="cut").prepare(text) for text in self.pool])

    def split_text(self, text: str) -> list[str]:
        if self.split is None and self.units not in _UNITS:
            raise InputError(
                f"{self.units} of black-box texts need split=, a function from a text to its {self.units}"
            )
        found = self.in_units(text, self.units) if self.split is None else list(self.split(text))
        if "".join(found) != text:
            raise InputError(
                f"split must divide the whole text, white space included: it turned {shortened(text, 40)!r} into "
                f"{shortened(''.join(found), 40)!r}"
            )
        return _in_pieces([each for each in found if each], self.width)

    def _encoded(self, positions: Sequence[str]) -> Tensor:
        spelt = "".join(position.ljust(self.width, "\0") for position in positions)
        points = np.frombuffer(spelt.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        found = torch.zeros(self.width, self.length)
        found[:, : len(positions)] = torch.from_numpy(
            points.reshape(len(positions), self.width).T.astype(np.float32)
        )
        return found

    def words(self, x: Tensor) -> list[str]:
        count = int(self.lengths(x[None])[0])
        return [self._spelt(column) for column in x.cpu()[:, :count].T]

    def text(self, x: Tensor) -> str:
        return self._spelt(x.T)

    def lengths(self, x: Tensor) -> Tensor:
        return self._up_to_last((x != 0).any(dim=-2))

    def for_net(self, x: Tensor) -> Tensor:
        if self.whole is None or self.whole == self.length:
            return x
        return torch.nn.functional.pad(x, (0, self.whole - self.length))

    def replaced(self, x: Tensor, token: str) -> Tensor:
        shown = {"mask": self.mask_token, "unknown": self.unknown_token}[token]
        if len(shown) >= self.width:
            raise InputError(
                f"the token {shown!r} does not fit into positions of {self.width} characters; give Text a larger width, or a shorter token"
            )
        room = self.width - len(shown)
        made = [self._encoded([shown + self._gap(word)[:room] for word in self.words(one)]) for one in x]
        return torch.stack(made).to(x) if made else x

    def removed(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)

    def of_others(self, x: Tensor, others: Tensor) -> Tensor:
        found = []
        for own, other in zip(x, others, strict=True):
            drawn = [word.rstrip() for word in self.words(other)]
            words = [drawn[k % len(drawn)] + self._gap(word) for k, word in enumerate(self.words(own))]
            found.append(self._encoded([word[: self.width] for word in words]))
        return torch.stack(found).to(x) if found else x

    def _check_finite(self, inputs: Tensor, problem: str) -> None:
        super()._check_finite(inputs, problem)
        if bool(((inputs < 0) | (inputs > _LAST)).any()):
            raise InputError(
                "texts hold the code points of characters, from 0 to 1,114,111; encode strings by Text.encode"
            )


# ---- words and sentences -------------------------------------------------------------------------------

_IDEOGRAPHS = (
    "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_CLOSING = "\u3001\u3002\uff01\uff0c\uff0e\uff1a\uff1b\uff1f\u300d\u300f\u3011\u3009\u300b\uff09\u30fc"
_WORD = re.compile(rf"\s*(?:[{_IDEOGRAPHS}][{_CLOSING}]*|[^\s{_IDEOGRAPHS}]+)\s*")
_SENTENCE = re.compile(
    r".+?(?:[.!?\u2026\u061f]+[\"'\u201d\u2019)\]]*\s+|[\u3002\uff01\uff1f]+[\u300d\u300f\uff09]*\s*|\n\s*|\Z)",
    re.DOTALL,
)


_UNITS = {"words": _WORD, "sentences": _SENTENCE}


def _in_pieces(positions: list[str], width: int) -> list[str]:
    """The positions, with each one that is longer than ``width`` characters, such as a web address, split into several.

    >>> _in_pieces(["ab ", "abcde "], 3)
    ['ab ', 'abc', 'de ']
    """
    return [p[k : k + width] for p in positions for k in range(0, len(p), width)]


def _bare(position: str) -> str:
    """A position without the white space and punctuation around it. A position of punctuation alone loses only the white space.

    >>> _bare("film, "), _bare("?! ")
    ('film', '?!')
    """
    word = position.strip()
    inner = [k for k, letter in enumerate(word) if unicodedata.category(letter)[0] not in "PZ"]
    return word[inner[0] : inner[-1] + 1] if inner else word or "-"
