"""Photographs without gradients: ``belief-order`` on 100 superpixels with 1,000 forward passes for each label.

    python benchmarks/studies/superpixels.py PHOTOS --out superpixels.json [--number 8] [--fold held] [--methods ...] [--batch 64] [--together 1] [--part 1 4] [--device cuda]

PHOTOS is a folder with ImageNet photos. Those count whose second label has f >= .1, as in ``belief_mask.py``; ``--number`` of them are drawn by the seed. ``--fold held`` takes the first
ones in the order of the seed, ``--fold tune`` the last ones: choose settings on these. The net is EfficientNet-Lite0, the labels are the five most probable ones. The file is
written after every photo, and photos that are in it are not judged again: use one file for each fold and list of methods. ``--together 10`` judges ten photos at
once, which a GPU needs; their seconds are then the mean of the ten. ``--part 2 4`` judges the second quarter of the photos: run four processes with a file for each.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

import proofmap as pm
from proofmap.cli import run_script
from proofmap.core.files import output_file
from proofmap.data import load_blocks, random_choice
from proofmap.data.photos import photographs
from proofmap.results.statistics import Score

METHODS = ("belief-order:regions=100,budget=1000",)
FILLS = ("gray", "blur")
METRICS = tuple(
    f"{metric}:fill={fill},thresholds={thresholds}"
    for fill in FILLS
    for thresholds in ("paper", "released")
    for metric in ("completeness", "soundness", "best-effort")
)
HESITANT = 0.1


def judged(
    net: pm.Classifier, images: torch.Tensor, names: list[str], methods: list[str]
) -> list[dict[str, Any]]:
    """What each method scored on each photo, and the seconds of its maps."""
    judge = pm.Judge(net, methods=methods, labels="top5", metrics=METRICS, keep_maps=0)
    judge.update(images, names=names)
    results = judge.compute().results
    return [
        {
            "photo": name,
            "seconds": {result.name: round(result.seconds / len(names), 1) for result in results},
            "values": {
                result.name: {
                    metric: float(result.values[key][place])
                    for metric, key in zip(METRICS, result.values, strict=True)
                }
                for result in results
            },
        }
        for place, name in enumerate(names)
    ]


def scores(photos: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The mean over photos with its interval, for each method and metric."""
    found = []
    for method in photos[0]["values"]:
        for metric in METRICS:
            values = torch.tensor([photo["values"][method][metric] for photo in photos])
            score = Score(metric, limits=(0.0, 1.0)).over(values)
            found.append({"method": method, "metric": metric, **score.numbers(n=False)})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("photos", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--number", type=int, default=8)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--together", type=int, default=1)
    parser.add_argument("--part", type=int, nargs=2, default=[1, 1])
    parser.add_argument("--device", default=None)
    parser.add_argument("--fold", choices=["held", "tune"], default="held")
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    args = parser.parse_args()
    net = pm.load_classifier("efficientnet-lite0", batch_size=args.batch, device=args.device)
    data = photographs([str(args.photos)])
    record = json.loads(args.out.read_text()) if args.out.exists() else {"rows": []}
    record |= {
        "title": "Belief orders on superpixels",
        "asked": "How complete and sound are orders of superpixels, found with 1,000 forward passes for each label?",
        "command": f"python benchmarks/studies/superpixels.py PHOTOS --out superpixels.json --number {args.number} --fold {args.fold}",
        "seed": 0,
        "environment": {"torch": torch.__version__, "proofmap": pm.__version__},
    }
    done = {photo["photo"] for photo in record["rows"]}
    order = list(random_choice(data.names, len(data.names), seed=0))
    chosen: list[tuple[str, torch.Tensor]] = []
    for index in order if args.fold == "held" else reversed(order):
        if len(chosen) == args.number:
            break
        (block,) = load_blocks(data, net, [index])
        if float(net.probabilities(block.images)[0].topk(2).values[1]) >= HESITANT:
            chosen.append((Path(data.names[index]).stem, block.images))
    part, parts = args.part
    chosen = chosen[(part - 1) * len(chosen) // parts : part * len(chosen) // parts]
    chosen = [(name, image) for name, image in chosen if name not in done]
    for start in range(0, len(chosen), args.together):
        names, images = zip(*chosen[start : start + args.together], strict=True)
        rows = judged(net, torch.cat(images), list(names), args.methods)
        record["rows"] += rows
        record["n"] = len(record["rows"])
        record["scores"] = scores(record["rows"])
        output_file(args.out).write_text(json.dumps(record, indent=1) + "\n")
        for row in rows:
            print(row["photo"], row, flush=True)


if __name__ == "__main__":
    run_script(main)
