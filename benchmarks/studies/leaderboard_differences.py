"""Paired differences between rows of the task ``photos``, image by image, from the records of the leaderboard. No net is run.

    python -m benchmarks.studies.leaderboard_differences > docs/results/recorded/photos-differences.json

A difference is the mean over photos of (score of the first row - score of the second), with its 95 % interval over photos.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from proofmap.bench.leaderboard import Leaderboard
from proofmap.bench.record import Record
from proofmap.results.statistics import Score

PAPER = "learned-mask at the paper's passes"
FILLS = ("gray", "blur", "noise", "images")


def pairs(methods: list[str]) -> Iterator[tuple[str, str, str]]:
    """(score, first row, second row) of each difference."""
    for method in methods:
        if method != "random":
            yield "deletion (gray)", method, "random"
    for score in ("insertion (gray)", "completeness (gray)"):
        yield score, "gradient-x-input", "random"
    for fill in FILLS:
        yield f"soundness ({fill})", "centered-gaussian", "learned-mask"
        yield f"soundness ({fill})", "centered-gaussian", PAPER
        yield f"soundness ({fill})", "top-label:belief-mask", "belief-mask"
        yield f"best-effort ({fill})", "top-label:belief-mask", "belief-mask"


def difference(score: str, first: Record, second: Record) -> dict[str, object]:
    d = Score(score).over(first.array(score) - second.array(score))
    found = {key: round(number, 5) for key, number in d.numbers().items()}
    return {"score": score, "of": f"{first.name} minus {second.name}", **found}


def differences(folder: Path) -> list[dict[str, object]]:
    records = {record.name: record for record in Leaderboard(folder).board("photos").records}
    return [difference(score, records[a], records[b]) for score, a, b in pairs([*records])]


def main() -> None:
    asked = {"task": "photos", "thresholds": "e1 = .01, e2 = .001"}
    command = "python -m benchmarks.studies.leaderboard_differences"
    print(
        json.dumps({"command": command, "asked": asked, "rows": differences(Path("leaderboard"))}, indent=1)
    )


if __name__ == "__main__":
    main()
