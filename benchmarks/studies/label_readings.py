"""Soundness of a run under three readings of which labels it is taken over: the worst of all labels, the worst of the top two, the mean of all.

    python benchmarks/studies/label_readings.py RUN ... --out FILE.json [--of METHOD] [--asked QUESTION]

The paper's definition is the worst of all labels. Its appendix has the top two, because masks of all labels take long to learn. Each RUN is a folder of
``proofmap evaluate`` or ``proofmap reproduce`` with several labels of each image, the top two among them. Best effort is added where enough images
count for it. FILE.json also has f and the area under the curve of every label, in millionths, so that other readings can be tried. With ``--of``, it
also has the paired differences of METHOD from the other methods that were judged on the same images.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import proofmap as pm
from proofmap.cli import run_script
from proofmap.core.errors import InputError
from proofmap.core.files import output_file, write_text
from proofmap.metrics.scores import best_effort, completeness, soundness
from proofmap.results.statistics import Score, fewest_images

THRESHOLDS = {".1": 0.1, ".01": 0.01}


def readings(scores: Tensor, f: Tensor) -> dict[str, Tensor]:
    """Scores ``(N, L)`` of L labels as one number for each of N images, under each reading; only the second if L is 2."""
    found = {"worst of the top two": scores.gather(1, f.topk(2, dim=1).indices).amin(1)}
    if scores.shape[1] > 2:
        found |= {"worst of all": scores.amin(1), "mean of all": scores.mean(1)}
    return found


def values_of(auc: Tensor, f: Tensor) -> dict[str, Tensor]:
    """Every score of one method, image by image: ``(N,)`` each, from the areas and f of L labels, ``(N, L)``."""
    columns = {f"soundness, e2 = {e}": soundness(auc, f, e2) for e, e2 in THRESHOLDS.items()}
    columns["completeness, e1 = .01"] = completeness(auc, f, 0.01)
    values = {
        f"{column}, {reading}": found
        for column, scores in columns.items()
        for reading, found in readings(scores, f).items()
    }
    top, labels = f.topk(2, dim=1), torch.arange(f.shape[1]).expand_as(f)
    for e, e1 in THRESHOLDS.items():
        found = best_effort(auc, f, labels, top.indices, top.values[:, 1], e1, counted="paper")
        if (~found.isnan()).sum() >= fewest_images():
            values[f"best effort, e1 = {e}"] = found
    return values


def row_of(name: str, auc: Tensor, f: Tensor) -> dict[str, Any]:
    """What is known of one method: its scores, and what they follow from."""
    scores = {key: Score(key, limits=(0.0, 1.0)).over(values) for key, values in values_of(auc, f).items()}
    return {
        "method": name,
        "n": len(f),
        "labels": f.shape[1],
        "scores": {key: score.numbers(n=False) for key, score in scores.items()},
        "f": millionths(f),
        "auc": millionths(auc),
    }


def differences(of: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The mean over images of each score of ``of`` minus that of every row of the same images, with its interval."""
    names = [row["method"] for row in rows]
    if names.count(of) != 1 or len({*names}) < len(names):
        raise InputError(f"{of!r} must be one of the rows, and no name may come twice: {', '.join(names)}")
    areas = {
        row["method"]: tuple(torch.tensor(row[key]).double() / 1e6 for key in ("auc", "f")) for row in rows
    }
    own, found = values_of(*areas[of]), []
    for other in sorted({*names} - {of}):
        if not same_images(areas[of][1], areas[other][1]):
            print(f"{other}: no differences, because it was judged on other images than {of}")
            continue
        beside = values_of(*areas[other])
        for key in sorted(own.keys() & beside.keys()):
            d = Score(key).over(own[key] - beside[key])
            found.append({"score": key, "of": of, "than": other, **d.numbers()})
    return found


def same_images(f: Tensor, other: Tensor) -> bool:
    """Whether two rows have the same images in the same order: f of the top two labels is the same, rounding of two machines aside."""
    top, beside = (values.topk(2, dim=1).values for values in (f, other))
    return top.shape == beside.shape and torch.allclose(top, beside, rtol=0.0, atol=1e-4)


def millionths(values: Tensor) -> list[list[int]]:
    return (values.double() * 1e6).round().long().tolist()  # type: ignore[no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--of", metavar="METHOD", help="also write how it differs from the other methods")
    parser.add_argument(
        "--asked",
        metavar="QUESTION",
        default="Over which labels is the soundness of the paper's Table 1?",
        help="what the record is to answer",
    )
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for folder in args.runs:
        for result in pm.Run(folder).evaluation().results:
            curves = result.numpy("insertion")
            auc, f = (torch.as_tensor(values).double() for values in (curves.auc, curves.f))
            if f.shape[1] < 2:
                raise InputError(
                    f"{folder} has one label of each image; judge two or more, as with --labels top2"
                )
            rows.append(row_of(result.name, auc, f))
            print(f"{result.name}, n = {len(f)}")
            for key, s in rows[-1]["scores"].items():
                print(f"  {key}: {s['value']:.2f} [{s['low']:.2f}, {s['high']:.2f}]")
    paired = differences(args.of, rows) if args.of else []
    record = {"asked": args.asked, "rows": rows, "differences": paired}
    write_text(output_file(args.out), json.dumps(record) + "\n")


if __name__ == "__main__":
    run_script(main)
