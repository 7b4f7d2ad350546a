"""Maps judged as they are, for studies that look at them beside their scores: made once, and not again by the evaluation."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

import proofmap as pm
from proofmap.core.streams import content_keys
from proofmap.fills import Fill
from proofmap.session import Session


def drawing_from(fill: str, pool: Tensor) -> Fill:
    """The fill. If it draws random images, it draws them from ``pool``, images as bytes."""
    made = Fill.make(fill)
    return made.changed(source=pool, part="all") if isinstance(made, pm.Images) else made


def timed_maps(
    method: pm.Method, f: pm.Classifier, images: Tensor, labels: Tensor, pool: Tensor | None = None
) -> tuple[Tensor, float]:
    """The method's maps ``(N, L, *positions)``, and the seconds that they took. Random images are drawn from ``pool``, images as bytes; by
    default, they are the other images.
    """
    began = time.perf_counter()
    if pool is None:
        maps = method(f, images, labels)
    else:
        maps = Session(f, distractors=lambda: pool).maps(method, images, labels)
    if f.device.type == "cuda":
        torch.cuda.synchronize()
    return maps, time.perf_counter() - began


def scores_of(
    maps: Tensor, f: pm.Classifier, images: Tensor, labels: Tensor, metrics: Sequence[Any]
) -> list[pm.Score]:
    """The score of each metric over the images, for maps ``(N, L, *positions)`` of labels ``(N, L)``."""
    place = {key: i for i, key in enumerate(content_keys(images))}
    found = pm.evaluate(
        f,
        images,
        methods=[lambda classifier, x, a: maps[[place[key] for key in content_keys(x)]]],
        labels=labels,
        metrics=metrics,
        keep_maps=0,
    )
    return list(found.results[0].scores)
