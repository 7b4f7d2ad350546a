"""Soundness of a run under three readings of which labels it is taken over: the worst of all labels, the worst of the top two, the mean of all.

    python benchmarks/studies/label_readings.py RUN ... --out FILE.json

The paper's definition is the worst of all labels. Its appendix has the top two, because masks of all labels take long to learn. Each RUN is a folder of
``proofmap evaluate`` or ``proofmap reproduce`` with several labels of each image. FILE.json also has f and the area under the curve of every label, in millionths, so that other
readings can be tried.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import proofmap as pm
from proofmap.metrics.proof import completeness, soundness
from proofmap.results.statistics import mean_score

THRESHOLDS = {"e2 = .1": 0.1, "e2 = .01": 0.01}


def readings(scores: Tensor, f: Tensor) -> dict[str, Tensor]:
    """Scores ``(N, L)`` of L labels as one number for each of N images, under each reading; only the second if L is 2."""
    found = {"worst of the top two": scores.gather(1, f.topk(2, dim=1).indices).amin(1)}
    if scores.shape[1] > 2:
        found |= {"worst of all": scores.amin(1), "mean of all": scores.mean(1)}
    return found


def row_of(name: str, auc: Tensor, f: Tensor) -> dict[str, Any]:
    """What is known of one method: every reading at each threshold, and what it follows from."""
    columns = {f"soundness, {e}": soundness(auc, f, e2) for e, e2 in THRESHOLDS.items()}
    columns["completeness, e1 = .01"] = completeness(auc, f, 0.01)
    scores = {
        f"{column}, {reading}": mean_score(column, values, higher_is_better=True, limits=(0.0, 1.0))
        for column, found in columns.items()
        for reading, values in readings(found, f).items()
    }
    return {
        "method": name,
        "n": len(f),
        "labels": f.shape[1],
        "scores": {key: {"value": s.value, "low": s.low, "high": s.high} for key, s in scores.items()},
        "f": millionths(f),
        "auc": millionths(auc),
    }


def millionths(values: Tensor) -> list[list[int]]:
    return (values.double() * 1e6).round().long().tolist()  # type: ignore[no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    rows = []
    for folder in args.runs:
        for result in pm.Run(folder).evaluation().results:
            curves = result.curve_arrays
            auc, f = (torch.as_tensor(values).double() for values in (curves.auc, curves.f))
            rows.append(row_of(result.name, auc, f))
            print(f"{result.name}, n = {len(f)}")
            for key, s in rows[-1]["scores"].items():
                print(f"  {key}: {s['value']:.2f} [{s['low']:.2f}, {s['high']:.2f}]")
    asked = "Over which labels is the soundness of the paper's Table 1?"
    args.out.write_text(json.dumps({"asked": asked, "rows": rows}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
