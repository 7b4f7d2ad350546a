"""The proof of one label of a text as a record for drawing: the words, their shades and order, and the label's probability while the words
appear.

Sheets (:mod:`proofmap.report.words`), notebooks and terminals draw texts from this record. HTML reports draw texts from
:mod:`proofmap.report.page_pictures`. In all of them, the shade of a word is the value of the map. The words of the proof are underlined: they
are the top words of the map that together reach the net's belief on the whole text.

Pictures of texts for sheets: the words shaded by the values of a map, in fonts for words of any script.

A word that no available font can draw is replaced by its number; it is never drawn as empty boxes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont, features

from proofmap.core.inputs import TextInputs
from proofmap.core.text import counted, one_line, terminal_text
from proofmap.report.pictures import INK, SOFT, STRENGTHS, displayed, word_shade
from proofmap.results.evaluation import Evaluation
from proofmap.results.proof_shape import (
    ProofShape,
    curve_of,
    percent,
    positions_in_order,
    shape_of,
)
from proofmap.results.records import MethodResult

_MOST_LABELS = 8
"""Largest number of labels of a text in a notebook."""
WORDS_NOTE = "Shade: the value of the map. Underlined: the first {positions} of the map that give the belief, in the colour of the verdict."


@dataclass(frozen=True)
class WordProof:
    """The proof of one label of a text by one method.

    Attributes:
        words: the words of the text, each with its white space.
        heat: the value of each word in the map, scaled to [0, 1].
        order: the indices of the words in the order of the map, best first.
        along: ``along[k]`` is the probability of the label while the first k words of ``order`` are shown.
    """

    label: str
    words: tuple[str, ...]
    heat: tuple[float, ...]
    signed: bool
    order: tuple[int, ...]
    along: tuple[float, ...]
    shape: ProofShape

    @property
    def proving(self) -> frozenset[int]:
        """The indices of the words of the proof; empty if the net does not believe the label."""
        return frozenset(self.order[: self.shape.enough])

    @property
    def places(self) -> tuple[int, ...]:
        """The rank of each word in the map (0 is first)."""
        return tuple(sorted(range(len(self.order)), key=self.order.__getitem__))

    @property
    def colour(self) -> tuple[int, int, int]:
        """The colour of the verdict."""
        return STRENGTHS[self.shape.strength.word] or (96, 96, 104)

    def shade(self, position: int) -> tuple[int, int, int] | None:
        """The background colour of the word at ``position``; None if the word has no background."""
        return word_shade(self.heat[position], signed=self.signed)


def words_of(evaluation: Evaluation, index: int) -> tuple[str, ...]:
    """The words of a text, each with its white space."""
    inputs = evaluation.inputs
    assert isinstance(inputs, TextInputs)
    return tuple(inputs.words(evaluation.image_of(index)))


def word_proof(evaluation: Evaluation, result: MethodResult, index: int, place: int) -> WordProof:
    """The :class:`WordProof` of a text whose maps were kept, for the label at ``place``."""
    count, shape = evaluation.count_of(index), shape_of(evaluation, result, index, place)
    heat = displayed(evaluation.map_of(result, index, place)[:count], signed=result.signed)
    return WordProof(
        label=evaluation.label_name(index, place),
        words=words_of(evaluation, index),
        heat=tuple(heat.tolist()),
        signed=result.signed,
        order=tuple(positions_in_order(evaluation, result, index, place)),
        along=tuple(curve_of(evaluation, result, index, place).tolist()),
        shape=shape,
    )


# ---- notebooks ------------------------------------------------------------------------------------------------------


def texts_html(evaluation: Evaluation, shown: Sequence[int]) -> str:
    """HTML of the texts ``shown``, each with its words shaded by each map."""
    parts = []
    for i in shown:
        parts.append(f'<div style="margin-top:1em"><b>{escape(evaluation.image_names[i])}</b></div>')
        for result in evaluation.results:
            if len(evaluation.results) > 1:
                parts.append(f'<div style="margin-top:.8em">{escape(result.name)}</div>')
            places = evaluation.places_of(i)[:_MOST_LABELS]
            parts += [_proof_html(word_proof(evaluation, result, i, j)) for j in places]
    note = WORDS_NOTE.format(positions=evaluation.inputs.position_noun)
    left = "" if len(shown) == len(evaluation) else f" {len(shown)} of {counted(len(evaluation), 'text')}."
    return "".join(parts) + f'<div style="font-size:small;color:#666">{escape(note)}{left}</div>'


def _proof_html(proof: WordProof) -> str:
    """HTML of a text with shaded words, without scripts."""
    ink = "rgb({}, {}, {})".format(*proof.colour)
    shaded = "".join(
        _word_html(word, proof.shade(k), ink if k in proof.proving else "")
        for k, word in enumerate(proof.words)
    )
    head = (
        f'<div style="margin-top:.6em"><b>{escape(terminal_text(proof.label))}</b> whole text {percent(proof.shape.belief)}, '
        f'<span style="color:{ink};font-weight:600">{escape(proof.shape.summary)}</span></div>'
    )
    text = f'<div dir="auto" style="line-height:1.9;white-space:pre-wrap;max-width:48em">{shaded}</div>'
    return head + text


def _word_html(word: str, shade: tuple[int, int, int] | None, underline: str) -> str:
    bare = word.rstrip()
    style = "border-radius:3px;padding:1px 2px;"
    if shade is not None:
        style += "background:rgb({}, {}, {});color:#18181c;".format(*shade)
    if underline:
        style += f"border-bottom:3px solid {underline};"
    return f'<span style="{style}">{escape(terminal_text(bare))}</span>{escape(terminal_text(word[len(bare) :]))}'


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
"""File names of fonts with many scripts on Linux, macOS and Windows. Pillow searches the usual font folders for them."""
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
    """A sentence about ``words``, which cannot be drawn, with the scripts that they are written in; empty if there are none."""
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
    """Whether a text runs from right to left. The first letter that has a direction decides.

    >>> is_rtl("1. שלום"), is_rtl("good"), is_rtl("123")
    (True, False, False)
    """
    return direction(text) == "rtl"


def direction(text: str) -> str | None:
    """The direction of a text, ``rtl`` or ``ltr``: that of the first letter with a direction. None if no letter has one."""
    for letter in text:
        found = unicodedata.bidirectional(letter)
        if found in ("R", "AL"):
            return "rtl"
        if found == "L":
            return "ltr"
    return None


@cache
def _fonts(size: int) -> tuple[Font, ...]:
    """The available fonts in one size: first Pillow's own font, then the one that comes with matplotlib, then fonts of the system."""
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
    """Whether a font has a character. The font draws the same picture for all characters that it does not have, so pictures are compared."""
    return _picture(font, letter) != _picture(font, _NO_CHARACTER)


@cache
def _picture(font: Font, letter: str) -> tuple[tuple[int, int], bytes]:
    mask = font.getmask(letter)
    return mask.size, bytes(mask)


def _script(letter: str) -> str:
    """The script of a letter, by the first word of its name: ``Arabic``, ``CJK``, ``Hangul``."""
    word = unicodedata.name(letter, "unknown").split()[0]
    return word if word == "CJK" else word.capitalize()


WIDE = 720
"""Width in pixels of a text on a sheet."""
_SIZE, _LINE, _PAD, _MOST_LINES = 15, 27, 3, 26


def word_picture(proof: WordProof) -> tuple[Image.Image, str]:
    """The picture of a text with shaded words, and a note about words that could not be drawn (empty if there are none)."""
    seen = [one_line(word).strip() for word in proof.words]
    fonts = [font_for(word, _SIZE) for word in seen]
    missing = [word for word, font in zip(seen, fonts, strict=True) if font is None]
    drawn = [word if font else f"#{k + 1}" for k, (word, font) in enumerate(zip(seen, fonts, strict=True))]
    used = [font or font_for("#1", _SIZE) for font in fonts]
    base = direction("".join(proof.words)) or "ltr"
    sizes = [font.getlength(word) if font else 0.0 for word, font in zip(drawn, used, strict=True)]
    gaps = [5 if word != word.rstrip() else 0 for word in proof.words]
    lines = _broken([round(size) + 2 * _PAD for size in sizes], gaps, WIDE)
    left_out = sum(len(line) for line in lines[_MOST_LINES:])
    lines = lines[:_MOST_LINES]
    page = Image.new("RGB", (WIDE, _LINE * (len(lines) + bool(left_out)) + 4), (255, 255, 255))
    draw = ImageDraw.Draw(page)
    for row, line in enumerate(lines):
        wide = sum(round(sizes[k]) + 2 * _PAD + gaps[k] for k in line)
        x = WIDE - wide if base == "rtl" else 0
        for k in _visual([direction(drawn[k]) for k in line], base):
            k = line[k]
            box = (x, _LINE * row + 2, x + round(sizes[k]) + 2 * _PAD - 1, _LINE * row + _LINE - 4)
            _draw_word(draw, proof, k, drawn[k], used[k], box)
            x = box[2] + 1 + gaps[k]
    if left_out:
        font = font_for("and", _SIZE)
        draw.text((_PAD, _LINE * len(lines) + 4), f"and {left_out} more, which the report shows", SOFT, font)
    return page, missing_words(missing)


def _draw_word(
    draw: ImageDraw.ImageDraw,
    proof: WordProof,
    k: int,
    word: str,
    font: Font | None,
    box: tuple[int, int, int, int],
) -> None:
    left, top, right, bottom = box
    shade = proof.shade(k)
    if shade is not None:
        draw.rounded_rectangle(box, 3, shade)
    if k in proof.proving:
        draw.rectangle((left, bottom - 1, right, bottom + 1), proof.colour)
    way = "rtl" if direction(word) == "rtl" else None
    draw.text((left + _PAD, top + 2), word, INK, font, direction=way)


def _broken(widths: Sequence[int], gaps: Sequence[int], most: int) -> list[list[int]]:
    """The indices of words, broken into lines of at most ``most`` pixels. ``gaps[k]`` is the space after word k.

    >>> _broken([4, 4, 4], [1, 1, 0], 9)
    [[0, 1], [2]]
    """
    lines: list[list[int]] = [[]]
    used = 0
    for k, (width, gap) in enumerate(zip(widths, gaps, strict=True)):
        if lines[-1] and used + width > most:
            lines.append([])
            used = 0
        lines[-1].append(k)
        used += width + gap
    return lines


def _visual(directions: Sequence[str | None], base: str) -> list[int]:
    """The indices of a line's words in the order in which they are drawn from left to right, by Unicode's rules for two directions.

    A word without a direction, such as a number, takes the direction of its neighbours if they agree, otherwise ``base``, the direction of the
    text.

    >>> _visual(["ltr", "rtl", "rtl", "ltr"], "ltr"), _visual(["rtl", "ltr", "ltr", "rtl"], "rtl")
    ([0, 2, 1, 3], [3, 1, 2, 0])
    """
    known = []
    for k, own in enumerate(directions):
        before = next((d for d in reversed(directions[:k]) if d), base)
        after = next((d for d in directions[k + 1 :] if d), base)
        known.append(own or (before if before == after else base))
    order: list[int] = []
    for way, run in groupby(range(len(known)), key=known.__getitem__):
        places = list(run)
        order += places if way == base else places[::-1]
    return order if base == "ltr" else order[::-1]
