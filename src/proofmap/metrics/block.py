"""The unit of work: one method's maps on a block of images, measured by every metric."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.files import distinct_names
from proofmap.core.progress import Progress, Silent
from proofmap.methods.method import Method
from proofmap.metrics.curves import Curves, CurveSettings, curve_settings
from proofmap.metrics.judge import BestEffort, Completeness, Judged, Metric, Soundness


@dataclass(frozen=True)
class ScoreInfo:
    """What a score is, apart from its value: enough to read stored values without the metric that made them."""

    name: str
    higher_is_better: bool
    settings: Mapping[str, object]
    kind: str = ""


def score_infos(metrics: Sequence[Metric]) -> list[ScoreInfo]:
    """One for each metric, under distinct names: a metric may be asked for with several settings."""
    names = distinct_names([m.name for m in metrics])
    return [
        ScoreInfo(n, m.higher_is_better, m.settings(), m.kind or m.name)
        for n, m in zip(names, metrics, strict=True)
    ]


@dataclass(frozen=True)
class BlockResult:
    """What one method achieved on one block of images: the unit of work of an evaluation, all on the CPU.

    ``values`` are ``(n,)`` and ``pairs`` ``(n, L)``, by the metrics' (distinct) names.
    """

    maps: Tensor
    values: Mapping[str, Tensor]
    pairs: Mapping[str, Tensor]
    insertion: Curves | None


def judge_block(
    method: Method,
    classifier: Classifier,
    images: Tensor,
    labels: Tensor,
    metrics: Sequence[Metric],
    keep_maps: int = 0,
    seed: int = 0,
    progress: Progress | None = None,
    names: Sequence[str] | None = None,
    curves: bool = True,
) -> BlockResult:
    """Make a method's maps for some images and measure them; keeps the maps of the first ``keep_maps`` images.

    ``names`` are those of the metrics' values; their own, made distinct, when left out. Without ``curves`` the
    insertion game is played only if a metric needs it, and its curves are left out.
    """
    progress = progress or Silent()
    maps = method(classifier, images, labels, seed=seed, progress=progress)
    judged = Judged(classifier.frozen(), images, labels, maps, seed, progress)
    columns = names or [info.name for info in score_infos(metrics)]
    values = {name: m(judged).cpu() for name, m in zip(columns, metrics, strict=True)}
    pairs = {
        name: found.cpu()
        for name, m in zip(columns, metrics, strict=True)
        if (found := m.pairs(judged)) is not None
    }
    stored = (maps[:, :1] if method.label_free else maps)[: max(0, keep_maps)]
    shown = _on_cpu(judged.curves("insertion", _insertion_settings(metrics))) if curves else None
    return BlockResult(stored.cpu().clone(), values, pairs, shown)


def join_blocks(blocks: Sequence[BlockResult]) -> BlockResult:
    """The blocks as one, in their order."""
    curves = [b.insertion for b in blocks if b.insertion is not None]
    together: dict[str, Any] = {
        key: torch.cat([getattr(c, key) for c in curves])
        for key in ("labels", "f", "probabilities", "auc", "error")
    }
    if all(c.matrix is not None for c in curves):
        together["matrix"] = torch.cat([c.matrix for c in curves if c.matrix is not None])
    return BlockResult(
        torch.cat([b.maps for b in blocks]),
        {name: torch.cat([b.values[name] for b in blocks]) for name in blocks[0].values},
        {name: torch.cat([b.pairs[name] for b in blocks]) for name in blocks[0].pairs},
        dataclasses.replace(curves[0], **together),
    )


def _insertion_settings(metrics: Sequence[Metric]) -> CurveSettings:
    """The insertion curve that the metrics already play, so that pictures cost nothing more: that of the proofs first."""
    played = [curve for metric in metrics for game, curve in metric.games() if game == "insertion"]
    proofs = [m.curve for m in metrics if isinstance(m, (Completeness, Soundness, BestEffort))]
    return [*proofs, *played, curve_settings("paper")][0]


def _on_cpu(curves: Curves) -> Curves:
    tensors: dict[str, Any] = {
        f.name: value.cpu()
        for f in dataclasses.fields(curves)
        if isinstance(value := getattr(curves, f.name), Tensor)
    }
    return dataclasses.replace(curves, **tensors)
