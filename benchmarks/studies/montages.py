"""A mask for each of two photos in one picture: is a label proved by its own mask and not by the other's?

    python benchmarks/studies/montages.py DATA [--model keras-resnet50@FOLDER] [--pictures 30] [--out FILE]

The paper shows photos with an elephant and a zebra; five such photos decide nothing. Here each picture is a montage of two ImageNet photos of different
classes that the net gets right, the middle half of each. Every photo is in one montage. DATA has imagenet_val/ with labels.csv. 30 pictures are 1.3 million
passes, two to four minutes of an H200.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

import proofmap as pm
from proofmap.cli import run_script
from proofmap.core.files import output_file
from proofmap.data.dataset import random_choice
from proofmap.data.photos import load_images
from proofmap.data.specs import open_data
from proofmap.methods import make_method
from proofmap.metrics.localisation import side_by_side
from proofmap.results.sharing import without_folders

METRICS = (
    "class-sensitivity",
    "two-objects",
    {"metric": "completeness", "e1": 0.0},
    {"metric": "soundness", "e2": 0.1},
)


def methods(photos: Path, steps: int) -> list[dict[str, object]]:
    """The rows. The paper's method has the settings of its table 1, with random images from the photos that it may learn on."""
    fill = {"fill": "images", "source": f"imagenet:{photos}", "size": 256}
    ours = {"preset": "released", "steps": steps, "scale": 4.0, "tv": 0.01, "fill": fill}
    return [
        {"name": "Ours", "method": "learned-mask", **ours},
        *(
            {"name": name, "method": name}
            for name in ("belief-mask", "grad-cam", "gradient-x-input", "random")
        ),
    ]


def _settings(row: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in row.items() if key != "name"}


def chosen(f: pm.Classifier, photos: Path, number: int, seed: int) -> tuple[torch.Tensor, list[int]]:
    """Photos that the net gets right, at random, and their labels."""
    data = open_data(f"imagenet:{photos}")
    found, labels = [], []
    for i in random_choice(data.names, len(data), seed=seed):
        image, truth = load_images([photos / data.names[i]], f), int(data.labels[i][0])
        if int(f.top(image, 1)) == truth:
            found.append(image)
            labels.append(truth)
        if len(found) == number:
            break
    return torch.cat(found), labels


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", default="efficientnet-lite0")
    parser.add_argument("--pictures", type=int, default=30)
    parser.add_argument("--steps", type=int, default=2000, help="steps of the paper's method")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    began, photos = time.perf_counter(), asked.data / "imagenet_val"
    f = pm.load_classifier(asked.model, device=asked.device)
    images, labels = chosen(f, photos, 2 * asked.pictures, asked.seed)
    shown, pairs, objects = side_by_side(f.inputs, images, labels)
    asked_for = methods(photos, asked.steps)
    found = pm.evaluate(
        f,
        shown[::2],
        labels=pairs[::2],
        objects=objects[::2],
        methods=asked_for,
        metrics=METRICS,
        seed=asked.seed,
    )
    print(found)
    rows = [
        {"method": r.name, "score": s.name, "value": s.value, "low": s.low, "high": s.high, "n": s.n}
        for r in found.results
        for s in r.scores
    ]
    rows += [
        {"method": str(row["name"]), "what": without_folders(make_method(_settings(row)).title())}
        for row in asked_for
    ]
    told = {
        "title": "A mask for each of two photos in one picture",
        "asked": "Is a label proved by its own mask, and not by the other label's?",
        "command": f"python benchmarks/studies/montages.py data --model {asked.model.partition('@')[0]} --pictures {asked.pictures}",
        "seed": asked.seed,
        "seconds": round(time.perf_counter() - began, 1),
        "f": found.f.tolist(),
        "labels": pairs[::2].tolist(),
        "rows": rows,
        "values": {
            r.name: {k: [round(x, 5) for x in v.tolist()] for k, v in r.values.items()} for r in found.results
        },
    }
    if asked.out is not None:
        output_file(asked.out, "montages.json").write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    run_script(main)
