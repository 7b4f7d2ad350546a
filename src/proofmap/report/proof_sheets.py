"""The sheets of ``explain`` and of saved results. A sheet is one picture per image that shows what the maps of its labels prove."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PIL import Image

from proofmap.core.inputs import Series
from proofmap.core.labels import NO_LABEL
from proofmap.core.text import counted, wrapped
from proofmap.report.colours import STRENGTHS, hidden_of
from proofmap.report.pictures import KEPT_SHARE, marked_line, masked_photo, overlay, photo, picture_ratio
from proofmap.report.proof_columns import is_ranked, ranked_columns
from proofmap.report.sheets import SheetCell, SheetText, sheet
from proofmap.report.word_proof import WORDS_NOTE, is_worded, word_proof
from proofmap.report.word_sheets import WIDE, word_picture
from proofmap.results.evaluation import Evaluation
from proofmap.results.fill_alone import f_of_fill, fill_causes, fill_words, other_fill
from proofmap.results.notes import WRONG_WORDS, wrong_kind
from proofmap.results.proof_shape import (
    BAR,
    OTHER_CURVE,
    ProofShape,
    curve_of,
    judged_on_another_curve,
    percent,
    proof_count,
    shape_of,
)
from proofmap.results.records import MethodResult

_NOTES = (
    "Upper bar: pale, the net's probability of the label on the whole {noun} (f); in it, its average while the map's {positions} are shown, "
    "best first (AUC), and a line up to the largest value. Lower bar: the share of the {positions} that reaches f.",
    f"A proof has an average close to f: less than {percent(BAR)} of f is too weak (incomplete), more than {percent(1 / BAR)} is too strong (unsound).",
)
_RANKED_NOTE = (
    "Columns in the order of the map, best first. Bars: the probability of the label while the columns down to this line are shown and "
    "the others are filled. Dark line: the belief, on the whole row. In the colour of the verdict: the first columns, up to the one that reaches it."
)
_MOST_RANKED = 4  # labels side by side
_REACHED = 0.9  # the share of f that counts as the belief, as in reach
MOST_IMAGES, MOST_LABELS = 50, 8
"""Sheets are made for the first ``MOST_IMAGES`` images, and show the first ``MOST_LABELS`` labels."""


def verdict_text(shape: ProofShape) -> SheetText:
    """The verdict on a map as text in its colour: how the map's curve compares with the net's belief."""
    return SheetText(shape.summary, colour=STRENGTHS[shape.strength.word], wraps=True)


def sheet_cell(
    evaluation: Evaluation,
    result: MethodResult,
    index: int,
    place: int,
    picture: Image.Image,
    first: Sequence[SheetText] = (),
) -> SheetCell:
    """A cell of a sheet: the picture of a map, the shape of its proof, numbers and the verdict.

    A note is added if the fill alone gives the label, that is, if the net believes the label with nothing shown. ``first`` are lines above
    the numbers.
    """
    shape = shape_of(evaluation, result, index, place)
    numbers = f"average {_short(shape.average)}, peak {_short(shape.peak)}"
    lines = [*first, SheetText(numbers), verdict_text(shape)]
    if words := fill_words(result, index, place):
        lines.append(SheetText(words, colour=STRENGTHS["strong"]))
    return SheetCell(picture, tuple(lines), shape)


def _short(probability: float) -> str:
    return percent(probability).replace("less than ", "<").replace("more than ", ">")


def finding(evaluation: Evaluation, result: MethodResult, index: int) -> str:
    """A sentence about an input with named positions: ``4 of 30 columns give malignant; benign gets 2 % at most``.

    If the fill alone reaches .9 f, no position is needed: ``gray alone gives malignant, with nothing shown; ...``. If the label's probability is
    then at most one half, the model may say another label, so the sentence has the probability: ``1 of 8 columns gives no 48 % (whole row 52 %)``.
    """
    noun, count = evaluation.inputs.position_noun, evaluation.count_of(index)
    first, *others = sorted(evaluation.places_of(index), key=lambda j: -float(evaluation.f[index, j]))[:2]
    enough = proof_count(evaluation, shape_of(evaluation, result, index, first), count)
    label, f = _label_words(evaluation, index, first), float(evaluation.f[index, first])

    def gives(p: float) -> str:
        return label if p > 0.5 else f"{label} {_short(p)} (whole {evaluation.inputs.singular} {_short(f)})"

    said, alone = f"no proof of {label}", float(f_of_fill(result.insertion)[index, first])
    if enough and alone >= _REACHED * f:
        said = f"{result.insertion.settings.get('fill', 'the fill')} alone gives {gives(alone)}, with nothing shown"
    elif enough:
        shown = float(curve_of(evaluation, result, index, first)[enough])
        said = f"{enough} of {count} {noun} {'gives' if enough == 1 else 'give'} {gives(shown)}"
    for j in others:
        said += f"; {_label_words(evaluation, index, j)} gets {_short(shape_of(evaluation, result, index, j).peak)} at most"
    return f"{evaluation.image_names[index]}: {said}"


def _label_words(evaluation: Evaluation, index: int, place: int) -> str:
    """The name of a label for use in a sentence: ``label 0`` if the name is the number 0."""
    name = evaluation.label_name(index, place)
    return f"label {name}" if name.isdecimal() else name


def ranked_sheet(evaluation: Evaluation, index: int) -> Image.Image:
    """The sheet of one row of a table and the first method: for each label the columns in the order of the map, their curve, and what they
    prove."""
    result, side, cells = evaluation.results[0], 360, []
    for j, label in _labels(evaluation, index)[:_MOST_RANKED]:
        lines = [
            SheetText(evaluation.label_names[label], strong=True),
            SheetText(f"whole row {_short(float(evaluation.f[index, j]))}, maps by {result.name}"),
        ]
        drawn = ranked_columns(evaluation, result, index, j, side=side, most=16)
        cells.append(sheet_cell(evaluation, result, index, j, drawn, lines))
    title, notes = finding(evaluation, result, index), sheet_notes(evaluation, index)
    return sheet(title, [cells], [_RANKED_NOTE, *notes], side=side, ratio=_ratio(cells[0].picture))


def word_sheet(evaluation: Evaluation, index: int) -> Image.Image:
    """The sheet of one text. For each method and label, one below the other, it shows the text with shaded words and what they prove."""
    inputs, several = evaluation.inputs, len(evaluation.results) > 1
    rows: list[list[SheetCell]] = []
    missing = ""
    for result in evaluation.results:
        for k, (j, label) in enumerate(_labels(evaluation, index)):
            drawn, missing = word_picture(word_proof(evaluation, result, index, j))
            wrong = f", {WRONG_WORDS}" if wrong_kind(evaluation, index, j) else ""
            by = f" by {result.name}" if several else ""
            about = f"{evaluation.label_names[label]}{by}: whole {inputs.singular} {_short(float(evaluation.f[index, j]))}{wrong}"
            if result.label_free and k == 0:
                about += " (one map for all labels)"
            cell = sheet_cell(evaluation, result, index, j, drawn)
            rows.append([replace(cell, above=SheetText(about, strong=True))])
    one = finding(evaluation, evaluation.results[0], index)
    title = f"{evaluation.image_names[index]}: what does each method prove?" if several else one
    notes = [WORDS_NOTE.format(positions=inputs.position_noun), *sheet_notes(evaluation, index)]
    return sheet(
        title,
        rows,
        [*([missing] if missing else []), *notes],
        side=WIDE,
        ratio=_ratio(rows[0][0].picture),
        signed=any(result.signed for result in evaluation.results),
    )


def _ratio(picture: Image.Image | None) -> float:
    return 1.0 if picture is None else picture.height / picture.width


def proof_sheet(evaluation: Evaluation, index: int, crop: str = "") -> Image.Image:
    """The sheet of one image and the first method: for each label the heat map, the picture with only the top positions, and what the map
    proves. ``crop`` is a note on how much of the original the net sees."""
    if is_worded(evaluation.inputs):
        return word_sheet(evaluation, index)
    if is_ranked(evaluation.inputs):
        return ranked_sheet(evaluation, index)
    result, image, inputs = evaluation.results[0], evaluation.image_of(index), evaluation.inputs
    about = (SheetText(f"the {inputs.singular}", strong=True), SheetText(f"maps by {result.name}"))
    hidden = hidden_of(evaluation)
    top = [SheetCell(photo(image, inputs), about)]
    below = (f"the top {KEPT_SHARE:.0%} of {inputs.position_noun}", "of each map")
    if isinstance(inputs, Series):
        view = getattr(evaluation.inputs, "view", "line")
        below = (f"on the {view}:", "what gives the belief")
    bottom = [SheetCell(None, tuple(map(SheetText, below)))]
    for j, label in _labels(evaluation, index):
        heat = evaluation.map_of(result, index, j)
        name = SheetText(evaluation.label_names[label], strong=True)
        belief = SheetText(f"whole {inputs.singular} {_short(float(evaluation.f[index, j]))}")
        over = overlay(image, heat, inputs, signed=result.signed)
        wrong = [SheetText(WRONG_WORDS)] if wrong_kind(evaluation, index, j) else []
        top.append(sheet_cell(evaluation, result, index, j, over, [name, belief, *wrong]))
        if isinstance(inputs, Series):
            bottom.append(SheetCell(marked_line(image, heat, inputs, shape_of(evaluation, result, index, j))))
        else:
            bottom.append(SheetCell(masked_photo(image, heat, inputs, hidden=hidden.colour)))
    title = f"{evaluation.image_names[index]}: what does each heat map prove?"
    notes = [
        *([crop] if crop else []),
        *sheet_notes(evaluation, index),
        *([] if isinstance(inputs, Series) else [hidden.words]),
    ]
    return sheet(title, [top, bottom], notes, ratio=picture_ratio(inputs), signed=result.signed)


def comparison_sheet(evaluation: Evaluation, index: int, crop: str = "") -> Image.Image:
    """The sheet of one image and all methods, with a row per method and a column per label. ``crop`` is a note on how much of the original
    the net sees."""
    if is_worded(evaluation.inputs):
        return word_sheet(evaluation, index)
    image, inputs, labels = evaluation.image_of(index), evaluation.inputs, _labels(evaluation, index)
    ranked = is_ranked(inputs)
    side = 300 if ranked else 190
    head = [SheetCell(None)]
    for j, label in labels:
        belief = SheetText(f"whole {inputs.singular} {_short(float(evaluation.f[index, j]))}")
        wrong = [SheetText(WRONG_WORDS)] if wrong_kind(evaluation, index, j) else []
        head.append(SheetCell(None, (SheetText(evaluation.label_names[label], strong=True), belief, *wrong)))
    rows = [head]
    for result in evaluation.results:
        lines = [SheetText(part, strong=True) for part in wrapped(result.name, 26, lines=8).split("\n")]
        if result.label_free:
            lines.append(SheetText("one map for all labels"))
        if result.signed and not ranked:
            lines.append(SheetText("signed"))
        shown = result is evaluation.results[0] and not ranked
        row = [SheetCell(photo(image, inputs) if shown else None, tuple(lines))]
        for j, _ in labels:
            heat = (
                ranked_columns(evaluation, result, index, j, side=side, most=8)
                if ranked
                else overlay(image, evaluation.map_of(result, index, j), inputs, signed=result.signed)
            )
            row.append(sheet_cell(evaluation, result, index, j, heat))
        rows.append(row)
    title = f"{evaluation.image_names[index]}: what does each method prove?"
    return sheet(
        title,
        rows,
        [*([_RANKED_NOTE] if ranked else []), *([crop] if crop else []), *sheet_notes(evaluation, index)],
        side=side,
        ratio=_ratio(rows[1][1].picture) if ranked else picture_ratio(inputs),
        signed=not ranked and any(result.signed for result in evaluation.results),
    )


def explained_sheet(evaluation: Evaluation, index: int, crop: str = "") -> Image.Image:
    """The sheet of one image for ``explain``: :func:`proof_sheet` for one method, :func:`comparison_sheet` for several. ``crop`` is a note on
    how much of the original the net sees.
    """
    several = len(evaluation.results) > 1
    return comparison_sheet(evaluation, index, crop) if several else proof_sheet(evaluation, index, crop)


def pictured_images(evaluation: Evaluation) -> tuple[int, ...]:
    """The indices of the images that get a sheet: the first ``MOST_IMAGES`` whose maps were kept."""
    return evaluation.pictured[:MOST_IMAGES]


def sheet_notes(evaluation: Evaluation, index: int) -> list[str]:
    """The notes below a sheet: how to read it, the settings, and what was left out."""
    labels, images = int((evaluation.labels[index] != NO_LABEL).sum()), len(evaluation)
    pictured = len(pictured_images(evaluation))
    left_out = []
    if labels > MOST_LABELS:
        left_out.append(f"the first {MOST_LABELS} of {counted(labels, 'label')}")
    if images > pictured:
        left_out.append(f"sheets of {pictured} of {counted(images, evaluation.inputs.singular)}")
    other = [OTHER_CURVE] if judged_on_another_curve(evaluation) else []
    inputs = evaluation.inputs
    notes = [note.format(positions=inputs.position_noun, noun=inputs.singular) for note in _NOTES]
    other_fill_words = f"Another fill: --fill {other_fill(evaluation)}"
    fill = [f"{cause[:1].upper()}{cause[1:]}. {other_fill_words}" for cause in fill_causes(evaluation)]
    curve, settings = evaluation.results[0].insertion.settings, evaluation.settings
    made = (
        f"Made with the net {settings.get('model', '-')}, fill {curve.get('fill', '-')}, {curve.get('points', '-')} points of each curve, "
        f"seed {settings.get('seed', '-')}."
    )
    return [*notes, *fill, *other, made, *([f"Shown: {', '.join(left_out)}."] if left_out else [])]


def _labels(evaluation: Evaluation, index: int) -> list[tuple[int, int]]:
    """The labels that the sheet of this image shows, as pairs of the index in the image's row of labels and the label."""
    return [(j, int(evaluation.labels[index, j])) for j in evaluation.places_of(index)[:MOST_LABELS]]
