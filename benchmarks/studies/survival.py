"""What is left of a belief mask's proof if its map is blurred or moved, and on fills that were never learned on.

    python benchmarks/studies/survival.py PHOTOS --number 150 --batch 960 --out survival.json [--methods ...]

The photos, pools and labels are those of ``belief_mask.py`` (held out, top five labels, e = .01/.001, 32 shares). Prints, for each method, the
means over gray and blur of the map as it is, blurred by half a cell, by a cell, and moved by half a cell; those over four fills that the
defaults never learn on; the mean step of ranks between neighbours; and the roughness.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from belief_mask import JUDGED, photos_of
from given_maps import drawing_from, timed_maps
from torch import Tensor

import proofmap as pm
from proofmap.cli import run_script
from proofmap.core.files import output_file
from proofmap.core.ranking import keep_top, rank
from proofmap.core.version import environment
from proofmap.methods.grids import enlarged, smoothing
from proofmap.metrics.roughness import Roughness
from proofmap.metrics.scores import completeness, soundness, worst_case
from proofmap.results.statistics import mean_interval

METHODS = ["belief-mask:preset=thorough", "belief-mask:preset=robust", "belief-mask"]
CELLS = 56
LEARNED = ("gray", "blur")
UNSEEN = ("noise*", "black*", "white*", "strong blur*")


def blurred(maps: Tensor, cells: float) -> Tensor:
    sides = maps.shape[-2:]
    sigma = cells * max(sides) / CELLS
    return enlarged(maps, [smoothing(side, sigma, device=maps.device) for side in sides])


def moved(maps: Tensor, cells: float) -> Tensor:
    """Maps moved down and to the right; their first rows and columns are repeated."""
    by = round(cells * max(maps.shape[-2:]) / CELLS)
    for axis in (-2, -1):
        places = torch.arange(maps.shape[axis], device=maps.device)
        maps = maps.index_select(axis, (places - by).clamp_min(0))
    return maps


LOOKS: dict[str, Callable[[Tensor], Tensor]] = {
    "as it is": lambda maps: maps,
    "blurred by half a cell": lambda maps: blurred(maps, 0.5),
    "blurred by a cell": lambda maps: blurred(maps, 1.0),
    "moved by half a cell": lambda maps: moved(maps, 0.5),
}


@torch.no_grad()
def pair(f: pm.Classifier, images: Tensor, maps: Tensor, labels: Tensor, fill: Any) -> Tensor:
    """Completeness and soundness ``(2, N)`` of the worst label."""
    curves = pm.insertion(f, images, maps, labels, fill=fill, points=32, draws=2)
    scores = completeness(curves.auc, curves.f, 0.01), soundness(curves.auc, curves.f, 0.001)
    return torch.stack([worst_case(score) for score in scores]).cpu()


def steps_of(maps: Tensor) -> Tensor:
    """The mean step of ranks between neighbouring positions, in thousandths of their number, by photo."""
    ranks = rank(maps.flatten(0, 1)).view_as(maps).double() * 1000 / maps[0, 0].numel()
    steps = [ranks.diff(dim=axis).abs().flatten(1) for axis in (-2, -1)]
    return torch.cat(steps, dim=1).mean(dim=1).cpu()


def looked_at(
    f: pm.Classifier, images: Tensor, maps: Tensor, labels: Tensor, judge: Tensor
) -> dict[str, Any]:
    """Every score with its interval."""
    fills = {name: drawing_from(JUDGED[name], judge) for name in (*LEARNED, *UNSEEN)}
    means = {
        title: torch.stack([pair(f, images, look(maps), labels, fills[name]) for name in LEARNED]).mean(dim=0)
        for title, look in LOOKS.items()
    }
    unseen = torch.stack([pair(f, images, maps, labels, fills[name]) for name in UNSEEN])
    means["four fills never learned on"] = unseen.mean(dim=0)
    found = {
        f"{kind}, {title}": values
        for title, both in means.items()
        for kind, values in zip(("completeness", "soundness"), both, strict=True)
    }
    tops = keep_top(maps.flatten(0, 1), 0.2)
    found["roughness"] = Roughness.of_masks(tops).view(labels.shape).mean(dim=1).cpu()
    found["step of ranks x 1000"] = steps_of(maps)
    rows = {}
    for name, values in found.items():
        limits = (0.0, 1.0) if name.startswith(("completeness", "soundness")) else (0.0, float("inf"))
        low, high = mean_interval(values, limits=limits)
        rows[name] = {"value": float(values.mean()), "low": low, "high": high, "n": len(values)}
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("photos", type=Path)
    parser.add_argument("--fold", choices=["tune", "held"], default="held")
    parser.add_argument("--number", type=int, default=None)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--model", default="efficientnet-lite0")
    parser.add_argument("--weights", type=Path, default=None)
    parser.add_argument("--batch", type=int, default=960, help="passes of the net at once")
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    f = pm.load_classifier(args.model, weights=args.weights, device=device)
    f.fix_batches(args.batch, args.batch)
    _, images, learn, judge = photos_of(args.photos, f, args.fold, args.number)
    labels, rows = f.top(images, 5), []
    asked = f"{len(images)} photos ({args.fold}), top 5 labels, e = .01/.001, {args.model}"
    print(asked)
    for spec in args.methods:
        maps, seconds = timed_maps(pm.make_method(spec), f, images, labels, learn)
        scores = looked_at(f, images, maps, labels, judge)
        rows.append({"method": spec, "seconds": round(seconds, 1), "scores": scores})
        print(
            spec,
            *(f"  {s['value']:.3f} [{s['low']:.3f}, {s['high']:.3f}] {name}" for name, s in scores.items()),
            sep="\n",
            flush=True,
        )
        if args.out is not None:
            record = {
                "asked": asked,
                "command": sys.argv[1:],
                "seed": 0,
                "environment": environment(f.device),
            }
            output_file(args.out).write_text(
                json.dumps({**record, "rows": rows}, indent=1) + "\n", encoding="utf-8"
            )


if __name__ == "__main__":
    run_script(main)
