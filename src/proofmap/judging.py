"""Judge methods on images in memory: maps for every label, then each metric with its interval."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.kernels import outside_inference_mode
from proofmap.classifier.steadiness import FirstLook
from proofmap.core.errors import InputError
from proofmap.core.files import distinct_names
from proofmap.core.inputs import Box
from proofmap.core.labels import NO_LABEL, LabelRule, Labels, label_index, truth_table
from proofmap.core.progress import Progress, Silent
from proofmap.core.tensors import names_of_files, private_copy
from proofmap.core.version import source_version
from proofmap.data.distractors import from_images
from proofmap.fills import names_no_pool, with_part, with_pool
from proofmap.fills.images import OWN
from proofmap.methods.controls import control_rows
from proofmap.methods.masks.method import MapWatcher, ReadyMask
from proofmap.methods.method import MethodLike, make_method
from proofmap.methods.wrappers import MapMaker
from proofmap.metrics.block import BlockResult, Subjects, join_blocks, judge_block, score_infos
from proofmap.metrics.metric import Metric, make_metric, prepare_metrics, split_metrics
from proofmap.metrics.proof import Thresholds
from proofmap.metrics.proof_scores import default_metrics
from proofmap.plugins.code import provenance
from proofmap.plugins.failures import exit_as_error
from proofmap.results.evaluation import Evaluation
from proofmap.results.explanation import Proof
from proofmap.results.records import method_result, run_scores

_BLOCK = 32_000_000  # map values held at once


Truth = Sequence[int | str | Sequence[int | str | None] | None] | Tensor
"""The true label of each image, or a list of its true labels, by name or index; None or -1 where not known."""


def truth_of(classifier: Classifier, truth: Truth | None, n: int) -> Tensor | None:
    """True labels from names or indices: ``(N,)``, or ``(N, T)`` if an image has several; -1 fills what is not known."""
    if truth is None:
        return None
    given = truth.tolist() if isinstance(truth, (Tensor, np.ndarray)) else list(truth)
    if len(given) != n:
        raise InputError(f"{len(given)} true labels were given for {n} images")
    rows = [
        {label_index(a, classifier.names): None for a in _as_list(entry) if a is not None and a != NO_LABEL}
        for entry in given
    ]
    return truth_table([list(row) for row in rows])  # each label once


def _as_list(entry: object) -> Sequence[Any]:
    listed = hasattr(entry, "tolist") and entry.tolist()
    entry = listed if isinstance(listed, list) else entry
    return entry if isinstance(entry, (list, tuple)) else [entry]


def as_inputs(classifier: Classifier, given: Any) -> Tensor:
    """What a person holds as the tensor that the classifier takes: pictures of Pillow are prepared as files are, arrays
    may hold bytes and have their channels last.
    """
    if isinstance(given, Tensor):
        return given.clone() if given.is_inference() else given
    items = [given] if isinstance(given, Image.Image) else given
    if isinstance(items, Sequence) and items and all(isinstance(item, Image.Image) for item in items):
        return torch.stack([classifier.inputs.prepare(item) for item in items])
    if not isinstance(given, np.ndarray):
        return classifier.inputs.check(given)  # says what is wrong
    values = torch.from_numpy(np.ascontiguousarray(given))
    if values.dtype == torch.uint8:
        values = values.float() / 255
    shape = classifier.inputs.shape
    last = (*shape[1:], shape[0])
    if len(shape) == 3 and tuple(values.shape[-3:]) == last and last != shape:
        values = values.movedim(-1, -3)
    return values[None] if values.ndim == len(shape) else values


def image_names_for(images: Tensor, names: Sequence[str] | None) -> tuple[str, ...]:
    """One distinct name per image."""
    if names is None:
        return tuple(f"image-{i}" for i in range(len(images)))
    if len(names) != len(images):
        raise InputError(f"{len(names)} names were given for {len(images)} images")
    return tuple(distinct_names(list(names)))


@outside_inference_mode()
@exit_as_error()
def evaluate(
    classifier: Classifier,
    images: Tensor | np.ndarray | Image.Image | Sequence[Image.Image],
    *,
    methods: Sequence[MethodLike],
    labels: Labels = "top5",
    metrics: Sequence[str | Metric] | None = None,
    names: Sequence[str] | None = None,
    truth: Truth | None = None,
    boxes: Sequence[Sequence[Box]] = (),
    objects: Sequence[Mapping[int | str, Sequence[Box]]] = (),
    controls: bool = False,
    keep_maps: int | None = 50,
    seed: int = 0,
    progress: Progress | None = None,
    watch: MapWatcher | None = None,
) -> Evaluation:
    """Compute every method's maps for every chosen label and judge them.

    All scores, f(x, a) included, come from one frozen view of the net, so they compare like with like.

    Args:
        methods: names, specs such as ``"learned-mask:tv=0.1"``, Method instances, or functions.
        labels: a rule such as ``"all"``, ``"top5"`` or ``"p>=0.01"``; ``"true"`` for the true labels of each image, from ``truth``; a label or a list of labels, by name or index, for every image;
            a list of lists, or a tensor or array ``(N,)`` or ``(N, L)``, with the labels of each image. See
            :meth:`proofmap.core.labels.LabelRule.parse`.
        metrics: what to judge by, names and specs too; :func:`default_metrics` when left out.
        names: one per image, for tables and files; the ``file_names`` of images that :func:`load_images` read when left out.
        truth: the true label of each image, or a list of its true labels, by name or index, for metrics that ask for it and for
            ``labels="true"``; None or -1 where not known.
        boxes: for each image where its true label's things are, ``(left, top, right, bottom)`` in the input's pixels.
        objects: the same for several labels of an image, by name or index: ``{"cat": [box], "dog": [box]}``.
        controls: judge noise, the middle, and every method's maps blurred and shown for every label too: see
            :mod:`proofmap.methods.controls`.
        keep_maps: how many images, the first ones, keep their pixels and maps for pictures; None for all.
        watch: is shown the masks of methods that learn them, after every step: ``watch(image, label, snapshot)``.
    """
    names = names_of_files(images) if names is None else names
    images = as_inputs(classifier, images)
    if len(images) == 0:
        raise InputError("there are no images to evaluate on")
    chosen = [make_method(m) for m in methods]
    if not chosen:
        raise InputError("there are no methods to evaluate; see: proofmap list methods")
    if controls:
        chosen += control_rows(chosen, classifier.inputs)
    asked = [make_metric(m) for m in metrics] if metrics is not None else default_metrics()
    if not asked:
        raise InputError("there are no metrics to judge by; leave metrics out for the usual ones")
    progress = progress or Silent()
    images = private_copy(
        classifier.check_images(images)
    )  # whatever happens to the caller's own from here on
    titles = distinct_names([m.title() for m in chosen])
    if any(map(names_no_pool, (*chosen, *asked))):
        source = from_images(images, classifier.inputs) or OWN
        chosen = [with_pool(method, source) for method in chosen]
        asked = [with_pool(metric, source) for metric in asked]
    chosen, asked = [with_part(method) for method in chosen], [with_part(metric) for metric in asked]
    per_image, of_runs = split_metrics(
        dict(zip(distinct_names([metric.name for metric in asked]), asked, strict=True))
    )
    judges = prepare_metrics(per_image.values(), classifier)
    look = FirstLook(classifier.frozen(), images)
    f_all = classifier.frozen().probabilities(images)
    rule = LabelRule.parse(labels, classifier.names)
    image_names = image_names_for(images, names)
    true_labels = truth_of(classifier, truth, len(images))
    label_table = rule.choose(f_all, classifier.label_set, true_labels, image_names)
    f = f_all.gather(1, label_table.clamp_min(0)).masked_fill(label_table == NO_LABEL, torch.nan)
    context = {
        **classifier.settings(),
        "labels": str(rule),
        "seed": seed,
        "device": str(classifier.device),
        "batches": [batch.size for batch in classifier.frozen().batches],
        "threads": torch.get_num_threads(),
        "proofmap": source_version(),
    }
    kept = len(images) if keep_maps is None else min(keep_maps, len(images))
    if boxes and len(boxes) != len(images):
        raise InputError(f"{len(boxes)} lists of boxes were given for {len(images)} images")
    if objects and len(objects) != len(images):
        raise InputError(f"objects of {len(objects)} images were given for {len(images)} images")
    if true_labels is not None and true_labels.ndim == 2:
        several = (true_labels != NO_LABEL).sum(dim=1) > 1
        mixed = next((i for i, own in enumerate(boxes) if len(own) and several[i]), None)
        if mixed is not None:
            raise InputError(
                f"boxes has boxes for {image_names[mixed]!r}, which has several true labels; give the boxes of each label in objects"
            )
    known = [{label_index(a, classifier.names): found for a, found in some.items()} for some in objects]
    subjects = Subjects(images, label_table, true_labels, boxes, known)
    ready = [method.prepare(classifier) for method in chosen]
    start = 0
    if watch is not None:
        told = watch
        ready = [
            m.watched(lambda image, *rest: told(start + image, *rest), every=1)
            if isinstance(m, ReadyMask)
            else m
            for m in ready
        ]
    made, seconds = MapMaker(ready), [0.0] * len(ready)
    judged: list[list[BlockResult]] = [[] for _ in ready]
    block = max(1, _BLOCK // (classifier.inputs.count * label_table.shape[1]))
    for start in range(0, len(images), block):
        some = subjects[start : start + block]
        for k, method in enumerate(ready):
            began = time.monotonic()
            judged[k].append(
                judge_block(
                    method, some, judges, made=made, keep_maps=kept - start, seed=seed, progress=progress
                )
            )
            look.check(f"while {titles[k]} was judged")
            seconds[k] += time.monotonic() - began
    results = [
        method_result(
            title,
            join_blocks(blocks),
            score_infos(judges),
            settings={**method.record(), **provenance(method.method)},
            label_free=method.label_free,
            signed=method.signed,
            image_names=image_names,
            label_names=classifier.names,
            context=context,
            seconds=taken,
        )
        for method, title, blocks, taken in zip(ready, titles, judged, seconds, strict=True)
    ]
    return Evaluation(
        tuple(results),
        images[:kept],
        image_names,
        label_table,
        classifier.names,
        f,
        context,
        pictured=tuple(range(kept)),
        run_scores=run_scores(of_runs, results),
    )


def proof_metrics(
    thresholds: str | tuple[float, float] | Thresholds, curve: str | Mapping[str, Any]
) -> list[Metric]:
    """The metrics of an explanation: the usual ones that are about a label's own proof."""
    return [metric for metric in default_metrics(thresholds, curve) if metric.kind != "deletion"]


def explain(
    classifier: Classifier,
    images: Tensor | np.ndarray | Image.Image | Sequence[Image.Image],
    *,
    labels: Labels = "top5",
    method: MethodLike | Sequence[MethodLike] = "belief-mask",
    thresholds: str | tuple[float, float] | Thresholds = "paper",
    curve: str | Mapping[str, Any] = "paper",
    names: Sequence[str] | None = None,
    truth: Truth | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Proof:
    """Maps for the chosen labels of each image, and what they prove; ``labels="true"`` chooses those in ``truth``.

    A list of methods sets them side by side, on the same images and labels: a row of pictures for each, and ``proof[name]`` is
    the proof of one.
    """
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
