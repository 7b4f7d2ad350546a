"""The tables of an evaluation: scores, values per image and per label; as text, Markdown, LaTeX, CSV and pandas DataFrames."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from proofmap.core.errors import InputError, require
from proofmap.core.labels import NO_LABEL
from proofmap.core.outputs import is_independent
from proofmap.core.text import counted, one_line
from proofmap.results.evaluation import Evaluation
from proofmap.results.fill_alone import MARK as FILL_MARK
from proofmap.results.fill_alone import fill_notes, given_by_fill, is_marked, spread_notes
from proofmap.results.notes import (
    WRONG_WORDS,
    counting_notes,
    different_images,
    setting_notes,
)
from proofmap.results.proof_shape import proof_names, shape_of
from proofmap.results.records import MethodResult
from proofmap.results.sharing import shared
from proofmap.results.statistics import Score
from proofmap.results.tables import (
    Cells,
    aligned,
    interval,
    markdown,
    metric_with_arrow,
    number,
    table_html,
    with_interval,
)
from proofmap.results.verdict import soundness_notes

if TYPE_CHECKING:
    import pandas as pd

TABLES = ("scores", "per_image", "per_label")
"""The names of the tables for :func:`dataframe`."""
LABEL_FREE_MARK = "*"
SHAPE = "proof: a bar from 0 to 1; █ ends at the AUC (insertion), │ is at f, ─ ends at the highest probability of the curve"
"""The legend below :func:`pair_table`: how to read the bar of a proof in a terminal."""
MOST_ROWS = 50
"""The largest number of rows that :func:`pairs_html` shows in a notebook."""


def score_cells(evaluation: Evaluation) -> Cells:
    """Header and one row per method; a cell is a mean with its 95 % interval, such as ``.84 [.80, .88]``.

    ``*`` marks label-free methods, which have one map for all labels. ``†`` marks scores that depend on labels which the net believes even
    if nothing of the image is shown (:mod:`proofmap.results.fill_alone`). If the methods count different images, a cell also says how
    many: ``.84 [.80, .88] n=20``.
    """
    scores = evaluation.results[0].scores
    header = ["method", *(_header(evaluation, s) for s in scores)]
    uneven = different_images(evaluation)
    rows = [
        [
            r.name + (LABEL_FREE_MARK if r.one_map else ""),
            *(_score_cell(s, u) for s, u in zip(r.scores, uneven, strict=True)),
        ]
        for r in evaluation.results
    ]
    return header, rows


def _header(evaluation: Evaluation, score: Score) -> str:
    mark = FILL_MARK if is_marked(evaluation, score) else ""
    return metric_with_arrow(score.name, score.higher_is_better) + mark


def score_notes(evaluation: Evaluation) -> list[str]:
    """The notes below a score table, one string per line: the settings behind the scores, and warnings about how to read them."""
    quoted = setting_notes(evaluation)
    if any(r.one_map for r in evaluation.results):
        effort = (
            ""
            if is_independent(evaluation.settings.get("outputs"))
            else "such maps are sound without effort, so "
        )
        quoted.append(f"{LABEL_FREE_MARK} one map for all labels: {effort}also read best effort")
    if found := [r.name for r in evaluation.results if r.one_map and not r.label_free]:
        quoted.append(
            f"{', '.join(found)}: found to give one map for all labels; a map with one value everywhere counts too, and is read in the order "
            f"of the {evaluation.inputs.position_noun}"
        )
    quoted += [*spread_notes(evaluation), *fill_notes(evaluation)]
    return [*quoted, *soundness_notes(evaluation), *counting_notes(evaluation)]


def score_table(evaluation: Evaluation, width: int | None = None) -> str:
    """The scores as aligned text with notes below, with one row per method. A table that is wider than ``width`` columns is stacked."""
    header, rows = score_cells(evaluation)
    return "\n".join([aligned(header, rows, width), *score_notes(evaluation)])


def pair_cells(evaluation: Evaluation, methods: int | None = None) -> Cells:
    """Header and one row per (method, image, label), for all methods or the first ``methods``. The name of an only method is left out.

    ``†`` marks completeness and soundness of a label that the fill alone gives: the net believes the label if nothing is shown.
    """
    results = evaluation.results[:methods]
    marked = {score.name for score in results[0].scores if is_marked(evaluation, score)}
    values = [k for k in results[0].rows[0] if k not in ("method", "image", "label", "name")]
    several = len(results) > 1
    header = [*(["method"] if several else []), evaluation.inputs.singular, "label", *values]
    rows = [
        [
            *([result.name] if several else []),
            str(row["image"]),
            f"{numbered_name(row)}{wrong}",
            *(number(row[key]) + (FILL_MARK if given and key in marked else "") for key in values),
        ]
        for result in results
        for row, given, wrong in zip(result.rows, _given(result), _wrong(evaluation), strict=True)
    ]
    return header, rows


def numbered_name(row: Mapping[str, Any]) -> str:
    """The name of a row's label, followed by the label's number in brackets. If the name is the number, it is written once.

    >>> numbered_name({"name": "missile", "label": 657}), numbered_name({"name": "3", "label": 3})
    ('missile (657)', '3')
    """
    name, label = str(row["name"]), str(row["label"])
    return name if name == label else f"{name} ({label})"


def _given(result: MethodResult) -> list[bool]:
    """For each row of a result, whether the fill alone gives the row's label."""
    found: list[bool] = given_by_fill(result)[result.insertion.labels.cpu() != NO_LABEL].tolist()
    return found


def _wrong(evaluation: Evaluation) -> list[str]:
    """For each row of a result, the text after the label's name: a remark for wrong labels, otherwise empty."""
    judged = (evaluation.labels != NO_LABEL).nonzero().tolist()
    return [f", {WRONG_WORDS}" if evaluation.wrong_kind(i, j) else "" for i, j in judged]


def pair_table(evaluation: Evaluation, methods: int | None = None, width: int | None = None) -> str:
    """A text table with one line per method, image and label, for all methods or the first ``methods``.

    A line has f (the net's probability of the label), the scores, and a bar that pictures the proof.
    """
    header, rows = pair_cells(evaluation, methods)
    pairs = [
        (result, i, j)
        for result in evaluation.results[:methods]
        for i, j in (evaluation.labels != NO_LABEL).nonzero().tolist()
    ]
    bars = [shape_of(evaluation, *pair).text() for pair in pairs]
    if evaluation.inputs.has_names:
        header.append(evaluation.inputs.position_noun)
        for row, pair in zip(rows, pairs, strict=True):
            row.append(proof_names(evaluation, *pair) if pair[1] in evaluation.pictured else "map not kept")
    at = header.index("label") + 1
    header.insert(at, "proof")
    for row, bar in zip(rows, bars, strict=True):
        row.insert(at, bar)
    named = (
        f"\n{header[-1]}: the first ones of the map, which give the belief"
        if evaluation.inputs.has_names
        else ""
    )
    return f"{aligned(header, rows, width)}\n{SHAPE}{named}"


def proof_table(evaluation: Evaluation, width: int | None = None) -> str:
    """:func:`pair_table` with its notes. The name of an only method is above the table."""
    results = evaluation.results
    above = [f"maps by {one_line(results[0].name)}"] if len(results) == 1 else []
    return "\n".join([*above, pair_table(evaluation, width=width), *fill_notes(evaluation)])


def best_two(evaluation: Evaluation) -> list[list[bool]]:
    """A mask of the cells of :func:`score_cells`: True for the best two values of a column, which the paper's tables print in bold.

    Values are compared as they are printed, so a value that prints like the second best is marked too. If there are two methods, only
    the better one is marked; a single method is not marked. Methods with one map for all labels are never marked, because they are sound
    without effort. A column whose means are over different images has no marks.
    """
    results = evaluation.results
    marked = [[False] * (1 + len(results[0].scores)) for _ in results]
    compared = [row for row, r in enumerate(results) if not r.one_map]
    uneven = different_images(evaluation)
    for column, score in enumerate(results[0].scores):
        if uneven[column]:
            continue
        sign = 1 if score.higher_is_better else -1
        printed = {row: sign * _as_printed(results[row].scores[column].value) for row in compared}
        ranked = sorted((v for v in printed.values() if not math.isnan(v)), reverse=True)
        best = ranked[: max(0, min(2, len(compared) - 1))]
        for row, value in printed.items():
            marked[row][1 + column] = bool(best) and value >= best[-1]
    return marked


def score_html(evaluation: Evaluation) -> str:
    """The scores as an HTML table for notebooks with notes below. The best two of each column are bold."""
    return table_html(*score_cells(evaluation), score_notes(evaluation), bold=best_two(evaluation))


def score_markdown(evaluation: Evaluation, notes: Sequence[str] = ()) -> str:
    """The scores as a Markdown table with their notes and other ``notes`` below. The best two of each column are bold. Folders are removed from paths in names."""
    evaluation = shared(evaluation)
    below = [*score_notes(evaluation), *notes]
    return markdown(*score_cells(evaluation), below, bold=best_two(evaluation))


def latex(
    evaluation: Evaluation,
    *,
    intervals: bool = True,
    caption: str | None = None,
    label: str = "tab:scores",
) -> str:
    """The scores as a LaTeX table (package booktabs), with the best two of each column in bold.

    ``caption`` is LaTeX code. By default it consists of the notes of :func:`score_notes`. Folders are removed from paths in names.
    """
    evaluation = shared(evaluation)
    header, _ = score_cells(evaluation)
    head = " & ".join(_latex_text(cell) for cell in header)
    uneven = different_images(evaluation)
    free = sum(result.one_map for result in evaluation.results)
    lines = []
    for result, marks in zip(evaluation.results, best_two(evaluation), strict=True):
        name = _latex_text(result.name) + ("$^{*}$" if result.one_map else "")
        cells = [
            _latex_score(s, b, intervals, u) for s, b, u in zip(result.scores, marks[1:], uneven, strict=True)
        ]
        lines.append(" & ".join([name, *cells]) + r" \\")
    if caption is None:
        where = " that is over the same images" if any(uneven) else ""
        among = " among the methods with a map for each label" if free else ""
        marked = f"The best two of each column{where}{among} are bold. " if len(lines) - free > 2 else ""
        caption = marked + " ".join(f"{_latex_text(_sentence(note))}" for note in score_notes(evaluation))
    return "\n".join(
        [
            "% needs \\usepackage{booktabs}",
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{caption}}}",
            rf"  \label{{{label}}}",
            rf"  \begin{{tabular}}{{l{'c' * (len(header) - 1)}}}",
            r"    \toprule",
            rf"    {head} \\",
            r"    \midrule",
            *(f"    {line}" for line in lines),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        ]
    )


def _latex_score(score: Score, bold: bool, intervals: bool, with_n: bool) -> str:
    if math.isnan(score.value):
        return "--"
    value = _latex_number(score.value)
    shown = rf"\textbf{{{value}}}" if bold else value
    ends = interval(score.low, score.high, score.n, _latex_number)
    small = [ends] if intervals and not math.isnan(score.low) else []
    small += [f"n={score.n}"] if with_n else []
    return rf"{shown} {{\scriptsize {' '.join(small)}}}" if small else shown


def _latex_number(value: float) -> str:
    return re.sub(r"[<>-]", lambda sign: f"${sign[0]}$", number(value))


def _sentence(note: str) -> str:
    return note[:1].upper() + note[1:].rstrip(".") + "."


def _as_printed(value: float) -> float:
    """The value rounded as in tables, so that values that look equal compare as equal."""
    text = number(value)
    return value if math.isnan(value) or text[0] in "<>" else float(text)


def _score_cell(score: Score, with_n: bool) -> str:
    size = f" n={score.n}" if with_n and not math.isnan(score.value) and score.low != score.high else ""
    return with_interval(score.value, score.low, score.high, score.n) + size


def pairs_html(evaluation: Evaluation) -> str:
    """An HTML table for notebooks with one row per method, image and label, cut after ``MOST_ROWS`` rows."""
    header, rows = pair_cells(evaluation)
    left_out = len(rows) - MOST_ROWS
    notes = [f"{counted(left_out, 'more row')}; print the result to see all"] if left_out > 0 else []
    return table_html(header, rows[:MOST_ROWS], [*notes, *fill_notes(evaluation)])


def _score_records(evaluation: Evaluation) -> Iterator[dict[str, object]]:
    """One record per method and score: the mean with its interval, direction and settings (as JSON)."""
    for result in evaluation.results:
        for score in result.scores:
            record = score.record()
            yield {"method": result.name, **record, "settings": json.dumps(record["settings"], default=str)}


def _image_records(evaluation: Evaluation) -> Iterator[dict[str, object]]:
    """One record per method, metric and image; the value is NaN where the image does not count."""
    for result in evaluation.results:
        for metric, values in result.values.items():
            for image, value in zip(evaluation.image_names, values.tolist(), strict=True):
                yield {"method": result.name, "metric": metric, "image": image, "value": value}


def _label_records(evaluation: Evaluation) -> Iterator[dict[str, object]]:
    """One record per method, metric, image and label, with f, the net's probability of the label."""
    names = evaluation.label_names
    believed, table = evaluation.f.tolist(), evaluation.labels.tolist()
    for result in evaluation.results:
        for metric, values in result.pairs.items():
            rows = zip(evaluation.image_names, table, believed, values.tolist(), strict=True)
            for image, labels, f, found in rows:
                for k, label in enumerate(labels):
                    if label != NO_LABEL:
                        place = {"image": image, "label": label, "label_name": names[label], "f": f[k]}
                        yield {"method": result.name, "metric": metric, **place, "value": found[k]}


def table_records(evaluation: Evaluation, table: str) -> Iterator[dict[str, object]]:
    """The records of the table named ``table``, one of ``TABLES``."""
    if table not in TABLES:
        raise InputError(f"there is no table {table!r}; there are {', '.join(TABLES)}")
    return {"scores": _score_records, "per_image": _image_records, "per_label": _label_records}[table](
        evaluation
    )


def dataframe(evaluation: Evaluation, table: str = "scores") -> pd.DataFrame:
    """The table named ``table`` (one of ``TABLES``) as a pandas DataFrame. A value that does not count is NaN."""
    records = list(table_records(evaluation, table))
    pandas = require("pandas", extra="pandas", purpose="to_dataframe()")
    frame: pd.DataFrame = pandas.DataFrame.from_records(records)
    return frame


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "*": "$^{*}$",
    "†": r"$^{\dagger}$",
    **{c: f"\\{c}" for c in "&%$#_{}"},
}


def _latex_text(text: str) -> str:
    """The text in one line, escaped for LaTeX.

    >>> print(_latex_text("learned-mask:tv=0.1 & 50 % of a_b ↑"))
    learned-mask:tv=0.1 \\& 50 \\% of a\\_b $\\uparrow$
    """
    return "".join(_LATEX.get(c, c) for c in one_line(text))
