"""The study of a recipe: its rows (methods with settings) and metrics, each completed with the settings that they share.

[settings.study]                    # a study, as proofmap evaluate takes it

[settings.of_method.learned-mask]   # settings of every row of this method that does not say otherwise
[settings.of_metric.insertion]      # and of every metric of this kind
[settings.each_method]              # settings of all methods, whatever each says
[settings.each_metric]              # and of all metrics

[settings.epsilons]                 # completeness, soundness and best effort at each of these, side by side
printed = { e1 = 0.01, e2 = 0.001 }
released = { e1 = 0.1, e2 = 0.1 }

A row is left out if a need whose ``gives`` is the name of the row is missing. If a ``weights`` file is missing, the net or method takes the
weights of an installed package.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.data.dataset import random_choice
from proofmap.data.loader import load_blocks
from proofmap.methods.method import Method
from proofmap.reproduce.findings import Job, rows_of
from proofmap.study import Study
from proofmap.study.opened import open_study

FLOORS: Mapping[str, str] = {"completeness": "e1", "soundness": "e2", "best-effort": "e1"}
"""The metrics of the paper's definition, and the threshold that each uses."""


def study_of(job: Job) -> Study:
    """The study of a recipe, with shared settings copied into each method and metric."""
    settings = job.settings
    table = _with_weights_there(settings["study"])
    of_method, of_metric = settings.get("of_method", {}), settings.get("of_metric", {})
    table["methods"] = [
        {**_row(entry, of_method), **settings.get("each_method", {})}
        for name, entry in rows_of(settings).items()
        if name not in job.missing
    ]
    table["metrics"] = [
        {**of_metric.get(metric["metric"], {}), **metric, **settings.get("each_metric", {})}
        for entry in table.get("metrics", ())
        for metric in at_epsilons(entry, settings.get("epsilons", {}))
    ]
    study = replace(Study.from_table(table), seed=job.seed)
    chosen = study.images
    number = chosen.number if job.images is None else job.images
    images_seed = chosen.seed if job.images_seed is None else job.images_seed
    return replace(study, images=replace(chosen, number=number, seed=images_seed))


def at_epsilons(metric: Mapping[str, Any], epsilons: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the metric once for each pair of thresholds. A metric without thresholds, or with its own, is yielded unchanged.

    >>> [m["name"] for m in at_epsilons({"metric": "soundness"}, {"printed": {"e1": 0.01, "e2": 0.001}})]
    ['soundness, printed']
    """
    floor = FLOORS.get(metric["metric"])
    if floor is None or floor in metric or not epsilons:
        yield dict(metric)
        return
    for preset, pair in epsilons.items():
        yield {**metric, "name": f"{metric_name(metric)}, {preset}", floor: pair[floor]}


def metric_name(metric: Mapping[str, Any]) -> str:
    return str(metric.get("name", metric["metric"]))


def by_epsilons(settings: Mapping[str, Any]) -> dict[str, list[str]]:
    """The metrics of a study that are judged at several thresholds: name in the recipe -> names in the study."""
    epsilons = settings.get("epsilons", {})
    several: dict[str, list[str]] = {}
    for metric in settings["study"]["metrics"]:
        names = [metric_name(found) for found in at_epsilons(metric, epsilons)]
        if names != [metric_name(metric)]:
            several[metric_name(metric)] = names
    return several


def _row(entry: Mapping[str, Any], of_method: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The row with the shared settings of its method added. Inside a wrapper such as ``top-label``, the wrapped method gets them too."""
    row = _with_weights_there({**of_method.get(entry.get("method", ""), {}), **entry})
    return {**row, "of": _row(row["of"], of_method)} if isinstance(row.get("of"), Mapping) else row


def _with_weights_there(table: Mapping[str, Any]) -> dict[str, Any]:
    weights = table.get("weights")
    there = weights is None or Path(weights).exists()
    return {key: value for key, value in table.items() if there or key != "weights"}


# ---- a sample of its images ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """Images ``(N, *shape)`` with the labels ``(N, L)`` that the study's rule chooses, the net, and the study's methods."""

    classifier: Classifier
    images: Tensor
    labels: Tensor
    methods: Mapping[str, Method]


def draw_sample(job: Job, data: str | None = None, number: int | None = None) -> Sample:
    """Draw ``number`` random images from the data of ``[settings.study]``, or from other ``data``; all images if there are fewer."""
    study = study_of(job)
    opened = open_study(study if data is None else replace(study, data=data), device=job.device)
    dataset, classifier = opened.data, opened.classifier
    count = min(number or study.images.number or len(dataset), len(dataset))
    indices = random_choice(dataset.names, count, seed=study.images.seed)
    (block,) = load_blocks(dataset, classifier, indices, block_size=max(1, count))
    if block.failures:
        raise InputError(next(iter(block.failures.values())))
    images = classifier.check_images(block.images)
    labels = classifier.choose_labels(images, study.labels, seed=study.seed)
    return Sample(classifier, images, labels, opened.methods)
