"""The leaderboard as one HTML file that needs nothing else, drawn with the plots and the look of the report."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

from proofmap.bench.leaderboard import ALL, DECIDED, Board, Leaderboard, Row
from proofmap.bench.task import METRICS, VERSION
from proofmap.core.files import write_text
from proofmap.report import scatter
from proofmap.report.html import page_file, templates_of
from proofmap.results.statistics import Score

_PLOTS = (("completeness", "soundness"), ("steadiness", "soundness"))


def write_page(leaderboard: Leaderboard, path: str | Path) -> Path:
    """Write the page of all tasks that have records."""
    target = Path(path)
    write_text(target, page_html(leaderboard))
    return target


def page_html(leaderboard: Leaderboard) -> str:
    """The page as text; equal records give equal text."""
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
        "is_undecidable": board.is_undecidable,
        "views": [
            {
                **_view(name, board.rows(name)),
                "is_tested": name == ALL and not board.is_undecidable,
            }
            for name in board.views()
        ],
    }


def _view(name: str, rows: list[Row]) -> dict[str, Any]:
    return {
        "name": name,
        "rows": rows,
        "names": [row.name for row in rows],
        "higher": {kind: score.higher_is_better for kind, score in rows[0].scores.items()},
        "totals": [
            (sum(map(len, row.better_than.values())), sum(map(len, row.worse_than.values()))) for row in rows
        ],
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


def _ends(score: Score) -> scatter.Ends:
    return score.value, score.low, score.high


def _own(name: str) -> str:
    return (files("proofmap.bench") / "page" / name).read_text(encoding="utf-8")
