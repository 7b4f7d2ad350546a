"""The net, the images and the rows of a recipe, for experiments that are no studies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.data.dataset import random_choice
from proofmap.data.loader import load_blocks
from proofmap.data.specs import open_data
from proofmap.fills import with_part
from proofmap.methods.method import Method
from proofmap.models import load_classifier
from proofmap.reproduce.outcome import Job
from proofmap.reproduce.rows import study_of


@dataclass(frozen=True)
class Opened:
    """``labels`` ``(N, L)`` are those of the study's rule."""

    classifier: Classifier
    images: Tensor
    labels: Tensor
    methods: Mapping[str, Method]


def opened(job: Job, data: str | None = None, number: int | None = None) -> Opened:
    """What ``[settings.study]`` describes: so many images of its data, or of other ``data``, at random; all where there are fewer."""
    study = study_of(job)
    dataset = open_data(study.data if data is None else data)
    classifier = load_classifier(study.model, weights=study.weights, device=job.device)
    if study.label_set:
        classifier = classifier.restricted(list(study.label_set), renormalise=study.renormalise)
    count = min(number or study.images.number or len(dataset), len(dataset))
    indices = random_choice(dataset.names, count, seed=study.images.seed)
    (block,) = load_blocks(dataset, classifier, indices, block_size=max(1, count))
    if block.failures:
        raise InputError(block.failures[0].reason)
    images = classifier.check_images(block.images)
    labels = classifier.choose_labels(images, study.labels)
    methods = {name: with_part(method) for name, method in study.named_methods().items()}
    return Opened(classifier, images, labels, methods)
