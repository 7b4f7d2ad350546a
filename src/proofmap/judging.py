"""Judge methods on images in memory: maps for every label, then each metric with its interval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.classifier import as_classifier
from proofmap.classifier.kernels import outside_inference_mode
from proofmap.core.errors import InputError
from proofmap.core.files import distinct_names
from proofmap.core.inputs import Box
from proofmap.core.labels import NO_LABEL, LabelRule, Labels, truth_table, wrong_keys
from proofmap.core.progress import Progress
from proofmap.core.tensors import names_of_files, private_copy
from proofmap.core.text import counted
from proofmap.core.version import source_version
from proofmap.data.dataset import Dataset, true_outputs
from proofmap.data.distractors import Distractors, from_dataset, from_images
from proofmap.data.given import InMemory, as_dataset, images_as_tensor, is_in_memory
from proofmap.data.loader import load_blocks
from proofmap.data.truth import Truth, as_boxes, label_rows
from proofmap.fills import Fill
from proofmap.loop import Row, Subjects, join_rows, judge_blocks, widened
from proofmap.methods.method import MethodLike, default_method, make_method
from proofmap.metrics.metric import Metric, make_metric
from proofmap.metrics.proof_scores import default_metrics
from proofmap.metrics.scores import Thresholds
from proofmap.plugins.failures import exit_as_error
from proofmap.plugins.identity import provenance
from proofmap.results.evaluation import Evaluation, Proof, batch_record
from proofmap.results.records import method_result, run_scores, unmeasured_scores
from proofmap.session import Watch
from proofmap.study.opened import OpenStudy, prepare_study
from proofmap.study.planning import expected_labels
from proofmap.study.study import Study

ImagesLike = InMemory | Dataset | Iterable[Any]
"""Everything that :func:`proofmap.data.given.as_dataset` takes."""
_BLOCK = 32_000_000  # map values held at once
_MOST_IMAGES = 256  # of a dataset held at once


def image_names_for(
    images: Tensor, names: Sequence[str] | None, first: int = 0, singular: str = "image"
) -> tuple[str, ...]:
    """One distinct name per image. Images without names are numbered from ``first`` on."""
    if names is None:
        return tuple(f"{singular}-{first + i}" for i in range(len(images)))
    if len(names) != len(images):
        raise InputError(f"{len(names)} names were given for {counted(len(images), singular)}")
    return tuple(distinct_names(list(names)))


class Judge:
    """Judges methods on batches of images that arrive one by one, with the interface of torchmetrics: ``update``, ``compute``, ``reset``.

    >>> judge = Judge(net, methods=["grad-cam", "random"])  # doctest: +SKIP
    >>> for images, truth in loader:  # doctest: +SKIP
    ...     judge.update(images, truth=truth)
    >>> print(judge.compute())  # doctest: +SKIP

    The arguments are those of :func:`evaluate`, and ``distractors``: images from which methods that learn with random images, and metrics
    that hide pixels with random images, draw them. By default these are the images of the first ``update``.
    """

    def __init__(
        self,
        classifier: Classifier,
        *,
        methods: Sequence[MethodLike],
        labels: Labels = "top5+wrong",
        metrics: Sequence[str | Metric] | None = None,
        fills: Sequence[str | Fill] = (),
        controls: bool = False,
        keep_maps: int | None = 50,
        seed: int = 0,
        distractors: Tensor | Dataset | None = None,
        progress: Progress | None = None,
        watch: Watch | None = None,
    ) -> None:
        as_classifier(classifier)
        if not methods:
            raise InputError("there are no methods to evaluate; see: proofmap list methods")
        if metrics is not None and not metrics:
            raise InputError("there are no metrics to judge by; leave metrics out for the usual ones")
        if keep_maps is not None and (not isinstance(keep_maps, int) or keep_maps < 0):
            raise InputError(f"keep_maps is a number of images, or None for all, not {keep_maps!r}")
        self.classifier, self.keep_maps, self.progress, self.watch = classifier, keep_maps, progress, watch
        self.rule = LabelRule.parse(labels, classifier.names, classifier.inputs.singular)
        self.study = Study(
            methods=[make_method(method) for method in methods],
            metrics=[make_metric(metric) for metric in metrics or ()],
            fills=fills,
            controls=controls,
            seed=seed,
        )
        self.study.named_methods(), self.study.named_metrics()  # refused now, not at the first image
        self.distractors = distractors
        self.reset()

    def reset(self) -> None:
        """Forget all images and everything that was prepared for the net, so that the net may be trained before the next ``update``."""
        self._seen: list[_Seen] = []
        self._first: Tensor | None = None
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
                from_dataset(source, inputs) if isinstance(source, Dataset) else from_images(source, inputs)
            )

        return prepare_study(self.study, self.classifier, find)

    @outside_inference_mode()
    @exit_as_error()
    def update(
        self,
        images: InMemory,
        *,
        labels: Labels | None = None,
        names: Sequence[str] | None = None,
        truth: Truth | None = None,
        boxes: Sequence[Sequence[Box]] = (),
        objects: Sequence[Mapping[int | str, Sequence[Box]]] = (),
    ) -> None:
        """Judge every method on more images. The arguments are those of :func:`evaluate`; ``labels`` are for these images alone."""
        classifier, before = self.classifier, sum(len(seen.names) for seen in self._seen)
        inputs = classifier.inputs
        given = images_as_tensor(images, inputs, truth)
        names = names_of_files(given) if names is None else names
        images = private_copy(classifier.check_images(given))
        if len(images) == 0:
            raise InputError(f"there are no {inputs.noun} to evaluate on")
        self._first = images if self._first is None else self._first
        opened, image_names = self.opened, image_names_for(images, names, before, inputs.singular)
        f = classifier.frozen().probabilities(images)
        parsed = LabelRule.parse(labels, classifier.names, inputs.singular) if labels is not None else None
        rule = parsed or self.rule
        true_labels = (
            None
            if truth is None
            else truth_table(label_rows(truth, classifier.names, len(images), inputs.singular))
        )
        keys = wrong_keys(images, self.study.seed) if rule.wrong else None
        table = rule.choose(f, classifier.label_set, true_labels, image_names, keys, inputs.singular)
        places = as_boxes(boxes, objects, true_labels, classifier.names, image_names, inputs)
        subjects = Subjects(images, table, true_labels, *places)
        kept = len(images) if self.keep_maps is None else max(0, min(self.keep_maps - before, len(images)))
        rows: dict[str, list[Row]] = {name: [] for name in opened.methods}
        size = max(1, _BLOCK // (inputs.count * table.shape[1]))
        for row in judge_blocks(
            opened.session,
            opened.methods,
            opened.metrics,
            (subjects[start : start + size] for start in range(0, len(images), size)),
            rule=rule,
            keep_maps=kept,
            progress=self.progress,
            watch=self.watch,
            number=before,
        ):
            rows[row.method].append(row)
        believed = f.gather(1, table.clamp_min(0)).masked_fill(table == NO_LABEL, torch.nan)
        self._seen.append(_Seen(images[:kept], image_names, str(rule), table, believed, rows))

    def compute(self) -> Evaluation:
        """The evaluation of all images so far."""
        if not self._seen:
            raise InputError(
                f"there are no {self.classifier.inputs.noun} to evaluate on; call update with some first"
            )
        classifier, opened = self.classifier, self.opened
        context = {
            **classifier.settings(),
            "labels": " and ".join(dict.fromkeys(seen.rule for seen in self._seen)),
            "seed": self.study.seed,
            "device": str(classifier.device),
            "batches": [batch.size for batch in classifier.frozen().batches],
            "threads": torch.get_num_threads(),
            "proofmap": source_version(),
            **batch_record(opened.session.batch_difference),
        }
        image_names = tuple(distinct_names([name for seen in self._seen for name in seen.names]))
        results = []
        for name, method in opened.methods.items():
            block = join_rows([row for seen in self._seen for row in seen.rows[name]])
            assert block.insertion is not None, "a result shows its curves"
            results.append(
                method_result(
                    name,
                    unmeasured_scores(opened.metrics, opened.session),
                    values=block.values,
                    pairs=block.pairs,
                    maps=block.maps,
                    insertion=block.insertion,
                    settings={**method.record(opened.session), **provenance(method)},
                    label_free=method.label_free,
                    signed=method.signed,
                    image_names=image_names,
                    label_names=classifier.names,
                    context=context,
                    seconds=block.seconds,
                )
            )
        widest = max(seen.labels.shape[1] for seen in self._seen)
        images = torch.cat([seen.images for seen in self._seen])
        return Evaluation(
            results=tuple(results),
            images=images,
            image_names=image_names,
            labels=torch.cat([widened(seen.labels, widest, NO_LABEL) for seen in self._seen]),
            label_names=classifier.names,
            f=torch.cat([widened(seen.f, widest, torch.nan) for seen in self._seen]),
            settings=context,
            pictured=tuple(range(len(images))),
            run_scores=run_scores(opened.run_metrics, results),
        )


@dataclass(frozen=True)
class _Seen:
    """The images of one ``update``: the images that are kept for pictures, and the rows of every method."""

    images: Tensor
    names: Sequence[str]
    rule: str
    labels: Tensor
    f: Tensor
    rows: Mapping[str, Sequence[Row]]


def evaluate(
    classifier: Classifier,
    images: ImagesLike,
    *,
    methods: Sequence[MethodLike],
    labels: Labels = "top5+wrong",
    metrics: Sequence[str | Metric] | None = None,
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
        images: images in memory, a dataset, or a ``DataLoader`` or other iterable of batches. Of a dataset or iterable, one block of images
            is in memory at a time: see :func:`proofmap.data.given.as_dataset`.
        methods: names, specs such as ``"learned-mask:tv=0.1"``, Method instances, or functions.
        labels: a rule such as ``"all"``, ``"top5"``, ``"p>=0.01"`` or ``"top5+wrong"``, which adds two labels that the net does not believe,
            drawn by the seed; ``"true"`` for the true labels of each image, from ``truth``; a label or a list of labels, by name or index,
            for every image; a list of lists, or a tensor or array ``(N,)`` or ``(N, L)``, with the labels of each image. See
            :meth:`proofmap.core.labels.LabelRule.parse`.
        metrics: names, specs or Metric instances; :func:`default_metrics` by default.
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
    judge = Judge(
        classifier,
        methods=methods,
        labels=labels,
        metrics=metrics,
        fills=fills,
        controls=controls,
        keep_maps=keep_maps,
        seed=seed,
        progress=progress,
        watch=watch,
    )
    if is_in_memory(images, classifier.inputs):
        judge.update(images, names=names, truth=truth, boxes=boxes, objects=objects)
    else:
        if boxes or objects:
            raise InputError("boxes and objects are for images in memory; a dataset has its own")
        _update_from(judge, as_dataset(images, classifier.inputs, names, truth, outputs=classifier.names))
    return judge.compute()


@exit_as_error()
def _update_from(judge: Judge, data: Dataset) -> None:
    """Update ``judge`` with all images of a dataset. One block of images is in memory at a time."""
    classifier, rule = judge.classifier, judge.rule
    if rule.kind == "given" and len(rule.rows) != len(data):
        rule.choose(torch.empty(len(data), len(classifier.names)), classifier.label_set)  # says what is wrong
    judge.distractors = data
    size = _BLOCK // (classifier.inputs.count * expected_labels(rule, classifier))
    for block in load_blocks(data, classifier, block_size=max(1, min(size, _MOST_IMAGES))):
        if block.failures:
            name, reason = block.failures[0].name, block.failures[0].reason
            raise InputError(reason if name in reason else f"{name}: {reason}")
        truth = true_outputs(data, classifier.names, block.indices)
        objects = block.objects
        judge.update(
            block.images,
            labels=[rule.rows[i] for i in block.indices] if rule.kind == "given" else None,
            names=[data.names[i] for i in block.indices],
            truth=truth if any(truth) else None,
            objects=objects if any(objects) else (),  # type: ignore[arg-type]
        )


def proof_metrics(
    thresholds: str | tuple[float, float] | Thresholds, curve: str | Mapping[str, Any]
) -> list[Metric]:
    """The metrics of an explanation: the default metrics that have a value for each label's own map."""
    return [metric for metric in default_metrics(thresholds, curve) if metric.kind != "deletion"]


def explain(
    classifier: Classifier,
    images: ImagesLike,
    *,
    labels: Labels = "top5",
    method: MethodLike | Sequence[MethodLike] | None = None,
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
    method = default_method(as_classifier(classifier)) if method is None else method
    several = isinstance(method, Sequence) and not isinstance(method, str)
    return Proof(
        evaluate(
            classifier,
            images,
            methods=list(method) if several else [method],  # type: ignore[arg-type,list-item]
            labels=labels,
            metrics=proof_metrics(thresholds, curve),
            names=names,
            truth=truth,
            keep_maps=None,
            seed=seed,
            progress=progress,
        )
    )
