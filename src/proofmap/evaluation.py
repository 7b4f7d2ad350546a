"""Judge methods on images: maps for every label, then each metric with its interval."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from proofmap._files import distinct_names
from proofmap.classifier import Classifier
from proofmap.errors import InputError
from proofmap.labels import NO_LABEL, LabelRule, Labels, check_labels
from proofmap.methods.method import Method, MethodLike, make_method
from proofmap.metrics import proof
from proofmap.metrics.curves import Curves, CurveSettings, curve_settings
from proofmap.metrics.judge import (
    BestEffort,
    Completeness,
    Deletion,
    Insertion,
    Judged,
    Metric,
    Soundness,
)
from proofmap.metrics.statistics import Score, mean_score
from proofmap.progress import Progress, Silent

_BLOCK = 32_000_000  # map values held at once


@dataclass(frozen=True)
class MethodResult:
    """One method, judged: its scores, the per-image values behind them, and one row per (image, label)."""

    name: str
    settings: Mapping[str, object]
    label_free: bool
    scores: tuple[Score, ...]
    values: Mapping[str, Tensor]
    rows: tuple[Mapping[str, object], ...]
    maps: Tensor
    insertion: Curves
    seconds: float

    def score(self, name: str) -> Score:
        for score in self.scores:
            if score.name == name:
                return score
        raise InputError(f"no score is named {name!r}; there are {', '.join(s.name for s in self.scores)}")

    def threshold(self, which: str) -> float:
        """e1 or e2 as the scores used it; the paper's when none of them did."""
        for score in self.scores:
            if which in score.settings:
                return float(str(score.settings[which]))
        return float(getattr(proof.THRESHOLDS["paper"], which))


@dataclass(frozen=True)
class Evaluation:
    """What :func:`evaluate` found. Prints as a table; ``save`` writes tables, records and pictures."""

    results: tuple[MethodResult, ...]
    images: Tensor
    image_names: tuple[str, ...]
    labels: Tensor
    label_names: tuple[str, ...]
    f: Tensor
    settings: Mapping[str, object] = field(repr=False)

    def table(self) -> str:
        """The scores as text: one line per method, one column per metric, intervals in brackets."""
        from proofmap.report.tables import score_table

        return score_table(self)

    def __str__(self) -> str:
        return self.table()

    def __getitem__(self, method: str) -> MethodResult:
        for result in self.results:
            if result.name == method:
                return result
        raise InputError(
            f"no method {method!r} was judged; there are {', '.join(r.name for r in self.results)}"
        )

    def save(self, folder: str | Path, *, pictures: bool = True) -> list[Path]:
        """Write ``scores.csv``, ``pairs.csv``, ``evaluation.json`` and the pictures; returns what was written."""
        from proofmap.report.files import save_evaluation

        return save_evaluation(self, folder, pictures=pictures)


def default_metrics(
    thresholds: str | tuple[float, float] | proof.Thresholds = "paper", curve: str | CurveSettings = "paper"
) -> list[Metric]:
    """Completeness, soundness and best effort at these thresholds, insertion and deletion, on these curves."""
    at = proof.thresholds(thresholds)
    shown, hidden = curve_settings(curve), curve_settings(curve, "deletion")
    return [
        Completeness(at=at, curve=shown),
        Soundness(at=at, curve=shown),
        BestEffort(at=at, curve=shown),
        Insertion(curve=shown),
        Deletion(curve=hidden),
    ]


def choose_labels(classifier: Classifier, images: Tensor, labels: Labels, f: Tensor) -> Tensor:
    """Labels ``(N, L)`` from a rule, a list for all images, or a tensor as given."""
    if isinstance(labels, Tensor):
        return check_labels(labels.to(classifier.device), len(images), len(classifier.names))
    return LabelRule.parse(labels, classifier.names).choose(f, classifier.label_set)


def image_names_for(images: Tensor, names: Sequence[str] | None) -> tuple[str, ...]:
    """One distinct name per image."""
    if names is None:
        return tuple(f"image-{i}" for i in range(len(images)))
    if len(names) != len(images):
        raise InputError(f"{len(names)} names were given for {len(images)} images")
    return tuple(distinct_names(list(names)))


def evaluate(
    classifier: Classifier,
    images: Tensor,
    *,
    methods: Sequence[MethodLike],
    labels: Labels = "top5",
    metrics: Sequence[Metric] | None = None,
    names: Sequence[str] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Compute every method's maps for every chosen label and judge them.

    Everything, f(x, a) included, goes through one frozen float32 view of the net, so scores compare like with like.

    Args:
        methods: names, specs such as ``"learned-mask:tv=0.1"``, Method instances, or functions.
        labels: ``"all"``, ``"top5"``, ``"p>=0.01"``, a list of names or indices, or a tensor ``(N, L)``.
        metrics: what to judge by; :func:`default_metrics` when left out.
        names: one per image, for tables and files.
    """
    if len(images) == 0:
        raise InputError("there are no images to evaluate on")
    chosen = [make_method(m) for m in methods]
    if not chosen:
        raise InputError("there are no methods to evaluate; see: proofmap methods")
    asked = list(metrics) if metrics is not None else default_metrics()
    if not asked:
        raise InputError("there are no metrics to judge by; leave metrics out for the usual ones")
    progress = progress or Silent()
    images = classifier.check_images(images)
    judges = [metric.prepare(classifier) for metric in asked]
    f_all = classifier.frozen().probabilities(images)
    label_table = choose_labels(classifier, images, labels, f_all)
    f = f_all.gather(1, label_table.clamp_min(0)).masked_fill(label_table == NO_LABEL, torch.nan)
    image_names = image_names_for(images, names)
    context = {
        **classifier.settings(),
        "labels": str(LabelRule.parse(labels, classifier.names))
        if not isinstance(labels, Tensor)
        else "given",
        "seed": seed,
    }
    titles = distinct_names([title_of(m) for m in chosen])
    results = tuple(
        _judge(
            method, title, judges, classifier, images, label_table, image_names, f, context, seed, progress
        )
        for method, title in zip(chosen, titles, strict=True)
    )
    return Evaluation(results, images, image_names, label_table, classifier.names, f, context)


def title_of(method: Method) -> str:
    """A short name: the method's own, with the settings that differ from its defaults."""
    settings = dict(method.settings())
    name = str(settings.pop("method"))
    try:
        usual = type(method)().settings()
    except TypeError:
        inner = getattr(method, "of", None)
        return f"{name}:{title_of(inner)}" if isinstance(inner, Method) else name
    changed = [f"{k}={v}" for k, v in settings.items() if v != usual[k] and not isinstance(v, dict)]
    return name + (":" + ",".join(changed) if changed else "")


def _judge(
    method: Method,
    title: str,
    metrics: Sequence[Metric],
    classifier: Classifier,
    images: Tensor,
    labels: Tensor,
    image_names: Sequence[str],
    f: Tensor,
    context: Mapping[str, object],
    seed: int,
    progress: Progress,
) -> MethodResult:
    began = time.monotonic()
    per_image = images[0, 0].numel() * labels.shape[1]
    block = max(1, _BLOCK // per_image)
    maps, values, pairs, played = [], [], [], []
    for start in range(0, len(images), block):
        x, a = images[start : start + block], labels[start : start + block]
        judged = Judged(
            classifier.frozen(), x, a, method(classifier, x, a, seed=seed, progress=progress), seed, progress
        )
        values.append([metric(judged).cpu() for metric in metrics])
        pairs.append([metric.pairs(judged) for metric in metrics])
        played.append(judged.curves("insertion", _insertion_settings(metrics)))
        maps.append(judged.maps.cpu())
    columns = distinct_names([m.name for m in metrics])  # one metric may be asked for with several settings
    by_metric = {name: torch.cat([v[k] for v in values]) for k, name in enumerate(columns)}
    pair_values = {
        name: torch.cat([p[k] for p in pairs]).cpu()  # type: ignore[misc]
        for k, name in enumerate(columns)
        if pairs[0][k] is not None
    }
    scores = tuple(
        mean_score(
            name,
            by_metric[name],
            higher_is_better=m.higher_is_better,
            settings={**m.settings(), **{k: context[k] for k in ("label_set", "renormalise", "labels")}},
            seed=seed,
        )
        for name, m in zip(columns, metrics, strict=True)
    )
    rows = [
        {
            "method": title,
            "image": image_names[i],
            "label": int(labels[i, j]),
            "name": classifier.names[int(labels[i, j])],
            "f": float(f[i, j]),
            **{name: float(value[i, j]) for name, value in pair_values.items()},
        }
        for i in range(len(images))
        for j in range(labels.shape[1])
        if int(labels[i, j]) != NO_LABEL
    ]
    return MethodResult(
        title,
        method.settings(),
        method.label_free,
        scores,
        by_metric,
        tuple(rows),
        torch.cat(maps),
        _joined(played),
        time.monotonic() - began,
    )


def _insertion_settings(metrics: Sequence[Metric]) -> CurveSettings:
    """The insertion settings that the metrics already use, so that the pictures' curve costs nothing more."""
    for metric in metrics:
        curve = getattr(metric, "curve", None)
        if isinstance(curve, CurveSettings) and getattr(metric, "game", "") == "insertion":
            return curve
    return curve_settings("paper")


def _joined(blocks: list[Curves]) -> Curves:
    first = blocks[0]
    joined = {
        key: torch.cat([getattr(b, key) for b in blocks]).cpu()
        for key in ("labels", "f", "probabilities", "auc", "error")
    }
    return Curves(
        game=first.game,
        counts=first.counts,
        positions=first.positions,
        matrix=None,
        settings=first.settings,
        **joined,
    )
