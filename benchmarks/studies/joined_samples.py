"""Two samples of images that the same recipe judged, as one: scores, paired differences and claims over all images.

    python benchmarks/studies/joined_samples.py FIRST RUN --out FILE.json

RUN is a folder of ``proofmap reproduce``. FIRST is another, with another ``--images-seed``, or a FILE of this script, which has the scores of every
image. An image that is in both counts once, as in FIRST. A row that RUN does not have keeps the images of FIRST.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import proofmap as pm
from proofmap.cli import run_script
from proofmap.core.errors import InputError
from proofmap.core.files import output_file, write_text
from proofmap.reproduce.claims import claims_of, orderings_of, orderings_table
from proofmap.reproduce.paper_cells import score_tables
from proofmap.results.evaluation import Evaluation

Values = dict[str, dict[str, list[float | None]]]
"""For each row and score, the value of every image; None for an image that was not judged for this row."""


def joined(record: dict[str, Any], run: Evaluation) -> tuple[list[str], Values]:
    """The names of all images, and their values: those of the record first, then the images of the run that it does not have."""
    before: list[str] = record["images"]
    new = [i for i, name in enumerate(run.image_names) if name not in set(before)]
    there = {result.name: result.values for result in run.results}
    if not there.keys() <= record["values"].keys():
        raise InputError(f"the record has no row {', '.join(sorted(there.keys() - record['values'].keys()))}")
    values: Values = {}
    for row, scores in record["values"].items():
        values[row] = {}
        for score, own in scores.items():
            others = there[row][score][new].tolist() if row in there else [None] * len(new)
            values[row][score] = [*own, *(v if v is None else round(v, 5) for v in others)]
    return [*before, *(run.image_names[i] for i in new)], values


def differences_on_shared(record: dict[str, Any], run: Evaluation) -> list[float]:
    """How far the two samples are apart in the scores of the images that are in both."""
    places = {name: i for i, name in enumerate(record["images"])}
    both = [(places[name], i) for i, name in enumerate(run.image_names) if name in places]
    return [
        abs(record["values"][result.name][score][old] - float(values[here]))
        for result in run.results
        for score, values in result.values.items()
        for old, here in both
    ]


def evaluated(run: Evaluation, names: Sequence[str], values: Values) -> Evaluation:
    """The evaluation of the run with the joined values, for claims, which look at scores and values alone."""
    like = {result.name: result for result in run.results}
    results = []
    for row, scores in values.items():
        own = {score: _column(found) for score, found in scores.items()}
        result = like.get(row, run.results[0])
        scored = tuple(score.over(own[score.name]) for score in result.scores)
        results.append(replace(result, name=row, values=own, scores=scored, image_names=tuple(names)))
    return replace(run, results=tuple(results), image_names=tuple(names))


def _column(values: Sequence[float | None]) -> Tensor:
    return torch.tensor([float("nan") if v is None else v for v in values], dtype=torch.float64)


def first_record(path: Path) -> dict[str, Any]:
    """A record with the scores of every image: a file of this script, or that of a run."""
    if path.is_dir():
        run = pm.Run(path).evaluation()
        values = {
            r.name: {score: [round(v, 5) for v in own.tolist()] for score, own in r.values.items()}
            for r in run.results
        }
        return {**_read(path / "paper.json"), "images": [*run.image_names], "values": values}
    record = _read(path)
    if not {"images", "values"} <= record.keys():
        raise InputError(
            f"{path} does not have the scores of every image; give a folder of proofmap reproduce"
        )
    return record


def parts_of(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The runs behind a record: how each was made."""
    return record.get("runs") or [{key: record[key] for key in ("command", "effort", "environment")}]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("first", type=Path)
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    record, other = first_record(args.first), _read(args.run / "paper.json")
    same = ("recipe", "variant", "quick", "seed")
    if any(record[key] != other[key] for key in same):
        raise InputError(
            f"{args.first} and {args.run} differ in their recipe, variant or seed, or one is a quick run"
        )
    run, settings = pm.Run(args.run).evaluation(), record["settings"]
    names, values = joined(record, run)
    whole = evaluated(run, names, values)
    compared = orderings_of(whole, settings)
    tables = [*score_tables(whole, settings), orderings_table(compared)]
    apart = differences_on_shared(record, run)
    found = {
        **{key: record[key] for key in ("recipe", "title", "paper", *same, "settings")},
        "runs": [*parts_of(record), *parts_of(other)],
        "claims": [
            {"statement": c.statement, "verdict": c.verdict, "found": c.found, "checked": c.checked}
            for c in claims_of(whole, settings, compared)
        ],
        "notes": record["notes"],
        "numbers": [{"table": table.title, **numbers} for table in tables for numbers in table.records],
        "shared_images": {
            "n": len(record["images"]) + len(run) - len(names),
            "largest_difference": max(apart, default=0.0),
        },
        "images": names,
        "values": values,
    }
    write_text(output_file(args.out), _numbers_side_by_side(json.dumps(found, indent=1)) + "\n")
    print("\n\n".join(table.text() for table in tables))
    print("\n".join(f"{c['verdict']}: {c['statement']} ({c['found']})" for c in found["claims"]))


def _numbers_side_by_side(text: str) -> str:
    """JSON text with each list of numbers on a line."""
    return re.sub(r"\[\s+([\d\s.,nul-]+?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    return json.loads(path.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


if __name__ == "__main__":
    run_script(main)
