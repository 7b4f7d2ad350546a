"""The frontier: every method at completeness against soundness, on fills that belief masks learn on and on others.

    python benchmarks/studies/frontier.py photos imagenet:FOLDER --images 60 --out OUT
    python benchmarks/studies/frontier.py imagenette imagenette:FOLDER[val] --images 100 --out OUT
    python benchmarks/studies/frontier.py cifar10 cifar10:FOLDER --weights cifar10_resnet56.safetensors --images 200 --out OUT

``photos``: photos whose second label has f >= .1, the top five of 1000 labels, e = .01/.001. ``imagenette``: ten labels,
all of them, e = .1/.1 as the paper has it. ``cifar10``: images that the net gets right, the top two labels, e = 0/.1.
Writes OUT/frontier.md, frontier.json and frontier.png: full marks are means over gray, blur and random images, hollow
ones over noise, black, white and a strong blur; the larger a mark, the more passes its method takes for each label. The numbers
beside the full marks are those of the legend.
A method that fails is told and passed over, and the exit code is 1 in the end; a run that is stopped has the rows that were done, and Ctrl-C draws them. The same command
goes on, and further methods are added: what OUT/frontier.json has is not judged again, unless the method has another revision by now.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from given_maps import drawing_from, scores_of, timed_maps

import proofmap as pm
from proofmap.cli import run_script
from proofmap.data import load_blocks, load_dataset, random_choice, true_outputs
from proofmap.data.imagenet_folders import IMAGENETTE
from proofmap.methods import METHODS
from proofmap.report.figures.scatter import mark_texts

LEARNED = ("gray", "blur", "images")
UNSEEN = ("noise", "gray(color=0:0:0)", "gray(color=1:1:1)", "blur(sigma=20,kernel=81)")
KINDS = ("completeness", "soundness", "best-effort")
METHOD_SPECS = [
    "belief-mask:preset=thorough",
    "belief-mask",
    "belief-mask:passes=60",
    "belief-mask:smoothness=0",
    "belief-mask:fills=gray",
    "belief-mask:target=strongest",
    "belief-mask:target=weakest",
    "learned-mask",
    "learned-mask:tv=1.0",
    "learned-mask:tv=0.001",
    "learned-mask:fill=gray",
    "fong-vedaldi:preset=pytorch",
    "extremal-perturbation",
    "igos++:preset=fast",
    "diffmask",
    "iba",
    "gradient",
    "gradient-x-input",
    "smooth-grad",
    "integrated-gradients",
    "guided-backprop",
    "rect-grad",
    "lrp",
    "contrastive-lrp",
    "deep-lift",
    "grad-cam",
    "grad-cam++",
    "layer-cam",
    "score-cam",
    "occlusion",
    "rise:masks=1000",
    "shapley:orders=10",
    "kernel-shap:samples=500",
    "greedy-insertion",
    "phang-masker",
    "real-time-saliency",
    "top-label:belief-mask",
    "top-label:grad-cam",
    "inverse:grad-cam",
    "blurred:gradient-x-input",
    "edges",
    "centered-gaussian",
    "random",
]


@dataclass(frozen=True)
class Case:
    """How a data set is judged."""

    model: str
    labels: str
    e1: float
    e2: float
    label_set: tuple[int, ...] = ()
    second: float = 0.0


CASES = {
    "photos": Case("efficientnet-lite0", "top5", 0.01, 0.001, second=0.1),
    "imagenette": Case("efficientnet-lite0", "all", 0.1, 0.1, label_set=tuple(IMAGENETTE.values())),
    "cifar10": Case("cifar10-resnet56", "top2", 0.0, 0.1),
}


@dataclass(frozen=True)
class Row:
    """One method: its cost and its means over the two kinds of fill, in the order of KINDS."""

    method: str
    family: str
    passes: float
    learned: tuple[float, ...]
    unseen: tuple[float, ...]
    roughness: float
    seconds: float
    revision: int


def chosen(f: pm.Classifier, data: str, case: Case, number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The images that are judged, and others as a pool of random images to judge with."""
    dataset = load_dataset(data)
    indices = random_choice(dataset.names, min(2000, len(dataset)))
    images = torch.cat([block.images for block in load_blocks(dataset, f, indices)])
    second = f.probabilities(images).topk(2, dim=1).values[:, 1]
    wanted = second >= case.second
    if not case.second:
        truth = torch.tensor([t[0] if len(t) == 1 else -1 for t in true_outputs(dataset, f.names, indices)])
        wanted &= f.top(images, 1)[:, 0] == truth.to(f.device)
    counted, others = wanted.nonzero()[:, 0], (~wanted).nonzero()[:, 0]
    spread = counted[torch.linspace(0, len(counted) - 1, min(number, len(counted))).long()]
    rest = torch.cat([others, counted[~torch.isin(counted, spread)]])[:256]
    return images[spread], (images[rest] * 255).round().to(torch.uint8).cpu()


def metrics_of(case: Case, fills: tuple[str, ...], pool: torch.Tensor, curve: dict[str, int]) -> list[Any]:
    made = []
    for fill in fills:
        for kind in KINDS:
            names = {"completeness": {"e1": case.e1}, "soundness": {"e2": case.e2}}.get(kind, {"e1": case.e1})
            made.append(
                pm.make_metric(
                    {
                        "metric": kind,
                        "fill": drawing_from(fill, pool),
                        **curve,
                        **names,
                    }
                )
            )
    return made


def row_of(
    f: pm.Classifier,
    images: torch.Tensor,
    spec: str,
    case: Case,
    pool: torch.Tensor,
    curve: dict[str, int],
) -> Row:
    labels = torch.tensor(case.label_set).expand(len(images), -1) if case.labels == "all" else None
    labels = f.top(images, int(case.labels[3:])) if labels is None else labels.to(f.device)
    method = pm.make_method(spec)
    maps, seconds = timed_maps(method, f, images, labels)
    metrics = [
        *metrics_of(case, LEARNED, pool, curve),
        *metrics_of(case, UNSEEN, pool, curve),
        pm.make_metric("roughness"),
    ]
    values = [score.value for score in scores_of(maps, f, images, labels, metrics)]
    parts = values[: 3 * len(LEARNED)], values[3 * len(LEARNED) : -1]
    means = [tuple(sum(part[k::3]) / len(part[k::3]) for k in range(3)) for part in parts]
    cost = method.cost(labels.shape[1])
    passes = math.nan if cost is None else cost.passes / labels.shape[1]
    kind = METHODS[method.name]
    return Row(spec, kind.family, passes, means[0], means[1], values[-1], seconds, kind.revision)


def table(case: str, rows: list[Row], images: int) -> str:
    lines = [
        f"{case}, {images} images; completeness / soundness / best effort, means over fills",
        "",
        "| method | family | passes per label | gray, blur, images | noise, black, white, strong blur | roughness | s |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        a, b = (" / ".join(f"{v:.2f}" for v in part) for part in (r.learned, r.unseen))
        lines.append(
            f"| {r.method} | {r.family} | {r.passes:.1f} | {a} | {b} | {r.roughness:.1f} | {r.seconds:.1f} |"
        )
    return "\n".join(lines) + "\n"


def earlier_rows(path: Path, asked: dict[str, Any]) -> list[Row]:
    """The rows of an earlier run into the same folder that still hold; refuses a run that was asked for something else."""
    if not path.exists():
        return []
    of_it, rows = read(path)
    if of_it != asked:
        raise SystemExit(f"{path} is of another run, {of_it}, not {asked}; take another --out")
    return [row for row in rows if METHODS[pm.make_method(row.method).name].revision == row.revision]


def read(path: Path) -> tuple[dict[str, Any], list[Row]]:
    """What a run was asked for, and its rows."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    rows = [
        Row(**{**row, "learned": tuple(row["learned"]), "unseen": tuple(row["unseen"])})
        for row in kept["rows"]
    ]
    return kept["asked"], rows


def short_names(rows: list[Row]) -> list[str]:
    """Names for a figure: without settings where no other row is of that method."""
    bases = [row.method.partition(":")[0] for row in rows]
    alone = [bases.count(base) == 1 and base not in ("top-label", "inverse", "blurred") for base in bases]
    return [
        base if single else row.method.replace("preset=", "")
        for row, base, single in zip(rows, bases, alone, strict=True)
    ]


def draw(rows: list[Row], title: str, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 1, figsize=(8, 12), layout="constrained")
    families = sorted({row.family for row in rows})
    colours = dict(zip(families, plt.get_cmap("tab10").colors, strict=False))  # type: ignore[attr-defined]
    panels = ((axes[0], 0, "completeness"), (axes[1], 2, "best effort"))
    for axis, kind, name in panels:
        for row in rows:
            size = 12 + 22 * math.log10(1 + (0 if math.isnan(row.passes) else row.passes))
            for means, full in ((row.unseen, False), (row.learned, True)):
                face = colours[row.family] if full else "none"
                axis.scatter(means[kind], means[1], s=size, facecolors=face, edgecolors=colours[row.family])
            ends = [(means[kind], means[1]) for means in (row.unseen, row.learned)]
            axis.plot(*zip(*ends, strict=True), color=colours[row.family], linewidth=0.5, alpha=0.4)
        axis.set(xlim=(0, 1.02), ylim=(0, 1.02), xlabel=name, ylabel="soundness")
        axis.grid(linewidth=0.3, color="0.9")
        axis.set_axisbelow(True)
    for family in families:
        axes[1].scatter([], [], color=colours[family], label=family)
    axes[1].legend(loc="lower left", fontsize=8, frameon=False)
    figure.suptitle(
        f"{title}\nfull: mean over gray, blur and random images; hollow: over four fills that no method learned on\n"
        "the larger a mark, the more passes per label",
        fontsize=9,
    )
    for axis, kind, _ in panels:
        places = [(row.learned[kind], row.learned[1]) for row in rows]
        for place, text in zip(
            places, mark_texts(places, range(1, len(rows) + 1), near=(0.02, 0.02)), strict=True
        ):
            axis.annotate(text, place, xytext=(4, 2), textcoords="offset points", fontsize=7)
    names = [f"{k}  {name}" for k, name in enumerate(short_names(rows), 1)]
    blank = plt.Line2D([], [], linestyle="none")
    figure.legend([blank] * len(rows), names, loc="outside lower center", ncols=4, fontsize=7, handlelength=0)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("case", choices=CASES)
    parser.add_argument("data")
    parser.add_argument("--images", type=int, default=60)
    parser.add_argument("--methods", nargs="+", default=METHOD_SPECS)
    parser.add_argument("--weights", type=Path, default=None)
    parser.add_argument("--points", type=int, default=32, help="steps of each curve")
    parser.add_argument("--draws", type=int, default=2, help="of random fills")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no further method after these")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    case, began = CASES[args.case], time.perf_counter()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    f = pm.load_classifier(case.model, weights=args.weights, device=device)
    if case.label_set:
        f = f.restricted(case.label_set)
    images, pool = chosen(f, args.data, case, args.images)
    args.out.mkdir(parents=True, exist_ok=True)
    asked = {
        "case": args.case,
        "model": case.model,
        "images": len(images),
        "points": args.points,
        "draws": args.draws,
        "weights": args.weights and hashlib.sha256(args.weights.read_bytes()).hexdigest()[:12],
    }
    rows = earlier_rows(args.out / "frontier.json", asked)
    try:
        for spec in args.methods:
            if any(row.method == spec for row in rows):
                continue
            if time.perf_counter() - began > 60 * args.minutes:
                print(f"out of time before {spec}", flush=True)
                break
            try:
                rows.append(row_of(f, images, spec, case, pool, {"points": args.points, "draws": args.draws}))
            except Exception as error:  # whatever it is, the other methods are still to be judged
                print(f"{spec}: {type(error).__name__}: {error}", flush=True)
                continue
            print(table(args.case, rows[-1:], len(images)).splitlines()[-1], flush=True)
            (args.out / "frontier.md").write_text(table(args.case, rows, len(images)), encoding="utf-8")
            kept = {"asked": asked, "rows": [asdict(r) for r in rows]}
            (args.out / "frontier.json").write_text(json.dumps(kept), encoding="utf-8")
    finally:
        if rows:
            draw(rows, args.case, args.out / "frontier.png")
    judged = {row.method for row in rows}
    if missing := [spec for spec in args.methods if spec not in judged]:
        sys.exit(f"not judged: {', '.join(missing)}")


if __name__ == "__main__":
    run_script(main)
