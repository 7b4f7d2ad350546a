"""From a study's settings to things that work: the net, the pictures, the methods and the metrics, made ready.

A :class:`Setup` is plain data where the study is (live nets and datasets of a notebook travel as they are), so another
process makes the same worker from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs
from proofmap.data.dataset import Dataset
from proofmap.data.distractors import Distractors, from_dataset, from_record, record_of
from proofmap.data.specs import open_data, rebuild_dataset
from proofmap.fills import names_no_pool, with_part, with_pool
from proofmap.fills.images import OWN, shared_pools
from proofmap.methods.method import ReadyMethod
from proofmap.metrics.metric import ReadyMetric, RunMetric, prepare_metrics, split_metrics
from proofmap.models import load_classifier
from proofmap.plugins.failures import exit_as_error
from proofmap.study.store import maps
from proofmap.study.study import Study
from proofmap.study.unit import Worker
from proofmap.study.watchers.status import UnitProgress


@dataclass(frozen=True)
class Ready:
    """A study's parts, ready for work in this process."""

    classifier: Classifier
    dataset: Dataset
    methods: Mapping[str, ReadyMethod]
    metrics: Mapping[str, ReadyMetric]
    distractors: Mapping[str, Any] | None = None
    """What a run keeps of the distractors that were chosen from its own data; None where none were needed."""
    run_metrics: Mapping[str, RunMetric] = field(default_factory=dict)
    """Metrics of the run as a whole."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """All that a worker is made from.

    Args:
        study: the settings.
        classifier: a net of this process in place of the study's model.
        dataset: pictures of this process in place of the study's data, or the settings to rebuild them from.
        device: where the net runs.
        batches: batch sizes (forward only, with gradient); None until the run has decided on them.
        threads: threads of torch on a CPU; they too decide the last bits.
        folder: the run directory, where maps may be found.
        distractors: those that the run began with; chosen from the data when None.
    """

    study: Study
    classifier: Classifier | None = None
    dataset: Dataset | Mapping[str, object] | None = None
    device: str | None = None
    batches: tuple[int, int] | None = None
    threads: int | None = None
    folder: Path | None = None
    distractors: Mapping[str, Any] | None = None

    @exit_as_error()
    def open(self) -> Ready:
        """Load the net and the data, and make methods and metrics ready for them."""
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        dataset = self._dataset()
        classifier = self.net()
        named = self.study.named_methods(classifier.inputs)
        per_image, of_runs = split_metrics(self.study.named_metrics())
        pinned = self.distractors
        if any(map(names_no_pool, (*named.values(), *per_image.values()))):
            found, pinned = choose_distractors(dataset, classifier.inputs, pinned)
            source = OWN if found is None else found
            named = {name: with_pool(method, source) for name, method in named.items()}
            per_image = {name: with_pool(metric, source) for name, metric in per_image.items()}
        judging = [with_part(metric) for metric in per_image.values()]
        with shared_pools():
            methods = {name: with_part(method).prepare(classifier) for name, method in named.items()}
            metrics = dict(zip(per_image, prepare_metrics(judging, classifier), strict=True))
        return Ready(classifier, dataset, methods, metrics, pinned, of_runs)

    def _dataset(self) -> Dataset:
        if self.dataset is None:
            return open_data(self.study.data)
        return self.dataset if isinstance(self.dataset, Dataset) else rebuild_dataset(self.dataset)

    def net(self) -> Classifier:
        """The study's net alone, with its label set."""
        study = self.study
        classifier = self.classifier or load_classifier(
            study.model, weights=study.weights, device=self.device
        )
        if study.fit is not None:
            classifier = classifier.fitting(study.fit)
        if study.label_set:
            classifier = classifier.restricted(list(study.label_set), renormalise=study.renormalise)
        return classifier

    def worker(self, ready: Ready, progress: UnitProgress | None = None) -> Worker:
        """A worker from parts that are ready."""
        assert self.batches is not None, "the run decides on batch sizes before any work"
        folder = self.folder
        return Worker(
            ready.classifier,
            ready.dataset,
            ready.methods,
            ready.metrics,
            self.batches,
            seed=self.study.seed,
            keep_maps=self.study.maps != "none",
            progress=progress or UnitProgress(),
            stored_maps=None if folder is None else lambda name, images: maps.read_maps(folder, name, images),
        )

    def __call__(self) -> Worker:
        """The worker of a process that starts from nothing."""
        return self.worker(self.open())

    def portable(self, ready: Ready, device: str | None = None) -> Setup:
        """The same setup for another process: data by its settings, where it can be opened again from them; perhaps on
        another kind of device.
        """
        settings = settings_of(ready.dataset)
        data = settings if settings.get("dataset") else ready.dataset
        return replace(self, dataset=data, device=device or self.device)


def settings_of(dataset: Dataset) -> dict[str, object]:
    """What another process opens the dataset from; empty for one that lives in this process alone."""
    try:
        return dataset.settings()
    except InputError:
        return {}


def choose_distractors(
    dataset: Dataset, inputs: Inputs, pinned: Mapping[str, Any] | None
) -> tuple[Distractors | None, Mapping[str, Any] | None]:
    """A study's distractors, and the record that a run keeps of them; those that are pinned, if they are of this data."""
    if pinned is not None and pinned["data"] == dataset.title:
        return from_record(pinned, dataset, inputs), pinned
    found = from_dataset(dataset, inputs)
    return found, None if found is None else record_of(found, dataset)
