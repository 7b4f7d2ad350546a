"""The proof of one label of a text, or of a row of a table, as a record for drawing: the words or columns, their shades and order, and the
label's probability while they appear one by one. Notebooks, saved proofs, terminals and the report page draw lists from this record.

Only the proof is coloured, because the order of the rest of a map says little: the first positions of the map, up to its cut
(:mod:`proofmap.results.proof_shape`). The shade of a word is the value of the map.
"""

from __future__ import annotations

from dataclasses import dataclass

from proofmap.core.inputs import TextInputs
from proofmap.report.pictures import STRENGTHS, displayed, word_shade
from proofmap.results.evaluation import Evaluation
from proofmap.results.proof_shape import ProofShape, curve_of, positions_in_order, shape_of, short_percent
from proofmap.results.records import MethodResult

WORDS_NOTE = (
    "In colour: the first {positions} of the map that give the belief, or, where no {positions} give it or they prove too much, those up to the "
    "peak. Shade: the value of the map. Line: the colour of the verdict."
)


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
        """The indices of the positions of the proof, up to its cut; empty for a trifle."""
        is_judged = self.shape.word not in ("trifle", "unknown")
        return frozenset(self.order[: round(self.shape.cut * len(self.order)) * is_judged])

    @property
    def painted(self) -> list[int]:
        """The value 0..255 of each position for drawing. A position outside the proof has no colour."""
        paper = 128 if self.signed else 0
        return [round(255 * v) if k in self.proving else paper for k, v in enumerate(self.heat)]

    @property
    def empty_words(self) -> str:
        """What the net says with nothing shown, if that is much, and what the first position changes: ``nothing shown 36 %; "money"
        lowers it to 11 %``."""
        if not self.shape.empty_words or len(self.along) < 2:
            return self.shape.empty_words
        then = short_percent(self.along[1])
        change = "raises it to" if self.along[1] > self.along[0] else "lowers it to"
        if then == short_percent(self.along[0]):
            change = "leaves it at"
        return f'{self.shape.empty_words}; "{self.names[self.order[0]].strip()}" {change} {then}'

    @property
    def places(self) -> tuple[int, ...]:
        """The rank of each position in the map (0 is first)."""
        return tuple(sorted(range(len(self.order)), key=self.order.__getitem__))

    @property
    def colour(self) -> tuple[int, int, int]:
        """The colour of the verdict."""
        return STRENGTHS[self.shape.word] or (96, 96, 104)

    def record(self, positions: str) -> dict[str, object]:
        """The description of the proof as data for a page; it counts positions."""
        return {**self.shape.record(positions, len(self.order)), "empty_words": self.empty_words}

    def shade(self, position: int) -> tuple[int, int, int] | None:
        """The background colour of the word at ``position``; None if the word has no background, as outside the proof."""
        return word_shade(self.heat[position], signed=self.signed) if position in self.proving else None

    @classmethod
    def of(cls, evaluation: Evaluation, result: MethodResult, index: int, place: int) -> ListedProof:
        """The proof of an input whose maps were kept, for the label at ``place``."""
        worded = evaluation.inputs.shown_as == "words"
        heat = evaluation.map_of(result, index, place)[: evaluation.count_of(index)]
        return cls(
            label=evaluation.label_name(index, place),
            names=words_of(evaluation, index) if worded else tuple(evaluation.inputs.position_names),
            heat=tuple(displayed(heat, signed=result.signed).tolist()),
            signed=result.signed,
            order=tuple(positions_in_order(evaluation, result, index, place)),
            along=tuple(curve_of(evaluation, result, index, place).tolist()),
            shape=shape_of(evaluation, result, index, place),
        )


def words_of(evaluation: Evaluation, index: int) -> tuple[str, ...]:
    """The words of a text, each with its white space."""
    inputs = evaluation.inputs
    assert isinstance(inputs, TextInputs)
    return tuple(inputs.words(evaluation.image_of(index)))
