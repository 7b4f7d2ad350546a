"""The leaderboard: the records of a folder, their means with intervals, which differences between methods are decided, and their costs.

A fill gives the values that hidden positions show. Scores of one image are first averaged over the task's fills. Means, intervals and
differences are then taken over images, as everywhere in Proofmap. Two methods are compared image by image. A difference is decided by the rule
of ``proofmap compare``: the interval excludes zero, and p is below .05 after correction for all pairs of methods of the task.

An image is *fully proved* with a fill if all its judged labels are: completeness and soundness, which are the worst label's, both reach the bar.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
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
from proofmap.results.proof_shape import BAR
from proofmap.results.statistics import Doubles, Score, doubles, fewest_images

DECIDED = ("completeness", "soundness", "steadiness")
"""The scores whose differences between methods are tested."""
PROVED = "fully proved"
FIRST = (
    "photos",
    "photos-resnet50",
    "imagenette",
    "cifar10",
    "cifar10-resnet164",
    "text",
    "table",
    "series",
    "smoke",
)
"""The order of tasks on the page: photographs first, the task that is only a first try last, and then those of other packages."""
_KNOWN = ("grad-cam", "integrated-gradients", "lrp", "rise", "kernel-shap", "learned-mask", "random")
_NAMED = 8
"""Number of methods that have their name in the plot: the first row, the methods that readers know, and the next rows."""


@dataclass(frozen=True)
class Row:
    """A row of the leaderboard: one method on one task."""

    record: Record
    scores: Mapping[str, Score]
    """The scores by kind: fully proved, completeness, soundness, and so on."""
    better_than: Mapping[str, tuple[str, ...]]
    worse_than: Mapping[str, tuple[str, ...]]
    """``better_than`` and ``worse_than``: for each kind in :data:`DECIDED`, the methods with a decided difference to this one."""
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

    def rows(self, fills: Sequence[str] = ()) -> list[Row]:
        """The rows, best first: sorted by the smaller of completeness and soundness. Scores are averaged over ``fills``, by default all of the
        task; only then are differences tested."""
        kinds = (PROVED, *METRICS)
        values = [
            {kind: averaged(record, kind, fills or self.task.fills) for kind in kinds}
            for record in self.records
        ]
        better, worse = self._decided(() if fills else values)
        rows = [
            Row(
                record,
                {kind: _score(record, kind).over(column) for kind, column in columns.items()},
                better[k],
                worse[k],
                record.passes > self.task.budget,
                tuple(fill for fill in self.task.unseen if fill in record.settings_named("fill")),
            )
            for k, (record, columns) in enumerate(zip(self.records, values, strict=True))
        ]
        return sorted(rows, key=lambda row: (-row.lesser, row.name))

    def finding(self, rows: Sequence[Row]) -> tuple[str, str]:
        """Two sentences on all rows: which method fully proves most images, and how many the best of the other methods proves; and how many
        it proves with each fill."""
        best, n, kind = (
            max(rows, key=lambda row: row.scores[PROVED].value),
            len(rows[0].record.images),
            self.task.kind,
        )
        if not best.scores[PROVED].value:
            return f"No method fully proves any of the {n} {kind}.", ""
        own = best.record.method["settings"].get("method", "")
        others = [row for row in rows if row is not best and own not in row.record.settings_named("method")]
        other = max(others, key=lambda row: row.scores[PROVED].value, default=None)
        than = "" if other is None else f"; the best other method, {other.name}, {_percent(other)}"
        counts = [f"{np.nansum(_values(best.record, PROVED, fill)):.0f}" for fill in self.task.fills]
        fills = [f"{count} with {fill}" for count, fill in zip(counts[1:], self.task.fills[1:], strict=True)]
        first = f"It fully proves {counts[0]} of the {n} {kind} with the fill {self.task.fills[0]}"
        return (
            f"{best.name} fully proves {_percent(best)} of the {kind}{than}.",
            f"{', '.join([first, *fills])}.",
        )

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
            sign = 1 if _score(self.records[0], kind).higher_is_better else -1
            d = np.stack([sign * (values[a][kind] - values[b][kind]) for a, b in pairs], axis=1)
            for (a, b), which in zip(pairs, decided_signs(d), strict=True):
                if which:
                    first, second = (a, b) if which > 0 else (b, a)
                    better[first][kind] += (names[second],)
                    worse[second][kind] += (names[first],)
        return better, worse

    def table(self) -> str:
        """The rows as a text table with notes."""
        header = ["method", PROVED, "completeness", "soundness", "passes", "decided"]
        cells, rows = [], self.rows()
        for row in rows:
            marks = ("*" if row.learned_on else "") + ("!" if row.over_budget else "")
            marks += "?" if row.hardly_checked else ""
            decided = "+{} -{}".format(
                *(sum(map(len, d.values())) for d in (row.better_than, row.worse_than))
            )
            halves = [row.scores[kind] for kind in ("completeness", "soundness")]
            shown = [tables.with_interval(s.value, s.low, s.high, s.n) for s in halves]
            cells.append([row.name + marks, _percent(row), *shown, f"{row.record.passes:,}", decided])
        n, kind = len(self.records[0].images), self.task.kind
        notes = [
            f"{self.task.name}: {self.task.title}. {counted(len(self.records), 'row')}, judged on {n} {kind}, means over all fills with 95 % intervals.",
            self.finding(rows)[0],
            f"{PROVED}: every judged label is complete and sound, both at least {tables.number(BAR)}.",
            f"decided: how often a row is better (+) or worse (-) than another row by {', '.join(DECIDED[:-1])} or {DECIDED[-1]}, decided.",
        ]
        if self.is_undecidable:
            notes[3] = (
                f"No difference can be decided: {len(self.records)} rows need more {kind} than this task has."
            )
        if any(row.learned_on for row in rows):
            notes.append(f"*: learned on a fill that others have never seen ({', '.join(self.task.unseen)}).")
        if any(row.over_budget for row in rows):
            notes.append(f"!: over the budget of {self.task.budget:,} passes for an image.")
        if any(row.hardly_checked for row in rows):
            notes.append(f"?: not recomputed, or for fewer than a tenth of the {kind}.")
        return "\n".join([*notes[:2], "", tables.aligned(header, cells), "", *notes[2:]])


class Leaderboard:
    """The records of a folder: ``FOLDER/TASK/METHOD.json``."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise InputError(f"there is no folder {self.folder} of records; name one with --leaderboard")

    @cached_property
    def boards(self) -> dict[str, Board]:
        """The boards of the tasks that have records, by task name, in the order of :data:`FIRST`. Raises if a record belongs to another version of its task."""
        found: dict[str, Board] = {}
        for name in sorted(Task.names(), key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST)):
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


def averaged(record: Record, kind: str, fills: Sequence[str]) -> Doubles:
    """The values ``(N,)`` of one kind of score, averaged over fills. NaN for an image that does not count with one of the fills."""
    return doubles(np.stack([_values(record, kind, fill) for fill in fills]).mean(axis=0))


def _values(record: Record, kind: str, fill: str) -> Doubles:
    if kind != PROVED:
        return record.array(f"{kind} ({fill})")
    lesser = np.minimum(record.array(f"completeness ({fill})"), record.array(f"soundness ({fill})"))
    return doubles(np.where(np.isnan(lesser), math.nan, lesser >= BAR))


def _mean(values: Doubles) -> float | None:
    """The mean over the images that count; None if there are none."""
    counted = values[~np.isnan(values)]
    return float(counted.mean()) if counted.size else None


def _score(record: Record, kind: str) -> Score:
    """The score of this kind, without values."""
    if kind == PROVED:
        return Score(kind, kind=kind, limits=(0.0, 1.0))
    about = next(about for about in record.metrics.values() if about["kind"] == kind)
    low, high = about["limits"]
    limits = (-math.inf if low is None else low, math.inf if high is None else high)
    return Score(kind, higher_is_better=about["better"] == "higher", kind=kind, limits=limits)


def _percent(row: Row) -> str:
    score = row.scores[PROVED]
    return f"{100 * score.value:.0f} %" if score.n else "-"


# ---- its page -----------------------------------------------------------------------------------------------


def page_html(leaderboard: Leaderboard) -> str:
    """The HTML page of the leaderboard as text. Equal records give equal text."""
    from proofmap.report.html import templates_of

    return (
        templates_of("proofmap.bench", "page")
        .get_template("leaderboard.html")
        .render(
            version=VERSION,
            boards=[_board(board) for board in leaderboard.boards.values()],
            kinds=(PROVED, *METRICS),
            decided=DECIDED,
            bar=BAR,
            percent=_percent,
            scatter=scatter,
        )
    )


def _board(board: Board) -> dict[str, Any]:
    first, rows = board.records[0], board.rows()
    settings = next(iter(first.metrics.values()))["settings"]
    points = {row.name: (row.scores["completeness"].value, row.scores["soundness"].value) for row in rows}
    places = {
        name: scatter.place(*point) for name, point in points.items() if not any(map(math.isnan, point))
    }
    named = _named(places)
    places = {name: places[name] for name in (*named, *places)}
    return {
        "task": board.task,
        "n": len(first.images),
        "net": Path(board.task.settings["model"].rpartition(":")[2]).name,
        "labels": settings.get("labels", board.task.settings["labels"]),
        "finding": board.finding(rows),
        "is_undecidable": board.is_undecidable,
        "named": named,
        "places": places,
        "hollow": {record.name for record in board.records if record.method["label_free"]},
        "texts": scatter.text_places(list(places.values()), named),
        "rows": [
            {
                "row": row,
                "fills": {
                    kind: [_mean(_values(row.record, kind, fill)) for fill in board.task.fills]
                    for kind in row.scores
                },
            }
            for row in rows
        ],
    }


def _named(places: Mapping[str, tuple[float, float]]) -> list[str]:
    """The methods that have their name in the plot, of all in the order of the rows. Names would cover one another where two marks are near:
    there only the first has one."""
    found: dict[str, tuple[float, float]] = {}
    for name in (*list(places)[:1], *filter(places.__contains__, _KNOWN), *places):
        x, y = places[name]
        if len(found) < _NAMED and not any(abs(x - a) < 60 and abs(y - b) < 13 for a, b in found.values()):
            found[name] = x, y
    return list(found)
