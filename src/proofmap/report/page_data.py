"""The data of the HTML report as a plain record: the verdict, the scores, the tables and the settings."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from proofmap.core.labels import NO_LABEL
from proofmap.core.text import counted
from proofmap.core.version import __version__
from proofmap.metrics import METRICS
from proofmap.report.colours import SIGNED_NOTE, SIGNED_WORDS, hidden_of
from proofmap.report.page_pictures import is_listed, json_number
from proofmap.report.pictures import is_lined
from proofmap.report.word_proof import WORDS_NOTE, is_worded
from proofmap.results import score_tables
from proofmap.results.evaluation import Evaluation
from proofmap.results.fill_alone import MARK, is_marked
from proofmap.results.label_matrix import label_matrices
from proofmap.results.notes import different_images, rule_words
from proofmap.results.proof_shape import BAR, OTHER_CURVE, judged_on_another_curve
from proofmap.results.records import MethodResult
from proofmap.results.statistics import Score
from proofmap.results.tables import metric_words
from proofmap.results.verdict import verdict


def page_record(evaluation: Evaluation) -> dict[str, Any]:
    """The content of the page for an evaluation, without the pictures, as data for JSON. NaN becomes None."""
    hidden = hidden_of(evaluation)
    return {
        "subject": subject(evaluation),
        "bar": BAR,
        "positions": evaluation.inputs.position_noun,
        "noun": evaluation.inputs.singular,
        "listed": is_listed(evaluation.inputs),
        "worded": is_worded(evaluation.inputs),
        "lined": is_lined(evaluation.inputs),
        "words_note": WORDS_NOTE.format(positions=evaluation.inputs.position_noun),
        "nouns": evaluation.inputs.noun,
        "hidden": {"colour": list(hidden.colour), "words": hidden.words},
        "signed_words": [*SIGNED_WORDS, SIGNED_NOTE],
        "verdict": verdict(evaluation).record(),
        "metrics": [
            {**_metric_record(s), "uneven": uneven, "mark": MARK if is_marked(evaluation, s) else ""}
            for s, uneven in zip(evaluation.results[0].scores, different_images(evaluation), strict=True)
        ],
        "methods": [_method_record(r) for r in evaluation.results],
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


def mean_matrix(evaluation: Evaluation) -> dict[str, Any] | None:
    """The label x label matrix of each method, averaged over images, with names and f; None if a matrix was not kept or there is one label.

    Row a, column b is the mean probability of label b while the pixels of the map of label a are shown, best first. If the images have
    different labels, row 1 is the first label of each image, and so on.
    """
    found = label_matrices(evaluation)
    areas = [m for m in found.areas if m is not None]
    if len(areas) < len(found.areas) or len(found.f) < 2:
        return None
    return {
        "names": list(found.names),
        "shared": found.labels is not None,
        "methods": [_numbers_of(m) for m in areas],
        "f": _numbers_of(found.f[None])[0],
        "answers": list(found.answers().values()),
        "images": len(evaluation),
    }


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


def _metric_record(score: Score) -> dict[str, Any]:
    return {
        "name": score.name,
        "words": metric_words(score.name),
        "kind": score.kind,
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
    }


def _numbers_of(matrix: Tensor) -> list[list[float | None]]:
    return [[json_number(v) for v in row] for row in matrix.tolist()]


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
    """The notes of :func:`score_notes <proofmap.results.score_tables.score_notes>`, capitalised, without the note on methods with one map for
    all labels, which the page's table marks itself."""
    notes = score_tables.score_notes(evaluation)
    if judged_on_another_curve(evaluation):
        notes.append(OTHER_CURVE)
    return [
        note[:1].upper() + note[1:] for note in notes if not note.startswith(score_tables.LABEL_FREE_MARK)
    ]
