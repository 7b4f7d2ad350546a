"""Tables as plain text, Markdown, LaTeX and CSV, all drawn from the same rows."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence

from proofmap.classifier.outputs import in_words, is_independent
from proofmap.core.labels import NO_LABEL
from proofmap.core.text import counted, csv_lines, one_line
from proofmap.metrics.proof import SECOND_LABEL_FLOOR
from proofmap.results.controls import soundness_notes
from proofmap.results.fill_alone import MARK as FILL_MARK
from proofmap.results.fill_alone import fill_notes, given_by_fill, is_marked
from proofmap.results.records import BEST_EFFORT, EvaluationRecord, MethodResult
from proofmap.results.settings_words import (
    certificate_notes,
    coverage_notes,
    distractor_notes,
    thresholds_words,
)
from proofmap.results.sharing import shared
from proofmap.results.statistics import Score

LABEL_FREE_MARK = "*"


def score_cells(evaluation: EvaluationRecord) -> tuple[list[str], list[list[str]]]:
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


def _header(evaluation: EvaluationRecord, score: Score) -> str:
    mark = FILL_MARK if is_marked(evaluation, score) else ""
    return f"{score.name} {'↑' if score.higher_is_better else '↓'}{mark}"


def different_images(evaluation: EvaluationRecord) -> list[bool]:
    """For each score, whether the methods' means are over different images; a method that counts none has no mean."""
    found = []
    for scores in zip(*(r.scores for r in evaluation.results), strict=True):
        with_images = [(s, r) for s, r in zip(scores, evaluation.results, strict=True) if s.n]
        sizes = {s.n for s, _ in with_images}
        sets = {tuple(r.values[s.name].isnan().tolist()) for s, r in with_images}
        found.append(len(sizes) > 1 or len(sets) > 1)
    return found


def score_notes(evaluation: EvaluationRecord) -> list[str]:
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
    return quoted + soundness_notes(evaluation) + _run_notes(evaluation) + _counting_notes(evaluation)


def subject_words(evaluation: EvaluationRecord) -> str:
    """What was judged: ``20 images, labels top5, softmax over all outputs, model resnet, seed 0``."""
    settings = evaluation.settings
    return (
        f"{counted(len(evaluation), 'image')}, labels {settings['labels']}, {in_words(settings)}, "
        f"model {settings['model']}, seed {settings['seed']}"
    )


def _run_notes(evaluation: EvaluationRecord) -> list[str]:
    """The numbers about the run as a whole, a line per metric."""
    lines: dict[str, list[str]] = {}
    for score in evaluation.run_scores:
        lines.setdefault(score.name, []).append(f"{score.subject} {number(score.value)} (n = {score.n})")
    return [f"{name}: {', '.join(found)}" for name, found in lines.items()]


def _counting_notes(evaluation: EvaluationRecord) -> list[str]:
    """How many images best effort counts and by which rule, which other scores leave images out, and where methods count different
    images."""
    n, notes = len(evaluation), []
    uneven_names: dict[str, list[str]] = {}
    columns = list(zip(*(r.scores for r in evaluation.results), strict=True))
    by_the_rule = only_the_rule_leaves_out(evaluation)
    for scores, uneven in zip(columns, different_images(evaluation), strict=True):
        name, rule = scores[0].name, best_effort_rule(scores[0])
        least, most = min(s.n for s in scores), max(s.n for s in scores)
        many = f"{least}" if least == most else f"{least} to {most}"
        if uneven:
            uneven_names.setdefault(many, []).append(name)
            notes += [f"{name}: its rule counts images {rule}"] if rule else []
        elif rule and (by_the_rule or least == n):
            notes.append(f"{name} counts the {many} of {counted(n, 'image')} {rule}")
        elif least < n:
            why = f"; its rule: images {rule}" if rule else ""
            notes.append(f"{name} counts {many} of {counted(n, 'image')}{why}")
    for many, names in uneven_names.items():
        notes.append(
            f"{', '.join(names)}: means over different images ({many} of {counted(n, 'image')} by method); compare with: proofmap compare"
        )
    return notes


def best_effort_rule(score: Score) -> str:
    """Which images a score of best effort counts, by its settings; nothing for other scores, and for one that is not ours."""
    if score.kind != BEST_EFFORT or "e1" not in score.settings:
        return ""
    e1 = float(str(score.settings["e1"]))
    second = f"whose second label has f >= {SECOND_LABEL_FLOOR:g}"
    other = "with a judged label other than the top one"
    if score.settings.get("counted") == "paper":
        return f"{second}, and {other} (the paper's rule; labels with f <= {e1:g} count as proved)"
    believed = f"{other} that has f >= {e1:g}" if e1 > 0 else other
    return believed if e1 >= SECOND_LABEL_FLOOR else f"{second}, and {believed}"


def only_the_rule_leaves_out(evaluation: EvaluationRecord) -> bool:
    """Whether nothing but the rule about labels believed can leave an image out of best effort.

    An image may be missing also because the run is unfinished, and then from the other scores too.
    """
    others = [s for r in evaluation.results for s in r.scores if s.kind != BEST_EFFORT]
    return bool(others) and all(s.n == len(evaluation) for s in others)


def score_table(evaluation: EvaluationRecord) -> str:
    """The scores as aligned text with notes below."""
    header, rows = score_cells(evaluation)
    return "\n".join([aligned(header, rows), *score_notes(evaluation)])


def pair_cells(evaluation: EvaluationRecord, methods: int | None = None) -> tuple[list[str], list[list[str]]]:
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


def pair_table(evaluation: EvaluationRecord, methods: int | None = None) -> str:
    """One line per image and label, for all or the first so many methods: f, and what the map proves."""
    return aligned(*pair_cells(evaluation, methods))


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


def best_two(evaluation: EvaluationRecord) -> list[list[bool]]:
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


def score_markdown(evaluation: EvaluationRecord) -> str:
    """The scores as a Markdown table, the best two of each column bold, with notes below, without folders in names."""
    evaluation = shared(evaluation)
    return markdown(*score_cells(evaluation), score_notes(evaluation), bold=best_two(evaluation))


def latex(
    evaluation: EvaluationRecord,
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


def _markdown(text: str) -> str:
    """Text that Markdown prints as it is, in one line, in a table too."""
    return re.sub(r"([\\`*_|<>~&])", r"\\\1", one_line(text))


def _as_printed(value: float) -> float:
    """The value behind its printed form: what a reader can tell apart."""
    return value if math.isnan(value) else float(f"{value:.0e}" if 0 < abs(value) < 0.005 else f"{value:.2f}")


def scores_csv(evaluation: EvaluationRecord) -> str:
    """One line per method and score, with interval, direction and every setting in columns of their own."""
    records = [
        {"method": r.name, "label_free": r.label_free, **_flat(s)}
        for r in evaluation.results
        for s in r.scores
    ]
    return records_csv(records)


def pairs_csv(evaluation: EvaluationRecord) -> str:
    """One line per method, image and label."""
    return records_csv([dict(row) for result in evaluation.results for row in result.rows])


def _flat(score: Score) -> dict[str, object]:
    record = score.record()
    settings = record.pop("settings")
    assert isinstance(settings, dict)
    return {**record, **settings}


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


def _score_cell(score: Score, with_n: bool) -> str:
    size = f" n={score.n}" if with_n and not math.isnan(score.value) else ""
    return with_interval(score.value, score.low, score.high) + size


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
