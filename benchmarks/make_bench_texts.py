"""Make the texts of ProofBench's task ``text``: two messages of Django in two languages, one after the other.

    python benchmarks/make_bench_texts.py [FILE]

Needs django (for its translations, BSD-3-Clause) and py3langid. Messages have 3 to 9 words. A pair is kept if the model gives the second
language at least .1: few do, because the model adds up the n-grams of a text and is soon sure.
"""

from __future__ import annotations

import csv
import gettext
import importlib.util
import sys
from pathlib import Path

import numpy as np

from proofmap.bench import nets

STORED = 96
SECOND = 0.1
DRAWN = 500
"""Pairs that are drawn at once."""


def is_fitting(text: str) -> bool:
    return 3 <= len(text.split()) <= 9 and text[0].isupper() and not set(text) & set('%{}<>`|*="')


def messages(folder: Path, language: str) -> list[str]:
    """The messages of Django in a language, without those that have places for values."""
    texts: set[str] = set()
    for file in sorted(folder.glob("**/locale/fr/LC_MESSAGES/django.mo")):
        own = file.parents[2] / language / "LC_MESSAGES" / "django.mo"
        with (file if language == "en" else own).open("rb") as opened:
            catalog = gettext.GNUTranslations(opened)._catalog  # type: ignore[attr-defined]
        pairs = [(key, value) for key, value in catalog.items() if isinstance(key, str) and key]
        texts |= {" ".join(str(key if language == "en" else value).split()) for key, value in pairs}
    return sorted(text for text in texts if text and is_fitting(text))


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else nets.FOLDER / "text.csv"
    found = importlib.util.find_spec("django")
    if found is None or found.origin is None:
        sys.exit("this needs the translations of Django: pip install django")
    each = {language: messages(Path(found.origin).parent, language) for language in nets.LANGUAGES}
    classifier, rng = nets.text(), np.random.default_rng(5)
    kept: list[str] = []
    drawn = 0
    while len(kept) < STORED:
        texts = []
        for _ in range(DRAWN):
            pair = rng.permutation(len(nets.LANGUAGES))[:2]
            texts.append(" ".join(rng.choice(each[nets.LANGUAGES[k]]) for k in pair))
        f = classifier.probabilities(classifier.inputs.encode(texts))
        second = f.sort(dim=1, descending=True).values[:, 1]
        kept += [text for text, value in zip(texts, second, strict=True) if value >= SECOND]
        kept, drawn = list(dict.fromkeys(kept))[:STORED], drawn + DRAWN
    print(f"{len(kept)} of {drawn} pairs have a second language with f >= {SECOND}")
    with target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["text"])
        writer.writerows([text] for text in kept)


if __name__ == "__main__":
    main()
