"""The leaderboard: the records of a folder, their means with intervals, which differences between methods are decided, and their costs.

A fill gives the values that hidden positions show, and a *view* is a set of fills: all fills, those that methods may learn on, those never
learned on, or a single fill. Scores of one image are first averaged over the fills of the view. Means, intervals and differences are then
taken over images, as everywhere in Proofmap. Two methods are compared image by image. A difference over all fills is decided by the rule of
``proofmap compare``: the interval excludes zero, and p is below .05 after correction for all pairs of methods of the task.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from proofmap.bench.record import Record
from proofmap.bench.task import METRICS, VERSION, Task
from proofmap.core.errors import InputError
from proofmap.core.files import write_text
from proofmap.core.text import counted
from proofmap.report.figures import scatter
from proofmap.results import tables
from proofmap.results.compare import decided_signs
from proofmap.results.statistics import Doubles, Score, fewest_images

DECIDED = ("completeness", "soundness", "steadiness")
"""The scores whose differences between methods are tested."""
ALL, LEARNED, UNSEEN = "all fills", "fills learned on", "fills never learned on"


@dataclass(frozen=True)
class Row:
    """A row of the leaderboard: one method on one task, in one view."""

    record: Record
    scores: Mapping[str, Score]
    """The scores by kind: completeness, soundness, and so on."""
    better_than: Mapping[str, tuple[str, ...]]
    worse_than: Mapping[str, tuple[str, ...]]
    """``better_than`` and ``worse_than``: for each kind in :data:`DECIDED`, the methods with a decided difference to this one."""
    frontier: bool
    """Whether no other method is at least as good in both mean completeness and mean soundness, and better in one of them."""
    over_budget: bool
    learned_on: tuple[str, ...]
    """The fills of the task's ``unseen`` that this method nevertheless learned on, according to its settings."""

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def checked(self) -> str:
        """How many images were computed again, and how the record agrees with them."""
        check = self.record.check
        if not check.get("images"):
            return "no value was computed again"
        found = f"{self.recomputed} computed again on {check['machine']['device']}"
        single = f"single values differ by up to {check['largest_difference']:.4f}"
        means = check.get("largest_mean_difference")
        return f"{found}: {single}" + ("" if means is None else f", and means by at most {means:.4f}")

    @property
    def recomputed(self) -> str:
        """The number of images that were computed again, such as ``4 of 40``."""
        return f"{len(self.record.check.get('images', ()))} of {len(self.record.images)}"

    @property
    def hardly_checked(self) -> bool:
        """Whether fewer than a tenth of the images were computed again."""
        return len(self.record.check.get("images", ())) < self.record.fewest_checked

    @property
    def lesser(self) -> float:
        """The smaller of the mean completeness and the mean soundness, by which rows are sorted."""
        return min(self.scores["completeness"].value, self.scores["soundness"].value)


@dataclass(frozen=True)
class Board:
    """The leaderboard of one task: all its records."""

    task: Task
    records: tuple[Record, ...]

    def views(self) -> dict[str, tuple[str, ...]]:
        """The views by name, each with its fills."""
        several = {ALL: self.task.fills, LEARNED: self.task.learned, UNSEEN: self.task.unseen}
        return {**several, **{fill: (fill,) for fill in self.task.fills}}

    def rows(self, view: str = ALL) -> list[Row]:
        """The rows in a view, best first: sorted by the smaller of completeness and soundness."""
        fills = self.views()[view]
        values = [{kind: _averaged(record, kind, fills) for kind in METRICS} for record in self.records]
        better, worse = self._decided(values if view == ALL else ())
        means = [
            {
                kind: Score(
                    kind, higher_is_better=_higher(record, kind), kind=kind, limits=_limits(record, kind)
                ).over(column)
                for kind, column in columns.items()
            }
            for record, columns in zip(self.records, values, strict=True)
        ]
        points = [(scores["completeness"].value, scores["soundness"].value) for scores in means]
        rows = [
            Row(
                record,
                scores,
                better[k],
                worse[k],
                not any(x >= points[k][0] and y >= points[k][1] and (x, y) != points[k] for x, y in points),
                record.passes > self.task.budget,
                tuple(fill for fill in self.task.unseen if fill in record.settings_named("fill")),
            )
            for k, (record, scores) in enumerate(zip(self.records, means, strict=True))
        ]
        return sorted(rows, key=lambda row: (-row.lesser, row.name))

    @property
    def is_undecidable(self) -> bool:
        """Whether no difference can be decided because there are too few images for the number of pairs of methods."""
        n, rows = len(self.records[0].images), len(self.records)
        return n < fewest_images(max(1, rows * (rows - 1) // 2))

    def _decided(
        self, values: Sequence[Mapping[str, Doubles]]
    ) -> tuple[list[dict[str, tuple[str, ...]]], list[dict[str, tuple[str, ...]]]]:
        """For each record and kind in :data:`DECIDED`: the names of the records that it is better than, and of those that it is worse than.

        ``values`` has for each record the values ``(N,)`` by kind.
        """
        names = [record.name for record in self.records]
        better: list[dict[str, tuple[str, ...]]] = [dict.fromkeys(DECIDED, ()) for _ in names]
        worse: list[dict[str, tuple[str, ...]]] = [dict.fromkeys(DECIDED, ()) for _ in names]
        pairs = list(combinations(range(len(values)), 2))
        for kind in DECIDED if pairs and not self.is_undecidable else ():
            sign = 1 if _higher(self.records[0], kind) else -1
            d = np.stack([sign * (values[a][kind] - values[b][kind]) for a, b in pairs], axis=1)
            for (a, b), which in zip(pairs, decided_signs(d), strict=True):
                if which:
                    first, second = (a, b) if which > 0 else (b, a)
                    better[first][kind] += (names[second],)
                    worse[second][kind] += (names[first],)
        return better, worse

    def table(self, view: str = ALL) -> str:
        """The rows of a view as a text table with notes."""
        header = ["method", *DECIDED, "best effort", "passes", "decided"]
        cells, rows = [], self.rows(view)
        for row in rows:
            marks = ("*" if row.learned_on else "") + ("!" if row.over_budget else "")
            marks += "?" if row.hardly_checked else ""
            decided = f"+{_total(row.better_than)} -{_total(row.worse_than)}"
            shown = [_text(row.scores[kind]) for kind in (*DECIDED, "best-effort")]
            cells.append([row.name + marks, *shown, f"{row.record.passes:,}", decided])
        notes = [
            f"{self.task.name}: {self.task.title}. {counted(len(self.records), 'row')}, judged on {len(self.records[0].images)} {self.task.kind}, {view}, means "
            "with 95 % intervals.",
            "decided: how often a row is better (+) or worse (-) than another row by one of the first three scores, decided.",
        ]
        if self.is_undecidable:
            notes[1] = (
                f"No difference can be decided: {len(self.records)} rows need more {self.task.kind} than this task has."
            )
        if any(row.learned_on for row in rows):
            notes.append(f"*: learned on a fill that others have never seen ({', '.join(self.task.unseen)}).")
        if any(row.over_budget for row in rows):
            notes.append(f"!: over the budget of {self.task.budget:,} passes for an image.")
        if any(row.hardly_checked for row in rows):
            notes.append(f"?: not recomputed, or for fewer than a tenth of the {self.task.kind}.")
        return "\n".join([notes[0], "", tables.aligned(header, cells), "", *notes[1:]])


class Leaderboard:
    """The records of a folder: ``FOLDER/TASK/METHOD.json``."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise InputError(f"there is no folder {self.folder} of records; name one with --leaderboard")

    @cached_property
    def boards(self) -> dict[str, Board]:
        """The boards of the tasks that have records, by task name. Raises if a record belongs to another version of its task."""
        found: dict[str, Board] = {}
        for name in Task.names():
            task = Task.named(name)
            paths = sorted((self.folder / name).glob("*.json"))
            records = [Record.read(path) for path in paths]
            for path, record in zip(paths, records, strict=True):
                if record.task != name or record.task_digest != task.digest:
                    raise InputError(
                        f"{path} is not a record of the task {name} as it is; remove it, or run the task again"
                    )
            if records:
                found[name] = Board(task, tuple(records))
        if not found:
            raise InputError(f"{self.folder} has no record; proofmap bench submit RECORD adds one")
        return found

    def write_page(self, path: str | Path) -> Path:
        """Write the HTML page with all tasks that have records, and return its path."""
        target = Path(path)
        write_text(target, page_html(self))
        return target

    def board(self, task: str) -> Board:
        if task not in self.boards:
            raise InputError(
                f"{self.folder} has no record of the task {task!r}; it has {', '.join(self.boards)}"
            )
        return self.boards[task]


def _averaged(record: Record, kind: str, fills: Sequence[str]) -> Doubles:
    """The values ``(N,)`` of one kind of score, averaged over fills. NaN for an image that does not count with one of the fills."""
    averaged: Doubles = np.stack([record.array(f"{kind} ({fill})") for fill in fills]).mean(axis=0)
    return averaged


def _about(record: Record, kind: str) -> Mapping[str, Any]:
    return next(about for about in record.metrics.values() if about["kind"] == kind)


def _higher(record: Record, kind: str) -> bool:
    return bool(_about(record, kind)["better"] == "higher")


def _limits(record: Record, kind: str) -> tuple[float, float]:
    low, high = _about(record, kind)["limits"]
    return (-math.inf if low is None else low, math.inf if high is None else high)


def _total(decided: Mapping[str, Sequence[str]]) -> int:
    return sum(map(len, decided.values()))


def _text(score: Score) -> str:
    if score.n == 0:
        return "-"
    return tables.with_interval(score.value, score.low, score.high, score.n)


# ---- its page -----------------------------------------------------------------------------------------------


_PLOTS = (("completeness", "soundness"), ("steadiness", "soundness"))


def page_html(leaderboard: Leaderboard) -> str:
    """The HTML page of the leaderboard as text. Equal records give equal text."""
    from markupsafe import Markup

    from proofmap.report.html import page_file, templates_of

    boards = [_board(board) for board in leaderboard.boards.values()]
    views = list(dict.fromkeys(view["name"] for board in boards for view in board["views"]))
    return (
        templates_of("proofmap.bench", "page")
        .get_template("leaderboard.html")
        .render(
            version=VERSION,
            boards=boards,
            views=views,
            columns=METRICS,
            kinds=DECIDED,
            total=sum(len(board.records) for board in leaderboard.boards.values()),
            scatter=scatter,
            style=Markup(
                "\n".join([page_file("look.css"), page_file("report.css"), _own("leaderboard.css")])
            ),
            theme=Markup(page_file("theme.js")),
            script=Markup(_own("leaderboard.js")),
        )
    )


def _board(board: Board) -> dict[str, Any]:
    first = board.records[0]
    settings = next(iter(first.metrics.values()))["settings"]
    return {
        "task": board.task,
        "n": len(first.images),
        "net": Path(board.task.settings["model"].rpartition(":")[2]).name,
        "labels": f"labels {settings.get('labels', board.task.settings['labels'])}",
        "rows": board.records,
        "counts": counted(len(board.records), "row"),
        "is_undecidable": board.is_undecidable,
        "views": [
            _view(name, board.rows(name), is_tested=name == ALL and not board.is_undecidable)
            for name in board.views()
        ],
    }


def _view(name: str, rows: list[Row], *, is_tested: bool) -> dict[str, Any]:
    return {
        "name": name,
        "is_tested": is_tested,
        "rows": rows,
        "names": [row.name for row in rows],
        "higher": {kind: score.higher_is_better for kind, score in rows[0].scores.items()},
        "totals": [(_total(row.better_than), _total(row.worse_than)) for row in rows],
        "panels": [
            scatter.ScatterPanel(
                x,
                tuple(
                    scatter.ScatterPoint(
                        row.name, row.record.method["label_free"], _ends(row.scores[x]), _ends(row.scores[y])
                    )
                    for row in rows
                ),
                x,
                y,
            )
            for x, y in _PLOTS
        ],
    }


def _ends(score: Score) -> tuple[float, float, float]:
    return score.value, score.low, score.high


def _own(name: str) -> str:
    return (files("proofmap.bench") / "page" / name).read_text(encoding="utf-8")
