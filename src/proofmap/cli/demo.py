"""``demo``: judges methods on sample photos. As many as a few minutes allow on this machine. ``demo table`` uses
rows of a table and ``demo text`` sentences of several languages; their models have no gradients."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

import proofmap as pm
from proofmap.cli import options
from proofmap.cli.console import print_result, print_written, progress_for, shown_path, stderr, table_width
from proofmap.core.errors import require
from proofmap.core.files import check_output
from proofmap.core.labels import LabelRule
from proofmap.core.text import counted
from proofmap.data.loader import load_blocks
from proofmap.data.specs import photographs
from proofmap.methods.method import Cost
from proofmap.metrics.proof_scores import default_metrics
from proofmap.models import DEFAULT_MODEL
from proofmap.plugins.specs import split_specs
from proofmap.report.html import write_report
from proofmap.results import score_tables
from proofmap.results.verdict import verdict
from proofmap.session import Session
from proofmap.study.planning import (
    duration_range,
    expected_cost,
    expected_labels,
    measure_speed,
)

METRICS = ("completeness", "soundness", "best-effort")
ROWS = 12
TREES = 100
LANGUAGES = ("en", "de", "fr", "es", "nl")
SENTENCES = (
    "The committee voted yesterday, aber niemand wusste davon.",
    "Le chat dort on the old chair near the window.",
    "We ordered two coffees und ein Stück Kuchen mit Sahne.",
    "El tren llega tarde, and nobody at the station knows why.",
    "De fiets staat buiten because the cellar is full of water.",
    "Das Museum öffnet heute erst um zehn.",
    "Where is the next pharmacy?",
    "Il pleut depuis trois jours dans toute la région.",
    "She said bonjour to everyone in the room and sat down.",
    "La reunión empieza a las nueve en punto.",
    "Wir treffen uns after work at the usual place.",
    "Het boek ligt op tafel naast de lamp.",
)


class Demo(NamedTuple):
    """The content of a demo: a model, inputs with their true labels if known, fills (what hidden positions show), a sentence that describes
    the demo, and the word for an input.
    """

    classifier: pm.Classifier
    inputs: Any
    truth: Any
    fills: tuple[str, ...]
    about: str
    item: str


def demo_without_gradients(
    what: str, out: Path, labels: str | None, methods: str | None, seed: int, quiet: bool
) -> None:
    """Judge methods on rows of a table or on texts, and write pictures, the table of scores and the report to ``out``."""
    out = check_output(out)
    demo = DEMOS[what]()
    if not quiet:
        stderr.print(demo.about)
    found = pm.evaluate(
        demo.classifier,
        demo.inputs,
        methods=split_specs(methods or options.METHODS_WITHOUT_GRADIENTS),
        metrics=METRICS,
        labels=labels or "all",
        fills=demo.fills,
        truth=demo.truth,
        seed=seed,
        progress=progress_for(stderr, quiet),
    )
    report = print_and_save(found, out, demo.item)
    stderr.print(
        f"open {shown_path(report)} in a browser: every {demo.item}, with its {found.inputs.position_noun}"
    )


def table_demo() -> Demo:
    """Held-out rows of scikit-learn's breast-cancer table, and a forest that is trained on the others."""
    classifier, rows, truth = trained_forest()
    right = float((classifier.top(classifier.inputs.encode(rows), 1)[:, 0].numpy() == truth).mean())
    about = (
        f"a forest of {TREES} trees, trained on 398 tumours of scikit-learn's breast-cancer table, is right on {right:.0%} of "
        f"{len(rows)} others".replace("%", " %")
    )
    return Demo(classifier, rows[:ROWS], truth[:ROWS], ("gray", "near-rows"), about, "row")


def text_demo() -> Demo:
    """Sentences, some in two languages, and the language model of the package py3langid."""
    classifier = pm.load_classifier("py3langid").restricted(LANGUAGES)
    about = f"py3langid tells {len(classifier.names)} languages apart; here {len(LANGUAGES)} count: {', '.join(LANGUAGES)}"
    return Demo(classifier, list(SENTENCES), None, ("delete", "images"), about, "text")


DEMOS = {"table": table_demo, "text": text_demo}


def print_and_save(found: pm.Evaluation, out: Path, item: str) -> Path:
    """Print the proofs of the first method, all scores and the verdict, and write all files to ``out``. Returns the path of the report."""
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
            ("photos", *DEMOS),
            "photos; table: a model of scikit-learn on rows of a table; text: the words that prove a language.",
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
    if what in DEMOS:
        demo_without_gradients(what, out, labels, methods, seed, quiet)
        return
    labels, methods = labels or "top3+wrong", methods or options.DEFAULT_METHODS
    if math.isnan(minutes):
        raise pm.InputError("--minutes must be a number, such as 4")
    dataset = photographs([f"sample:{name}" for name in options.names_after("--photos", photos) or []])
    classifier = pm.load_classifier(DEFAULT_MODEL, device=options.check_device(device))
    chosen = [pm.make_method(spec) for spec in split_specs(methods)]
    number_of_labels = expected_labels(LabelRule.parse(labels, classifier.names), classifier)
    out = check_output(out)

    def cost(photos: int) -> Cost:
        return expected_cost(Session(classifier), chosen, default_metrics(), photos, number_of_labels).known

    speed = measure_speed(classifier, cost(len(dataset)))
    number = len(dataset)
    while number > 1 and OVERHEAD * speed.seconds(cost(number)) > 60 * minutes:
        number -= 1
    _print_time(OVERHEAD * speed.seconds(cost(len(dataset))), len(dataset), number, str(speed), quiet)
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
    report = print_and_save(found, out, "photo")
    if not (out / "curves.png").is_file():
        stderr.print("no charts were drawn: pip install 'proofmap[figures]' installs matplotlib")
    stderr.print(f"open {shown_path(report)} in a browser: every picture, with a slider")


def _print_time(whole: float, photos: int, number: int, speed: str, quiet: bool) -> None:
    """Print the estimated time of a demo with this number of photos. ``whole`` is the time for all photos in seconds."""
    before, after = (duration_range(taken) for taken in (whole, whole * number / photos))
    if number < photos:
        stderr.print(
            f"the whole demo would take about {before} here ({speed}), so this one has {number} of {counted(photos, 'photo')}: "
            f"about {after}. For the whole demo: proofmap demo --minutes {whole / 60 + 1:.0f}",
        )
    elif not quiet:
        stderr.print(f"about {after} ({speed})")
