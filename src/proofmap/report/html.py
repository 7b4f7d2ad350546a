"""The report as one HTML file that needs nothing else: no network, no server, no installed font.

The data is a record (:mod:`proofmap.report.page_data`, :mod:`proofmap.report.page_pictures`). The template, two style sheets and
the scripts in the folder ``page`` are all put into the file. The page of ``proofmap serve`` shares ``look.css``, ``theme.js`` and ``shared.js``.
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
        most_labels: how many labels of an image are drawn. The scores cover all labels.
        explained: whether the page is about photos rather than methods: it begins with what the net says and what the maps
            prove, a row for each method with its labels side by side; scores come later.
        originals: gives the original of an image, by its index, if the net sees only a part of it.
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
    """The HTML of a page from its record, pictures, scatter plots, opening, and columns that carry proofs. Equal data gives equal text."""
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
    """The sections of the page in their order: the id and the words of a link to each."""
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
    """The pictures of the images ``shown``; and the numbers of positions at the stops of the slider and at the points of the
    curves, which are the same for all images."""
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
    """What the net says about an image, and what each drawn map proves."""
    index = shown["index"]
    places = [evaluation.labels[index].tolist().index(label["label"]) for label in shown["labels"]]
    return {
        "says": belief_sentence(evaluation, index),
        "words": [
            [map_sentence(evaluation, result, index, j) for j in places] for result in evaluation.results
        ],
    }


def templates_of(package: str, folder: str) -> Environment:
    """The templates in a folder of a package, and those of the report. Values are escaped, and unknown names are errors.

    Control characters, and characters that change the direction of text, are spelled out as on a terminal.
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
    """The text of a style sheet or script of the report, for pages that share its look."""
    return (files("proofmap.report") / "page" / name).read_text(encoding="utf-8")


def _without_imports(script: str) -> str:
    """A script without its imports: the report has all scripts in one.

    >>> _without_imports('import { make } from "./shared.js";\\n\\nmake();')
    '\\n\\nmake();'
    """
    return re.sub(r"^import [^;]+;$", "", script, flags=re.MULTILINE)


def _json_for_html(record: Mapping[str, Any]) -> Markup:
    """JSON that is safe inside a page: no text in it can end the element, begin another, or change the direction of text."""
    text = json.dumps(_spelled(record), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)


def _spelled(value: Any) -> Any:
    """The same data with control characters spelled out by :func:`~proofmap.core.text.terminal_text`."""
    if isinstance(value, str):
        return terminal_text(value)
    if isinstance(value, Mapping):
        return {_spelled(key): _spelled(item) for key, item in value.items()}
    return [_spelled(item) for item in value] if isinstance(value, (list, tuple)) else value
