"""The tables of an evaluation: scores, values per image and per label; as text, Markdown, LaTeX, CSV and pandas DataFrames."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proofmap.core.errors import InputError, require
from proofmap.core.labels import NO_LABEL
from proofmap.core.outputs import is_independent
from proofmap.core.text import counted, one_line
from proofmap.results.evaluation import Evaluation
from proofmap.results.fill_alone import MARK as FILL_MARK
from proofmap.results.fill_alone import fill_notes, given_by_fill, is_marked
from proofmap.results.notes import (
    WRONG_WORDS,
    counting_notes,
    different_images,
    setting_notes,
)
from proofmap.results.proof_shape import proof_names, shape_of
from proofmap.results.sharing import shared
from proofmap.results.statistics import Score
from proofmap.results.tables import (
    Cells,
    Tables,
    aligned,
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
_LABEL_FREE = "*"
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
    uneven, header = different_images(evaluation), ["method"]
    for score in evaluation.results[0].scores:
        mark = FILL_MARK if is_marked(evaluation, score) else ""
        header.append(metric_with_arrow(score.name, score.higher_is_better) + mark)
    rows = [
        [
            r.name + (_LABEL_FREE if r.one_map else ""),
            *(_score_cell(s, u) for s, u in zip(r.scores, uneven, strict=True)),
        ]
        for r in evaluation.results
    ]
    return header, rows


def score_notes(evaluation: Evaluation) -> list[str]:
    """The notes below a score table, one string per line: the settings behind the scores, and warnings about how to read them."""
    quoted = setting_notes(evaluation)
    if any(r.one_map for r in evaluation.results):
        effort = (
            ""
            if is_independent(evaluation.settings.get("outputs"))
            else "such maps are sound without effort, so "
        )
        quoted.append(f"{_LABEL_FREE} one map for all labels: {effort}also read best effort")
    if found := [r.name for r in evaluation.results if r.one_map and not r.label_free]:
        quoted.append(
            f"{', '.join(found)}: found to give one map for all labels; a map with one value everywhere counts too, and is read in the order "
            f"of the {evaluation.inputs.position_noun}"
        )
    return [*quoted, *fill_notes(evaluation), *soundness_notes(evaluation), *counting_notes(evaluation)]


@dataclass(frozen=True, eq=False)
class ScoreTable(Tables):
    """The scores of an evaluation as a table with a row per method, in all forms. The best two of each column are bold."""

    evaluation: Evaluation
    notes: tuple[str, ...]

    def tables(self) -> list[Cells]:
        return [score_cells(self.evaluation)]

    def bold(self) -> list[list[bool]]:
        return best_two(self.evaluation)

    def records(self) -> list[dict[str, object]]:
        return list(table_records(self.evaluation, "scores"))

    def record(self) -> dict[str, object]:
        return {"scores": self.records(), "notes": self.notes}


def score_table(evaluation: Evaluation) -> ScoreTable:
    return ScoreTable(evaluation, tuple(score_notes(evaluation)))


def shared_table(evaluation: Evaluation) -> ScoreTable:
    """The table of scores without the folders of this machine, for papers and other people."""
    return score_table(shared(evaluation))


def pair_cells(evaluation: Evaluation, methods: int | None = None, *, bars: bool = False) -> Cells:
    """Header and one row per (method, image, label), for all methods or the first ``methods``. The name of an only method is left out.

    ``†`` marks completeness and soundness of a label that the fill alone gives: the net believes the label if nothing is shown. With
    ``bars``, a column has a bar that pictures the proof, and inputs whose positions have names have a column of the first ones.
    """
    results, names = evaluation.results[:methods], bars and evaluation.inputs.has_names
    marked = {score.name for score in results[0].scores if is_marked(evaluation, score)}
    values = [k for k in results[0].rows[0] if k not in ("method", "image", "label", "name")]
    first, last = ["method"] * (len(results) > 1), [evaluation.inputs.position_noun] * names
    header = [*first, evaluation.inputs.singular, "label", *["proof"] * bars, *values, *last]
    pairs, rows = (evaluation.labels != NO_LABEL).nonzero().tolist(), []
    for result in results:
        given = given_by_fill(result)
        for row, (i, j) in zip(result.rows, pairs, strict=True):
            name, label = str(row["name"]), str(row["label"])
            words = name if name == label else f"{name} ({label})"
            cells = [result.name] if first else []
            cells += [str(row["image"]), words + (f", {WRONG_WORDS}" if evaluation.wrong_kind(i, j) else "")]
            cells += [shape_of(evaluation, result, i, j).text()] if bars else []
            cells += [number(row[k]) + (FILL_MARK if given[i, j] and k in marked else "") for k in values]
            if names:
                kept = i in evaluation.pictured
                cells.append(proof_names(evaluation, result, i, j) if kept else "map not kept")
            rows.append(cells)
    return header, rows


def pair_table(evaluation: Evaluation, methods: int | None = None, width: int | None = None) -> str:
    """:func:`pair_cells` as text with bars, and how to read them."""
    header, rows = pair_cells(evaluation, methods, bars=True)
    first = f"\n{header[-1]}: the first ones of the map, which give the belief"
    return f"{aligned(header, rows, width)}\n{SHAPE}{first if evaluation.inputs.has_names else ''}"


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
    compared = [not result.one_map for result in evaluation.results]
    columns = [[False] * len(compared)]
    for scores, uneven in zip(
        zip(*(r.scores for r in evaluation.results), strict=True), different_images(evaluation), strict=True
    ):
        sign = 1 if scores[0].higher_is_better else -1
        printed = [
            sign * _as_printed(s.value) if own else math.nan for s, own in zip(scores, compared, strict=True)
        ]
        ranked = sorted((value for value in printed if not math.isnan(value)), reverse=True)
        best = ranked[: max(0, min(2, sum(compared) - 1))]
        columns.append([bool(best) and not uneven and value >= best[-1] for value in printed])
    return [list(row) for row in zip(*columns, strict=True)]


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
    believed = evaluation.f[evaluation.labels != NO_LABEL].tolist()
    for result in evaluation.results:
        for metric in result.pairs:
            for row, f in zip(result.rows, believed, strict=True):
                of = {"image": row["image"], "label": row["label"], "label_name": row["name"], "f": f}
                yield {"method": result.name, "metric": metric, **of, "value": row[metric]}


def table_records(evaluation: Evaluation, table: str) -> Iterator[dict[str, object]]:
    """The records of the table named ``table``, one of ``TABLES``."""
    makers = dict(zip(TABLES, (_score_records, _image_records, _label_records), strict=True))
    if table not in makers:
        raise InputError(f"there is no table {table!r}; there are {', '.join(TABLES)}")
    return makers[table](evaluation)


def dataframe(evaluation: Evaluation, table: str = "scores") -> pd.DataFrame:
    """The table named ``table`` (one of ``TABLES``) as a pandas DataFrame. A value that does not count is NaN."""
    records = list(table_records(evaluation, table))
    pandas = require("pandas", extra="pandas", purpose="to_dataframe()")
    frame: pd.DataFrame = pandas.DataFrame.from_records(records)
    return frame
