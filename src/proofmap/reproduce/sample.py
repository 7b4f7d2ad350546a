"""Some images of a recipe's data with its net, rows and labels, for experiments that are not studies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.data.dataset import random_choice
from proofmap.data.loader import load_blocks
from proofmap.methods.method import Method
from proofmap.reproduce.findings import Job
from proofmap.reproduce.rows import study_of
from proofmap.study.session import open_session


@dataclass(frozen=True)
class Sample:
    """Images ``(N, *shape)`` with the labels ``(N, L)`` of the study's rule."""

    classifier: Classifier
    images: Tensor
    labels: Tensor
    methods: Mapping[str, Method]


def draw_sample(job: Job, data: str | None = None, number: int | None = None) -> Sample:
    """Images at random from the data that ``[settings.study]`` names, or from other ``data``; all if there are fewer."""
    study = study_of(job)
    session = open_session(study if data is None else replace(study, data=data), device=job.device)
    dataset, classifier = session.data, session.classifier
    count = min(number or study.images.number or len(dataset), len(dataset))
    indices = random_choice(dataset.names, count, seed=study.images.seed)
    (block,) = load_blocks(dataset, classifier, indices, block_size=max(1, count))
    if block.failures:
        raise InputError(block.failures[0].reason)
    images = classifier.check_images(block.images)
    labels = classifier.choose_labels(images, study.labels, seed=study.seed)
    return Sample(classifier, images, labels, {name: ready.method for name, ready in session.methods.items()})
