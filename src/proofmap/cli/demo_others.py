"""``demo table`` and ``demo text``: models without gradients, judged on rows of a table inside scikit-learn, and on sentences of several languages."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import proofmap as pm
from proofmap.cli import options
from proofmap.cli.console import print_result, print_written, progress_for, stderr, table_width
from proofmap.core.errors import require
from proofmap.core.files import check_output
from proofmap.models.languages import NAME
from proofmap.plugins.specs import split_specs
from proofmap.report.html import write_report
from proofmap.results import score_tables
from proofmap.results.verdict import verdict

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
    """What a demo judges: a model, inputs with their true labels if known, fills, a sentence about it, the word for an input and its parts."""

    classifier: pm.Classifier
    inputs: Any
    truth: Any
    fills: tuple[str, ...]
    about: str
    item: str
    parts: str


def demo_without_gradients(
    what: str, out: Path, labels: str | None, methods: str | None, seed: int, quiet: bool
) -> None:
    """Judge methods on a table or on texts; pictures, table and report in ``out``."""
    check_output(out)
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
    stderr.print(f"open {report} in a browser: every {demo.item}, with its {demo.parts}")


def table_demo() -> Demo:
    """Held-out rows of scikit-learn's breast-cancer table, and a forest that is trained on the others."""
    classifier, rows, truth = trained_forest()
    right = float((classifier.top(classifier.inputs.encode(rows), 1)[:, 0].numpy() == truth).mean())
    about = (
        f"a forest of {TREES} trees, trained on 398 tumours of scikit-learn's breast-cancer table, is right on {right:.0%} of "
        f"{len(rows)} others".replace("%", " %")
    )
    return Demo(classifier, rows[:ROWS], truth[:ROWS], ("gray", "near-rows"), about, "row", "columns by name")


def text_demo() -> Demo:
    """Sentences, some of two languages, and the model inside the package py3langid."""
    classifier = pm.load_classifier(NAME).restricted(LANGUAGES)
    about = f"{NAME} tells {len(classifier.names)} languages apart; here {len(LANGUAGES)} count: {', '.join(LANGUAGES)}"
    return Demo(classifier, list(SENTENCES), None, ("delete", "images"), about, "text", "words")


DEMOS = {"table": table_demo, "text": text_demo}


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
