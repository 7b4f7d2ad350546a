"""A study, opened: the net, the data, and every method and metric prepared for them.

All judging goes through an open study: :func:`proofmap.evaluate`, run directories, the command line, the web app and recipes use one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.steadiness import FirstLook, UnsteadyNet, difference_between_batches
from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL, LabelRule
from proofmap.core.progress import Progress, Silent
from proofmap.data.dataset import Dataset
from proofmap.data.distractors import Distractors, from_dataset, from_record, record_of
from proofmap.data.specs import is_open_csv, open_data, read_for, rebuild_dataset
from proofmap.data.table_rows import TableData
from proofmap.methods.from_function import check_labels_used
from proofmap.methods.method import Method
from proofmap.methods.wrappers import shared_methods
from proofmap.metrics.block import BlockResult, Subjects, judge_block
from proofmap.metrics.curves import masked_batch
from proofmap.metrics.games import InsertionGame
from proofmap.metrics.metric import Metric, RunMetric, split_metrics
from proofmap.models import load_classifier
from proofmap.models.spec import FILE_SCHEMES, ModelSpec
from proofmap.plugins.failures import exit_as_error
from proofmap.session import Session, Watch
from proofmap.study.study import Study


@dataclass(eq=False)
class OpenStudy:
    """A study opened on a net and, unless images come one batch at a time, on a dataset.

    Attributes:
        session: the net, its random images and what was found for it; methods and metrics are prepared in it.
        methods, metrics: the methods and metrics by the names that the study gives them.
        run_metrics: the metrics that judge the run as a whole.
        distractors: the record of the distractors, random images that were chosen from the data; None if none were needed.
        batch_difference: how much f of a masked image differs between batches; None before :meth:`compare_batches`.
    """

    study: Study
    session: Session
    methods: Mapping[str, Method]
    metrics: Mapping[str, Metric]
    run_metrics: Mapping[str, RunMetric] = field(default_factory=dict)
    dataset: Dataset | None = None
    distractors: Mapping[str, Any] | None = None
    batch_difference: float | None = field(default=None, init=False)
    _look: FirstLook | None = field(default=None, init=False, repr=False)
    _checked: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    @property
    def classifier(self) -> Classifier:
        return self.session.net

    @property
    def data(self) -> Dataset:
        """The dataset. Fails if the study was opened without one."""
        assert self.dataset is not None, "this study was opened without data"
        return self.dataset

    def judge(
        self,
        method: str,
        subjects: Subjects,
        *,
        metrics: Sequence[str] | None = None,
        maps: Tensor | None = None,
        keep_maps: int = 0,
        curves: bool = True,
        watch: Watch | None = None,
        progress: Progress | None = None,
    ) -> BlockResult:
        """Make one method's maps of some images and measure them by the named metrics of the study, by default all.

        ``subjects`` has the images and their labels. ``maps`` are the maps from an earlier call; if given, no maps are made. ``watch`` is
        a callback that receives intermediate masks after every step. The other arguments are those of
        :func:`~proofmap.metrics.block.judge_block`.
        """
        self.session.progress, self.session.watch = progress or Silent(), watch
        try:
            return judge_block(
                self.session,
                self.methods[method],
                subjects,
                self.metrics if metrics is None else {name: self.metrics[name] for name in metrics},
                maps=maps,
                keep_maps=keep_maps,
                curves=curves,
            )
        finally:
            self.session.progress, self.session.watch = Silent(), None

    def look_at(self, images: Tensor) -> None:
        """At the first call, store the net's outputs for two of these images, to which :meth:`check_net` compares later outputs."""
        if self._look is None:
            self._look = FirstLook(self.classifier.frozen(), images)

    def compare_batches(self, subjects: Subjects) -> None:
        """At the first call, compare the net's outputs for a batch of masked images with those in other batches. Raises an
        :class:`~proofmap.classifier.steadiness.UnsteadyNet` if they differ much; otherwise the size is in :attr:`batch_difference`.
        """
        if self.batch_difference is not None:
            return
        games = [*(game for metric in self.metrics.values() for game in metric.games()), InsertionGame()]
        try:
            self.batch_difference = difference_between_batches(
                *masked_batch(self.session, games[0], subjects.images, subjects.labels)
            )
        except UnsteadyNet:
            raise
        except Exception:
            # a net or a fill that fails on masked images: the game says for which, and a run stores it
            self.batch_difference = 0.0

    def check_labels_used(self, name: str, subjects: Subjects, rule: LabelRule) -> None:
        """Refuse a function of the user that ignores its labels, if ``rule`` chose them for each image: see
        :func:`~proofmap.methods.from_function.check_labels_used`. This is found out once; later calls repeat it.
        """
        method = self.methods[name]
        if rule.kind not in ("top", "probable", "true") or method.label_free:
            return
        if name not in self._checked and bool((subjects.labels[:, 1:] != NO_LABEL).any()):
            while method.source is not None:
                method = method.source
            try:
                check_labels_used(method, self.session, subjects.images, subjects.labels)
                self._checked[name] = ""
            except InputError as error:
                self._checked[name] = str(error)
        if self._checked.get(name):
            raise InputError(self._checked[name])

    def check_net(self, during: str) -> None:
        """Raise if the net's outputs have changed since :meth:`look_at`; see :mod:`proofmap.classifier.steadiness`."""
        if self._look is not None:
            self._look.check(during)


@exit_as_error()
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
        return from_dataset(data, net.inputs) if pinned is None else from_record(pinned, data, net.inputs)

    opened = prepare_study(study, net, find)
    source = opened.session.used_source
    if source is not None and pinned is None:
        distractors = record_of(source, data) if isinstance(source, Distractors) else None
    return replace(opened, dataset=data, distractors=distractors)


def open_study_data(
    study: Study, classifier: Classifier | None = None, device: str | None = None
) -> tuple[Dataset, Classifier | None]:
    """The study's data, and the net if it was given or had to be loaded to read the data, else None.

    How a CSV file is read depends on the net, unless the kind of data is written before the file name: ``series:beats.csv``. Models in files
    of other libraries (``onnx:FILE``) read their columns from the data, so for these the data is opened first.
    """
    by_net = is_open_csv(study.data) and ModelSpec.parse(study.model).scheme not in FILE_SCHEMES
    if classifier is None and by_net:
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
        lacks = spec.scheme in FILE_SCHEMES and "data" not in spec.options
        rows = dataset.frame if lacks and isinstance(dataset, TableData) else None
        net = load_classifier(study.model, weights=study.weights, device=device, data=rows)
    if study.fit is not None:
        net = net.fitting(study.fit)
    return net.restricted(list(study.label_set), renormalise=study.renormalise) if study.label_set else net


def prepare_study(
    study: Study, classifier: Classifier, distractors: Callable[[], Distractors | None]
) -> OpenStudy:
    """A study without data, on a loaded net. Fills that need random images and name none draw from what ``distractors`` returns."""
    metrics, run_metrics = split_metrics(study.named_metrics())
    methods = study.named_methods(classifier.inputs)
    session = Session(
        classifier,
        seed=study.seed,
        role="learn",
        distractors=distractors,
        watch_every=1,
        shared=shared_methods(methods.values()),
    )
    for method in methods.values():
        session.prepare(method)
    for metric in metrics.values():
        session.judging().prepare(metric)
    return OpenStudy(study, session, methods, metrics, run_metrics)


def dataset_settings(dataset: Dataset) -> dict[str, object]:
    """The settings from which another process can open the dataset; empty if the dataset exists only in this process."""
    try:
        return dataset.settings()
    except InputError:
        return {}
