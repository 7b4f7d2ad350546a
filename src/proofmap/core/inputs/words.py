"""Divides a text into positions: words, characters or sentences.

Positions divide the whole text: joined, they are the text. White space belongs to the position before it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Literal

Units = Literal["words", "characters", "sentences", "tokens"]
Split = Callable[[str], list[str]]
"""A function that splits a text into its positions. Joined, the positions are the text."""

_IDEOGRAPHS = (
    "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_CLOSING = "\u3001\u3002\uff01\uff0c\uff0e\uff1a\uff1b\uff1f\u300d\u300f\u3011\u3009\u300b\uff09\u30fc"
_WORD = re.compile(rf"\s*(?:[{_IDEOGRAPHS}][{_CLOSING}]*|[^\s{_IDEOGRAPHS}]+)\s*")
_SENTENCE = re.compile(
    r".+?(?:[.!?\u2026\u061f]+[\"'\u201d\u2019)\]]*\s+|[\u3002\uff01\uff1f]+[\u300d\u300f\uff09]*\s*|\n\s*|\Z)",
    re.DOTALL,
)
_JOINERS = "\u200d\ufe0e\ufe0f"


def words(text: str) -> list[str]:
    """The words of a text, split at white space. Ideographs and kana are written without spaces, so each of them is a word.

    >>> words("It works, mostly."), words("我爱 Berlin。")
    (['It ', 'works, ', 'mostly.'], ['我', '爱 ', 'Berlin。'])
    """
    return _WORD.findall(text)


def characters(text: str) -> list[str]:
    """The characters of a text as people see them: with their accents, and joined emoji as one.

    >>> characters("né a")
    ['n', 'é ', 'a']
    """
    return list(_clusters(text))


def _clusters(text: str) -> Iterator[str]:
    held = ""
    for letter in text:
        joined = letter in _JOINERS or held.endswith("\u200d") or "\U0001f3fb" <= letter <= "\U0001f3ff"
        if held.strip() and not (joined or letter.isspace() or unicodedata.category(letter)[0] == "M"):
            yield held
            held = ""
        held += letter
    if held:
        yield held


def sentences(text: str) -> list[str]:
    """The sentences of a text: they end at ``. ! ?`` before white space, at their full-width forms, and at the end of a line.

    >>> sentences("It rains. Does it? Yes.")
    ['It rains. ', 'Does it? ', 'Yes.']
    """
    return _SENTENCE.findall(text)


SPLITS: dict[str, Split] = {"words": words, "characters": characters, "sentences": sentences}


def in_pieces(positions: list[str], width: int) -> list[str]:
    """The positions, with each one that is longer than ``width`` characters, such as a web address, split into several.

    >>> in_pieces(["ab ", "abcde "], 3)
    ['ab ', 'abc', 'de ']
    """
    return [p[k : k + width] for p in positions for k in range(0, len(p), width)]


def gap_of(position: str) -> str:
    """The white space at the end of a position.

    >>> gap_of("word, ")
    ' '
    """
    return position[len(position.rstrip()) :]


def bare(position: str) -> str:
    """A position without the white space and punctuation around it. A position of punctuation alone loses only the white space.

    >>> bare("film, "), bare("?! ")
    ('film', '?!')
    """
    word = position.strip()
    inner = [k for k, letter in enumerate(word) if unicodedata.category(letter)[0] not in "PZ"]
    return word[inner[0] : inner[-1] + 1] if inner else word or "-"
