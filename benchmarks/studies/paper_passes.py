"""Compares the paper's method at its own passes with other rows of the task ``photos``, image by image, from the records of the leaderboard.

    python -m benchmarks.studies.paper_passes > docs/results/bench-paper-passes.json

Scores are means over all fills, and over random images alone, with 95 % intervals over photos; p by sign flips. The record of the paper's
method was made in parts. So differences to other rows are also given for the first ten photos and for the other thirty.
"""

from __future__ import annotations

import json

from proofmap.bench.leaderboard import Leaderboard, averaged
from proofmap.results.compare import _sign_flip_p
from proofmap.results.statistics import Score

PAPER = "learned-mask at the paper's passes"
OTHERS = ("learned-mask", "belief-mask", "belief-mask thorough", "belief-mask on gray and blur")
SCORES = ("completeness", "soundness", "steadiness", "best-effort")
PARTS = {"all photos": slice(None), "photos 1 to 10": slice(10), "photos 11 to 40": slice(10, None)}


def rounded(numbers: dict[str, float]) -> dict[str, float]:
    return {key: round(number, 5) for key, number in numbers.items()}


def main() -> None:
    board = Leaderboard("leaderboard").board("photos")
    records = {record.name: record for record in board.records}
    views = {"all fills": board.task.fills, "images": ("images",)}
    rows = {
        view: [
            {
                "method": row.name,
                "passes": row.record.passes,
                **{score: rounded(row.scores[score].numbers(n=False)) for score in SCORES},
            }
            for row in board.rows(views[view])
            if row.name in (PAPER, *OTHERS)
        ]
        for view in views
    }
    differences = []
    for part, photos in PARTS.items():
        for view in views:
            for other in ("belief-mask", "learned-mask"):
                for score in ("completeness", "soundness"):
                    fills = views[view]
                    d = averaged(records[PAPER], score, fills) - averaged(records[other], score, fills)
                    d = d[photos]
                    p = float(_sign_flip_p(d[:, None], resamples=100_000)[0])
                    found = Score(score).over(d).numbers(n=False) | {"p": p}
                    differences.append(
                        {
                            "photos": part,
                            "fills": view,
                            "of": f"{PAPER} minus {other}",
                            "score": score,
                            **rounded(found),
                        }
                    )
    n = len(records[PAPER].images)
    print(json.dumps({"task": "photos", "n": n, "rows": rows, "differences": differences}, indent=1))


if __name__ == "__main__":
    main()
