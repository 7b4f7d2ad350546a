"""How much too small is the logarithm of an area that is known from five values? Grad-CAM's maps over gray, on nets of ``other_nets.py``.

    python benchmarks/studies/five_values.py DATA --out five-values.json [--nets cifar10-resnet56 cifar10-vit efficientnet-lite0] [--number 40]

Belief masks know the area A of a curve from the latest value in each of its fifths. Here one share is drawn uniformly in each fifth, 1,000 times, and the curve is
read there (65 points, linear between them). The error of a label is the mean of log of the mean of the five values, minus log A; below 0, A seems too small. Labels
are those of the five most probable with f from .001 to .1, pictures those for tuning.
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path
from typing import Any

import numpy as np
import torch
from belief_mask import chosen_of
from other_nets import LABELS, net_of, pictures_of

import proofmap as pm
from proofmap.cli import run_script
from proofmap.core.files import output_file
from proofmap.metrics.games import make_game
from proofmap.metrics.playing import play
from proofmap.results.statistics import Score
from proofmap.session import Session

NETS = ("cifar10-resnet56", "cifar10-vit", "efficientnet-lite0")
POINTS, DRAWS, PARTS, LEAST = 64, 1000, 5, 1e-6


def errors(shares: np.ndarray, curve: np.ndarray) -> float:
    """The mean error of the logarithm of one curve's area."""
    drawn = (np.random.default_rng(0).random((DRAWS, PARTS)) + np.arange(PARTS)) / PARTS
    fine = np.interp((np.arange(10000) + 0.5) / 10000, shares, curve).mean()
    five = np.interp(drawn, shares, curve).mean(axis=1)
    return float(np.log(np.maximum(five, LEAST)).mean() - np.log(max(fine, LEAST)))


def row_of(name: str, data: Path, number: int) -> dict[str, Any]:
    f = net_of(name, data, "cpu")
    images = pictures_of(name, data, f)
    images = images[chosen_of(images, f, "tune", number)[0]]
    labels = f.top(images, LABELS)
    believed = f.probabilities(images).gather(1, labels)
    session = Session(f)
    maps = session.maps(pm.make_method("grad-cam"), images, labels)
    game = make_game("insertion", fill="gray", points=POINTS)
    curves = play(session, game, images, maps, labels)
    shares = np.concatenate([[0.0], curves.counts.numpy() / curves.positions])
    nothing = f.probabilities(game.fill(session, images[:1], torch.zeros(1, dtype=torch.long)))[0]
    found = []
    for i, k in ((believed >= 0.001) & (believed <= 0.1)).nonzero().tolist():
        start = float(nothing[labels[i, k]])
        found.append(errors(shares, np.concatenate([[start], curves.probabilities[i, k].numpy()])))
    error = Score("error", higher_is_better=False).over(found)
    return {
        "net": name,
        "pictures": len(images),
        "labels": len(found),
        **error.numbers(n=False),
        "errors": [round(error, 4) for error in found],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--nets", nargs="+", default=list(NETS))
    parser.add_argument("--number", type=int, default=40)
    args = parser.parse_args()
    record: dict[str, Any] = {
        "title": "The logarithm of an area that is known from five values",
        "asked": "How much smaller is the mean logarithm of the area than the logarithm of the area?",
        "command": "python benchmarks/studies/five_values.py DATA --out five-values.json",
        "seed": 0,
        "environment": {
            "torch": torch.__version__,
            "python": platform.python_version(),
            "proofmap": pm.__version__,
        },
        "rows": [],
    }
    for net in args.nets:
        record["rows"].append(row_of(net, args.data, args.number))
        output_file(args.out).write_text(json.dumps(record, indent=1) + "\n")
        print({key: value for key, value in record["rows"][-1].items() if key != "errors"}, flush=True)


if __name__ == "__main__":
    run_script(main)
