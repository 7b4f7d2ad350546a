"""Belief masks beside other methods, on photos where the net hesitates and on fills that were never learned on.

    python benchmarks/studies/belief_mask.py PHOTOS --fold held --number 150 [--methods ...] [--out FILE.json]

PHOTOS is a folder with ImageNet photos and labels.csv. Of its photos those count whose second label has f >= 0.1; every
third of them is for tuning (``--fold tune``), the others are held out (``--fold held``). Of the other photos one half is
the pool of random images to learn on and the other half the pool to judge with. Every method explains the top five
labels; each fill is a game of its own, with two draws where it is random. A method may be held to fewer photos: ``"30 learned-mask:preset=released"``.
Prints a table of means; FILE.json has every score with its interval.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from pathlib import Path
from typing import Any

import torch
from given_maps import drawing_from, scores_of, timed_maps

import proofmap as pm
from proofmap.cli import run_script
from proofmap.core.files import output_file
from proofmap.core.ranking import rank
from proofmap.core.version import environment
from proofmap.data.photos import find_photos

METHODS = [
    "belief-mask:preset=thorough",
    "belief-mask",
    "belief-mask:target=strongest",
    "belief-mask:target=weakest",
    "belief-mask:preset=thorough,smoothness=0.003",
    "75 belief-mask:preset=thorough,fills=blur+images",
    "75 belief-mask:preset=thorough,fills=gray+images",
    "75 belief-mask:preset=thorough,fills=gray+blur",
    "learned-mask",
    "grad-cam",
    "30 learned-mask:preset=released",
]
JUDGED: dict[str, str] = {
    "gray": "gray",
    "blur": "blur",
    "images": "images",
    "noise*": "noise",
    "black*": "gray(color=0:0:0)",
    "white*": "gray(color=1:1:1)",
    "strong blur*": "blur(sigma=20,kernel=81)",
}
"""With a star: never learned on by the defaults."""
KINDS = ("completeness", "soundness", "best-effort")


def photos_of(
    folder: Path, f: pm.Classifier, fold: str, number: int | None
) -> tuple[list[Path], torch.Tensor, torch.Tensor, torch.Tensor]:
    """The photos of a fold, and the two pools as bytes."""
    files = find_photos([folder])
    images = pm.load_images(files, f)
    chosen, learn, judge = chosen_of(images, f, fold, number)
    return [files[i] for i in chosen.tolist()], images[chosen], learn, judge


def chosen_of(
    images: torch.Tensor, f: pm.Classifier, fold: str, number: int | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Which images belong to a fold, and the two pools as bytes."""
    second = torch.cat([f.probabilities(part).topk(2, dim=1).values[:, 1] for part in images.split(500)])
    hesitant, sure = (second >= 0.1).nonzero()[:, 0], (second < 0.1).nonzero()[:, 0]
    third = torch.arange(len(hesitant), device=hesitant.device) % 3 == 0
    chosen = hesitant[third if fold == "tune" else ~third][:number]
    pools = ((images[sure[start::2]][:256] * 255).round().to(torch.uint8).cpu() for start in (0, 1))
    learn, judge = pools
    return chosen, learn, judge


def pointing(folder: Path, files: list[Path], top: torch.Tensor, maps: torch.Tensor) -> float:
    """The share of photos the net gets right whose top label's map has its highest value inside a box of the class."""
    with open(folder / "labels.csv", encoding="utf-8") as opened:
        rows = {row["file"]: row for row in csv.DictReader(opened)}
    size, hits = maps.shape[-1], []
    for file, label, heat in zip(files, top.tolist(), maps, strict=True):
        row = rows[file.name]
        if int(row["class_index"]) != label:
            continue
        width, height = int(row["width"]), int(row["height"])
        short = min(width, height) * 7 / 8  # the crop's side in the stored photo
        y, x = divmod(int(heat.argmax()), size)
        at = ((x + 0.5) * short / size + (width - short) / 2, (y + 0.5) * short / size + (height - short) / 2)
        hits.append(any(a <= at[0] <= c and b <= at[1] <= d for a, b, c, d in json.loads(row["boxes_xyxy"])))
    return sum(hits) / max(1, len(hits))


def judged_row(
    f: pm.Classifier,
    folder: Path,
    files: list[Path],
    images: torch.Tensor,
    spec: str,
    learn: torch.Tensor,
    judge: torch.Tensor,
) -> dict[str, Any]:
    """What is known of one method: its cost, its scores over every fill, and three facts about its maps."""
    labels = f.top(images, 5)
    method = pm.make_method(spec)
    maps, seconds = timed_maps(method, f, images, labels, learn)
    metrics = {
        f"{kind}, {name}": pm.make_metric({"metric": kind, "fill": drawing_from(fill, judge), "draws": 2})
        for name, fill in JUDGED.items()
        for kind in KINDS
    }
    metrics["roughness"] = pm.make_metric("roughness")
    scores = scores_of(maps, f, images, labels, [*metrics.values()])
    ranks = rank(maps[:, :2].flatten(0, 1)).double().view(len(images), 2, -1)
    ranks = ranks - ranks.mean(dim=2, keepdim=True)
    cost = method.cost(5)
    return {
        "method": spec,
        "passes": None if cost is None else cost.passes / 5,
        "n": len(images),
        "seconds": round(seconds, 1),
        "pointing": pointing(folder, files, labels[:, 0], maps[:, 0]),
        "rho": float(torch.nn.functional.cosine_similarity(ranks[:, 0], ranks[:, 1], dim=1).mean()),
        "scores": {name: s.numbers() for name, s in zip(metrics, scores, strict=True)},
    }


def told(row: dict[str, Any]) -> str:
    """A row of the table that is printed."""
    means = {name: score["value"] for name, score in row["scores"].items()}
    cells = [" / ".join(f"{means[f'{kind}, {name}']:.2f}" for kind in KINDS) for name in JUDGED]
    passes = "" if row["passes"] is None else f"{row['passes']:.0f}"
    facts = f"{means['roughness']:.1f} | {row['pointing']:.2f} | {row['rho']:.2f} | {row['seconds']:.1f}"
    return f"| {row['method']} | {passes} | {row['n']} | {' | '.join(cells)} | {facts} |"


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
    parser.add_argument("--batch", type=int, default=None, help="passes of the net at once")
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    f = pm.load_classifier(args.model, weights=args.weights, device=device)
    if args.batch is not None:
        f.fix_batches(args.batch, args.batch)
    files, images, learn, judge = photos_of(args.photos, f, args.fold, args.number)
    asked = f"{len(images)} photos ({args.fold}), top 5 labels, e = .01/.001, {args.model}"
    print(f"{asked}\n\n| method | passes | n | {' | '.join(JUDGED)} | roughness | pointing | rho | s |")
    print("|---" * (len(JUDGED) + 7) + "|", flush=True)
    rows = []
    for written in args.methods:
        few, _, spec = written.rpartition(" ")
        n = int(few) if few else len(images)
        rows.append(judged_row(f, args.photos, files[:n], images[:n], spec, learn, judge))
        print(told(rows[-1]), flush=True)
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
