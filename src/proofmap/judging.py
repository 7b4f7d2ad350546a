"""Judge methods on images in memory: maps for every label, then each metric with its interval."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.kernels import outside_inference_mode
from proofmap.classifier.raw import as_classifier
from proofmap.core.errors import InputError
from proofmap.core.files import distinct_names
from proofmap.core.inputs import Box
from proofmap.core.labels import NO_LABEL, LabelRule, Labels
from proofmap.core.progress import Progress
from proofmap.core.version import source_version
from proofmap.data.dataset import Dataset
from proofmap.data.distractors import Distractors
from proofmap.data.given import ImagesLike, Subjects, Truth, as_subjects
from proofmap.fills import Fill
from proofmap.loop import Row, judge_blocks
from proofmap.methods.given import Given, GivenMaps, as_given
from proofmap.methods.method import Method, MethodLike, default_method, make_method
from proofmap.metrics.judged import Judged
from proofmap.metrics.metric import Metric, make_metric
from proofmap.metrics.proof_scores import default_metrics
from proofmap.metrics.scores import Thresholds
from proofmap.plugins.identity import provenance
from proofmap.plugins.specs import run_files_in, split_specs
from proofmap.results.evaluation import Evaluation, Proof, batch_record
from proofmap.results.records import MethodResult, measured, run_scores
from proofmap.results.statistics import Score
from proofmap.session import Watch
from proofmap.study.opened import OpenStudy, prepare_study
from proofmap.study.planning import expected_labels
from proofmap.study.study import Study

_BLOCK = 32_000_000  # map values held at once
_MOST_IMAGES = 256  # of a dataset held at once
_LABELS = "top5+wrong"
_NO_METHODS = "there are no methods to evaluate; see: proofmap list methods"

Net = Any
"""A classifier, or a module, function or fitted model as it is: see :func:`proofmap.classifier.raw.as_classifier`."""
Maps = Any
"""An array of maps, or a mapping of names to arrays; see :func:`proofmap.methods.given.as_given`."""
Methods = str | MethodLike | Sequence[MethodLike] | Mapping[str, Any]
"""A method, several, or several with names."""
Metrics = (
    str
    | Metric
    | Sequence[str | Metric | Callable[[Judged], Tensor]]
    | Mapping[str, Any]
    | Callable[[Judged], Tensor]
)
"""A metric, several, or several with names."""


class Judge:
    """Judges methods on batches of images that arrive one by one, with the interface of torchmetrics: ``update``, ``compute``, ``reset``.

    >>> judge = Judge(net, methods=["grad-cam", "random"])  # doctest: +SKIP
    >>> for images, truth in loader:  # doctest: +SKIP
    ...     judge.update(images, truth)
    >>> print(judge.compute())  # doctest: +SKIP

    The arguments are those of :func:`evaluate`, and ``distractors``: images from which methods that learn with random images, and metrics
    that hide pixels with random images, draw them. By default these are the images of the first ``update``.
    """

    def __init__(
        self,
        net: Net,
        *,
        methods: Methods | None = None,
        labels: Labels = _LABELS,
        target: Labels | None = None,
        metrics: Metrics | None = None,
        fills: Sequence[str | Fill] = (),
        controls: bool = False,
        keep_maps: int | None = 50,
        seed: int = 0,
        distractors: Tensor | Dataset | None = None,
        progress: Progress | None = None,
        watch: Watch | None = None,
    ) -> None:
        if methods is not None and not methods:
            raise InputError(_NO_METHODS)
        if metrics is not None and not metrics:
            raise InputError("there are no metrics to judge by; leave metrics out for the usual ones")
        if keep_maps is not None and (not isinstance(keep_maps, int) or keep_maps < 0):
            raise InputError(f"keep_maps is a number of images, or None for all, not {keep_maps!r}")
        self.net, self.keep_maps = net, keep_maps
        self.progress, self.watch, self.distractors = progress, watch, distractors
        self.labels = _asked(labels, target)
        run_files_in((methods, metrics, fills))
        self.study = Study(
            methods=_entries(methods or (), make_method, "method"),
            metrics=_entries(metrics or (), make_metric, "metric"),
            fills=fills,
            controls=controls,
            seed=seed,
        )
        self.study.named_metrics()  # refused now, not at the first image
        if self.study.methods:
            self.study.named_methods()
        if isinstance(net, Classifier):
            self._open(None)
        self.reset()

    def _open(self, images: ImagesLike | None) -> None:
        """Make a classifier of the net, of which the first images say more."""
        self.net = as_classifier(self.net, images)
        self.rule = self._rule(self.labels)

    @property
    def classifier(self) -> Classifier:
        """The net that is judged; known from the first update on if it is no classifier."""
        if not isinstance(self.net, Classifier):
            raise InputError("there are no images to evaluate on; call update with some first")
        return self.net

    def _rule(self, labels: Labels) -> LabelRule:
        return LabelRule.parse(labels, self.classifier.names, self.classifier.inputs.singular)

    def reset(self) -> None:
        """Forget all images and everything that was prepared for the net, so that the net may be trained before the next ``update``."""
        self._seen: list[Subjects] = []
        self._rows: list[Row] = []
        self._count = 0
        self._read: dict[str, dict[str, str]] = {}  # how given maps were read
        self._first: Tensor | Dataset | None = None
        self.__dict__.pop("opened", None)

    @cached_property
    def opened(self) -> OpenStudy:
        """The methods and metrics, prepared for the net."""
        inputs = self.classifier.inputs
        source = self._first if self.distractors is None else self.distractors
        if source is None:
            raise InputError(
                "give Judge distractors, or call update first: methods may learn with random images"
            )

        def find() -> Distractors | None:
            return (
                Distractors.from_dataset(source, inputs)
                if isinstance(source, Dataset)
                else Distractors.from_images(source, inputs)
            )

        return prepare_study(self.study, self.classifier, find)

    @outside_inference_mode()
    def update(
        self,
        images: ImagesLike,
        truth: Truth | Maps | None = None,
        target: Labels | None = None,
        *,
        maps: Maps | None = None,
        labels: Labels | None = None,
        names: Sequence[str] | None = None,
        boxes: Sequence[Sequence[Box]] = (),
        objects: Sequence[Mapping[int | str, Sequence[Box]]] = (),
    ) -> None:
        """Judge every method on more images. The arguments are those of :func:`evaluate`; ``labels`` and ``maps`` are for these images alone.
        ``maps`` must have the same names in every update. ``update(images, maps, labels)`` works, too: the order of ``soundness(net,
        images, maps, labels)``.
        """
        if maps is None and (target is not None or len(getattr(truth, "shape", ())) > 2):
            truth, maps = None, truth
        labels = target if labels is None else _asked(labels, target)
        if not isinstance(self.net, Classifier):
            self._open(images)
        classifier, inputs = self.classifier, self.classifier.inputs
        rule = self.rule if labels is None else self._rule(labels)
        arrays = self._arrays(maps)
        given: dict[Method, Given] = {}
        size, start = _BLOCK // (inputs.count * expected_labels(rule, classifier)), 0
        for subjects in as_subjects(
            images,
            classifier,
            rule,
            seed=self.study.seed,
            names=names,
            truth=truth,
            boxes=boxes,
            objects=objects,
            block_size=max(1, min(size, _MOST_IMAGES)),
            first=self._count,
        ):
            if not start:
                count = len(subjects if subjects.source is None else subjects.source)
                for method, array in arrays.items():
                    given[method] = as_given(array, method.array, classifier, count, rule)
                    self._read[method.array] = {"read": given[method].words} if given[method].words else {}
            self._judge(subjects, given, start)
            start += len(subjects)

    def _arrays(self, maps: Maps | None) -> dict[GivenMaps, Any]:
        """The given maps, by the methods that stand for them in the study."""
        named = maps if isinstance(maps, Mapping) else {} if maps is None else {"maps": maps}
        arrays = {GivenMaps(array=str(name)): array for name, array in named.items()}
        there = [method for method in self.study.methods if isinstance(method, GivenMaps)]
        if not self._count:
            new = [method for method in arrays if method not in there]
            self.study = replace(self.study, methods=(*self.study.methods, *new))
            there += new
        if {*there} != {*arrays}:
            found, expected = (", ".join(m.array for m in each) or "none" for each in (arrays, there))
            raise InputError(
                f"maps has {found}, but the first images came with {expected}; give the same ones in every update"
            )
        if not self.study.methods:
            raise InputError(_NO_METHODS)
        self.study.named_methods()
        return arrays

    def _judge(self, subjects: Subjects, given: Mapping[Method, Given], start: int) -> None:
        """Judge images whose first one has the number ``start`` in this update."""
        before, count = self._count, len(subjects)
        if self._first is None:
            self._first = subjects.images if subjects.source is None else subjects.source
        opened = self.opened
        kept = count if self.keep_maps is None else max(0, min(self.keep_maps - before, count))
        size = max(1, _BLOCK // (self.classifier.inputs.count * subjects.labels.shape[1]))

        def block(places: range) -> Subjects:
            some = subjects[places.start : places.stop]
            numbers = range(start + places.start, start + places.stop)
            return replace(some, maps={m: maps.read(numbers, some.labels) for m, maps in given.items()})

        rows: list[Row] = []
        for net, places in self.classifier.for_each(count):
            own = net is self.classifier
            rows += judge_blocks(
                opened.session if own else opened.session.for_net(net),
                opened.methods,
                opened.metrics,
                (block(places[k : k + size]) for k in range(0, len(places), size)),
                keep_maps=max(0, kept - places.start),
                progress=self.progress,
                watch=self.watch,
                number=before + places.start,
            )
        self._rows += rows  # of all methods, or of none if one fails
        self._seen.append(replace(subjects, images=subjects.images[:kept]))
        self._count += count

    def compute(self) -> Evaluation:
        """The evaluation of all images so far."""
        if not self._seen:
            raise InputError(
                f"there are no {self.classifier.inputs.noun} to evaluate on; call update with some first"
            )
        classifier, opened = self.classifier, self.opened
        context = {
            **classifier.settings(),
            "labels": " and ".join(dict.fromkeys(str(seen.rule) for seen in self._seen)),
            "seed": self.study.seed,
            "device": str(classifier.device),
            "batches": [batch.size for batch in classifier.frozen().batches],
            "threads": torch.get_num_threads(),
            "proofmap": source_version(),
            **batch_record(opened.session.batch_difference),
            **({"assumed": classifier.assumed} if classifier.assumed else {}),
        }
        image_names = tuple(distinct_names([name for seen in self._seen for name in seen.names]))
        judging = opened.session.judging()
        scores = [
            Score(
                name,
                higher_is_better=m.higher_is_better,
                settings=m.full_record(judging),
                kind=m.measures,
                limits=m.limits,
            )
            for name, m in opened.metrics.items()
        ]
        results = []
        for name, method in opened.methods.items():
            block = _join_rows([row for row in self._rows if row.method == name])
            assert block.insertion is not None, "a result shows its curves"
            results.append(
                MethodResult(
                    name=name,
                    scores=measured(scores, block.values, context),
                    values=block.values,
                    pairs=block.pairs,
                    maps=block.maps,
                    insertion=block.insertion,
                    settings={
                        **method.record(opened.session),
                        **provenance(method),
                        **self._read.get(name, {}),
                    },
                    label_free=method.label_free,
                    signed=method.signed,
                    image_names=image_names,
                    label_names=classifier.names,
                    seconds=block.seconds,
                )
            )
        f = [seen.f for seen in self._seen if seen.f is not None]
        widest = max(seen.labels.shape[1] for seen in self._seen)
        images = torch.cat([seen.images for seen in self._seen])
        return Evaluation(
            results=tuple(results),
            images=images,
            image_names=image_names,
            labels=torch.cat([_widened(seen.labels, widest, NO_LABEL) for seen in self._seen]),
            label_names=classifier.names,
            f=torch.cat([_widened(own, widest, torch.nan) for own in f]),
            settings=context,
            pictured=tuple(range(len(images))),
            run_scores=run_scores(opened.run_metrics, results),
        )


def _widened(values: Tensor, labels: int, empty: float, *axes: int) -> Tensor:
    """Values padded to ``labels`` entries along these axes (by default the second); new entries are ``empty``.

    >>> _widened(torch.tensor([[1, 2]]), 3, -1)
    tensor([[ 1,  2, -1]])
    """
    for axis in axes or (1,):
        missing = labels - values.shape[axis]
        if missing:
            shape = [*values.shape[:axis], missing, *values.shape[axis + 1 :]]
            values = torch.cat([values, values.new_full(shape, empty)], dim=axis)
    return values


def _join_rows(blocks: Sequence[Row]) -> Row:
    """Join the rows of one method on several blocks into one, in their order. Results with fewer labels than others are padded."""
    curves = [b.insertion for b in blocks if b.insertion is not None]
    widest = max(c.labels.shape[1] for c in curves)
    together: dict[str, Any] = {}
    for key in ("labels", "f", "probabilities", "auc", "error", "matrix", "whole"):
        parts, axes = [getattr(c, key) for c in curves], (1, 2) if key == "matrix" else (1,)
        if all(part is not None for part in parts):
            empty = NO_LABEL if key == "labels" else torch.nan
            together[key] = torch.cat([_widened(part, widest, empty, *axes) for part in parts])
    label_free = all(b.maps.shape[1] == 1 for b in blocks if len(b.maps))
    maps = [b.maps if label_free else _widened(b.maps, widest, 0) for b in blocks]
    return Row(
        tuple(range(sum(len(b.places) for b in blocks))),
        torch.cat([m for m in maps if len(m)] or maps[:1]),
        {name: torch.cat([b.values[name] for b in blocks]) for name in blocks[0].values},
        {
            name: torch.cat([_widened(b.pairs[name], widest, torch.nan) for b in blocks])
            for name in blocks[0].pairs
        },
        replace(curves[0], **together),
        method=blocks[0].method,
        seconds=sum(b.seconds for b in blocks),
    )


def _asked(labels: Labels, target: Labels | None) -> Labels:
    """The labels that are asked for; ``target`` is another name for them."""
    if target is None:
        return labels
    if labels is not _LABELS:
        raise InputError("labels and target are two names for one thing; give one of them")
    return target


def _entries(given: Any, make: Callable[[Any], Any], noun: str) -> list[Any]:
    """Methods or metrics as a study takes them: made from their specs, with the names that a mapping gives them."""
    if isinstance(given, Mapping):
        return [
            each if isinstance(each, GivenMaps) else {noun: make(each), "name": str(name)}
            for name, each in given.items()
        ]
    several = split_specs(given, noun) if isinstance(given, str) else given
    several = several if isinstance(several, Sequence) else [several]
    return [each if isinstance(each, Mapping) else make(each) for each in several]


def evaluate(
    net: Net,
    images: ImagesLike,
    *,
    methods: Methods | None = None,
    maps: Maps | None = None,
    labels: Labels = _LABELS,
    target: Labels | None = None,
    metrics: Metrics | None = None,
    names: Sequence[str] | None = None,
    truth: Truth | None = None,
    boxes: Sequence[Sequence[Box]] = (),
    objects: Sequence[Mapping[int | str, Sequence[Box]]] = (),
    fills: Sequence[str | Fill] = (),
    controls: bool = False,
    keep_maps: int | None = 50,
    seed: int = 0,
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> Evaluation:
    """Compute the maps of every method for every chosen label, judge them by every metric, and return the evaluation.

    All scores, f(x, a) included, come from one frozen view of the net, so they can be compared.

    Args:
        net: a :class:`~proofmap.Classifier`, or a module, a function or a fitted model as it is: its inputs are then what it takes, and a warning
            says what was assumed.
        images: images in memory, a dataset, or a ``DataLoader`` or other iterable of batches. Of a dataset or iterable, one block of images
            is in memory at a time: see :func:`proofmap.data.given.as_dataset`.
        methods: a method or a list of methods: names, specs such as ``"learned-mask:tv=0.1"``, Method instances, or functions. A dictionary
            gives them names, which stand in tables; its values may also be arrays, as in ``maps``.
        maps: maps that exist already: an array, or a dictionary of arrays by name. See :func:`proofmap.methods.given.as_given` for their shapes.
        labels: a rule such as ``"all"``, ``"top5"``, ``"p>=0.01"`` or ``"top5+wrong"``, which adds two labels that the net does not believe,
            drawn by the seed; ``"true"`` for the true labels of each image, from ``truth``; a label or a list of labels, by name or index,
            for every image; a list of lists, or a tensor or array ``(N,)`` or ``(N, L)``, with the labels of each image. See
            :meth:`proofmap.core.labels.LabelRule.parse`.
        target: another name for ``labels``.
        metrics: a metric, a list of metrics, or a dictionary that gives them names: names, specs, Metric instances, or functions of a
            :class:`~proofmap.metrics.Judged` that return ``(N,)`` or ``(N, L)`` values; :func:`default_metrics` by default.
        names: one name per image, for tables and files; by default the ``file_names`` of images that :func:`load_images` read.
        truth: the true label of each image, or a list of its true labels, by name or index, for metrics that ask for it and for
            ``labels="true"``; None, -1 or -100 where not known. An array or data frame with a column of 0 and 1 for each output is also
            taken.
        boxes: for each image, boxes ``(left, top, right, bottom)`` around the objects of its true label, in the input's pixels.
        objects: the same for several labels of an image, by name or index: ``{"cat": [box], "dog": [box]}``.
        fills: ways to fill hidden pixels. Every metric that hides pixels is computed once with each fill; a note says how much scores
            change between fills.
        controls: also judge controls: noise, a centred Gaussian, and each method's maps blurred or shown for every label: see
            :mod:`proofmap.methods.controls`.
        keep_maps: the number of images, from the first on, whose pixels and maps are kept for pictures; None for all images.
        watch: callback that receives the masks of methods that learn them, after every step: ``watch(image, label, snapshot)``.
    """
    named = dict(methods) if isinstance(methods, Mapping) else {}
    arrays = {name: array for name, array in named.items() if GivenMaps.are_in(array)}
    if arrays:
        methods = {**named, **{name: GivenMaps(array=str(name)) for name in arrays}}
        maps = {**arrays, **(maps if isinstance(maps, Mapping) else {} if maps is None else {"maps": maps})}
    judge = Judge(
        net,
        methods=methods,
        labels=labels,
        target=target,
        metrics=metrics,
        fills=fills,
        controls=controls,
        keep_maps=keep_maps,
        seed=seed,
        progress=progress,
        watch=watch,
    )
    judge.update(images, truth, maps=maps, names=names, boxes=boxes, objects=objects)
    return judge.compute()


def proof_metrics(
    thresholds: str | tuple[float, float] | Thresholds, curve: str | Mapping[str, Any]
) -> list[Metric]:
    """The metrics of an explanation: the default metrics that have a value for each label's own map."""
    return [metric for metric in default_metrics(thresholds, curve) if metric.kind != "deletion"]


def explain(
    net: Net,
    images: ImagesLike,
    *,
    labels: Labels = "top5",
    target: Labels | None = None,
    method: Methods | None = None,
    maps: Maps | None = None,
    thresholds: str | tuple[float, float] | Thresholds = "paper",
    curve: str | Mapping[str, Any] = "paper",
    names: Sequence[str] | None = None,
    truth: Truth | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Proof:
    """The maps for the chosen labels of each image, and what these maps prove. ``labels="true"`` chooses the labels in ``truth``.

    The method is ``belief-mask`` by default, and ``belief-order`` for texts, rows, series, and models without gradients. Its name is printed above
    the table. A list of methods compares them on the same images and labels: each method has a row of pictures, and ``proof[name]`` is the
    proof of one method.
    """
    classifier = as_classifier(net, images)
    return Proof(
        evaluate(
            classifier,
            images,
            methods=default_method(classifier) if method is None and maps is None else method,
            maps=maps,
            labels=labels if target is None else target,
            metrics=proof_metrics(thresholds, curve),
            names=names,
            truth=truth,
            keep_maps=None,
            seed=seed,
            progress=progress,
        )
    )
