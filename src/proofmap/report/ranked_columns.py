"""A row of a table on a sheet: its columns in the order of the map, with the curve next to them.

Line k has the name and the value of the k-th column, and to its right the probability of the label while the first k columns are shown.
A dark line is the net's belief on the whole row. The lines up to the one that reaches it have the colour of the verdict: green if they are
a proof, orange if the map is too strong, blue if it is too weak.
"""

from __future__ import annotations

from PIL import Image, ImageDraw, ImageFont

from proofmap.core.inputs import Inputs, Rows
from proofmap.core.text import shortened
from proofmap.results.evaluation import Evaluation
from proofmap.results.named_positions import curve_of, positions_in_order, proof_count
from proofmap.results.proof_shape import shape_of
from proofmap.results.records import MethodResult

_INK, _SOFT, _PAPER = (24, 24, 28), (120, 120, 128), (250, 250, 250)
_COLOURS = {"match": (0, 110, 75), "strong": (190, 70, 0), "weak": (0, 100, 170)}
_LINE = 19
_TEXT = 0.6
"""Share of the width that has names and values."""


def is_ranked(inputs: Inputs) -> bool:
    """Whether inputs are shown as a ranked list: rows whose columns have names."""
    return isinstance(inputs, Rows) and bool(inputs.names)


def ranked_columns(
    evaluation: Evaluation, result: MethodResult, index: int, place: int, *, side: int, most: int
) -> Image.Image:
    """The first ``most`` columns of a map, best first, and the curve: a picture ``side`` pixels wide."""
    inputs, image = evaluation.inputs, evaluation.image_of(index)
    order = positions_in_order(evaluation, result, index, place)
    along = curve_of(evaluation, result, index, place)
    belief = float(evaluation.f[index, place])
    shape = shape_of(evaluation, result, index, place)
    enough, colour = proof_count(evaluation, shape), _COLOURS.get(shape.strength.word, _SOFT)
    lines = min(most, inputs.count)
    page = Image.new("RGB", (side, _LINE * (lines + 2)), _PAPER)
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(12)
    left, wide = round(_TEXT * side), round((1 - _TEXT) * side) - 8

    def at(p: float) -> int:
        return left + round(min(max(float(p), 0.0), 1.0) * wide)

    for k in range(lines + 1):
        y, proves = _LINE * k, 0 < k <= enough
        if k == 0:
            draw.text((4, y + 2), "nothing shown", _SOFT, font)
        else:
            value = shortened(inputs.value_text(image, order[k - 1]), 16)
            room = left - draw.textlength(value, font) - 20
            name = shortened(
                inputs.position_names[order[k - 1]], room, measure=lambda t: draw.textlength(t, font)
            )
            draw.text((4, y + 2), name, colour if proves else _INK, font)
            draw.text((left - 8, y + 2), value, _SOFT, font, anchor="ra")
        draw.rectangle((left, y + 4, at(1.0), y + _LINE - 5), (236, 238, 242))
        draw.rectangle((left, y + 4, at(along[k]), y + _LINE - 5), colour if proves else (150, 158, 170))
    end = _LINE * (lines + 1)
    draw.line((at(belief), 0, at(belief), end), _INK, 2)
    left_out = inputs.count - lines
    draw.text((4, end + 2), f"and {left_out} more" if left_out else "", _SOFT, font)
    draw.text((left, end + 2), "0", _SOFT, font)
    draw.text((at(1.0), end + 2), "1", _SOFT, font, anchor="ra")
    return page
