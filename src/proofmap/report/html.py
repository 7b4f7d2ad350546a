"""The report as one HTML file that works without a network, a server or installed fonts.

The data of the page comes from :mod:`proofmap.report.html` and :mod:`proofmap.report.page_pictures`. The file contains the template, two
style sheets and the scripts from the folder ``page``. The page of ``proofmap serve`` also uses ``look.css``, ``theme.js`` and ``shared.js``.

The data of the HTML report as a plain record: the verdict, the scores, the tables and the settings.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from proofmap.core.files import write_text
from proofmap.core.labels import NO_LABEL
from proofmap.core.text import counted, terminal_text
from proofmap.core.version import __version__
from proofmap.metrics import METRICS
from proofmap.report.choice import Choice
from proofmap.report.figures import scatter
from proofmap.report.label_matrix import mean_matrix
from proofmap.report.listed import WORDS_NOTE
from proofmap.report.opening import headline, opening
from proofmap.report.page_pictures import json_number, pictures_of
from proofmap.report.pictures import SIGNED_WORDS, hidden_of, view_of
from proofmap.results import score_tables, tables
from proofmap.results.evaluation import Evaluation, Results, evaluation_of
from proofmap.results.notes import MARK, different_images, is_marked, rule_words
from proofmap.results.proof_shape import BAR, other_curve_note, percent
from proofmap.results.records import BEST_EFFORT, COMPLETENESS, SOUNDNESS, MethodResult
from proofmap.results.sharing import shared, shared_settings, without_folders
from proofmap.results.statistics import Score
from proofmap.results.tables import metric_words
from proofmap.results.verdict import ENOUGH, fully_proved, verdict, weakest

_STYLES = ("look.css", "report.css")
_SCRIPTS = (
    "theme.js",
    "shared.js",
    "cell.js",
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
    title: str = "",
    command: str = "",
    provenance: Mapping[str, object] | None = None,
    failures: Sequence[tuple[str, str]] = (),
    warnings: Sequence[str] = (),
    stored: str = "",
    banner: str = "",
    choice: Choice | None = None,
    most_labels: int = 5,
    explained: bool = False,
    crops: Callable[[int], str] = lambda _: "",
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
        choice: the images to show in full; by default :meth:`Choice.of` chooses twenty of those whose pixels were kept.
        most_labels: the largest number of labels drawn for an image. The scores cover all labels.
        explained: whether the page is about photos rather than methods. Such a page begins with what the net says and what the maps prove,
            with a row for each method and its labels side by side. Scores come later.
        crops: takes the index of an image and returns a note for it, such as how much of the original the net sees.
    """
    evaluation = shared(evaluation_of(results))
    record = {
        **page_record(evaluation),
        "title": without_folders(title) or "What do the heat maps prove?",
        "command": without_folders(command),
        "provenance": settings_text(shared_settings(provenance or {})),
        "failures": [{"what": without_folders(what), "why": without_folders(why)} for what, why in failures],
        "warnings": [without_folders(warning) for warning in warnings],
        "stored": stored,
    }
    if choice is None:
        choice = Choice.of(evaluation, among=evaluation.pictured)
    pictures, drawing = pictures_of(evaluation, list(choice.reasons), most_labels)
    for picture in pictures:
        index = picture.record["index"]
        view = view_of(evaluation, index).view_words
        picture.record["crop"] = " ".join(filter(None, [crops(index), view]))
        picture.record["reasons"] = [without_folders(r) for r in choice.reasons[index]]
    record |= {"banner": banner, "choice": choice.rule, "pictured": [p.record for p in pictures], **drawing}
    record["explained"] = headline(evaluation, list(choice.reasons)) if explained else None
    record["opening"] = (
        None if explained else opening(evaluation, record["pictured"], record["verdict"]["methods"])
    )
    target = Path(path)
    template = templates_of("proofmap.report", "page").get_template("report.html")
    page = template.render(
        r=record,
        pictures=pictures,
        data=_json_for_html(record),
        style=Markup("\n".join(page_file(name) for name in _STYLES)),
        script=Markup("\n".join(_without_imports(page_file(name)) for name in _SCRIPTS)),
        scatter=scatter,
        few=len(evaluation) < ENOUGH,
        panels=[] if explained or len(evaluation) < ENOUGH else scatter.scatter_panels(evaluation)[:1],
        opening=record["opening"],
        sections=_sections(record),
    )
    write_text(target, page)
    return target


def _sections(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The sections of the page in order, as pairs of the section's id and the text of the link to it."""
    images, scores = ("pictures", f"{record['noun'].capitalize()} by {record['noun']}"), ("scores", "Methods")
    return [
        ("verdict", "What the net says" if record["explained"] else "Verdict"),
        *([("opening", "The most telling failure")] if record["opening"] else []),
        *([images, scores] if record["explained"] else [scores, images]),
        *([("matrix", "Own label only?")] if record["matrix"] else []),
        ("made", "How it was made"),
    ]


@cache
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
    environment.filters["ratio"] = lambda value: (
        "-" if value is None else f"{value:.{2 if value < 9.995 else 0}f} ×"
    )
    environment.filters["percent"] = lambda value: "-" if value is None else percent(value)
    environment.filters["number"] = lambda value: "-" if value is None else tables.number(float(value))
    return environment


def _spelled_out(value: object) -> object:
    return terminal_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value


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


def page_record(evaluation: Evaluation) -> dict[str, Any]:
    """The content of the page for an evaluation, without the pictures, as data for JSON. NaN becomes None."""
    colour, words = hidden_of(evaluation)
    scores = evaluation.results[0].scores
    leading = {s.kind for s in scores} & {COMPLETENESS, SOUNDNESS, BEST_EFFORT}
    return {
        "subject": subject(evaluation),
        "bar": BAR,
        "positions": evaluation.inputs.position_noun,
        "noun": evaluation.inputs.singular,
        "listed": evaluation.inputs.has_names,
        "worded": evaluation.inputs.shown_as == "words",
        "lined": evaluation.inputs.shown_as == "line",
        "words_note": WORDS_NOTE.format(positions=evaluation.inputs.position_noun),
        "nouns": evaluation.inputs.noun,
        "hidden": {"colour": list(colour), "words": words},
        "signed_words": [*SIGNED_WORDS],
        "verdict": verdict(evaluation).record(),
        "metrics": [
            {
                **_metric_record(s, leading),
                "trust": evaluation.trust.get(s.name, ""),
                "uneven": uneven,
                "mark": MARK if is_marked(evaluation, s) else "",
            }
            for s, uneven in zip(scores, different_images(evaluation), strict=True)
        ],
        "methods": [_method_record(r) for r in evaluation.results],
        "order": sorted(
            range(len(evaluation.results)), key=lambda k: -fully_proved(evaluation.results[k])[0]
        ),
        "counted": any(fully_proved(r)[1] for r in evaluation.results),
        "images": _image_table(evaluation),
        "notes": _notes(evaluation),
        "matrix": mean_matrix(evaluation),
        "versions": {
            "proofmap": __version__,
            "torch": str(torch.__version__),
            "python": platform.python_version(),
        },
        "settings": settings_text(evaluation.settings),
        "curve": settings_text(evaluation.results[0].insertion.settings),
    }


def subject(evaluation: Evaluation) -> str:
    """One line that says what was judged: the numbers of methods and images, the label rule, and the net."""
    settings = evaluation.settings
    parts = [
        counted(len(evaluation.results), "method"),
        counted(len(evaluation), evaluation.inputs.singular),
        f"labels {rule_words(evaluation)}",
        str(settings.get("model", "")),
    ]
    return " · ".join(part for part in parts if part)


def _image_table(evaluation: Evaluation) -> dict[str, Any]:
    """The names and most probable labels of all images. The scores of the images are in the records of the methods."""
    f = evaluation.f.cpu().nan_to_num(-1.0)
    best = f.argmax(dim=1, keepdim=True)
    labels = evaluation.labels.cpu().gather(1, best)[:, 0].tolist()
    used = sorted(set(labels))
    place = {a: k for k, a in enumerate(used)}
    return {
        "names": list(evaluation.image_names),
        "label_names": [evaluation.label_names[a] if a != NO_LABEL else "-" for a in used],
        "labels": [place[a] for a in labels],
        "f": [json_number(v) for v in f.gather(1, best)[:, 0].tolist()],
    }


def _metric_record(score: Score, leading: Collection[str]) -> dict[str, Any]:
    """``extra`` scores are behind a button if the ``leading`` kinds were judged; scores of a ``unit`` lie between 0 and 1."""
    return {
        "name": score.name,
        "words": metric_words(score.name),
        "kind": score.kind,
        "extra": bool(leading) and score.kind not in leading,
        "unit": score.limits == (0, 1),
        "higher": score.higher_is_better,
        "description": _description(score),
        "settings": settings_text(score.settings),
    }


def _description(score: Score) -> str:
    """The description of the registered metric with the score's name, or else with the score's kind; empty if there is neither."""
    registered = next((name for name in (score.name, score.kind) if name in METRICS), None)
    return METRICS[registered].description if registered else ""


def _method_record(result: MethodResult) -> dict[str, Any]:
    return {
        "name": result.name,
        "label_free": result.one_map,
        "signed": result.signed,
        "seconds": json_number(result.seconds),
        "settings": settings_text(result.settings),
        "scores": [
            {"value": json_number(s.value), "low": json_number(s.low), "high": json_number(s.high), "n": s.n}
            for s in result.scores
        ],
        "values": [[json_number(v) for v in result.values[s.name].tolist()] for s in result.scores],
        "weakest": [json_number(v) for v in weakest(result).tolist()],
        "proved": fully_proved(result),
    }


def settings_text(settings: Mapping[str, object]) -> dict[str, str]:
    """The settings as texts by name. A nested setting becomes several, named ``outer.inner``."""
    lines: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            lines.update({f"{key}.{k}": v for k, v in settings_text(value).items()})
        elif isinstance(value, (list, tuple)):
            lines[str(key)] = _list_text(value)
        else:
            lines[str(key)] = str(value)
    return lines


def _list_text(values: Sequence[object], most: int = 12) -> str:
    first = ", ".join(map(str, values[:most]))
    return first if len(values) <= most else f"{first}, ... ({len(values)} in all)"


def _notes(evaluation: Evaluation) -> list[str]:
    """The notes of :func:`~proofmap.results.score_tables.score_table`, capitalised, without the note on methods with one map for
    all labels, which the page explains itself."""
    notes = [*score_tables.score_table(evaluation).notes, *filter(None, [other_curve_note(evaluation)])]
    return [note[:1].upper() + note[1:] for note in notes if not note.startswith("*")]
