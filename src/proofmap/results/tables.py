"""Tables as plain text, Markdown, LaTeX, CSV and HTML, all made from the same rows."""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape

from proofmap.classifier.outputs import is_independent
from proofmap.core.labels import NO_LABEL
from proofmap.core.text import counted, csv_lines, one_line
from proofmap.results.controls import soundness_notes
from proofmap.results.evaluation import Evaluation
from proofmap.results.fill_alone import MARK as FILL_MARK
from proofmap.results.fill_alone import fill_notes, given_by_fill, is_marked
from proofmap.results.notes import (
    certificate_notes,
    counting_notes,
    coverage_notes,
    different_images,
    distractor_notes,
    subject_words,
    thresholds_words,
)
from proofmap.results.records import MethodResult
from proofmap.results.sharing import shared
from proofmap.results.statistics import Score

Cells = tuple[list[str], list[list[str]]]
"""A header, and rows with as many cells."""


class Tables(ABC):
    """A result that prints as tables, with notes below the last: as text, Markdown, CSV, JSON and in notebooks."""

    notes: tuple[str, ...]

    @abstractmethod
    def tables(self) -> list[Cells]:
        """Header and rows of each table."""

    @abstractmethod
    def records(self) -> list[dict[str, object]]:
        """The rows of :meth:`csv`."""

    def record(self) -> dict[str, object]:
        """The content of :meth:`json`: every field, unless a subclass defines another."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]

    def footer(self) -> list[str]:
        """Lines below the notes."""
        return []

    def table(self) -> str:
        """Aligned text with the notes below."""
        found = "\n\n".join(aligned(*cells) for cells in self.tables())
        return "\n".join([found, *self.notes, *self.footer()])

    def markdown(self) -> str:
        *first, last = self.tables()
        return "\n\n".join([*(markdown(*cells) for cells in first), markdown(*last, self.notes)])

    def csv(self) -> str:
        """One line per record, all decimals."""
        return records_csv(self.records())

    def json(self) -> str:
        """All numbers and notes; NaN becomes null."""
        return json_text(self.record())

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        *first, last = self.tables()
        below = [*self.notes, *self.footer()]
        return "".join([*(table_html(*cells) for cells in first), table_html(*last, below)])


class Table(Tables):
    """A result of one table."""

    @abstractmethod
    def cells(self) -> Cells:
        """Header and rows."""

    def tables(self) -> list[Cells]:
        return [self.cells()]


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to equal width; text to the left, numbers to the right; every row in one line.

    >>> print(aligned(["method", "x"], [["a", ".5"], ["bcd", "1.0"]]))
    method    x
    a        .5
    bcd     1.0
    """
    header, *rows = ([one_line(cell) for cell in row] for row in [header, *rows])
    columns = list(zip(header, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    textual = [any(c[:1].isalpha() for c in column[1:]) for column in columns]
    lines = []
    for row in [header, *rows]:
        cells = [
            cell.ljust(width) if text else cell.rjust(width)
            for cell, width, text in zip(row, widths, textual, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def markdown(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Sequence[str] = (),
    *,
    bold: Sequence[Sequence[bool]] | None = None,
) -> str:
    """A Markdown table with notes below; every cell and note is printed as it is, whatever characters it has.

    >>> print(markdown(["name", "x"], [["a|b", ".5"]], bold=[[False, True]]))
    | name | x |
    | --- | --- |
    | a\\|b | **.5** |
    """
    marked = bold or [[False] * len(header)] * len(rows)
    cells = [
        [f"**{_markdown(c)}**" if b else _markdown(c) for c, b in zip(row, marks, strict=True)]
        for row, marks in zip(rows, marked, strict=True)
    ]
    lines = [[_markdown(c) for c in header], ["---"] * len(header), *cells]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return "\n\n".join([table, *map(_markdown, notes)])


def _markdown(text: str) -> str:
    """Text that Markdown prints as it is, in one line, in a table too."""
    return re.sub(r"([\\`*_|<>~&])", r"\\\1", one_line(text))


def records_csv(records: Sequence[dict[str, object]]) -> str:
    """Plain records as CSV, a column for every key that occurs."""
    fields = list(dict.fromkeys(key for record in records for key in record))
    rows = ([record.get(key, "") for key in fields] for record in records)
    return "\n".join([*csv_lines([fields, *rows]), ""])


def json_text(record: object) -> str:
    """Plain data as JSON; NaN, which JSON does not know, becomes null, and a setting of another kind its text."""
    return json.dumps(_without_nan(record), indent=1, default=str)


def _without_nan(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(k): _without_nan(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(v) for v in value]
    return value


def with_interval(value: float, low: float, high: float) -> str:
    """``.84 [.80, .88]``; the value alone where there is no interval, as of one image."""
    interval = "" if math.isnan(value) or math.isnan(low) else f" [{number(low)}, {number(high)}]"
    return number(value) + interval


def number(value: object) -> str:
    """Two decimals without the leading zero, as papers print probabilities; small ones in scientific form."""
    assert isinstance(value, float)
    if math.isnan(value):
        return "-"
    if 0 < abs(value) < 0.005:
        return f"{value:.0e}".replace("e-0", "e-")
    return re.sub(r"^(-?)0\.", r"\1.", f"{value + 0.0:.2f}")  # -0.0 has no sign


def table_html(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Sequence[str] = (),
    *,
    bold: Sequence[Sequence[bool]] | None = None,
) -> str:
    """A table with notes below; text to the left, numbers to the right."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(header)
    sides = ["left" if any(c[:1].isalpha() for c in column) else "right" for column in columns]
    lines = [_row("th", header, sides, [False] * len(header))]
    for i, row in enumerate(rows):
        lines.append(_row("td", row, sides, bold[i] if bold else [False] * len(row)))
    quoted = "".join(f"<br>{escape(note)}" for note in notes)
    small = f'<div style="font-size:small;color:#666">{quoted.removeprefix("<br>")}</div>' if notes else ""
    return f"<table>{''.join(lines)}</table>{small}"


def _row(tag: str, cells: Sequence[str], sides: Sequence[str], bold: Sequence[bool]) -> str:
    shown = [f"<b>{escape(c)}</b>" if b else escape(c) for c, b in zip(cells, bold, strict=True)]
    return (
        "<tr>"
        + "".join(
            f'<{tag} style="text-align:{side}">{c}</{tag}>' for c, side in zip(shown, sides, strict=True)
        )
        + "</tr>"
    )


# ---- tables of an evaluation ----------------------------------------------------------------------------------------

LABEL_FREE_MARK = "*"
MOST_ROWS = 50
"""Rows of a table of pairs in a notebook."""


def score_cells(evaluation: Evaluation) -> tuple[list[str], list[list[str]]]:
    """Header and one row of cells per method: ``.84 [.80, .88]``; label-free methods, and scores of labels that the fill gives by
    itself, carry marks.

    Where the methods count different images, a cell says how many: ``.84 [.80, .88] n=20``.
    """
    scores = evaluation.results[0].scores
    header = ["method", *(_header(evaluation, s) for s in scores)]
    uneven = different_images(evaluation)
    rows = [
        [
            r.name + (LABEL_FREE_MARK if r.label_free else ""),
            *(_score_cell(s, u) for s, u in zip(r.scores, uneven, strict=True)),
        ]
        for r in evaluation.results
    ]
    return header, rows


def _header(evaluation: Evaluation, score: Score) -> str:
    mark = FILL_MARK if is_marked(evaluation, score) else ""
    return f"{score.name} {'↑' if score.higher_is_better else '↓'}{mark}"


def score_notes(evaluation: Evaluation) -> list[str]:
    """What the numbers depend on, in a few lines."""
    settings, curve = evaluation.settings, evaluation.results[0].insertion.settings
    thresholds = thresholds_words(evaluation)
    error = max(float(r.insertion.error.nan_to_num(0).max()) for r in evaluation.results)
    quoted = [
        f"{subject_words(evaluation)}; 95 % intervals over images",
        f"{f'thresholds {thresholds}; ' if thresholds else ''}insertion curve: fill {curve['fill']}, "
        f"{curve['points']} points, rule {curve['rule']}, ties {curve['ties']}; "
        f"step error of an AUC about {error:.3f} or less (its change when every second step is left out)",
        *coverage_notes(evaluation),
        *certificate_notes(evaluation),
        *distractor_notes(evaluation),
    ]
    if any(r.label_free for r in evaluation.results):
        effort = "" if is_independent(settings.get("outputs")) else "sound without effort, "
        quoted.append(f"{LABEL_FREE_MARK} one map for all labels: {effort}see best-effort")
    quoted += fill_notes(evaluation)
    return quoted + soundness_notes(evaluation) + _run_notes(evaluation) + counting_notes(evaluation)


def _run_notes(evaluation: Evaluation) -> list[str]:
    """The numbers about the run as a whole, a line per metric."""
    lines: dict[str, list[str]] = {}
    for score in evaluation.run_scores:
        lines.setdefault(score.name, []).append(f"{score.subject} {number(score.value)} (n = {score.n})")
    return [f"{name}: {', '.join(found)}" for name, found in lines.items()]


def score_table(evaluation: Evaluation) -> str:
    """The scores as aligned text with notes below."""
    header, rows = score_cells(evaluation)
    return "\n".join([aligned(header, rows), *score_notes(evaluation)])


def pair_cells(evaluation: Evaluation, methods: int | None = None) -> tuple[list[str], list[list[str]]]:
    """Header and one row per (method, image, label); the method's name is left out when there is one.

    Completeness and soundness of a label that the fill gives by itself carry a mark.
    """
    results = evaluation.results[:methods]
    marked = {score.name for score in results[0].scores if is_marked(evaluation, score)}
    values = [k for k in results[0].rows[0] if k not in ("method", "image", "label", "name")]
    several = len(results) > 1
    header = [*(["method"] if several else []), "image", "label", *values]
    rows = [
        [
            *([result.name] if several else []),
            str(row["image"]),
            f"{row['name']} ({row['label']})",
            *(number(row[key]) + (FILL_MARK if given and key in marked else "") for key in values),
        ]
        for result in results
        for row, given in zip(result.rows, _given(result), strict=True)
    ]
    return header, rows


def _given(result: MethodResult) -> list[bool]:
    """For each row of a result, whether the fill gives its label."""
    found: list[bool] = given_by_fill(result)[result.insertion.labels.cpu() != NO_LABEL].tolist()
    return found


def pair_table(evaluation: Evaluation, methods: int | None = None) -> str:
    """One line per image and label, for all methods or the first ``methods``: f, and what the map proves."""
    return aligned(*pair_cells(evaluation, methods))


def best_two(evaluation: Evaluation) -> list[list[bool]]:
    """Which cells of :func:`score_cells` hold one of the best two values of their column, as the paper's tables mark.

    Values count as they are printed, so one that reads like the second best is marked too; of two methods only the
    better is, and of one none. Methods with one map for all labels are left out: they are sound without effort. None
    is marked in a column whose means are over different images.
    """
    results = evaluation.results
    marked = [[False] * (1 + len(results[0].scores)) for _ in results]
    compared = [row for row, r in enumerate(results) if not r.label_free]
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


def score_markdown(evaluation: Evaluation) -> str:
    """The scores as a Markdown table, the best two of each column bold, with notes below, without folders in names."""
    evaluation = shared(evaluation)
    return markdown(*score_cells(evaluation), score_notes(evaluation), bold=best_two(evaluation))


def latex(
    evaluation: Evaluation,
    *,
    intervals: bool = True,
    caption: str | None = None,
    label: str = "tab:scores",
) -> str:
    """The scores as a LaTeX table (package booktabs), the best two of each column bold.

    The caption says what the numbers depend on unless one is given (as LaTeX). Names have no folders in them.
    """
    evaluation = shared(evaluation)
    header, _ = score_cells(evaluation)
    head = " & ".join(latex_text(cell) for cell in header)
    uneven = different_images(evaluation)
    free = sum(result.label_free for result in evaluation.results)
    lines = []
    for result, marks in zip(evaluation.results, best_two(evaluation), strict=True):
        name = latex_text(result.name) + ("$^{*}$" if result.label_free else "")
        cells = [
            _latex_score(s, b, intervals, u) for s, b, u in zip(result.scores, marks[1:], uneven, strict=True)
        ]
        lines.append(" & ".join([name, *cells]) + r" \\")
    if caption is None:
        where = " that is over the same images" if any(uneven) else ""
        among = " among the methods with a map for each label" if free else ""
        marked = f"The best two of each column{where}{among} are bold. " if len(lines) - free > 2 else ""
        caption = marked + " ".join(f"{latex_text(_sentence(note))}" for note in score_notes(evaluation))
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


def latex_text(text: str) -> str:
    """Any text so that LaTeX prints it as it is, in one line.

    >>> print(latex_text("learned-mask:tv=0.1 & 50 % of a_b ↑"))
    learned-mask:tv=0.1 \\& 50 \\% of a\\_b $\\uparrow$
    """
    return "".join(_LATEX.get(c, c) for c in one_line(text))


def _latex_score(score: Score, bold: bool, interval: bool, with_n: bool) -> str:
    if math.isnan(score.value):
        return "--"
    value = number(score.value).replace("-", "$-$", 1) if score.value < 0 else number(score.value)
    shown = rf"\textbf{{{value}}}" if bold else value
    small = [f"[{number(score.low)}, {number(score.high)}]"] if interval and not math.isnan(score.low) else []
    small += [f"n={score.n}"] if with_n else []
    return rf"{shown} {{\scriptsize {' '.join(small)}}}" if small else shown


def _sentence(note: str) -> str:
    return note[:1].upper() + note[1:].rstrip(".") + "."


def _as_printed(value: float) -> float:
    """The value behind its printed form: what a reader can tell apart."""
    return value if math.isnan(value) else float(f"{value:.0e}" if 0 < abs(value) < 0.005 else f"{value:.2f}")


def scores_csv(evaluation: Evaluation) -> str:
    """One line per method and score, with interval, direction and every setting in columns of their own."""
    records = [
        {"method": r.name, "label_free": r.label_free, **_flat(s)}
        for r in evaluation.results
        for s in r.scores
    ]
    return records_csv(records)


def pairs_csv(evaluation: Evaluation) -> str:
    """One line per method, image and label."""
    return records_csv([dict(row) for result in evaluation.results for row in result.rows])


def _flat(score: Score) -> dict[str, object]:
    record = score.record()
    settings = record.pop("settings")
    assert isinstance(settings, dict)
    return {**record, **settings}


def _score_cell(score: Score, with_n: bool) -> str:
    size = f" n={score.n}" if with_n and not math.isnan(score.value) else ""
    return with_interval(score.value, score.low, score.high) + size


def pairs_html(evaluation: Evaluation) -> str:
    """One row per method, image and label."""
    header, rows = pair_cells(evaluation)
    left_out = len(rows) - MOST_ROWS
    notes = [f"{counted(left_out, 'more row')}; print the result to see all"] if left_out > 0 else []
    return table_html(header, rows[:MOST_ROWS], [*notes, *fill_notes(evaluation)])
