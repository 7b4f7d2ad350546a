"""How complete and how sound can any order of columns be? Attained by belief-order / attainable, on the models of ``tables.py``.

    python benchmarks/studies/table_bounds.py --out table_bounds.json [--rows 24] [--datasets wine cancer] [--models logistic forest boosting mlp]

An order of n columns shows the sets S_1, ..., S_n, and its area is the mean of F(S_t). The least and the largest area of all orders of one row
and label follow by dynamic programming over sets,

    least(S) = F(S) + min over columns r in S of least(S without r),        least area = least(all columns) / n,

with F as the judge measures it: its fill, its draws. Wine has 13 columns and 8,192 sets, so the result is exact. Breast cancer has 30 columns, and only
the ``--width`` best sets of each size are kept: some order is at least as good as the one found, and better ones may exist.

With the least area A- and the largest A+ of a label, no order of it has a larger completeness than min(max(A+, e1)/f, 1), nor a larger soundness than min(max(f, e2)/A-, 1).
Attained and attainable are the worst of a row's labels, then the mean over rows.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tables import DATASETS, DRAWS, FILLS, MODELS, fitted_model
from torch import Tensor

import proofmap as pm
from proofmap.cli import run_script
from proofmap.core import streams
from proofmap.core.files import output_file
from proofmap.fills import Fill, make_fill
from proofmap.methods import make_method
from proofmap.metrics.games import make_game
from proofmap.metrics.playing import play
from proofmap.metrics.scores import THRESHOLDS, completeness, soundness, worst_case
from proofmap.session import Session

Evaluate = Callable[[np.ndarray], np.ndarray]
"""From sets ``(J,)``, whose bit r says whether column r is shown, to F of every label ``(J, L)``."""


def judged_by(session: Session, row: Tensor, fill: Fill) -> Evaluate:
    """F of one row as the judge measures it: the mean over its draws of the fill."""
    net, draws = session.net, DRAWS if fill.random else 1
    keys = torch.stack([streams.image_keys(row[None], 0, "curve fill", draw)[0] for draw in range(draws)])

    def evaluate(sets: np.ndarray) -> np.ndarray:
        found = []
        for part in torch.as_tensor(sets).split(4096):
            keep = (part[:, None] >> torch.arange(net.inputs.count)) % 2 == 1
            keep = keep.repeat_interleave(draws, 0)
            x = row.expand(len(keep), -1)
            behind = fill.behind(session, x, keys.repeat(len(part)), keep)
            f = net.probabilities(net.inputs.composite(keep, x, behind))
            found.append(f.view(len(part), draws, -1).double().mean(dim=1))
        return torch.cat(found).numpy()

    return evaluate


def extreme_area(evaluate: Evaluate, columns: int, label: int, sign: float, width: int) -> float:
    """The least (``sign`` 1) or largest (-1) area of a label over orders; exact if ``width`` is at least the number of sets of any size."""
    sets, cost = np.zeros(1, dtype=np.int64), np.zeros(1)
    for _ in range(columns):
        more = sets[:, None] | (1 << np.arange(columns))
        fresh = more != sets[:, None]
        after, where = np.unique(more[fresh], return_inverse=True)
        least = np.full(len(after), np.inf)
        np.minimum.at(least, where, np.broadcast_to(cost[:, None], more.shape)[fresh])
        least += sign * evaluate(after)[:, label]
        kept = np.argsort(least, kind="stable")[:width]
        sets, cost = after[kept], least[kept]
    return sign * float(cost[0]) / columns


def all_sets(evaluate: Evaluate, columns: int) -> Evaluate:
    """The same, looked up: every set is measured once."""
    values = evaluate(np.arange(1 << columns))
    return lambda sets: values[sets]


def bounds(dataset: str, model: str, number: int, width: int, method: str) -> dict[str, Any]:
    fitted, fitted_on, other, _ = fitted_model(dataset, model)
    net = pm.Classifier(fitted, data=fitted_on, batch_size=4096)
    rows = torch.as_tensor(net.inputs.encode(other.iloc[:number]))
    pool = torch.as_tensor(net.inputs.encode(fitted_on))
    columns, names = net.inputs.count, len(net.names)
    exact = columns <= 16
    f = net.probabilities(rows)
    labels = torch.arange(names).expand(len(rows), -1)
    session, maps = Session(net, role="learn", distractors=lambda: pool), None
    judging = session.judging()
    entry: dict[str, Any] = {
        "dataset": dataset,
        "model": model,
        "columns": columns,
        "n": len(rows),
        "exact": exact,
        "fills": {},
    }
    for name in FILLS if exact else ("gray",):
        fill = make_fill(name)
        least, largest = torch.zeros(len(rows), names), torch.ones(len(rows), names)
        for i, row in enumerate(rows):
            evaluate = judged_by(judging, row, fill)
            if exact:
                evaluate = all_sets(evaluate, columns)
            if exact or names > 2:
                for label in range(names):
                    least[i, label] = extreme_area(evaluate, columns, label, 1.0, width)
                    largest[i, label] = extreme_area(evaluate, columns, label, -1.0, width)
            else:  # the areas of two labels sum to one
                less = int(f[i].argmin())
                least[i, less] = extreme_area(evaluate, columns, less, 1.0, width)
                largest[i, 1 - less] = 1 - least[i, less]
        played = {"attained": "gray", "attained by playing this fill": name}
        game = make_game("insertion", fill=name, points="all", draws=DRAWS if fill.random else 1)
        found = {}
        for told, with_fill in played.items():
            if told != "attained" and (name == "gray" or fill.reads_mask or "fill=" in method):
                continue
            if with_fill == "gray":
                maps = session.maps(make_method(method), rows, labels) if maps is None else maps
                chosen = maps
            else:
                joint = "," if ":" in method else ":"
                chosen = session.maps(make_method(f"{method}{joint}fill={with_fill}"), rows, labels)
            found[told] = play(judging, game, rows, chosen, labels).auc
        entry["fills"][name] = {
            preset: {
                "attainable": scores(largest, least, f, preset),
                **{told: scores(auc, auc, f, preset) for told, auc in found.items()},
            }
            for preset in ("paper", "released")
        }
    return entry


def scores(for_completeness: Tensor, for_soundness: Tensor, f: Tensor, preset: str) -> dict[str, float]:
    e = THRESHOLDS[preset]
    return {
        "completeness": worst_case(completeness(for_completeness, f, e.e1)).mean().item(),
        "soundness": worst_case(soundness(for_soundness, f, e.e2)).mean().item(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=24)
    parser.add_argument(
        "--width",
        type=int,
        default=200,
        help="sets of each size that are kept, if there are more than 16 columns",
    )
    parser.add_argument("--method", default="belief-order")
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=["wine", "cancer"])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    args = parser.parse_args()
    record: dict[str, Any] = json.loads(args.out.read_text()) if args.out.exists() else {"rows": []}
    record |= {
        "title": "Completeness and soundness of belief orders on tables, and the most that any order can have",
        "command": f"python benchmarks/studies/table_bounds.py --rows {args.rows} --width {args.width} --out table_bounds.json",
        "seed": 0,
    }
    for dataset in args.datasets:
        for model in args.models:
            if any((each["dataset"], each["model"]) == (dataset, model) for each in record["rows"]):
                continue
            entry = bounds(
                dataset, model, args.rows, 1 << 16 if dataset == "wine" else args.width, args.method
            )
            record["rows"].append(entry)
            output_file(args.out).write_text(json.dumps(record, indent=1) + "\n")
            for fill, presets in entry["fills"].items():
                for preset, found in presets.items():
                    cells = "  ".join(
                        f"{told} {s['completeness']:.2f}/{s['soundness']:.2f}" for told, s in found.items()
                    )
                    print(dataset, model, fill, preset, cells, flush=True)


if __name__ == "__main__":
    run_script(main)
