"""Fonts for words of any script in pictures. A word that no font here can draw is named, never drawn as empty boxes."""

from __future__ import annotations

import unicodedata
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from PIL import ImageFont, features

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

_NAMES = (
    "DejaVuSans.ttf",
    "NotoSansCJK-Regular.ttc",
    "NotoSansCJKsc-Regular.otf",
    "DroidSansFallbackFull.ttf",
    "wqy-zenhei.ttc",
    "NotoSansArabic-Regular.ttf",
    "NotoSansHebrew-Regular.ttf",
    "NotoSansDevanagari-Regular.ttf",
    "NotoSansThai-Regular.ttf",
    "Arial Unicode.ttf",
    "PingFang.ttc",
    "AppleSDGothicNeo.ttc",
    "arial.ttf",
    "msyh.ttc",
    "meiryo.ttc",
    "malgun.ttf",
    "Nirmala.ttf",
    "unifont.ttf",
)
"""Files of fonts with many scripts, as Linux, macOS and Windows have them; Pillow searches their usual folders."""
_NO_CHARACTER = "\U0010fffe"


def font_for(word: str, size: int) -> Font | None:
    """The first available font that has every character of a word; None if there is no such font, or if the word is right-to-left and
    Pillow cannot set it.
    """
    if is_rtl(word) and not features.check("raqm"):
        return None
    letters = {letter for letter in word if unicodedata.category(letter)[0] not in "CMZ"}
    return next((f for f in _fonts(size) if all(_has(f, letter) for letter in letters)), None)


def missing_words(words: list[str]) -> str:
    """A sentence about words that cannot be drawn, with the scripts that they are written in; empty if there are none."""
    if not words:
        return ""
    scripts = sorted(
        {_script(letter) for word in words for letter in word if letter.isalpha()} or {"symbols"}
    )
    n = "1 word" if len(words) == 1 else f"{len(words)} words"
    return (
        f"No font found here can draw {n} ({', '.join(scripts)}): {'it is' if len(words) == 1 else 'they are'} shown by number, counted from 1. "
        "Install a font of the script, such as Noto Sans, or read the HTML report, which draws every text."
    )


def is_rtl(text: str) -> bool:
    """Whether text runs from right to left: its first letter with a direction decides.

    >>> is_rtl("1. שלום"), is_rtl("good"), is_rtl("123")
    (True, False, False)
    """
    return direction(text) == "rtl"


def direction(text: str) -> str | None:
    """``rtl`` or ``ltr``, as the first letter with a direction says; None if there is none."""
    for letter in text:
        found = unicodedata.bidirectional(letter)
        if found in ("R", "AL"):
            return "rtl"
        if found == "L":
            return "ltr"
    return None


@cache
def _fonts(size: int) -> tuple[Font, ...]:
    """The available fonts in one size: Pillow's own first, then one that comes with matplotlib, then those of the system."""
    found: list[Font] = [ImageFont.load_default(size)]
    spec = find_spec("matplotlib")
    own = (
        []
        if spec is None or spec.origin is None
        else [str(Path(spec.origin).parent / "mpl-data/fonts/ttf/DejaVuSans.ttf")]
    )
    for name in (*own, *_NAMES):
        try:
            found.append(ImageFont.truetype(name, size))
        except OSError:
            continue  # this system does not have it
    return tuple(found)


@cache
def _has(font: Font, letter: str) -> bool:
    """Whether a font has a character: missing characters all have the same picture."""
    return _picture(font, letter) != _picture(font, _NO_CHARACTER)


@cache
def _picture(font: Font, letter: str) -> tuple[tuple[int, int], bytes]:
    mask = font.getmask(letter)
    return mask.size, bytes(mask)


def _script(letter: str) -> str:
    """The script of a letter, by the first word of its name: ``Arabic``, ``CJK``, ``Hangul``."""
    word = unicodedata.name(letter, "unknown").split()[0]
    return word if word == "CJK" else word.capitalize()
