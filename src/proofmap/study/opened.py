"""A study, opened: the net, the data, and every method and metric prepared for them.

:func:`proofmap.evaluate`, run directories, the command line, the web app and recipes judge through one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.labels import LabelRule
from proofmap.data.dataset import Dataset
from proofmap.data.distractors import Distractors
from proofmap.data.specs import open_data, read_for, rebuild_dataset
from proofmap.data.table_rows import TableData
from proofmap.methods.controls import map_sources
from proofmap.methods.given import Given, GivenMaps, as_given
from proofmap.methods.method import Method
from proofmap.metrics.metric import Metric, RunMetric
from proofmap.models import load_classifier
from proofmap.models.spec import ModelSpec
from proofmap.session import Session
from proofmap.study.study import Study


@dataclass(eq=False)
class OpenStudy:
    """A study opened on a net and, for a run directory, on a dataset.

    Attributes:
        session: the net, its random images and what was found for it; methods and metrics are prepared in it.
        methods, metrics: the methods and metrics by the names that the study gives them.
        run_metrics: the metrics that judge the run as a whole.
        distractors: the record of the distractors, random images that were chosen from the data; None if none were needed.
        given: the maps in files, for all images of the data.
    """

    study: Study
    session: Session
    methods: Mapping[str, Method]
    metrics: Mapping[str, Metric]
    run_metrics: Mapping[str, RunMetric] = field(default_factory=dict)
    dataset: Dataset | None = None
    distractors: Mapping[str, Any] | None = None
    given: Mapping[Method, Given] = field(default_factory=dict)

    @property
    def classifier(self) -> Classifier:
        return self.session.net

    @property
    def data(self) -> Dataset:
        """The dataset. Fails if the study was opened without one."""
        assert self.dataset is not None, "this study was opened without data"
        return self.dataset


def open_study(
    study: Study,
    *,
    classifier: Classifier | None = None,
    dataset: Dataset | Mapping[str, object] | None = None,
    device: str | None = None,
    threads: int | None = None,
    distractors: Mapping[str, Any] | None = None,
) -> OpenStudy:
    """Load the net and the data of a study, and prepare its methods and metrics for them.

    Args:
        classifier: a loaded net, used instead of the study's model.
        dataset: an open dataset, or the settings to rebuild it from, used instead of the study's data.
        device: the torch device on which the net runs.
        threads: the number of torch's CPU threads; the last bits of results depend on it.
        distractors: the record of the distractors (random images) that the run started with. By default they are chosen from the data.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    if dataset is None:
        data, classifier = open_study_data(study, classifier, device)
    else:
        data = dataset if isinstance(dataset, Dataset) else rebuild_dataset(dataset)
    net = open_net(study, classifier, device, data)
    pinned = distractors
    if pinned is not None and pinned["data"] != data.title:
        pinned = None

    def find() -> Distractors | None:
        return (
            Distractors.from_dataset(data, net.inputs)
            if pinned is None
            else Distractors.from_record(pinned, data, net.inputs)
        )

    opened = prepare_study(study, net, find)
    source = opened.session.used_source
    if source is not None and pinned is None:
        distractors = source.record(data) if isinstance(source, Distractors) else None
    rule = LabelRule.parse(study.labels, net.names, net.inputs.singular)
    given: dict[Method, Given] = {
        method: as_given(method.load(), name, net, len(data), rule)
        for name, method in opened.methods.items()
        if isinstance(method, GivenMaps)
    }
    for method, maps in given.items():
        opened.session.memo((method, "read"), partial(str, maps.words))
    return replace(opened, dataset=data, distractors=distractors, given=given)


def open_study_data(
    study: Study, classifier: Classifier | None = None, device: str | None = None
) -> tuple[Dataset, Classifier | None]:
    """The study's data, and the net if it was given or had to be loaded to read the data, else None.

    How a CSV file or a file of arrays is read depends on the net, unless the kind of data is written before the file name: ``series:beats.csv``.
    Models in files of other libraries (``onnx:FILE``) read their columns from the data, so for these the data is opened first.
    """
    by_net = any(read_for(study.data, kind) != study.data for kind in ("rows", "volumes"))
    if classifier is None and by_net and not ModelSpec.parse(study.model).reads_file:
        classifier = load_classifier(study.model, weights=study.weights, device=device)
    data = study.data if classifier is None else read_for(study.data, classifier.inputs.kind)
    return open_data(data), classifier


def open_net(
    study: Study,
    classifier: Classifier | None = None,
    device: str | None = None,
    dataset: Dataset | None = None,
) -> Classifier:
    """The given net or, if there is none, the study's net, with the study's fit and label set.

    A model of tables needs rows that describe its columns. If the model string names no such rows, the rows of the dataset are used.
    """
    net = classifier
    if net is None:
        spec = ModelSpec.parse(study.model)
        lacks = spec.reads_file and "data" not in spec.options
        rows = dataset.frame if lacks and isinstance(dataset, TableData) else None
        net = load_classifier(study.model, weights=study.weights, device=device, data=rows)
    if net.own_given > 1:
        raise InputError(
            "a run takes a net whose given inputs are the same for all images; evaluate takes others"
        )
    if study.fit is not None:
        net = net.fitting(study.fit)
    return net.restricted(list(study.label_set), renormalise=study.renormalise) if study.label_set else net


def prepare_study(
    study: Study, classifier: Classifier, distractors: Callable[[], Distractors | None]
) -> OpenStudy:
    """A study without data, on a loaded net. Fills that need random images and name none draw from what ``distractors`` returns."""
    metrics, run_metrics = _split(study.named_metrics())
    methods = study.named_methods(classifier.inputs)
    session = Session(
        classifier,
        seed=study.seed,
        role="learn",
        distractors=distractors,
        watch_every=1,
        shared=frozenset(methods[name] for name in map_sources(methods).values()),
    )
    for method in methods.values():
        session.prepare(method)
    for metric in metrics.values():
        session.judging().prepare(metric)
    return OpenStudy(study, session, methods, metrics, run_metrics)


def _split(metrics: Mapping[str, Metric]) -> tuple[dict[str, Metric], dict[str, RunMetric]]:
    """The metrics with values per image (at least one is required) and the metrics of whole runs, each by name."""
    for metric in metrics.values():
        if not isinstance(getattr(metric, "higher_is_better", None), bool):
            raise InputError(
                f"the metric {metric.name} must say which direction is better: write higher_is_better = True, or False, in class "
                f"{type(metric).__name__}"
            )
    of_runs = {name: metric for name, metric in metrics.items() if isinstance(metric, RunMetric)}
    per_image = {name: metric for name, metric in metrics.items() if name not in of_runs}
    if not per_image:
        raise InputError("metrics of whole runs need at least one metric with values per image")
    return per_image, of_runs


def dataset_settings(dataset: Dataset) -> dict[str, object]:
    """The settings from which another process can open the dataset; empty if the dataset exists only in this process."""
    try:
        return dataset.settings()
    except InputError:
        return {}
