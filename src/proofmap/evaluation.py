"""Judge methods on images: maps for every label, then each metric with its interval."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from proofmap._files import distinct_names
from proofmap.block import BlockResult, ScoreInfo, join_blocks, judge_block, score_infos
from proofmap.classifier import Classifier
from proofmap.errors import InputError
from proofmap.fills import Fill
from proofmap.labels import NO_LABEL, LabelRule, Labels, check_labels
from proofmap.methods.method import Method, MethodLike, make_method
from proofmap.metrics import proof
from proofmap.metrics.curves import Curves, CurveSettings, curve_settings
from proofmap.metrics.judge import (
    BestEffort,
    Completeness,
    Deletion,
    Insertion,
    Metric,
    Soundness,
)
from proofmap.metrics.statistics import Score, mean_score
from proofmap.progress import Progress, Silent

_BLOCK = 32_000_000  # map values held at once


@dataclass(frozen=True, repr=False)
class MethodResult:
    """One method, judged: its scores, the per-image values behind them, and one row per (image, label)."""

    name: str
    settings: Mapping[str, object]
    label_free: bool
    scores: tuple[Score, ...]
    values: Mapping[str, Tensor]
    """``(N,)`` for each score; NaN where an image does not count."""
    pairs: Mapping[str, Tensor]
    """``(N, L)`` for each score that has values per label."""
    maps: Tensor
    """``(P, L, H, W)`` of the pictured images; ``(P, 1, H, W)`` for a label-free method."""
    insertion: Curves
    """Curves of all images; with the label x label matrix where there are few enough labels."""
    seconds: float
    image_names: Sequence[str]
    label_names: Sequence[str]

    @cached_property
    def rows(self) -> tuple[Mapping[str, object], ...]:
        """One row per (image, label): f, and what the map amounts to."""
        return tuple(self.each_row())

    def each_row(self) -> Iterator[Mapping[str, object]]:
        """The same rows one by one, for studies too large to list."""
        f, labels = self.insertion.f, self.insertion.labels
        for i, listed in enumerate(labels.tolist()):
            values = {key: value[i].tolist() for key, value in self.pairs.items()}
            believed = f[i].tolist()
            for j, label in enumerate(listed):
                if label != NO_LABEL:
                    place = {"label": label, "name": self.label_names[label], "f": believed[j]}
                    scores = {key: value[j] for key, value in values.items()}
                    yield {"method": self.name, "image": self.image_names[i], **place, **scores}

    def __repr__(self) -> str:
        return f"MethodResult({self.name}, {len(self.image_names)} images, {len(self.scores)} scores)"

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


@dataclass(frozen=True, repr=False)
class Evaluation:
    """What was found about methods. Prints as a table; ``save`` writes tables, records and pictures.

    Numbers are there for every image. Pixels and maps take room, so they are there for the ``pictured`` ones:
    ``images`` is ``(P, C, H, W)`` and belongs to the rows ``pictured`` of ``image_names``, ``labels`` and ``f``.
    """

    results: tuple[MethodResult, ...]
    images: Tensor
    image_names: tuple[str, ...]
    labels: Tensor
    label_names: tuple[str, ...]
    f: Tensor
    settings: Mapping[str, object]
    pictured: tuple[int, ...] = ()

    def __len__(self) -> int:
        """The number of images."""
        return len(self.image_names)

    def image_of(self, index: int) -> Tensor:
        """The pixels ``(C, H, W)`` of a pictured image."""
        return self.images[self._place(index)]

    def map_of(self, result: MethodResult, index: int, place: int) -> Tensor:
        """The map ``(H, W)`` of a pictured image, for the label in this place of its row of labels."""
        return result.maps[self._place(index), 0 if result.label_free else place]

    def _place(self, index: int) -> int:
        if index not in self.pictured:
            raise InputError(
                f"the pixels and maps of image {index} were not kept; kept are {len(self.pictured)} of {len(self)}"
            )
        return self.pictured.index(index)

    def table(self) -> str:
        """The scores as text: one line per method, one column per metric, intervals in brackets."""
        from proofmap.report.tables import score_table

        return score_table(self)

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        methods = ", ".join(result.name for result in self.results)
        return f"Evaluation({len(self)} images, {self.settings.get('model')}; {methods})"

    def _repr_html_(self) -> str:
        from proofmap.report.notebook import evaluation_html

        return evaluation_html(self)

    def __getitem__(self, method: str) -> MethodResult:
        """The result of a method by its name, or by a beginning of it that no other has."""
        for result in self.results:
            if result.name == method:
                return result
        beginning = [result for result in self.results if result.name.startswith(method)]
        if len(beginning) == 1 and method:
            return beginning[0]
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
        return check_labels(
            labels.to(classifier.device), len(images), len(classifier.names), classifier.label_set
        )
    return LabelRule.parse(labels, classifier.names).choose(f, classifier.label_set)


def given_labels(labels: Labels) -> Labels:
    """Arrays and lists of lists as the tensor ``(N, L)`` they mean; rules and flat lists as they are."""
    nested = (
        not isinstance(labels, (str, Tensor)) and len(labels) > 0 and not isinstance(labels[0], (str, int))
    )
    return torch.as_tensor(labels) if nested else labels


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
    keep_maps: int | None = 50,
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Compute every method's maps for every chosen label and judge them.

    All scores, f(x, a) included, come from one frozen view of the net, so they compare like with like.

    Args:
        methods: names, specs such as ``"learned-mask:tv=0.1"``, Method instances, or functions.
        labels: ``"all"``, ``"top5"``, ``"p>=0.01"``, a list of names or indices, or a tensor ``(N, L)``.
        metrics: what to judge by; :func:`default_metrics` when left out.
        names: one per image, for tables and files.
        keep_maps: how many images, the first ones, keep their pixels and maps for pictures; None for all.
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
    labels = given_labels(labels)
    label_table = choose_labels(classifier, images, labels, f_all)
    f = f_all.gather(1, label_table.clamp_min(0)).masked_fill(label_table == NO_LABEL, torch.nan)
    image_names = image_names_for(images, names)
    context = {
        **classifier.settings(),
        "labels": "given" if isinstance(labels, Tensor) else str(LabelRule.parse(labels, classifier.names)),
        "seed": seed,
        "device": str(classifier.device),
        "batches": [batch.size for batch in classifier.frozen().batches],
        "threads": torch.get_num_threads(),
    }
    kept = len(images) if keep_maps is None else min(keep_maps, len(images))
    titles = distinct_names([title_of(m) for m in chosen])
    results = []
    for method, title in zip(chosen, titles, strict=True):
        began = time.monotonic()
        ready = method.prepare(classifier)
        block = max(1, _BLOCK // (images[0, 0].numel() * label_table.shape[1]))
        blocks = []
        for start in range(0, len(images), block):
            x, a = images[start : start + block], label_table[start : start + block]
            blocks.append(judge_block(ready, classifier, x, a, judges, kept - start, seed, progress))
        results.append(
            method_result(
                title,
                join_blocks(blocks),
                score_infos(judges),
                settings=ready.settings(),
                label_free=ready.label_free,
                image_names=image_names,
                label_names=classifier.names,
                context=context,
                seconds=time.monotonic() - began,
            )
        )
    return Evaluation(
        tuple(results),
        images[:kept],
        image_names,
        label_table,
        classifier.names,
        f,
        context,
        pictured=tuple(range(kept)),
    )


def title_of(method: Method) -> str:
    """A short name: the method's own, with the settings that differ from its defaults.

    >>> title_of(make_method("top-label:learned-mask:steps=5,fill=gray"))
    'top-label:learned-mask:steps=5,fill=gray'
    """
    inner = getattr(method, "of", None)
    if isinstance(inner, Method):
        return f"{method.name}:{title_of(inner)}"
    settings: tuple[dataclasses.Field[Any], ...] = ()
    if dataclasses.is_dataclass(method):
        settings = dataclasses.fields(method)
    changed: list[str] = []
    for setting in settings:
        value = getattr(method, setting.name)
        shown = value.name if isinstance(value, Fill) else value
        if setting.default is not dataclasses.MISSING and shown != setting.default:
            changed.append(f"{setting.name}={shown}")
    return str(method.settings()["method"]) + (":" + ",".join(changed) if changed else "")


def method_result(
    name: str,
    block: BlockResult,
    infos: Sequence[ScoreInfo],
    *,
    settings: Mapping[str, object],
    label_free: bool,
    image_names: Sequence[str],
    label_names: Sequence[str],
    context: Mapping[str, object],
    seconds: float,
) -> MethodResult:
    """One method's result from the values of all images; ``context`` is what the evaluation's settings say."""
    assert block.insertion is not None, "a result shows its curves"
    scores = tuple(
        mean_score(
            info.name,
            block.values[info.name],
            higher_is_better=info.higher_is_better,
            settings={**info.settings, **{k: context[k] for k in ("label_set", "renormalise", "labels")}},
            seed=int(str(context["seed"])),
        )
        for info in infos
    )
    return MethodResult(
        name,
        settings,
        label_free,
        scores,
        block.values,
        block.pairs,
        block.maps,
        block.insertion,
        seconds,
        image_names=image_names,
        label_names=label_names,
    )
