"""Are SHAP's values complete and sound on tables? Three datasets of scikit-learn, four models, four fills.

    python benchmarks/studies/tables.py --out tables.json [--rows 24] [--datasets cancer wine digits] [--models logistic forest boosting mlp] [--print]

Models are fitted on one half of the rows. Rows of the other half are judged: the worst of all labels (digits: the three most probable), then the
mean over rows. Random fills draw from the rows that the models were fitted on. The file is written after every model, and a model that is in it is not
judged again.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import sklearn
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import proofmap as pm

DATASETS = {"cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}
MODELS = {
    "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
    "forest": lambda: RandomForestClassifier(100, random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "mlp": lambda: make_pipeline(StandardScaler(), MLPClassifier((64,), max_iter=500, random_state=0)),
}
TREES = ("forest", "boosting")
FILLS = ("gray", "images", "near-rows", "class-median")
KERNEL, TREE = "shap:KernelExplainer(nsamples=400)", "shap:TreeExplainer"
METHODS = (
    "belief-order",
    KERNEL,
    "lime:samples=400",
    "occlusion",
    "greedy-insertion:candidates=8",
    "random",
    "by-variance",
)
DRAWS = 5


def metrics() -> list[str]:
    per_fill = [
        f"{metric}:fill={fill},draws={DRAWS},thresholds={thresholds}"
        for fill in FILLS
        for thresholds in ("paper", "released")
        for metric in ("completeness", "soundness")
    ]
    return [*per_fill, "best-effort", "steadiness"]


def judged(dataset: str, model: str, number: int) -> dict[str, Any]:
    """What every method scored with one model."""
    frame, target = DATASETS[dataset](as_frame=True, return_X_y=True)
    fitted_on, other, truth, other_truth = train_test_split(
        frame, target, test_size=0.5, random_state=0, stratify=target
    )
    fitted = MODELS[model]().fit(fitted_on, truth)
    net = pm.Classifier(fitted, data=fitted_on, batch_size=4096)
    rows = net.inputs.encode(other.iloc[:number])
    methods = [*METHODS[:2], *([TREE] if model in TREES else []), *METHODS[2:]]
    began, used = time.time(), time.process_time()
    judge = pm.Judge(
        net,
        methods=methods,
        labels="top3" if dataset == "digits" else "all",
        metrics=metrics(),
        keep_maps=0,
        distractors=torch.as_tensor(net.inputs.encode(fitted_on)),
    )
    judge.update(torch.as_tensor(rows))
    found = judge.compute()
    return {
        "dataset": dataset,
        "model": model,
        "columns": net.inputs.count,
        "n": len(rows),
        "accuracy": float(fitted.score(other, other_truth)),
        "seconds": {result.name: round(result.seconds, 1) for result in found.results},
        "wall": round(time.time() - began, 1),
        "processor": round(time.process_time() - used, 1),
        "scores": [
            {
                "method": result.name,
                "metric": metric,
                "value": score.value,
                "low": score.low,
                "high": score.high,
            }
            for result in found.results
            for metric, score in zip(metrics(), result.scores, strict=True)
        ],
    }


def cell(entry: dict[str, Any], method: str, fill: str, thresholds: str, *, interval: bool = False) -> str:
    """Completeness / soundness of a method as text; a dash if it was not judged."""
    found = []
    for metric in ("completeness", "soundness"):
        name = f"{metric}:fill={fill},draws={DRAWS},thresholds={thresholds}"
        score = next((s for s in entry["scores"] if (s["method"], s["metric"]) == (method, name)), None)
        if score is None:
            return "–"
        low, high = (number(score[end]) for end in ("low", "high"))
        found.append(number(score["value"]) + (f" [{low}, {high}]" if interval else ""))
    return " / ".join(found)


def number(value: float) -> str:
    """
    >>> number(0.25), number(1.0)
    ('.25', '1.00')
    """
    return f"{value:.2f}".removeprefix("0") if value < 1 else f"{value:.2f}"


def printed(record: dict[str, Any]) -> None:
    """The tables of the results page."""
    titles = {KERNEL: "KernelSHAP", TREE: "TreeSHAP", "lime:samples=400": "LIME"}
    titles |= {"greedy-insertion:candidates=8": "greedy", "occlusion": "drop-column"}
    methods = [METHODS[0], KERNEL, TREE, *METHODS[2:]]
    head = " | ".join(titles.get(method, method) for method in methods)
    for thresholds in ("paper", "released"):
        print(f"\n{thresholds}\n\n| data, model | {head} |\n|---{'|---' * len(methods)}|")
        for entry in record["rows"]:
            cells = " | ".join(cell(entry, method, "gray", thresholds) for method in methods)
            print(f"| {entry['dataset']}, {entry['model']} | {cells} |")
    print(f"\n| data, model, method | {' | '.join(FILLS)} |\n|---{'|---' * len(FILLS)}|")
    for entry in record["rows"]:
        for method in (METHODS[0], KERNEL, TREE):
            cells = [cell(entry, method, fill, "released") for fill in FILLS]
            if cells[0] != "–":
                print(
                    f"| {entry['dataset']}, {entry['model']}, {titles.get(method, method)} | {' | '.join(cells)} |"
                )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=24)
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=list(DATASETS))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument(
        "--print", action="store_true", help="print the tables of the file, and judge nothing"
    )
    args = parser.parse_args()
    if args.print:
        printed(json.loads(args.out.read_text()))
        return
    record = json.loads(args.out.read_text()) if args.out.exists() else {}
    record |= {
        "title": "Completeness and soundness of methods on tables",
        "asked": "Are SHAP's values complete and sound on tables?",
        "command": f"python benchmarks/studies/tables.py --rows {args.rows} --out tables.json",
        "seed": 0,
        "environment": {
            "torch": torch.__version__,
            "scikit-learn": sklearn.__version__,
            "proofmap": pm.__version__,
        },
    }
    record.setdefault("rows", [])
    for dataset in args.datasets:
        for model in args.models:
            if any((each["dataset"], each["model"]) == (dataset, model) for each in record["rows"]):
                continue
            record["rows"].append(judged(dataset, model, args.rows))
            args.out.write_text(json.dumps(record, indent=1) + "\n")
            print(dataset, model, record["rows"][-1]["processor"], "s", flush=True)


if __name__ == "__main__":
    main()
