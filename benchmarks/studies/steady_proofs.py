"""Which methods' curves reach what the net believes and stay there: area scores, peak, steadiness and reach of every method.

    python benchmarks/studies/steady_proofs.py PHOTOS --number 150 --out OUT [--methods ...] [--seconds 500]

The photos, folds, pools and fills are those of ``belief_mask.py``: photos whose second label has f >= .1, top five labels, curves of 32
shares. Completeness, soundness, best effort and peak-soundness are those of the worst label, averaged over photos. Peak is the median, and steadiness and
reach are means, over all (photo, label) pairs with f >= .01. Writes OUT/steady-proofs.json with every photo's values, OUT/summary.json with means and 95 % intervals over photos, and OUT/steady-proofs.md. A method may be held to
fewer photos: ``"30 learned-mask:preset=released"``. Rows that OUT has are not computed again; no row is begun after ``--seconds``.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from belief_mask import JUDGED, photos_of, pointing
from frontier import METHOD_SPECS
from given_maps import drawing_from, timed_maps
from torch import Tensor

import proofmap as pm
from proofmap.cli import run_script
from proofmap.core.ranking import keep_top
from proofmap.fills import Fill
from proofmap.metrics import scores
from proofmap.metrics.proof_scores import steady_share
from proofmap.metrics.roughness import Roughness
from proofmap.metrics.scores import peak_of, reach_of
from proofmap.results.statistics import Score

E2 = 0.001
BELIEVED = 0.01
"""Pairs with a smaller f do not count in means over pairs: they need no proof."""
TOLD = ("completeness", "soundness", "best effort", "peak", "steadiness", "reach", "peak-soundness")


def measures(f: pm.Classifier, images: Tensor, maps: Tensor, labels: Tensor, fill: Fill) -> dict[str, Any]:
    """By photo: the scores of the worst label; by pair with f >= .01: peak, steadiness and reach."""
    c = pm.insertion(f, images, maps, labels, fill=fill, points=32, draws=2)
    some, sound = c.counts > 0, scores.soundness(c.auc, c.f, E2)
    values, believed = c.probabilities[..., some].double(), c.f.double()
    shares = (c.counts[some].double() / c.positions).to(values.device)
    weights = shares.diff(prepend=shares.new_zeros(1))
    peaks, counts = peak_of(values, weights), believed >= BELIEVED
    second = f.probabilities(images).topk(2, dim=1)
    pairs = {
        "peak": peaks / believed.clamp_min(0.001),
        "steadiness": steady_share(values, shares, weights, believed),
        "reach": reach_of(values, shares, believed),
    }
    return {
        "completeness": scores.worst_case(scores.completeness(c.auc, c.f, 0.01)).tolist(),
        "soundness": scores.worst_case(sound).tolist(),
        "soundness, f >= e2": scores.worst_case(sound.masked_fill(c.f < E2, torch.nan)).tolist(),
        "best effort": scores.best_effort(
            c.auc, c.f, labels, second.indices, second.values[:, 1], 0.01
        ).tolist(),
        "peak-soundness": scores.worst_case(scores.soundness(peaks, believed, E2)).tolist(),
        **{name: found[counts].tolist() for name, found in pairs.items()},
    }


def summary(found: dict[str, list[float]]) -> dict[str, float]:
    """The median of peaks, and means of everything else; values that are not there do not count."""
    tensors = {name: torch.tensor(found[name], dtype=torch.float64) for name in TOLD}
    return {name: float(x.nanmedian() if name == "peak" else x.nanmean()) for name, x in tensors.items()}


def summaries(record: dict[str, Any]) -> dict[str, Any]:
    """The record without the values of single photos: each measure's value, and the interval of those that are means over photos."""

    def summed(found: dict[str, list[float]]) -> dict[str, Any]:
        by_photo = {
            name: torch.tensor(found[name])
            for name in ("completeness", "soundness", "best effort", "peak-soundness")
        }
        scores = {k: Score(k, limits=(0.0, 1.0)).over(v) for k, v in by_photo.items()}
        means = {name: score.numbers() for name, score in scores.items()}
        return {name: means.get(name, value) for name, value in summary(found).items()}

    rows = [{**row, "fills": {k: summed(v) for k, v in row["fills"].items()}} for row in record["rows"]]
    return {**record, "rows": rows}


def cell(found: dict[str, list[float]]) -> str:
    s = summary(found)
    scores = "/".join(f"{s[name]:.2f}" for name in TOLD[:3])
    return f"{scores}, {s['peak']:.2f}, {s['steadiness']:.2f}, {s['reach']:.2f}, {s['peak-soundness']:.2f}"


def table(record: dict[str, Any]) -> str:
    lines = [
        f"{record['asked']}; cells: completeness/soundness/best effort, peak, steadiness, reach, peak-soundness",
        "",
        f"| method | passes | n | {' | '.join(JUDGED)} | roughness | pointing | s |",
        "|---" * (len(JUDGED) + 6) + "|",
    ]
    for row in record["rows"]:
        cells = " | ".join(cell(found) for found in row["fills"].values())
        facts = f"{row['roughness']:.1f} | {row['pointing']:.2f} | {row['seconds']:.1f}"
        lines.append(f"| {row['method']} | {row['passes']} | {row['n']} | {cells} | {facts} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("photos", type=Path)
    parser.add_argument("--fold", choices=["tune", "held"], default="held")
    parser.add_argument("--number", type=int, default=150)
    parser.add_argument("--methods", nargs="+", default=METHOD_SPECS)
    parser.add_argument("--model", default="efficientnet-lite0")
    parser.add_argument("--weights", type=Path, default=None)
    parser.add_argument("--batch", type=int, default=None, help="passes of the net at once")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    began, device = time.perf_counter(), "cuda" if torch.cuda.is_available() else "cpu"
    f = pm.load_classifier(args.model, weights=args.weights, device=device)
    if args.batch is not None:
        f.fix_batches(args.batch, args.batch)
    files, images, learn, judge = photos_of(args.photos, f, args.fold, args.number)
    asked = f"{len(images)} photos ({args.fold}), top 5 labels, e = .01/.001, {args.model}, {device}, torch {torch.__version__}"
    args.out.mkdir(parents=True, exist_ok=True)
    kept = args.out / "steady-proofs.json"
    record = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {"asked": asked, "rows": []}
    if record["asked"] != asked:
        raise SystemExit(f"{kept} is of another run: {record['asked']}, not {asked}; take another --out")
    done = {(row["method"], row["n"]) for row in record["rows"]}
    for written in args.methods:
        few, _, spec = written.rpartition(" ")
        n = min(int(few), len(images)) if few else len(images)
        if (spec, n) in done or time.perf_counter() - began > args.seconds:
            continue
        method, labels = pm.make_method(spec), f.top(images[:n], 5)
        try:
            maps, seconds = timed_maps(method, f, images[:n], labels, learn)
        except pm.ProofmapError as error:
            print(f"{spec}: {error}", flush=True)
            continue
        fills = {name: drawing_from(fill, judge) for name, fill in JUDGED.items()}
        cost = method.cost(5)
        row = {
            "method": spec,
            "passes": None if cost is None else round(cost.passes / 5, 1),
            "n": n,
            "seconds": seconds,
            "roughness": float(Roughness.of_masks(keep_top(maps.flatten(0, 1), 0.2)).mean()),
            "pointing": pointing(args.photos, files[:n], labels[:, 0], maps[:, 0]),
            "fills": {name: measures(f, images[:n], maps, labels, fill) for name, fill in fills.items()},
        }
        record["rows"].append(row)
        kept.write_text(json.dumps(record), encoding="utf-8")
        (args.out / "summary.json").write_text(json.dumps(summaries(record), indent=1), encoding="utf-8")
        (args.out / "steady-proofs.md").write_text(table(record), encoding="utf-8")
        print(table({**record, "rows": [row]}).splitlines()[-1], flush=True)


if __name__ == "__main__":
    run_script(main)
