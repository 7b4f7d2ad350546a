"""The proof of one label of a text as a record for drawing: the words, their shades and order, and the label's probability while the words
appear.

Sheets (:mod:`proofmap.report.word_sheets`), notebooks and terminals draw texts from this record. HTML reports draw texts from
:mod:`proofmap.report.page_pictures`. In all of them, the shade of a word is the value of the map. The words of the proof are underlined: they
are the top words of the map that together reach the net's belief on the whole text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from proofmap.core.inputs import Inputs, TextInputs
from proofmap.core.text import terminal_text
from proofmap.report.colours import DIVERGING, STRENGTHS, Colour, displayed, heat_colours
from proofmap.results.evaluation import Evaluation
from proofmap.results.proof_shape import (
    ProofShape,
    curve_of,
    percent,
    positions_in_order,
    proof_count,
    shape_of,
)
from proofmap.results.records import MethodResult

HOT: Colour = (249, 180, 80)
"""The shade of the largest value of a map. The smallest value has no shade. Dark letters can be read on all shades."""
WORDS_NOTE = "Shade: the value of the map. Underlined: the first {positions} of the map that give the belief, in the colour of the verdict."


@dataclass(frozen=True)
class WordProof:
    """The proof of one label of a text by one method.

    Attributes:
        words: the words of the text, each with its white space.
        heat: the value of each word in the map, scaled to [0, 1].
        order: the indices of the words in the order of the map, best first.
        along: ``along[k]`` is the probability of the label while the first k words of ``order`` are shown.
        enough: the number of words that reach the net's belief; 0 if the net does not believe the label.
    """

    label: str
    words: tuple[str, ...]
    heat: tuple[float, ...]
    signed: bool
    order: tuple[int, ...]
    along: tuple[float, ...]
    enough: int
    shape: ProofShape

    @property
    def proving(self) -> frozenset[int]:
        """The indices of the words of the proof; empty if the net does not believe the label."""
        return frozenset(self.order[: self.enough])

    @property
    def places(self) -> tuple[int, ...]:
        """The rank of each word in the map (0 is first)."""
        return tuple(sorted(range(len(self.order)), key=self.order.__getitem__))

    @property
    def colour(self) -> Colour:
        """The colour of the verdict."""
        return STRENGTHS[self.shape.strength.word] or (96, 96, 104)

    def shade(self, position: int) -> Colour | None:
        """The background colour of the word at ``position``; None if the word has no background."""
        value = self.heat[position]
        if self.signed:
            red, green, blue = (
                round(v) for v in heat_colours(np.array(_softened(value)), signed=True).tolist()
            )
            return None if abs(value - 0.5) < 0.01 else (red, green, blue)
        red, green, blue = (round(255 + value * (hot - 255)) for hot in HOT)
        return (red, green, blue) if value > 0.01 else None


def _softened(value: float) -> float:
    """A value moved towards the middle of the diverging colours, so that dark letters can be read."""
    return 0.5 + (value - 0.5) * (len(DIVERGING) - 5) / len(DIVERGING)


def is_worded(inputs: Inputs) -> bool:
    """Whether inputs are shown as texts."""
    return isinstance(inputs, TextInputs)


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
        enough=proof_count(evaluation, shape, count),
        shape=shape,
    )


# ---- notebooks ------------------------------------------------------------------------------------------------------


def proof_words_html(proof: WordProof, most_steps: int = 24) -> str:
    """HTML of a text with shaded words. Below it, a collapsed section lists up to ``most_steps`` words with the belief after each. The HTML has
    no scripts."""
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
    return head + text + _steps_html(proof, most_steps)


def _word_html(word: str, shade: Colour | None, underline: str) -> str:
    bare = word.rstrip()
    style = "border-radius:3px;padding:1px 2px;"
    if shade is not None:
        style += "background:rgb({}, {}, {});color:#18181c;".format(*shade)
    if underline:
        style += f"border-bottom:3px solid {underline};"
    return f'<span style="{style}">{escape(terminal_text(bare))}</span>{escape(terminal_text(word[len(bare) :]))}'


def _steps_html(proof: WordProof, most: int) -> str:
    """An HTML table of the first ``most`` words in the order of the map, with the belief after each word as a bar and a number."""
    steps: Sequence[tuple[str, float]] = [
        ("(nothing)", proof.along[0]),
        *((proof.words[p].strip(), proof.along[k + 1]) for k, p in enumerate(proof.order[:most])),
    ]
    rows = "".join(
        f'<tr><td style="text-align:right">{k}</td><td dir="auto" style="text-align:left">{escape(terminal_text(word))}</td>'
        f'<td style="text-align:left"><span style="display:inline-block;height:.7em;width:{100 * p:.0f}px;background:#8a909c"></span> '
        f"{percent(p)}</td></tr>"
        for k, (word, p) in enumerate(steps)
    )
    more = len(proof.order) - most
    left = f'<tr><td></td><td style="text-align:left">and {more} more</td><td></td></tr>' if more > 0 else ""
    return (
        '<details style="font-size:small"><summary>word by word</summary><table><tr><th>shown</th><th style="text-align:left">word</th>'
        f'<th style="text-align:left">belief in {escape(terminal_text(proof.label))}</th></tr>{rows}{left}</table></details>'
    )
