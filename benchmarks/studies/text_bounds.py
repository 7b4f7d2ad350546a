"""How complete and how sound can any order of lines be on magika? All orders of the five lines of a file, on files of ``texts.py``.

    pip install --no-deps magika==1.0.3
    python benchmarks/studies/text_bounds.py --out texts-packages.json [--files 64]

A file of five lines has 32 sets of lines and 120 orders. The area of an order is the mean of F over the sets that it shows. With the largest area A+ and
the least A- of a label, no order of it has a larger completeness than min(max(A+, e1)/f, 1), nor a larger soundness than min(max(f, e2)/A-, 1). The
order of ``belief-order`` is the one with the least misfit of all. Scores are the worst of the three most probable types of a file, then the mean over files. The result is
added to the file as ``bounds``.
"""

from __future__ import annotations

import argparse
import json
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from text_packages import LINES, FileTypes, by_lines, files
from torch import Tensor

from proofmap.cli import run_script
from proofmap.core.files import output_file
from proofmap.methods.perturbation.belief_order import best_orders, subsets
from proofmap.metrics.scores import THRESHOLDS, completeness, soundness, worst_case
from proofmap.results.statistics import Score


def beliefs(number: int) -> Tensor:
    """F of every set of lines, for the three most probable types of each file: ``(N, 2^5, 3)``; the last set is the whole file."""
    net, (_, texts, _) = FileTypes(), files(number)
    shown, found = subsets(LINES).tolist(), []
    for text in texts:
        lines = by_lines(text)
        f = net(["".join(line for line, yes in zip(lines, keep, strict=True) if yes) for keep in shown])
        found.append(f[:, np.argsort(-f[-1], kind="stable")[:3]])
    return torch.from_numpy(np.stack(found))


def bounds(f: Tensor) -> list[dict[str, Any]]:
    orders = torch.tensor(list(permutations(range(LINES))))
    areas = f[:, (1 << orders).cumsum(dim=1)].mean(dim=2)  # (N, 120, 3)
    pairs = f.transpose(1, 2).flatten(0, 1)  # (N * 3, 32)
    best = best_orders(pairs, torch.ones(len(pairs), LINES, dtype=torch.long), pairs[:, -1], 0.1)
    own = pairs.gather(1, (1 << best).cumsum(dim=1)).mean(dim=1).view(len(f), 3)
    believed, entries = f[:, -1], []
    for thresholds in ("paper", "released"):
        e1, e2 = THRESHOLDS[thresholds].e1, THRESHOLDS[thresholds].e2
        for what, high, low in (
            ("largest", areas.amax(dim=1), areas.amin(dim=1)),
            ("belief-order", own, own),
        ):
            for metric, values in (
                ("completeness", completeness(high, believed, e1)),
                ("soundness", soundness(low, believed, e2)),
            ):
                score = Score(metric, limits=(0.0, 1.0)).over(worst_case(values))
                entries.append(
                    {
                        "model": "files",
                        "fill": "delete",
                        "n": len(f),
                        "what": what,
                        "metric": metric,
                        "thresholds": thresholds,
                        **score.numbers(n=False),
                    }
                )
    sizes = subsets(LINES).sum(dim=1)
    first = (f / believed[:, None]).clamp_max(1)[..., 0]
    shares = [first[:, sizes == k].amax(dim=1).mean().item() for k in range(1, LINES)]
    return [*entries, {"model": "files", "n": len(f), "what": "share of f that the best 1, 2, 3 and 4 lines give, most probable type", "values": shares}]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--files", type=int, default=64)
    args = parser.parse_args()
    record = json.loads(args.out.read_text()) if args.out.exists() else {}
    record["bounds"] = bounds(beliefs(args.files))
    output_file(args.out).write_text(json.dumps(record, indent=1) + "\n")
    for entry in record["bounds"]:
        print(entry)


if __name__ == "__main__":
    run_script(main)
