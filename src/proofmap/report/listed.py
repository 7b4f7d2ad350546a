"""The proof of one label of a text, or of a row of a table, as a record for drawing: the words or columns, their shades and order, and the
label's probability while they appear one by one. Notebooks, saved proofs, terminals and the report page draw lists from this record.

The shade of a word is the value of the map. Underlined words and coloured columns are those of the proof: the first ones of the map that
together reach the net's belief.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from proofmap.core.inputs import TextInputs
from proofmap.core.text import counted, terminal_text
from proofmap.report.pictures import STRENGTHS, displayed, word_shade
from proofmap.results.evaluation import Evaluation
from proofmap.results.proof_shape import ProofShape, curve_of, percent, positions_in_order, shape_of
from proofmap.results.records import MethodResult

_MOST_LABELS, _MOST_COLUMNS = 8, 16
"""Largest numbers of labels of an input, and of columns of a row, in a notebook."""
_BAR = 160  # width of the bar of a probability of one, in pixels
WORDS_NOTE = "Shade: the value of the map. Underlined: the first {positions} of the map that give the belief, in the colour of the verdict."
_COLUMNS_NOTE = "Columns in the order of the map. Bars: the label's probability while the columns down to this line are shown; the first ones, in the colour of the verdict, give the belief."


@dataclass(frozen=True)
class ListedProof:
    """The proof of one label of a text or of a row by one method.

    Attributes:
        names: the words of the text, each with its white space; or the names of the columns.
        heat: the value of each position in the map, scaled to [0, 1].
        order: the indices of the positions in the order of the map, best first.
        along: ``along[k]`` is the probability of the label while the first k positions of ``order`` are shown.
    """

    label: str
    names: tuple[str, ...]
    heat: tuple[float, ...]
    signed: bool
    order: tuple[int, ...]
    along: tuple[float, ...]
    shape: ProofShape

    @property
    def proving(self) -> frozenset[int]:
        """The indices of the positions of the proof; empty if the net does not believe the label."""
        return frozenset(self.order[: self.shape.enough])

    @property
    def places(self) -> tuple[int, ...]:
        """The rank of each position in the map (0 is first)."""
        return tuple(sorted(range(len(self.order)), key=self.order.__getitem__))

    @property
    def colour(self) -> tuple[int, int, int]:
        """The colour of the verdict."""
        return STRENGTHS[self.shape.word] or (96, 96, 104)

    def shade(self, position: int) -> tuple[int, int, int] | None:
        """The background colour of the word at ``position``; None if the word has no background."""
        return word_shade(self.heat[position], signed=self.signed)


def words_of(evaluation: Evaluation, index: int) -> tuple[str, ...]:
    """The words of a text, each with its white space."""
    inputs = evaluation.inputs
    assert isinstance(inputs, TextInputs)
    return tuple(inputs.words(evaluation.image_of(index)))


def listed_proof(evaluation: Evaluation, result: MethodResult, index: int, place: int) -> ListedProof:
    """The :class:`ListedProof` of an input whose maps were kept, for the label at ``place``."""
    worded = evaluation.inputs.shown_as == "words"
    heat = evaluation.map_of(result, index, place)[: evaluation.count_of(index)]
    return ListedProof(
        label=evaluation.label_name(index, place),
        names=words_of(evaluation, index) if worded else tuple(evaluation.inputs.position_names),
        heat=tuple(displayed(heat, signed=result.signed).tolist()),
        signed=result.signed,
        order=tuple(positions_in_order(evaluation, result, index, place)),
        along=tuple(curve_of(evaluation, result, index, place).tolist()),
        shape=shape_of(evaluation, result, index, place),
    )


def lists_html(evaluation: Evaluation, shown: Sequence[int]) -> str:
    """HTML, without scripts, of the texts or rows ``shown``, with their words or columns as each map ranks them."""
    inputs, parts = evaluation.inputs, []
    for i in shown:
        parts.append(f'<div style="margin-top:1em"><b>{escape(evaluation.image_names[i])}</b></div>')
        for result in evaluation.results:
            if len(evaluation.results) > 1:
                parts.append(f'<div style="margin-top:.8em">{escape(result.name)}</div>')
            for j in evaluation.places_of(i)[:_MOST_LABELS]:
                parts.append(_proof_html(evaluation, i, listed_proof(evaluation, result, i, j)))
    note = WORDS_NOTE.format(positions=inputs.position_noun) if inputs.shown_as == "words" else _COLUMNS_NOTE
    left = (
        ""
        if len(shown) == len(evaluation)
        else f" {len(shown)} of {counted(len(evaluation), inputs.singular)}."
    )
    return "".join(parts) + f'<div style="font-size:small;color:#666">{escape(note)}{left}</div>'


def _proof_html(evaluation: Evaluation, index: int, proof: ListedProof) -> str:
    """HTML of one proof: the label, what the map proves, and the text with shaded words or the columns with their curve."""
    ink, singular = "rgb({}, {}, {})".format(*proof.colour), evaluation.inputs.singular
    head = (
        f'<div style="margin-top:.6em"><b>{escape(terminal_text(proof.label))}</b> whole {singular} {percent(proof.shape.belief)}, '
        f'<span style="color:{ink};font-weight:600">{escape(proof.shape.summary)}</span></div>'
    )
    if evaluation.inputs.shown_as != "words":
        return head + _columns_html(evaluation, index, proof, ink)
    shaded = "".join(
        _word_html(word, proof.shade(k), ink if k in proof.proving else "")
        for k, word in enumerate(proof.names)
    )
    return f'{head}<div dir="auto" style="line-height:1.9;white-space:pre-wrap;max-width:48em">{shaded}</div>'


def _columns_html(evaluation: Evaluation, index: int, proof: ListedProof, ink: str) -> str:
    image, lines = evaluation.image_of(index), [("nothing shown", "", "#999")]
    for p in proof.order[:_MOST_COLUMNS]:
        value = evaluation.inputs.value_text(image, p)
        lines.append((proof.names[p], value, ink if p in proof.proving else "#999"))
    rows = "".join(
        f'<tr><td>{escape(terminal_text(name))}</td><td style="text-align:right">{escape(terminal_text(value))}</td>'
        f'<td style="text-align:left"><span style="display:inline-block;height:.8em;width:{_BAR * p:.0f}px;background:{colour}"></span> '
        f"{percent(p)}</td></tr>"
        for (name, value, colour), p in zip(lines, proof.along, strict=False)
    )
    return f"<table>{rows}</table>"


def _word_html(word: str, shade: tuple[int, int, int] | None, underline: str) -> str:
    bare = word.rstrip()
    style = "border-radius:3px;padding:1px 2px;"
    if shade is not None:
        style += "background:rgb({}, {}, {});color:#18181c;".format(*shade)
    if underline:
        style += f"border-bottom:3px solid {underline};"
    return f'<span style="{style}">{escape(terminal_text(bare))}</span>{escape(terminal_text(word[len(bare) :]))}'
