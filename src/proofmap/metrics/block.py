"""The unit of work: one method's maps on a block of images, measured by every metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from proofmap.classifier.together import each_length
from proofmap.core.inputs import Box
from proofmap.core.labels import NO_LABEL
from proofmap.core.progress import Progress
from proofmap.methods.method import Method
from proofmap.metrics.curves import Curves, join_lengths
from proofmap.metrics.games import Game, InsertionGame
from proofmap.metrics.judged import Judged
from proofmap.metrics.metric import Metric
from proofmap.metrics.proof_scores import ProofMetric
from proofmap.metrics.targets import Probability
from proofmap.plugins.failures import exit_as_error
from proofmap.session import Session


@dataclass(frozen=True)
class Subjects:
    """Images ``(N, *shape)``, the labels ``(N, L)`` to judge, and the true labels, boxes and objects if they are known."""

    images: Tensor
    labels: Tensor
    truth: Tensor | None = None
    boxes: Sequence[Sequence[Box]] = ()
    objects: Sequence[Mapping[int, Sequence[Box]]] = ()

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, places: slice | list[int]) -> Subjects:
        """A part of the images with their labels: a slice, or the images with these indices, in this order."""
        which = range(len(self))[places] if isinstance(places, slice) else places
        truth = None if self.truth is None else self.truth[places]
        boxes = [self.boxes[i] for i in which] if len(self.boxes) else ()
        objects = [self.objects[i] for i in which] if len(self.objects) else ()
        return Subjects(self.images[places], self.labels[places], truth, boxes, objects)


@dataclass(frozen=True)
class BlockResult:
    """The results of one method on one block of images, on the CPU.

    ``maps`` are the maps of the first images, as many as are kept. ``values`` ``(n,)`` per image and ``pairs`` ``(n, L)`` per label
    are stored by the name of the metric. ``insertion`` are the insertion curves, or None.
    """

    maps: Tensor
    values: Mapping[str, Tensor]
    pairs: Mapping[str, Tensor]
    insertion: Curves | None


@exit_as_error()
def judge_block(
    session: Session,
    method: Method,
    subjects: Subjects,
    metrics: Mapping[str, Metric],
    *,
    maps: Tensor | None = None,
    keep_maps: int = 0,
    curves: bool = True,
) -> BlockResult:
    """Make a method's maps for some images, and compute every metric on them. Every number of Proofmap comes from this function.

    Args:
        maps: the method's maps of these images, if they exist already; metrics may still run the method on other images.
        keep_maps: the number of images whose maps are kept; these are the first ones.
        curves: whether to return the insertion curves; if not, that game is played only if a metric needs it.
    """
    groups = session.inputs.by_length(subjects.images)
    if groups:  # inputs with different numbers of positions are judged each at its own length
        near = {n: session.at_length(n) for n, _ in groups}
        for own in near.values():  # before they share batches: what is found in the net is found there alone
            own.prepare(method)
            for metric in metrics.values():
                own.judging().prepare(metric)

        def at_length(n: int, places: Tensor, progress: Progress) -> BlockResult:
            near[n].progress, near[n].watch = progress, session.watch_at(places.tolist())
            some = subjects[places.tolist()]
            return judge_block(
                near[n],
                method,
                replace(some, images=session.inputs.cut(some.images, n)),
                metrics,
                maps=None if maps is None else maps[places.to(maps.device)][..., :n],
                keep_maps=int((places < keep_maps).sum()),
                curves=curves,
            )

        labels = subjects.labels.shape[1]
        parts = each_length(session.net, groups, at_length, labels=labels, progress=session.progress)
        return join_places(parts, [places.cpu() for _, places in groups], session.inputs.positions)
    if maps is None:
        maps = session.shared_maps(method, subjects.images, subjects.labels)
    else:
        maps = session.spread(method, maps, subjects.labels)
    judged = Judged(
        session,
        subjects.images,
        subjects.labels,
        maps,
        method=method,
        truth=None if subjects.truth is None else subjects.truth.to(subjects.images.device),
        boxes=subjects.boxes,
        objects=subjects.objects,
    )
    shown = judged.play(shown_game(list(metrics.values()))).mapped(Tensor.cpu) if curves else None
    values, pairs = dict.fromkeys(metrics, torch.empty(0)), {}
    # games that are played for all labels come first: metrics of the first label read them too
    for name, metric in sorted(metrics.items(), key=lambda each: each[1].reads == "first"):
        found, of_pairs = metric.measure(judged)
        values[name] = found.cpu().clone()
        if of_pairs is not None:
            pairs[name] = of_pairs.cpu().clone()
    stored = (maps[:, :1] if method.label_free else maps)[: max(0, keep_maps)]
    pairs = {name: pairs[name] for name in metrics if name in pairs}
    return BlockResult(stored.cpu().clone(), values, pairs, shown)


def widened(values: Tensor, labels: int, empty: float, *axes: int) -> Tensor:
    """Values padded to ``labels`` entries along these axes (by default the second); new entries are ``empty``.

    >>> widened(torch.tensor([[1, 2]]), 3, -1)
    tensor([[ 1,  2, -1]])
    """
    for axis in axes or (1,):
        missing = labels - values.shape[axis]
        if missing:
            shape = [*values.shape[:axis], missing, *values.shape[axis + 1 :]]
            values = torch.cat([values, values.new_full(shape, empty)], dim=axis)
    return values


def join_blocks(blocks: Sequence[BlockResult]) -> BlockResult:
    """Join the results of several blocks into one, in their order. Results with fewer labels than others are padded."""
    curves = [b.insertion for b in blocks if b.insertion is not None]
    widest = max(c.labels.shape[1] for c in curves)
    empty = {"labels": NO_LABEL}
    together: dict[str, Any] = {
        key: torch.cat([widened(getattr(c, key), widest, empty.get(key, torch.nan)) for c in curves])
        for key in ("labels", "f", "probabilities", "auc", "error")
    }
    for key in ("matrix", "whole"):
        parts = [part for c in curves if (part := getattr(c, key)) is not None]
        if len(parts) == len(curves):
            together[key] = torch.cat(
                [widened(part, widest, torch.nan, *((1, 2) if key == "matrix" else (1,))) for part in parts]
            )
    label_free = all(b.maps.shape[1] == 1 for b in blocks if len(b.maps))
    maps = [b.maps if label_free else widened(b.maps, widest, 0) for b in blocks]
    return BlockResult(
        torch.cat([m for m in maps if len(m)] or maps[:1]),
        {name: torch.cat([b.values[name] for b in blocks]) for name in blocks[0].values},
        {
            name: torch.cat([widened(b.pairs[name], widest, torch.nan) for b in blocks])
            for name in blocks[0].pairs
        },
        replace(curves[0], **together),
    )


def join_places(
    parts: Sequence[BlockResult], places: Sequence[Tensor], positions: tuple[int, ...]
) -> BlockResult:
    """One block in its original order, from results of inputs that were judged separately because their numbers of positions differ.

    Maps are zero at the positions that an input lacks. Only the maps of the first inputs are kept.
    """
    order = torch.cat(list(places)).argsort()
    curves = [part.insertion for part in parts if part.insertion is not None]
    maps, kept = [], []
    for part, own in zip(parts, places, strict=True):
        whole = part.maps.new_zeros(*part.maps.shape[:2], *positions)
        whole[..., : part.maps.shape[-1]] = part.maps
        maps.append(whole)
        kept.append(own[: len(part.maps)])
    return BlockResult(
        torch.cat(maps)[torch.cat(kept).argsort()],
        {name: torch.cat([part.values[name] for part in parts])[order] for name in parts[0].values},
        {name: torch.cat([part.pairs[name] for part in parts])[order] for name in parts[0].pairs},
        join_lengths(curves, places, positions[0]) if curves else None,
    )


def shown_game(metrics: Sequence[Metric]) -> Game:
    """The insertion game whose curves are shown: the game of the proof scores, otherwise that of another metric, otherwise the
    default.
    """
    first = sorted(metrics, key=lambda metric: not isinstance(metric, ProofMetric))
    played = [
        game
        for metric in first
        for game in metric.games()
        if isinstance(game, InsertionGame) and game.target == Probability()
    ]
    return [*played, InsertionGame()][0]
