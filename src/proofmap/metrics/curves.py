"""Playing a game: show the net the top s positions of a map (or hide them), for many s.

Each map is ranked once, on the device. All steps of all maps go through the net in full batches. A masked pass yields every label's
probability, so the label x label matrix has no further cost. Games on the same maps share rankings, the net's output for the whole
images, and, with the same fill, its output for the fill alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.kernels import steady_kernels
from proofmap.core.batching import in_batches
from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL
from proofmap.core.progress import Progress
from proofmap.core.tensors import private_copy
from proofmap.metrics.games import Game, Quadrature

if TYPE_CHECKING:
    from proofmap.metrics.judged import Judged


@dataclass(frozen=True)
class Curves:
    """The curves of a game, one for each image and label, and the areas under them.

    ``probabilities`` ``(N, L, S)`` are the points of the curves, at ``counts`` ``(S,)`` of ``positions`` positions. ``auc``
    ``(N, L)`` are the areas. ``error`` ``(N, L)`` is the change of an area when every second step is left out. ``matrix[i, a, b]``
    is the area of label b under the map of label a, for image i. ``f`` ``(N, L)`` is f(x, a) for the whole image, and ``whole``
    ``(N, L)`` is the game's target for the whole image. If the target is not a probability, ``whole`` differs from ``f``, and
    ``probabilities`` are values of the target. Entries without a label are NaN.
    """

    game: str
    labels: Tensor
    f: Tensor
    counts: Tensor
    positions: int
    probabilities: Tensor
    auc: Tensor
    error: Tensor
    matrix: Tensor | None
    settings: dict[str, object]
    whole: Tensor | None = None
    quadrature: Quadrature | None = None

    @classmethod
    @torch.no_grad()
    def played(cls, judged: Judged, game: Game, *, matrix: bool) -> Curves:
        """Play a game on the maps of a :class:`~proofmap.metrics.judged.Judged`, which keeps what further games can share."""
        with steady_kernels(tf32=False):
            return _Runner(game, judged, matrix).run(judged.session.progress)

    @property
    def h(self) -> Tensor:
        """The game's target for the whole image ``(N, L)``. The areas are compared with this value."""
        return self.f if self.whole is None else self.whole

    def counts_of(self, n: int) -> Tensor:
        """The number of positions ``(S,)`` that each point of the curve of an input of ``n`` positions shows. Points may be repeated."""
        if n == self.positions:
            return self.counts
        played: dict[str, Any] = {
            key: self.settings[key] for key in ("points", "rule", "within") if key in self.settings
        }
        if "within" in played:
            played["within"] = tuple(played["within"])  # a list in a stored run
        own = Quadrature(**played).nodes(n).counts
        return own[_own_points(own, self.counts)]

    def select_images(self, places: list[int]) -> Curves:
        """The curves of the images with these indices, in this order."""
        per_image = ("labels", "f", "probabilities", "auc", "error", "matrix", "whole")
        found: dict[str, Any] = {key: x[places] for key in per_image if (x := getattr(self, key)) is not None}
        return replace(self, **found)

    def first_label(self) -> Curves:
        """The curves of each image's first label alone."""
        per_label = ("labels", "f", "probabilities", "auc", "error", "whole")
        found: dict[str, Any] = {key: x[:, :1] for key in per_label if (x := getattr(self, key)) is not None}
        return replace(self, matrix=None if self.matrix is None else self.matrix[:, :1, :1], **found)

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Curves:
        """The curves with ``change`` applied to every tensor, such as a copy or a move to another device."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        tensors: dict[str, Any] = {key: change(x) for key, x in found.items() if isinstance(x, Tensor)}
        return replace(self, settings=dict(self.settings), **tensors)


class _Runner:
    """Plays one game over all maps: a flat list of jobs (map, step, draw), run in full batches.

    Normalising and choosing between two values commute to the bit, so images and fills are normalised before they are repeated for
    every step, in the memory layout of the net. A soft game mixes the values of image and fill, so here the mixed images are
    normalised.
    """

    def __init__(self, game: Game, judged: Judged, matrix: bool) -> None:
        self.game, self.fill, self.draws = game, game.fill, game.backgrounds
        self.session = judged.session.judging()
        self.judged, self.classifier, self.matrix = judged, judged.classifier, matrix
        self.n = self.classifier.inputs.count
        self.nodes = game.quadrature.nodes(self.n)
        self.maps, self.ranks = judged.distinct, judged.ranks(game)
        self.keys = judged.keys(*(("curve fill", draw) for draw in range(self.draws)), drawn=self.fill.random)
        moving = self.fill.random or self.fill.reads_mask
        self.fixed = (
            None
            if moving
            else self._prepared(private_copy(self._filled(judged.images, self.keys[:, 0]), repeats=False))
        )

    def _filled(self, images: Tensor, keys: Tensor) -> Tensor:
        return self.fill(self.session, images, keys)

    def run(self, progress: Progress) -> Curves:
        device, n_labels = self.ranks.device, self.judged.labels.shape[1]
        counts = self.nodes.counts.to(device, torch.int32)  # as ranks are
        values = torch.zeros(len(self.ranks), len(counts), n_labels, device=device, dtype=torch.float32)
        f, ends = self._curve_ends()
        inner = []
        for step, count in enumerate(self.nodes.counts.tolist()):
            end = ends.get(self.game.all_shown(count, self.n))
            if end is None:
                inner.append(step)
            else:
                values[:, step] = end[self.maps.image_of]
        job_map = torch.arange(len(self.ranks), device=device).repeat_interleave(len(inner))
        job_step = torch.tensor(inner, dtype=torch.long, device=device).repeat(len(self.ranks))
        images = self.maps.images_in_order  # those of jobs in a row are a slice
        safe = self.judged.labels.clamp_min(0)

        with progress.task(self.game.name, len(job_map) * self.draws) as task:

            def run_jobs(start: int, stop: int) -> None:
                which, step = job_map[start:stop], job_step[start:stop]
                first, last = images[start // len(inner)], images[(stop - 1) // len(inner)]
                image, some = self.maps.image_of[which], slice(first, last + 1)
                shown = self.game.shown(_rows(self.ranks, which), counts[step, None])
                values[which, step] = self._read(shown, image, some).gather(1, safe[image])
                task.advance((stop - start) * self.draws)

            in_batches(
                run_jobs, len(job_map), self.classifier.batches[0], cost=self.draws, item="masked image"
            )
        return self._record(values, f, ends[True])

    def _prepared(self, images: Tensor) -> Tensor:
        """Images prepared for composites: in the net's memory layout, and normalised unless values are mixed."""
        x = images if self.game.soft else self.classifier.normalised(images)
        return x.contiguous(memory_format=self.classifier.layout)

    def _read(self, keep: Tensor, image: Tensor, some: slice) -> Tensor:
        """The values ``(B, A)`` that the game reads from the net for keep-masks ``(B, n)``, averaged over the draws of the fill.
        ``image`` ``(B,)`` is the index of each mask's image; these indices lie in the slice ``some``.
        """
        inputs = self.classifier.inputs
        mask = keep.view(-1, *inputs.positions)
        composites = inputs.composite(
            mask[:, None],
            _rows(self._prepared(self.judged.images[some]), image - some.start)[:, None],
            self._backgrounds(mask, image, some),
        ).flatten(0, 1)
        logits = (
            self.classifier(composites) if self.game.soft else self.classifier.from_normalised(composites)
        )
        return self.game.read(self.classifier, logits).view(len(image), self.draws, -1).mean(dim=1)

    def _backgrounds(self, mask: Tensor, image: Tensor, some: slice) -> Tensor:
        """All draws of the backgrounds ``(B, draws, *shape)``. They are drawn once per image, unless the fill depends on the shown
        positions.
        """
        if self.fixed is not None:  # one may be that of all images
            return (self.fixed if len(self.fixed) == 1 else _rows(self.fixed, image))[:, None]
        images, draws = self.judged.images, self.draws
        if self.fill.reads_mask:
            x, shown = (each.repeat_interleave(draws, 0) for each in (images[image], mask))
            drawn = self._prepared(self.fill.behind(self.session, x, self.keys[image].flatten(), shown))
            return drawn.view(-1, draws, *drawn.shape[1:])
        drawn = self._prepared(
            self._filled(images[some].repeat_interleave(draws, 0), self.keys[some].flatten())
        )
        return drawn.view(-1, draws, *drawn.shape[1:])[image - some.start]

    def _curve_ends(self) -> tuple[Tensor, dict[bool | None, Tensor]]:
        """f(x, a) ``(N, L)``, and the ends of the curves ``(N, L)``: the values read for the whole image (key True) and for the
        fill alone (key False). The ends are the same for every map.
        """
        safe, logits = self.judged.labels.clamp_min(0), self.judged.logits
        f = self.classifier.log_f(logits).exp().gather(1, safe)
        whole = self.game.read(self.classifier, logits).gather(1, safe)
        nothing = self.judged.read_from_nothing(self.game, self._nothing_shown)
        return f, {True: whole, False: nothing.gather(1, safe)}

    def _nothing_shown(self) -> Tensor:
        """The values ``(N, A)`` that the game reads for the fill alone."""
        images = self.judged.images
        nothing = torch.zeros(len(images), self.n, dtype=torch.bool, device=images.device)
        rows = in_batches(
            lambda a, b: self._read(nothing[a:b], torch.arange(a, b, device=nothing.device), slice(a, b)),
            len(nothing),
            self.classifier.batches[0],
            cost=self.draws,
        )
        return torch.cat(rows)

    def _record(self, values: Tensor, f: Tensor, whole: Tensor) -> Curves:
        if not bool(values.isfinite().all()):
            raise InputError(
                f"the net returned NaN on a masked {self.classifier.inputs.singular}; check its weights and preprocessing"
            )
        none = self.judged.labels == NO_LABEL
        column = torch.arange(self.judged.labels.shape[1], device=values.device)
        own = values.transpose(1, 2)[self.maps.map_of, column].masked_fill(none[..., None], torch.nan)
        # in float64 (on the CPU: not every device has it), so that sums over labels of one map are exact to float32
        weights, coarse = self.nodes.weights, self.nodes.coarse
        exact = own.cpu().double()
        areas, halves = (torch.einsum("nls,s->nl", exact, each) for each in (weights, coarse))
        cross = None
        if self.matrix:
            cross = torch.einsum("usb,s->ub", values.cpu().double(), weights).to(values)[self.maps.map_of]
            cross = cross.masked_fill(none[:, :, None] | none[:, None, :], torch.nan)
        return Curves(
            game=self.game.name,
            labels=self.judged.labels,
            f=f.masked_fill(none, torch.nan),
            counts=self.nodes.counts,
            quadrature=self.game.quadrature,
            positions=self.n,
            probabilities=own,
            auc=areas.to(own),
            error=(areas - halves).abs().to(own),
            matrix=cross,
            settings={**self.game.record(self.session), **_label_record(self.classifier)},
            whole=whole.masked_fill(none, torch.nan),
        )


def join_lengths(parts: Sequence[Curves], places: Sequence[Tensor], positions: int) -> Curves:
    """Join the curves of inputs with different numbers of positions, in the original order of the inputs.

    Areas are those of each input's own curve. So that all inputs have equally many points, ``probabilities`` repeat points of the curves of
    shorter inputs, at about the same shares of their positions; every point of a curve is there. The first point alone may show nothing.
    :meth:`Curves.counts_of` says what each point shows.
    """
    first, order = parts[0], torch.cat(list(places)).argsort()
    counts = (first.quadrature or Quadrature()).nodes(positions).counts
    found: dict[str, Any] = {}
    for key in ("labels", "f", "auc", "error", "matrix", "whole"):
        each = [x for part in parts if (x := getattr(part, key)) is not None]
        found[key] = torch.cat(each)[order] if len(each) == len(parts) else None
    points = [part.probabilities[..., _own_points(part.counts, counts)] for part in parts]
    found["probabilities"] = torch.cat(points)[order]
    return replace(first, counts=counts, positions=positions, **found)


def _own_points(own: Tensor, counts: Tensor) -> Tensor:
    """For each of the ``counts`` ``(S,)``, the index of the point of a shorter input's curve, with the counts ``own``, that is shown there."""
    places = torch.arange(len(counts), dtype=torch.float64) * (len(own) - 1) / max(1, len(counts) - 1)
    points = places.round().long()
    return points.clamp_min(1).where(counts > 0, points) if own[0] == 0 else points


def _label_record(classifier: Classifier) -> dict[str, object]:
    settings = classifier.settings()
    return {key: settings[key] for key in ("label_set", "renormalise", "outputs")}


def _rows(x: Tensor, which: Tensor) -> Tensor:
    """``x[which]`` for indices ``(B,)``, in the memory layout of x; faster than plain indexing on a CPU."""
    if x.is_contiguous():
        return x.index_select(0, which)
    return x.movedim(1, -1).index_select(0, which).movedim(-1, 1)  # channels come last
