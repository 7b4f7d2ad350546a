"""The report as one HTML file that works without a network, a server or installed fonts.

The data of the page comes from :mod:`proofmap.report.page_data` and :mod:`proofmap.report.page_pictures`. The file contains the template, two
style sheets and the scripts from the folder ``page``. The page of ``proofmap serve`` also uses ``look.css``, ``theme.js`` and ``shared.js``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from proofmap.core.files import write_text
from proofmap.core.text import counted, terminal_text
from proofmap.report import proof_columns, scatter
from proofmap.report.choice import Choice, choose_pictured, values_of
from proofmap.report.opening import belief_sentence, headline, map_sentence, opening
from proofmap.report.page_data import page_record, settings_text
from proofmap.report.page_pictures import (
    Picture,
    curve_counts,
    is_listed,
    list_counts,
    picture_of,
    shown_places,
    slider_counts,
)
from proofmap.report.pictures import Original
from proofmap.results import tables
from proofmap.results.evaluation import Evaluation, Results, evaluation_of
from proofmap.results.proof_shape import percent
from proofmap.results.sharing import shared, shared_settings, without_folders
from proofmap.results.verdict import verdict

TITLE = "What do the heat maps prove?"
_STYLES = ("look.css", "report.css")
_SCRIPTS = (
    "theme.js",
    "shared.js",
    "lines.js",
    "listed.js",
    "page.js",
    "tables.js",
    "list_cells.js",
    "pictures.js",
    "matrix.js",
)


def write_report(
    results: Results,
    path: str | Path,
    *,
    title: str = TITLE,
    command: str = "",
    provenance: Mapping[str, object] | None = None,
    failures: Sequence[tuple[str, str]] = (),
    warnings: Sequence[str] = (),
    stored: str = "",
    banner: str = "",
    choice: Choice | None = None,
    most_labels: int = 5,
    explained: bool = False,
    originals: Callable[[int], Original | None] | None = None,
) -> Path:
    """Write the report of an evaluation, a run or a proof to one file and return its path.

    Absolute paths are cut to file names, because reports are made to be shared.

    Args:
        command: the exact command that repeats the evaluation.
        provenance: more facts about the run, such as hashes, hardware and dates.
        failures: what could not be done, and why.
        warnings: warnings for the reader, such as a method that failed; shown under the headline.
        stored: the number format in which the maps were stored after scoring, such as ``float16``; empty if they were not stored.
        banner: a warning in red at the top of the page; the verdict is then gray.
        choice: the images to show in full; by default :func:`choose_pictured` chooses twenty of those whose pixels were kept.
        most_labels: the largest number of labels drawn for an image. The scores cover all labels.
        explained: whether the page is about photos rather than methods. Such a page begins with what the net says and what the maps prove,
            with a row for each method and its labels side by side. Scores come later.
        originals: function that takes the index of an image and returns its original photo if the net sees only a part of it.
    """
    evaluation = shared(evaluation_of(results))
    record = {
        **page_record(evaluation),
        "title": without_folders(title),
        "command": without_folders(command),
        "provenance": settings_text(shared_settings(provenance or {})),
        "failures": [{"what": without_folders(what), "why": without_folders(why)} for what, why in failures],
        "warnings": [without_folders(warning) for warning in warnings],
        "stored": stored,
    }
    if choice is None:
        choice = choose_pictured(
            values_of(evaluation),
            among=evaluation.pictured,
            item=evaluation.inputs.singular,
            positions=evaluation.inputs.position_noun,
        )
    pictures, drawing = _pictures(evaluation, list(choice.reasons), most_labels)
    if originals is not None:
        pictures = [replace(p, original=originals(p.record["index"])) for p in pictures]
    for picture in pictures:
        picture.record["reasons"] = [without_folders(r) for r in choice.reasons[picture.record["index"]]]
        if explained:
            picture.record.update(_explained(evaluation, picture.record))
    record |= {"banner": banner, "choice": choice.rule, "pictured": [p.record for p in pictures], **drawing}
    record["explained"] = headline(evaluation) if explained else None
    first = None if explained else opening(evaluation, verdict(evaluation))
    target = Path(path)
    carriers = proof_columns.if_several(evaluation)
    write_text(target, page_html(record, pictures, scatter.scatter_panels(evaluation), first, carriers))
    return target


def page_html(
    record: Mapping[str, Any],
    pictures: Sequence[Picture],
    panels: Sequence[scatter.ScatterPanel],
    opening: Mapping[str, Any] | None = None,
    carriers: proof_columns.ProofColumns | None = None,
) -> str:
    """The HTML of the report page. Equal arguments give equal text.

    Args:
        record: the data of the page.
        pictures: the images that are shown in full.
        panels: the scatter plots.
        opening: the data of the opening (:mod:`proofmap.report.opening`), if the page has one.
        carriers: for rows of a table, the columns that carry the proofs.
    """
    return (
        _environment()
        .get_template("report.html")
        .render(
            r=record,
            pictures=pictures,
            data=_json_for_html(record),
            style=Markup("\n".join(page_file(name) for name in _STYLES)),
            script=Markup("\n".join(_without_imports(page_file(name)) for name in _SCRIPTS)),
            scatter=scatter,
            panels=panels,
            opening=opening,
            carriers=carriers,
            swarms=proof_columns,
            sections=_sections(record, opening is not None, carriers is not None),
        )
    )


def _sections(record: Mapping[str, Any], opens: bool, columns: bool) -> list[tuple[str, str]]:
    """The sections of the page in order, as pairs of the section's id and the text of the link to it."""
    images, scores = ("pictures", f"{record['noun'].capitalize()} by {record['noun']}"), ("scores", "Scores")
    middle = [images, scores] if record["explained"] else [scores, images]
    return [
        *([("opening", f"One {record['noun']}")] if opens else []),
        ("verdict", "What the net says" if record["explained"] else "Verdict"),
        middle[0],
        *([("columns", "Columns")] if columns else []),
        middle[1],
        ("images", f"Every {record['noun']}"),
        *([("matrix", "Own label only?")] if record["matrix"] else []),
        ("made", "How it was made"),
    ]


def _pictures(
    evaluation: Evaluation, shown: Sequence[int], most_labels: int
) -> tuple[list[Picture], dict[str, Any]]:
    """The pictures of the images ``shown``, and the numbers of shown positions at the steps of the slider (``counts``) and at the points of
    each method's curves (``curve_counts``), which are the same for all images."""
    if not shown:
        return [], {"counts": [], "curve_counts": []}
    lists = is_listed(evaluation.inputs)
    counts = (
        list_counts(evaluation, shown) if lists else slider_counts(evaluation.results[0].insertion.positions)
    )
    found = [picture_of(evaluation, i, shown_places(evaluation, i, most_labels), counts) for i in shown]
    curves = [] if lists else [curve_counts(r, counts) for r in evaluation.results]
    return found, {"counts": counts, "curve_counts": curves}


def _explained(evaluation: Evaluation, shown: Mapping[str, Any]) -> dict[str, object]:
    """Sentences for the page of one image: ``says``, what the net says about the image, and ``words``, what each drawn map proves."""
    index = shown["index"]
    places = [evaluation.labels[index].tolist().index(label["label"]) for label in shown["labels"]]
    return {
        "says": belief_sentence(evaluation, index),
        "words": [
            [map_sentence(evaluation, result, index, j) for j in places] for result in evaluation.results
        ],
    }


def templates_of(package: str, folder: str) -> Environment:
    """A Jinja environment with the templates in a folder of a package and those of the report. Values are escaped; unknown names are errors.

    Control characters, and characters that change the direction of text, are written out as on a terminal.
    """
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, folder), PackageLoader("proofmap.report", "page")]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_spelled_out,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["counted"] = counted
    environment.filters["metric_words"] = tables.metric_words
    environment.filters["percent"] = lambda value: "-" if value is None else percent(value)
    environment.filters["number"] = lambda value: "-" if value is None else tables.number(float(value))
    return environment


def _spelled_out(value: object) -> object:
    return terminal_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _environment() -> Environment:
    return templates_of("proofmap.report", "page")


def page_file(name: str) -> str:
    """The text of the report's style sheet or script ``name``. Other pages use it to look like the report."""
    return (files("proofmap.report") / "page" / name).read_text(encoding="utf-8")


def _without_imports(script: str) -> str:
    """The script without its import lines, because the report contains all scripts in one element.

    >>> _without_imports('import { make } from "./shared.js";\\n\\nmake();')
    '\\n\\nmake();'
    """
    return re.sub(r"^import [^;]+;$", "", script, flags=re.MULTILINE)


def _json_for_html(record: Mapping[str, Any]) -> Markup:
    """The record as JSON that is safe inside an HTML page: no text in it can close its element, open another, or change the direction of
    text."""
    text = json.dumps(_spelled(record), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)


def _spelled(value: Any) -> Any:
    """The same data with control characters written out by :func:`~proofmap.core.text.terminal_text`."""
    if isinstance(value, str):
        return terminal_text(value)
    if isinstance(value, Mapping):
        return {_spelled(key): _spelled(item) for key, item in value.items()}
    return [_spelled(item) for item in value] if isinstance(value, (list, tuple)) else value
