"""Two samples of images that the same recipe judged, as one: scores, paired differences and claims over all images.

    python benchmarks/studies/joined_samples.py FIRST RUN --out FILE.json

RUN is a folder of ``proofmap reproduce``. FIRST is another, with another ``--images-seed``, or a FILE of this script, which has the scores of every
image. An image that is in both counts once, as in FIRST if it has it. A row that RUN does not have keeps the images of FIRST.
"""

from __future__ import annotations

import argparse
import json
import math
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
from proofmap.reproduce.study_recipe import score_tables
from proofmap.results.evaluation import Evaluation

Values = dict[str, dict[str, list[float | None]]]
"""For each row and score, the value of every image; None for an image that was not judged for this row."""


def joined(record: dict[str, Any], run: Evaluation) -> tuple[list[str], Values]:
    """The names of all images, and their values: those of the record first, then the images of the run that it does not have."""
    before: list[str] = record["images"]
    names = [*before, *(name for name in run.image_names if name not in set(before))]
    there = {result.name: result.values for result in run.results}
    values: Values = {}
    for row, scores in record["values"].items():
        values[row] = {}
        for score, own in scores.items():
            here = _by_name(run.image_names, there[row][score].tolist()) if row in there else {}
            found = {**here, **_by_name(before, own)}
            values[row][score] = [found.get(name) for name in names]
    return names, values


def _by_name(names: Sequence[str], values: Sequence[float | None]) -> dict[str, float]:
    """The values of images that have one, with five decimals."""
    return {
        name: round(v, 5)
        for name, v in zip(names, values, strict=True)
        if v is not None and not math.isnan(v)
    }


def differences_on_shared(record: dict[str, Any], run: Evaluation) -> list[float]:
    """How far the two samples are apart in the scores of the images that are in both."""
    found = []
    for result in run.results:
        for score, values in result.values.items():
            here = {
                name: v for name, v in zip(run.image_names, values.tolist(), strict=True) if not math.isnan(v)
            }
            there = _by_name(record["images"], record["values"][result.name][score])
            found += [abs(here[name] - there[name]) for name in here.keys() & there.keys()]
    return found


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
        values: Values = {r.name: {} for r in run.results}
        for r in run.results:
            for score, own in r.values.items():
                known = _by_name(run.image_names, own.tolist())
                values[r.name][score] = [known.get(name) for name in run.image_names]
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
    if any(record[key] != other[key] for key in same) or not same_settings(record, other):
        raise InputError(
            f"{args.first} and {args.run} differ in their recipe, variant, seed or settings, one is a quick run, or the second has more rows"
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


def same_settings(record: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether the settings are the same. The other run may have fewer rows."""
    (all_rows, first), (rows, second) = (
        (
            found["settings"]["study"]["methods"],
            {**found["settings"], "study": {**found["settings"]["study"], "methods": []}},
        )
        for found in (record, other)
    )
    return first == second and all(row in all_rows for row in rows)


def _numbers_side_by_side(text: str) -> str:
    """JSON text with each list of numbers on a line."""
    return re.sub(r"\[\s+([\d\s.,nule+-]+?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    return json.loads(path.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


if __name__ == "__main__":
    run_script(main)
