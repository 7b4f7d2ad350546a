"""``demo``: judges methods on sample photos, as many as a few minutes allow on this machine; or a model of scikit-learn on rows of a table."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import proofmap as pm
from proofmap.cli import options
from proofmap.cli.console import print_result, progress_for, shown_path, stderr, table_width
from proofmap.core.errors import require
from proofmap.core.files import check_output
from proofmap.core.labels import LabelRule
from proofmap.core.text import counted
from proofmap.data.loader import load_blocks
from proofmap.data.photos import photographs
from proofmap.metrics.proof_scores import default_metrics
from proofmap.models import DEFAULT_MODEL
from proofmap.plugins.specs import run_files_in, split_specs
from proofmap.report.html import write_report
from proofmap.results.score_tables import summary
from proofmap.session import Session
from proofmap.study.planning import expected_cost, expected_labels, measure_speed

ROWS = 12
TREES = 100


def judge_rows(out: Path, labels: str | None, methods: str | None, seed: int, quiet: bool) -> None:
    """Judge methods on held-out rows of scikit-learn's breast-cancer table, for a forest that is trained on the others, and write pictures,
    the table of scores and the report to ``out``."""
    out = check_output(out)
    classifier, rows, truth = trained_forest()
    right = float((classifier.top(classifier.inputs.encode(rows), 1)[:, 0].numpy() == truth).mean())
    if not quiet:
        stderr.print(
            f"a forest of {TREES} trees, trained on 398 tumours of scikit-learn's breast-cancer table, is right on {100 * right:.0f} % of "
            f"{len(rows)} others"
        )
    found = pm.evaluate(
        classifier,
        rows[:ROWS],
        methods=split_specs(methods or options.METHODS_WITHOUT_GRADIENTS),
        labels=labels or "all",
        fills=("gray", "near-rows"),
        truth=truth[:ROWS],
        seed=seed,
        progress=progress_for(stderr, quiet),
    )
    print_and_save(found, out)


def print_and_save(found: pm.Evaluation, out: Path) -> None:
    """Print the methods in a short table, the most telling failure and the verdict, and write all files to ``out``."""
    print_result(summary(found, table_width()))
    found.save(out)
    report = write_report(found, out / "report.html", command=options.command_line())
    stderr.print(f"open {shown_path(report)} in a browser: every {found.inputs.singular}, with a slider")


def trained_forest() -> tuple[pm.Classifier, Any, Any]:
    """A trained random forest, the rows that it was not trained on, and their true labels."""
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


OVERHEAD = 1.1
"""Factor from the time of the passes to the whole time: ranking, composing and drawing take a tenth (measured with four photos on two cores)."""


def demo(
    what: Annotated[
        str,
        options.choice_argument(
            ("photos", "table"), "photos; or table: a model of scikit-learn on rows of a table."
        ),
    ] = "photos",
    out: Annotated[Path, options.path_option("Folder for the results.")] = Path("demo"),
    photos: Annotated[
        str, typer.Option(help="Sample photos, separated by commas.")
    ] = "cat,rocket,coffee,motorcycle,astronaut",
    labels: Annotated[str | None, options.LABELS] = None,
    methods: Annotated[str | None, options.METHODS] = None,
    minutes: Annotated[
        float, typer.Option(min=0.1, help="Time limit; fewer photos are judged to keep it.")
    ] = 4,
    device: Annotated[str | None, options.DEVICE] = None,
    seed: Annotated[int, options.SEED] = 0,
    quiet: Annotated[bool, options.QUIET] = False,
) -> None:
    if what == "table":
        judge_rows(out, labels, methods, seed, quiet)
        return
    labels, methods = labels or "top3+wrong", methods or options.DEFAULT_METHODS
    if math.isnan(minutes):
        raise pm.InputError("--minutes must be a number, such as 4")
    dataset = photographs([f"sample:{name}" for name in options.names_after("--photos", photos) or []])
    classifier = pm.load_classifier(DEFAULT_MODEL, device=options.check_device(device))
    run_files_in(methods)
    chosen = [pm.make_method(spec) for spec in split_specs(methods)]
    number_of_labels = expected_labels(LabelRule.parse(labels, classifier.names), classifier)
    out = check_output(out)

    expected = partial(expected_cost, Session(classifier), chosen, default_metrics(), labels=number_of_labels)
    number = len(dataset)
    speed = measure_speed(classifier, expected(images=number).known)
    whole, time = (
        OVERHEAD * speed.seconds(expected(images=number).known),
        expected(images=number).time_text(speed),
    )
    while number > 1 and OVERHEAD * speed.seconds(expected(images=number).known) > 60 * minutes:
        number -= 1
    if number < len(dataset):
        stderr.print(
            f"the whole demo would take {time}, so this one has {number} of {counted(len(dataset), 'photo')}. For the whole demo: "
            f"proofmap demo --minutes {whole / 60 + 1:.0f}"
        )
    elif not quiet:
        stderr.print(time)
    (block,) = load_blocks(dataset, classifier, range(number), block_size=len(dataset))
    found = pm.evaluate(
        classifier,
        block.images,
        methods=chosen,
        labels=labels,
        names=dataset.names[:number],
        seed=seed,
        progress=progress_for(stderr, quiet),
    )
    print_and_save(found, out)
    if not (out / "curves.png").is_file():
        stderr.print("no charts were drawn: pip install 'proofmap[figures]' installs matplotlib")
