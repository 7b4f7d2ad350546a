"""``demo table``: a model of scikit-learn, trained on the spot on a table inside scikit-learn, and judged on held-out rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import proofmap as pm
from proofmap.cli import options
from proofmap.cli.console import print_result, print_written, progress_for, stderr, table_width
from proofmap.core.errors import require
from proofmap.core.files import check_output
from proofmap.plugins.specs import split_specs
from proofmap.report.html import write_report
from proofmap.results import score_tables
from proofmap.results.verdict import verdict

ROWS = 12
TREES = 100
FILLS = ("gray", "near-rows")
METRICS = ("completeness", "soundness", "best-effort")


def demo_table(out: Path, labels: str, methods: str, seed: int, quiet: bool) -> None:
    """Judge methods on held-out rows of the breast-cancer table; pictures, table and report in ``out``."""
    check_output(out)
    classifier, rows, truth = trained_forest()
    if not quiet:
        right = float((classifier.top(classifier.inputs.encode(rows), 1)[:, 0].numpy() == truth).mean())
        stderr.print(
            f"a forest of {TREES} trees, trained on 398 tumours of scikit-learn's breast-cancer table, is right on {right:.0%} of "
            f"{len(rows)} others".replace("%", " %")
        )
    found = pm.evaluate(
        classifier,
        rows[:ROWS],
        methods=split_specs(methods),
        metrics=METRICS,
        labels=labels,
        fills=FILLS,
        truth=truth[:ROWS],
        seed=seed,
        progress=progress_for(stderr, quiet),
    )
    report = print_and_save(found, out, "row")
    stderr.print(f"open {report} in a browser: every row, with its columns by name")


def print_and_save(found: pm.Evaluation, out: Path, item: str) -> Path:
    """Print the proofs of the first method, all scores and the verdict, and write everything; returns the report's path."""
    print_result(
        f"what the maps of {found.results[0].name} prove\n\n{score_tables.pair_table(found, 1, table_width())}\n"
    )
    print_result(f"the methods, judged by the worst label of each {item}\n\n{found.table(table_width())}\n")
    print_result(verdict(found))
    written = found.save(out)
    report = write_report(found, out / "report.html", command=options.command_line())
    print_written([*written, report])
    return report


def trained_forest() -> tuple[pm.Classifier, Any, Any]:
    """The classifier, the rows that it was not trained on, and their true labels."""
    require("pandas", extra="pandas", purpose="demo table")
    data = require("sklearn.datasets", extra="sklearn", purpose="demo table")
    forests = require("sklearn.ensemble", extra="sklearn", purpose="demo table")
    split = require("sklearn.model_selection", extra="sklearn", purpose="demo table")
    table = data.load_breast_cancer(as_frame=True)
    train, test, known, truth = split.train_test_split(
        table.data, table.target, test_size=0.3, random_state=0, stratify=table.target
    )
    model = forests.RandomForestClassifier(TREES, random_state=0).fit(train, known)
    names = [str(name) for name in table.target_names]
    return pm.Classifier(model, data=train, names=names, name="random forest"), test, truth.to_numpy()
