"""How results are saved and shown in a notebook. :mod:`proofmap.results.evaluation` calls these functions.

``save`` writes tables, a full record, maps and pictures. It writes either all files completely or none. Notebooks show plain HTML with
inline pictures, without scripts or extensions.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from PIL import Image, PngImagePlugin
from safetensors.torch import save

from proofmap.core.errors import InputError, MissingExtra, require
from proofmap.core.files import atomic_write, distinct_names, file_name, write_text, written_together
from proofmap.core.inputs.pictures import OWN_SOFTWARE, SUFFIXES
from proofmap.core.labels import NO_LABEL
from proofmap.core.text import counted, terminal_text
from proofmap.report.figures import figures_of, make_figure
from proofmap.report.figures.drawing import draw
from proofmap.report.listed import WORDS_NOTE, ListedProof
from proofmap.report.pictures import data_uri, picture_bytes
from proofmap.report.sheets import MOST_IMAGES, explained_sheet
from proofmap.results import score_tables
from proofmap.results.evaluation import Evaluation
from proofmap.results.notes import given_by_fill
from proofmap.results.proof_shape import curve_of, percent, positions_in_order, shape_of
from proofmap.results.records import MethodResult
from proofmap.results.score_tables import (
    proof_table as proof_table,  # results print themselves through this module
)
from proofmap.results.score_tables import score_table as score_table
from proofmap.results.score_tables import shared_table as shared_table
from proofmap.results.sharing import shared
from proofmap.results.tables import json_text, records_csv
from proofmap.results.verdict import verdict

if TYPE_CHECKING:
    import pandas as pd

_MOST_LABELS, _MOST_COLUMNS = 8, 16
"""Largest numbers of labels of an input, and of columns of a row, in a notebook."""
_BAR = 160  # width of the bar of a probability of one, in pixels
_COLUMNS_NOTE = "Columns in the order of the map. Bars: the label's probability while the columns down to this line are shown; those in the colour of the verdict are the proof."
_LISTS = ("words", "columns")
"""How inputs are shown that are written as lists instead of being drawn."""
MOST_PICTURES = 3
"""Largest number of pictures of one result in a notebook."""
WIDEST = 1200
"""Width in pixels to which wider pictures are shrunk in a notebook."""
MOST_BYTES = 1_500_000
"""Largest total size of the pictures of one result in a notebook, so that a saved notebook stays small."""

# ---- files --------------------------------------------------------------------------------------------------


def evaluation_record(evaluation: Evaluation) -> dict[str, object]:
    """The evaluation as plain data, without maps and curves: settings, versions, the verdict, scores and values."""
    return {
        "proofmap": evaluation.settings.get("proofmap", ""),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": evaluation.settings.get("device", ""),
        "settings": dict(evaluation.settings),
        "verdict": verdict(evaluation).record(),
        "images": list(evaluation.image_names),
        "methods": [
            {
                "name": r.name,
                "settings": dict(r.settings),
                "label_free": r.label_free,
                "signed": r.signed,
                "seconds": round(r.seconds, 2),
                "scores": [s.record() for s in r.scores],
                "values": {k: v.tolist() for k, v in r.values.items()},
                "pairs": [dict(row) for row in r.rows],
                "given_by_fill": _fill_records(r),
            }
            for r in evaluation.results
        ],
    }


def _fill_records(result: MethodResult) -> list[dict[str, object]]:
    """One record per (image, label) pair whose label the fill alone gives, as plain data."""
    curves, labels = result.insertion, result.insertion.labels.tolist()
    return [
        {
            "image": result.image_names[i],
            "label": labels[i][j],
            "name": result.label_names[labels[i][j]],
            "fill": str(result.curve_settings.get("fill", "the fill")),
            "f_of_fill": float(curves.probabilities[i, j, 0]),
        }
        for i, j in given_by_fill(result).nonzero().tolist()
    ]


def _evaluation_json(evaluation: Evaluation) -> str:
    """:func:`evaluation_record` as JSON text. NaN becomes null, and a setting that JSON does not know becomes its ``str``."""
    return json_text(evaluation_record(evaluation))


def _scores_csv(evaluation: Evaluation) -> str:
    """The scores as CSV, one line per method and score, with the interval, the direction and the settings (as JSON)."""
    return score_table(evaluation).csv()


def _pairs_csv(evaluation: Evaluation) -> str:
    """The values of all pairs as CSV, one line per method, image and label."""
    return records_csv([dict(row) for result in evaluation.results for row in result.rows])


def _positions_csv(evaluation: Evaluation) -> str:
    """The named positions as CSV, one line per method, input, label and position; the columns are those of
    :func:`_position_records`."""
    return records_csv(list(_position_records(evaluation)))


NUMBER_FILES: Mapping[str, Callable[[Evaluation], str]] = {
    "scores.csv": _scores_csv,
    "pairs.csv": _pairs_csv,
    "positions.csv": _positions_csv,
    "evaluation.json": _evaluation_json,
}
"""The files of numbers: the function that gives the text of each."""


def save_evaluation(evaluation: Evaluation, folder: str | Path, *, pictures: bool = True) -> list[Path]:
    """Write ``scores.csv``, ``pairs.csv`` and ``evaluation.json``, and return the paths of all files. Unless ``pictures`` is False, also write
    the charts and a sheet for each of the first images."""
    evaluation = shared(evaluation)
    with written_together(folder) as out:
        written = _save_numbers(evaluation, out)
        if pictures:
            written += save_pictures(evaluation, out)
    return [Path(folder, path.name) for path in written]


def save_pictures(evaluation: Evaluation, out: Path) -> list[Path]:
    """Write a sheet for each of the first images with stored maps, and the charts if matplotlib is installed. Returns the paths."""
    written = _save_sheets(evaluation, out)
    names = {"curves": "curves.png", "scatter": "completeness-soundness.png"}
    try:
        for name in (n for n in figures_of(evaluation) if n in names):
            written.append(draw(make_figure(name, evaluation=evaluation), out / names[name]))
    except MissingExtra:
        pass  # charts are a bonus of the extra; the command line says so
    return written


def save_proof(
    evaluation: Evaluation, folder: str | Path, crops: Callable[[int], str] = lambda _: ""
) -> list[Path]:
    """Write a sheet for each of the first images, ``maps.safetensors`` and the tables, and return the paths.

    ``crops`` takes the index of an image and returns a note for its sheet, such as how much of the original the net sees.
    """
    evaluation = shared(evaluation)
    with written_together(folder) as out:
        written = _save_numbers(evaluation, out)
        with atomic_write(out / "maps.safetensors") as part:
            part.write_bytes(maps_safetensors(evaluation))
        written += [out / "maps.safetensors", *_save_sheets(evaluation, out, crops)]
    return [Path(folder, path.name) for path in written]


def maps_safetensors(evaluation: Evaluation) -> bytes:
    """The content of a safetensors file with the maps, the labels and, as metadata, the names of the images. The maps are called ``maps``, or
    ``maps.METHOD`` if there are several methods."""
    several = len(evaluation.results) > 1
    tensors = {
        f"maps.{result.name}" if several else "maps": evaluation.maps_of(result).cpu().contiguous()
        for result in evaluation.results
    }
    tensors["labels"] = evaluation.labels.cpu().contiguous()
    return save(tensors, metadata={"images": json.dumps(list(evaluation.image_names))})


def sheet_png(evaluation: Evaluation, index: int, crop: str = "") -> bytes:
    """The content of a PNG file with the sheet of an image. Its metadata name Proofmap. Raises for texts and rows, which have no sheets."""
    if evaluation.inputs.shown_as in _LISTS:
        raise InputError(f"{evaluation.inputs.noun} have no sheet; page.html shows them")
    return picture_bytes(explained_sheet(evaluation, index, crop), "PNG", optimize=True, pnginfo=_own_mark())


def _save_sheets(
    evaluation: Evaluation,
    out: Path,
    crops: Callable[[int], str] = lambda _: "",
) -> list[Path]:
    """Write a sheet for each of the first images with stored maps, and return the paths.

    Files are called ``IMAGE.METHOD.png``, or ``IMAGE.compared.png`` if there are several methods. IMAGE is the image's name without the
    suffix of its file. Names that are equal get numbers. Texts and rows are written to one HTML file.
    """
    shown = evaluation.results[0].name if len(evaluation.results) == 1 else "compared"
    indices = evaluation.pictured[:MOST_IMAGES]
    if evaluation.inputs.shown_as in _LISTS:
        write_text(
            out / "proofs.html",
            f'<!doctype html>\n<meta charset="utf-8">\n{_lists_html(evaluation, indices)}\n',
        )
        return [out / "proofs.html"]
    images = [Path(evaluation.image_names[i]) for i in indices]
    bare = [image.with_suffix("") if image.suffix.lower() in SUFFIXES else image for image in images]
    names = distinct_names([file_name(str(name)) for name in bare])
    paths = [out / f"{file_name(name, shown)}.png" for name in names]
    for i, path in zip(indices, paths, strict=True):
        with atomic_write(path) as part:
            part.write_bytes(sheet_png(evaluation, i, crops(i)))
    return paths


def _save_numbers(evaluation: Evaluation, out: Path) -> list[Path]:
    with_positions = evaluation.inputs.has_names and evaluation.pictured
    names = [name for name in NUMBER_FILES if with_positions or name != "positions.csv"]
    for name in names:
        write_text(out / name, NUMBER_FILES[name](evaluation).rstrip("\n") + "\n")
    return [out / name for name in names]


# ---- notebooks ----------------------------------------------------------------------------------------------


def evaluation_html(evaluation: Evaluation) -> str:
    """HTML for notebooks with the verdict and its reasons, the scores with notes, and the sheets of the first images."""
    found = verdict(evaluation)
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in found.reasons)
    said = f"<div><b>{escape(found.headline)}</b></div><ul>{reasons}</ul>"
    return said + score_table(evaluation)._repr_html_() + _pictures_html(evaluation)


def proof_html(evaluation: Evaluation) -> str:
    """HTML for notebooks with the sheets of the first images, followed by a table of what each map proves."""
    return _pictures_html(evaluation) + score_tables.pairs_html(evaluation)


def proof_png(evaluation: Evaluation) -> bytes | None:
    """The sheet of the first image whose maps were kept, as the content of a PNG file; None if there is no such image, and for texts and
    rows, which are no pictures."""
    shown = evaluation.pictured
    if not shown or evaluation.inputs.shown_as in _LISTS:
        return None
    return picture_bytes(_shrunk(explained_sheet(evaluation, shown[0])), "PNG", optimize=True)


def _pictures_html(evaluation: Evaluation) -> str:
    """HTML with the sheets of the first images as inline pictures: always the first one, and more as long as they take at most ``MOST_BYTES`` in
    total. Texts and rows are written as lists."""
    shown = evaluation.pictured[:MOST_PICTURES]
    if evaluation.inputs.shown_as in _LISTS:
        return _lists_html(evaluation, shown)
    parts: list[str] = []
    weight = 0
    for i in shown:
        uri = data_uri(_shrunk(explained_sheet(evaluation, i)), "PNG", optimize=True)
        weight += len(uri) * 3 // 4
        if parts and weight > MOST_BYTES:
            break
        parts.append(f'<img src="{uri}" alt="what each map proves" style="max-width:100%;display:block">')
    if parts and len(parts) < len(evaluation):
        all_of_them = counted(len(evaluation), evaluation.inputs.singular)
        parts.append(f'<div style="font-size:small;color:#666">{len(parts)} of {all_of_them}</div>')
    return "".join(parts)


def _shrunk(sheet: Image.Image) -> Image.Image:
    """The sheet, shrunk if it is wider than ``WIDEST``."""
    if sheet.width <= WIDEST:
        return sheet
    height = max(1, round(sheet.height * WIDEST / sheet.width))
    return sheet.resize((WIDEST, height), Image.Resampling.LANCZOS)


def _own_mark() -> PngImagePlugin.PngInfo:
    """The PNG text that marks pictures of Proofmap, so that they are never taken for photos to explain."""
    info = PngImagePlugin.PngInfo()
    info.add_text("Software", OWN_SOFTWARE)
    return info


def _position_records(evaluation: Evaluation) -> Iterator[dict[str, object]]:
    """One record per method, input, label and position, in the order of the map. Inputs whose maps were not kept are left out.

    ``probability`` is the label's probability while this position and those before it are shown. ``proves`` says whether the position is
    among the top positions that together reach the belief.
    """
    inputs = evaluation.inputs
    for result in evaluation.results:
        for i in evaluation.pictured:
            image = evaluation.image_of(i)
            names = inputs.names_of(image)
            for j, label in enumerate(evaluation.labels[i].tolist()):
                if label == NO_LABEL:
                    continue
                heat = evaluation.map_of(result, i, j).flatten().tolist()
                count = shape_of(evaluation, result, i, j).enough
                along = curve_of(evaluation, result, i, j).tolist()
                for k, p in enumerate(positions_in_order(evaluation, result, i, j), 1):
                    yield {
                        "method": result.name,
                        inputs.singular: evaluation.image_names[i],
                        "label": evaluation.label_names[label],
                        "place": k,
                        "position": names[p],
                        "value": inputs.value_text(image, p),
                        "map": heat[p],
                        "probability": along[k],
                        "proves": k <= count,
                    }


def dataframe(evaluation: Evaluation, table: str = "scores") -> pd.DataFrame:
    """The table named ``table`` (one of ``TABLES``) as a pandas DataFrame. A value that does not count is NaN."""
    records = list(score_tables.table_records(evaluation, table))
    pandas = require("pandas", extra="pandas", purpose="to_dataframe()")
    frame: pd.DataFrame = pandas.DataFrame.from_records(records)
    return frame


def _lists_html(evaluation: Evaluation, shown: Sequence[int]) -> str:
    """HTML, without scripts, of the texts or rows ``shown``, with their words or columns as each map ranks them."""
    inputs, parts = evaluation.inputs, []
    for i in shown:
        parts.append(f'<div style="margin-top:1em"><b>{escape(evaluation.image_names[i])}</b></div>')
        for result in evaluation.results:
            if len(evaluation.results) > 1:
                parts.append(f'<div style="margin-top:.8em">{escape(result.name)}</div>')
            for j in evaluation.places_of(i)[:_MOST_LABELS]:
                parts.append(_proof_html(evaluation, i, ListedProof.of(evaluation, result, i, j)))
    note = WORDS_NOTE.format(positions=inputs.position_noun) if inputs.shown_as == "words" else _COLUMNS_NOTE
    left = (
        ""
        if len(shown) == len(evaluation)
        else f" {len(shown)} of {counted(len(evaluation), inputs.singular)}."
    )
    return "".join(parts) + f'<div style="font-size:small;color:#666">{escape(note)}{left}</div>'


def _proof_html(evaluation: Evaluation, index: int, proof: ListedProof) -> str:
    """HTML of one proof: the label, what the map proves, and the text with shaded words or the columns with their curve."""
    ink, said = (
        "rgb({}, {}, {})".format(*proof.colour),
        proof.shape.cut_words(evaluation.inputs.position_noun, len(proof.order)),
    )
    about = ", ".join(filter(None, [said if proof.proving else "", terminal_text(proof.empty_words)]))
    head = (
        f'<div style="margin-top:.6em"><b>{escape(terminal_text(proof.label))}</b> {proof.shape.numbers} '
        f'<span style="color:{ink};font-weight:600">{proof.shape.verdict}</span> <span style="color:#666">{escape(about)}</span></div>'
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
