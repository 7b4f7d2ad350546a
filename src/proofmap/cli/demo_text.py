"""``demo text``: which words prove the language of a sentence, by a model inside the package py3langid."""

from __future__ import annotations

from pathlib import Path

import proofmap as pm
from proofmap.cli.console import progress_for, stderr
from proofmap.cli.demo_table import METRICS, print_and_save
from proofmap.core.files import check_output
from proofmap.models.languages import NAME
from proofmap.plugins.specs import split_specs

LANGUAGES = ("en", "de", "fr", "es", "nl")
FILLS = ("delete", "images")
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


def demo_text(out: Path, labels: str, methods: str, seed: int, quiet: bool) -> None:
    """Judge methods on sentences, some of two languages; words, table and report in ``out``."""
    check_output(out)
    classifier = pm.load_classifier(NAME).restricted(LANGUAGES)
    if not quiet:
        stderr.print(
            f"{NAME} tells {len(classifier.names)} languages apart; here {len(LANGUAGES)} count: {', '.join(LANGUAGES)}"
        )
    found = pm.evaluate(
        classifier,
        list(SENTENCES),
        methods=split_specs(methods),
        metrics=METRICS,
        labels=labels,
        fills=FILLS,
        seed=seed,
        progress=progress_for(stderr, quiet),
    )
    report = print_and_save(found, out, "text")
    stderr.print(f"open {report} in a browser: every text, with its words")
