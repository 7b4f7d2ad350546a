"""Which metrics can be trusted? Every metric of the package is put to the tests of ``proofmap validate``, on one net and its data.

    python benchmarks/studies/validation.py photos --data PHOTOS --model efficientnet-lite0 --number 100 --out lite0.json
    python benchmarks/studies/validation.py cifar10 --data cifar-10-batches-py --model cifar10-resnet56 --number 200 --out resnet56.json
    python benchmarks/studies/validation.py table --out table.json
    python benchmarks/studies/validation.py text --out text.json
    python benchmarks/studies/validation.py collect --data FOLDER --out docs/results/validation.json

Photos are spread evenly over the folder. The table is scikit-learn's breast cancer data with a net of two layers, the texts are sentences in
seven languages with a language identifier. ``--judge FILE`` is a net of CIFAR-10 that benchmarks/studies/masked_judge.py has tuned on masked inputs.
``collect`` joins the files of a folder to one record, rounded, without single images.
Metrics that need boxes, or run the method again, or search for proofs themselves, are left out, and the record says so.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

import proofmap as pm
from proofmap.cli import run_script
from proofmap.core.files import output_file
from proofmap.core.version import environment
from proofmap.data.loader import load_blocks
from proofmap.data.specs import open_data
from proofmap.metrics import METRICS, RunMetric

LEFT_OUT = {
    "adversarial-soundness": "searches for proofs of its own, whatever the map",
    **dict.fromkeys(("captum-infidelity", "captum-sensitivity", "randomisation"), "runs the method again"),
    **dict.fromkeys(("box-iou", "energy-inside", "pointing-game", "two-objects"), "needs boxes"),
    "morf": "is deletion",
}
DEFAULTS = [metric.name for metric in pm.default_metrics()]
STEPS = ("ladder", "blind spots", "detail", "agreement")
"""Tests whose single steps are recorded for the default metrics alone."""
_OF_PICTURES = [
    "belief-mask:compile=false",
    "grad-cam",
    "gradient-x-input",
    "smooth-grad",
    "occlusion",
    "random",
]
METHODS = {
    "photos": _OF_PICTURES,
    "cifar10": _OF_PICTURES,
    "table": ["belief-order", "gradient-x-input", "kernel-shap", "random"],
    "text": ["belief-order", "greedy-insertion", "kernel-shap", "random"],
}
FILLS = {
    "photos": ["gray", "blur", "images"],
    "cifar10": ["gray", "blur", "images"],
    "table": ["gray", "images"],
    "text": ["gray", "mask"],
}


def metrics() -> list[str]:
    """The names of all metrics with values per image, without those that are left out."""
    return [name for name in METRICS if not issubclass(METRICS[name], RunMetric) and name not in LEFT_OUT]


def table(number: int) -> tuple[pm.Classifier, Any]:
    """Rows that a small net was not trained on, and the net."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer(as_frame=True)
    x = torch.tensor(data.data.to_numpy(), dtype=torch.float32)
    y = torch.tensor(data.target.to_numpy())
    mean, std = x.mean(dim=0), x.std(dim=0)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(30, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    learned = torch.arange(len(x)) % 2 == 0
    for _ in range(300):
        loss = torch.nn.functional.cross_entropy(net((x[learned] - mean) / std), y[learned])
        gradients = torch.autograd.grad(loss, list(net.parameters()))
        with torch.no_grad():
            for weight, slope in zip(net.parameters(), gradients, strict=True):
                weight -= 0.3 * slope
    inputs = pm.Rows(
        columns=30, mean=tuple(mean.tolist()), std=tuple(std.tolist()), names=tuple(data.feature_names)
    )
    f = pm.Classifier(net, inputs=inputs, names=["malignant", "benign"], name="two layers, breast cancer")
    return f, x[~learned][:number]


def text(number: int) -> tuple[pm.Classifier, Any]:
    """Sentences with two languages each, and a language identifier."""
    first = [
        "the weather is fine today and we walk",
        "where is the station please tell me",
        "my brother has a small red house",
    ]
    second = [
        "und wir gehen morgen in die Stadt",
        "et nous allons acheter une pomme",
        "y mañana vamos a la playa",
        "e domani andiamo al mare",
        "en wij lezen een mooi boek",
    ]
    texts = [
        f"{a} {b}" if k % 2 else f"{b} {a}" for k, (a, b) in enumerate((a, b) for a in first for b in second)
    ]
    return pm.load_classifier("py3langid"), texts[:number]


def photos(args: argparse.Namespace, device: str) -> tuple[pm.Classifier, Any]:
    """Pictures spread evenly over a folder or dataset, and the net."""
    f = pm.load_classifier(args.model, weights=args.weights, device=device)
    if args.batch is not None:
        f.fix_batches(args.batch, args.batch)
    data = open_data([f"cifar10:{args.data}" if args.kind == "cifar10" else str(args.data)])
    count = min(args.number, len(data))
    (block,) = load_blocks(data, f, [k * len(data) // count for k in range(count)], block_size=count)
    return f, block.images


def collect(folder: Path) -> dict[str, Any]:
    """The records of several nets by the names of their files: what was asked, and every line; agreement as values alone."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        if "sentences" not in record:
            continue
        lines = [
            {k: round(v, 4) if isinstance(v, float) else v for k, v in line.items() if v is not None}
            for line in record["lines"]
        ]
        found[path.stem] = {
            "asked": record["notes"][0],
            "methods": record["settings"]["methods"],
            "lines": [
                line
                for line in lines
                if line["test"] != "agreement"
                and (line["test"] not in STEPS or line["step"] == "all" or line["of"] in DEFAULTS)
            ],
            "agreement": [
                [line["of"], line["step"], line["value"]]
                for line in lines
                if line["test"] == "agreement" and "value" in line and line["of"] < line["step"]
            ],
            "command": [Path(word).name for word in record["command"]],  # without folders
            **{key: record[key] for key in ("verdicts", "seconds", "environment")},
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=[*METHODS, "collect"])
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--model", default="efficientnet-lite0")
    parser.add_argument("--weights", type=Path, default=None)
    parser.add_argument("--number", type=int, default=24)
    parser.add_argument("--labels", default="top2+wrong")
    parser.add_argument("--methods", nargs="+", default=None)
    parser.add_argument("--metrics", nargs="+", default=None, help="all, if left out")
    parser.add_argument("--points", type=int, default=16)
    parser.add_argument("--batch", type=int, default=None, help="passes of the net at once")
    parser.add_argument("--judge", type=Path, default=None, help="weights of a second net of CIFAR-10")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    if args.kind == "collect":
        joined = json.dumps(collect(args.data), separators=(",", ":"))
        output_file(args.out).write_text(joined.replace("},{", "},\n{") + "\n", encoding="utf-8")
        return
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if args.kind in ("table", "text"):
        f, images = table(args.number) if args.kind == "table" else text(args.number)
    else:
        f, images = photos(args, device)
    judge = None if args.judge is None else pm.load_classifier(args.model, weights=args.judge, device=device)
    began = time.perf_counter()
    found = pm.validate(
        f,
        images,
        metrics=args.metrics or metrics(),
        methods=args.methods or METHODS[args.kind],
        labels="all" if args.kind == "table" else args.labels,
        fills=FILLS[args.kind],
        points=args.points,
        judge=judge,
    )
    seconds = time.perf_counter() - began
    record = {
        **json.loads(found.json()),
        "left out": LEFT_OUT,
        "command": sys.argv[1:],
        "seconds": round(seconds, 1),
        "environment": environment(f.device),
    }
    output_file(args.out).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(found)
    print(f"{seconds:.0f} s")


if __name__ == "__main__":
    run_script(main)
