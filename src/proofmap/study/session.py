"""A study, opened: the net, the data, and every method and metric prepared for them.

All judging goes through a session: :func:`proofmap.evaluate`, run directories, the command line, the web app and recipes use one. A session
holds everything that a plug-in may need, and no other code collects these objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.steadiness import FirstLook, UnsteadyNet, difference_between_batches
from proofmap.classifier.together import each_length
from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL, LabelRule
from proofmap.core.progress import Progress
from proofmap.data.dataset import Dataset
from proofmap.data.distractors import Distractors, from_dataset, from_record, record_of
from proofmap.data.specs import is_open_csv, open_data, read_for, rebuild_dataset
from proofmap.data.table_rows import TableData
from proofmap.fills import Pools
from proofmap.methods.from_function import check_labels_used
from proofmap.methods.masks.method import MapWatcher, ReadyMask
from proofmap.methods.method import ReadyMethod
from proofmap.methods.wrappers import MapMaker
from proofmap.metrics.block import BlockResult, Subjects, join_places, judge_block
from proofmap.metrics.curves import masked_batch
from proofmap.metrics.games import InsertionGame
from proofmap.metrics.metric import ReadyMetric, RunMetric, prepare_metrics, split_metrics
from proofmap.models import load_classifier
from proofmap.models.spec import FILE_SCHEMES, ModelSpec
from proofmap.plugins.failures import exit_as_error
from proofmap.study.study import Study


@dataclass(eq=False)
class Session:
    """A study opened on a net and, unless images come one batch at a time, on a dataset.

    Attributes:
        methods, metrics: the methods and metrics, prepared for the net, by the names that the study gives them.
        run_metrics: the metrics that judge the run as a whole.
        distractors: the record of the distractors, random images that were chosen from the data; None if none were needed.
        batch_difference: how much f of a masked image differs between batches; None before :meth:`compare_batches`.
    """

    study: Study
    classifier: Classifier
    methods: Mapping[str, ReadyMethod]
    metrics: Mapping[str, ReadyMetric]
    run_metrics: Mapping[str, RunMetric] = field(default_factory=dict)
    dataset: Dataset | None = None
    distractors: Mapping[str, Any] | None = None
    batch_difference: float | None = field(default=None, init=False)
    _look: FirstLook | None = field(default=None, init=False, repr=False)
    _lengths: dict[int, Session] = field(default_factory=dict, init=False, repr=False)
    _checked: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    @property
    def data(self) -> Dataset:
        """The dataset. Fails if the session was opened without one."""
        assert self.dataset is not None, "this session was opened without data"
        return self.dataset

    @cached_property
    def _made(self) -> MapMaker:
        return MapMaker(self.methods.values())

    def judge(
        self,
        method: str,
        subjects: Subjects,
        *,
        metrics: Sequence[str] | None = None,
        maps: Tensor | None = None,
        keep_maps: int = 0,
        curves: bool = True,
        watch: MapWatcher | None = None,
        progress: Progress | None = None,
    ) -> BlockResult:
        """Make one method's maps of some images and measure them by the named metrics of the session, by default all.

        ``subjects`` has the images and their labels. ``maps`` are the maps from an earlier call; if given, no maps are made. ``watch`` is
        a callback that receives intermediate masks. The other arguments are those of :func:`~proofmap.metrics.block.judge_block`. Every
        number of Proofmap comes from this method.
        """
        groups = self.classifier.inputs.by_length(subjects.images)
        if groups:  # inputs with different numbers of positions are judged each at its own length
            near = {n: self.at_length(n) for n, _ in groups}

            def at_length(n: int, places: Tensor, progress: Progress) -> BlockResult:
                some = subjects[places.tolist()]
                return near[n].judge(
                    method,
                    replace(some, images=self.classifier.inputs.cut(some.images, n)),
                    metrics=metrics,
                    maps=None if maps is None else maps[places.to(maps.device)][..., :n],
                    keep_maps=int((places < keep_maps).sum()),
                    curves=curves,
                    watch=watch and _watch_at_indices(watch, places.tolist()),
                    progress=progress,
                )

            labels, inputs = subjects.labels.shape[1], self.classifier.inputs
            parts = each_length(self.classifier, groups, at_length, labels=labels, progress=progress)
            return join_places(parts, [places.cpu() for _, places in groups], inputs.positions)
        ready = self.methods[method]
        if watch is not None and isinstance(ready, ReadyMask):
            ready = ready.watched(watch, every=1)
        return judge_block(
            ready,
            subjects,
            self.metrics if metrics is None else {name: self.metrics[name] for name in metrics},
            maps=maps,
            made=self._made,
            keep_maps=keep_maps,
            curves=curves,
            seed=self.study.seed,
            progress=progress,
        )

    def at_length(self, n: int) -> Session:
        """The same session for inputs of exactly ``n`` positions. Used for inputs that vary in length; prepared once per length."""
        if n not in self._lengths:
            net = self.classifier.at_length(n)
            self._lengths[n] = Session(
                self.study,
                net,
                {name: ready.method.prepare(net) for name, ready in self.methods.items()},
                prepare_metrics({name: ready.metric for name, ready in self.metrics.items()}, net),
            )
        return self._lengths[n]

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
        net = self.classifier.frozen()
        games = [game for metric in self.metrics.values() for game in metric.games.values()]
        try:
            game = games[0] if games else InsertionGame().prepare(net)
            self.batch_difference = difference_between_batches(
                *masked_batch(game, net, subjects.images, subjects.labels)
            )
        except UnsteadyNet:
            raise
        except (
            Exception
        ):  # a net or a fill that fails on masked images: the game says for which, and a run stores it
            self.batch_difference = 0.0

    def check_labels_used(self, name: str, subjects: Subjects, rule: LabelRule) -> None:
        """Refuse a function of the user that ignores its labels, if ``rule`` chose them for each image: see
        :func:`~proofmap.methods.from_function.check_labels_used`. The function is called once; later calls repeat what was found.
        """
        method = self.methods[name]
        if rule.kind not in ("top", "probable", "true") or method.label_free:
            return
        if name not in self._checked and bool((subjects.labels[:, 1:] != NO_LABEL).any()):
            while method.source is not None:
                method = method.source
            try:
                check_labels_used(method, subjects.images, subjects.labels)
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
def open_session(
    study: Study,
    *,
    classifier: Classifier | None = None,
    dataset: Dataset | Mapping[str, object] | None = None,
    device: str | None = None,
    threads: int | None = None,
    distractors: Mapping[str, Any] | None = None,
) -> Session:
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

    pools = Pools(find)
    session = prepare_session(study, net, pools)
    if pools.source is not None and pinned is None:
        distractors = record_of(pools.source, data) if isinstance(pools.source, Distractors) else None
    return replace(session, dataset=data, distractors=distractors)


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


def prepare_session(study: Study, classifier: Classifier, pools: Pools) -> Session:
    """A session without data, on a loaded net. Fills and methods that need random images and name none draw from ``pools``."""
    metrics, run_metrics = split_metrics(study.named_metrics())
    methods = {name: pools.bind(method) for name, method in study.named_methods(classifier.inputs).items()}
    judges = {name: pools.bind(metric) for name, metric in metrics.items()}
    return Session(
        study,
        classifier,
        {name: method.prepare(classifier) for name, method in methods.items()},
        prepare_metrics(judges, classifier),
        run_metrics,
    )


def _watch_at_indices(watch: MapWatcher, places: Sequence[int]) -> MapWatcher:
    """A watcher for a part of the images: it passes image k of the part to ``watch`` as image ``places[k]``."""
    return lambda image, *rest: watch(places[image], *rest)


def dataset_settings(dataset: Dataset) -> dict[str, object]:
    """The settings from which another process can open the dataset; empty if the dataset exists only in this process."""
    try:
        return dataset.settings()
    except InputError:
        return {}
