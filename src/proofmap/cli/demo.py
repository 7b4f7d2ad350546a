"""``demo``: judges methods on sample photos. The work is reduced until it takes a few minutes on this machine. ``demo table`` uses
rows of a table and ``demo text`` sentences of several languages; their models have no gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

import proofmap as pm
from proofmap.cli import options
from proofmap.cli.console import print_result, print_written, progress_for, shown_path, stderr, table_width
from proofmap.core.errors import require
from proofmap.core.files import check_output
from proofmap.core.labels import WRONG, LabelRule
from proofmap.core.text import counted
from proofmap.data.loader import load_blocks
from proofmap.data.specs import photographs
from proofmap.methods.method import Cost, Method
from proofmap.metrics.proof_scores import default_metrics
from proofmap.models import DEFAULT_MODEL
from proofmap.models.languages import NAME
from proofmap.plugins.settings import setting_names
from proofmap.plugins.specs import split_specs
from proofmap.report.html import write_report
from proofmap.results import score_tables
from proofmap.results.verdict import verdict
from proofmap.session import Session
from proofmap.study.planning.cost import SLOWER, expected_cost, expected_labels, measure_speed
from proofmap.study.watchers.status import duration_range

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
    the demo, and the words for an input and its positions.
    """

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
    stderr.print(f"open {shown_path(report)} in a browser: every {demo.item}, with its {demo.parts}")


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
    """Sentences, some in two languages, and the language model of the package py3langid."""
    classifier = pm.load_classifier(NAME).restricted(LANGUAGES)
    about = f"{NAME} tells {len(classifier.names)} languages apart; here {len(LANGUAGES)} count: {', '.join(LANGUAGES)}"
    return Demo(classifier, list(SENTENCES), None, ("delete", "images"), about, "text", "words")


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
    out: Annotated[Path, options.OUT] = Path("demo"),
    photos: Annotated[
        str, typer.Option(help="Sample photos, separated by commas.")
    ] = "cat,rocket,coffee,motorcycle,astronaut",
    labels: Annotated[
        str | None,
        typer.Option(help=options.LABELS_HELP, show_default="top3+wrong; all for table and text"),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help=options.METHODS_HELP, show_default="seven methods; four without gradients for table and text"
        ),
    ] = None,
    minutes: Annotated[
        float, typer.Option(min=0.1, help="Time limit; photos, labels or steps are cut to keep it.")
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
    dataset = photographs([f"sample:{name}" for name in options.split_list(photos)])
    classifier = pm.load_classifier(DEFAULT_MODEL, device=options.check_device(device))
    chosen = [pm.make_method(spec) for spec in split_specs(methods)]
    rule = LabelRule.parse(labels, classifier.names)
    out = check_output(out)
    wrong = WRONG * rule.wrong  # few and never cut: they test soundness
    full = DemoSize(len(dataset), expected_labels(rule, classifier) - wrong)
    scale = _scale_for(classifier, chosen, full, wrong, rule.kind == "top", 60 * minutes, quiet)
    (block,) = load_blocks(dataset, classifier, range(scale.photos), block_size=len(dataset))
    found = pm.evaluate(
        classifier,
        block.images,
        methods=[with_fewer_steps(method, scale.steps) for method in chosen],
        labels=labels if scale.labels == full.labels else f"top{scale.labels}{'+wrong' if wrong else ''}",
        names=dataset.names[: scale.photos],
        seed=seed,
        progress=progress_for(stderr, quiet),
    )
    report = print_and_save(found, out, "photo")
    if not (out / "curves.png").is_file():
        stderr.print("no charts were drawn: pip install 'proofmap[figures]' installs matplotlib")
    stderr.print(f"open {shown_path(report)} in a browser: every picture, with a slider")


@dataclass(frozen=True)
class DemoSize:
    """The size of a demo: the number of photos, the number of labels per photo (without the wrong labels that test soundness), and the share
    of their steps that methods which learn masks take."""

    photos: int
    labels: int
    steps: float = 1.0

    def cuts(self, full: DemoSize) -> str:
        """A text that says what is smaller than in the ``full`` size.

        >>> DemoSize(3, 2).cuts(DemoSize(5, 3))
        '3 of 5 photos, 2 of 3 labels'
        """
        parts = {
            f"{self.photos} of {counted(full.photos, 'photo')}": self.photos < full.photos,
            f"{self.labels} of {counted(full.labels, 'label')}": self.labels < full.labels,
            f"{self.steps:.0%} of the steps".replace("%", " %"): self.steps < full.steps,
        }
        return ", ".join(part for part, cut in parts.items() if cut)


def smaller_sizes(full: DemoSize, *, cut_labels: bool = True, cut_steps: bool = True) -> Iterator[DemoSize]:
    """The full size, then smaller sizes: first fewer photos (down to three), then fewer labels (down to two), then fewer steps, then
    fewer photos again.

    >>> [(s.photos, s.labels, s.steps) for s in smaller_sizes(DemoSize(4, 3))]
    [(4, 3, 1.0), (3, 3, 1.0), (3, 2, 1.0), (3, 2, 0.5), (3, 2, 0.25), (2, 2, 0.25), (1, 2, 0.25)]
    """
    scale = full
    yield scale
    for photos in range(full.photos - 1, 2, -1):
        yield (scale := replace(scale, photos=photos))
    for labels in range(full.labels - 1, 1, -1) if cut_labels else ():
        yield (scale := replace(scale, labels=labels))
    for steps in (0.5, 0.25) if cut_steps else ():
        yield (scale := replace(scale, steps=steps))
    for photos in range(min(scale.photos, 3) - 1, 0, -1):
        yield (scale := replace(scale, photos=photos))


def fitted(full: DemoSize, seconds: Callable[[DemoSize], float], budget: float, **cuts: bool) -> DemoSize:
    """The largest size that takes at most ``budget`` seconds; the smallest size if none does. ``seconds`` estimates the time of a size."""
    scales = list(smaller_sizes(full, **cuts))
    return next((scale for scale in scales if seconds(scale) <= budget), scales[-1])


def with_fewer_steps(method: Method, share: float) -> Method:
    """The method with this share of its ``steps`` or ``passes``, if it has such a setting. Methods that it wraps are changed too."""
    if share == 1:
        return method
    changes: dict[str, object] = {}
    for name in setting_names(type(method)):
        value = getattr(method, name)
        if name in ("steps", "passes") and isinstance(value, int):
            changes[name] = max(1, round(share * value))
        elif isinstance(value, Method):
            changes[name] = with_fewer_steps(value, share)
    return method.changed(**changes) if changes else method


def _scale_for(
    classifier: pm.Classifier,
    methods: Sequence[Method],
    full: DemoSize,
    wrong: int,
    cut_labels: bool,
    budget: float,
    quiet: bool,
) -> DemoSize:
    """The size that fits into the time budget at the measured speed of this machine. If the size is reduced, a message says how."""
    session, metrics = Session(classifier), default_metrics()

    def cost(scale: DemoSize) -> Cost:
        cut = [with_fewer_steps(method, scale.steps) for method in methods]
        return expected_cost(session, cut, metrics, scale.photos, scale.labels + wrong).known

    speed = measure_speed(classifier, cost(full), quick=True)
    learning = any(with_fewer_steps(method, 0.5) != method for method in methods)

    def seconds(scale: DemoSize) -> float:
        return OVERHEAD * speed.seconds(cost(scale))

    scale = fitted(full, seconds, budget, cut_labels=cut_labels, cut_steps=learning)
    before, after = (duration_range(taken, SLOWER * taken) for taken in (seconds(full), seconds(scale)))
    if scale != full:
        stderr.print(
            f"the whole demo would take about {before} here ({speed}), so this one has {scale.cuts(full)}: about {after}. "
            f"For the whole demo: proofmap demo --minutes {seconds(full) / 60 + 1:.0f}",
        )
    elif not quiet:
        stderr.print(f"about {after} ({speed})")
    return scale
