"""Playing a game: show the net the top s positions of a map (or hide them), for many s.

Each map is ranked once, on the device. All steps of all maps go through the net in full batches. A masked pass yields every label's
probability, so the label x label matrix has no further cost. Games on the same maps share a :class:`~proofmap.metrics.board.GameBoard`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.classifier import as_classifier
from proofmap.classifier.frozen import layout_of
from proofmap.classifier.kernels import steady_kernels
from proofmap.classifier.together import each_length
from proofmap.core import streams
from proofmap.core.batching import in_batches
from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL
from proofmap.core.progress import Progress, Silent
from proofmap.core.ranking import Ties
from proofmap.core.tensors import drop_repeats, private_copy
from proofmap.fills import Fill, Pools
from proofmap.metrics.board import GameBoard, given_pairs
from proofmap.metrics.games import Game, ReadyGame, make_game
from proofmap.metrics.quadrature import Quadrature
from proofmap.metrics.targets import Target


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

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Curves:
        """The curves with ``change`` applied to every tensor, such as a copy or a move to another device."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        tensors: dict[str, Any] = {key: change(x) for key, x in found.items() if isinstance(x, Tensor)}
        return replace(self, settings=dict(self.settings), **tensors)


def insertion(
    classifier: Classifier, images: Tensor, maps: ArrayLike, labels: ArrayLike, **options: Any
) -> Curves:
    """Play the insertion game (the paper's AUC): the top s positions are shown, the rest is filled.

    AUC(x, a, M) = mean over s of f(x~_s, a), where x~_s equals x on the top s positions of M. The options are those of
    :func:`curves`.

    >>> from torch import nn
    >>> f = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(12, 2)), size=2)
    >>> x, map_ = torch.rand(1, 3, 2, 2), torch.rand(1, 1, 2, 2).expand(1, 2, 2, 2)
    >>> round(
    ...     insertion(f, x, map_, torch.tensor([[0, 1]]), points="all").auc.sum().item(), 6
    ... )  # one map for all labels
    1.0
    """
    return curves("insertion", classifier, images, maps, labels, **options)


def deletion(
    classifier: Classifier, images: Tensor, maps: ArrayLike, labels: ArrayLike, **options: Any
) -> Curves:
    """Play the deletion game: the top s positions are hidden, s = 1 .. n; lower is better. The options are those of :func:`curves`."""
    return curves("deletion", classifier, images, maps, labels, **options)


def curves(
    game: str | Game,
    classifier: Classifier,
    images: Tensor,
    maps: ArrayLike,
    labels: ArrayLike,
    *,
    curve: str | None = None,
    fill: str | Fill | None = None,
    points: int | Literal["all"] | None = None,
    within: tuple[float, float] | None = None,
    ties: Ties | None = None,
    draws: int | None = None,
    target: str | Target | None = None,
    matrix: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Curves:
    """Play a game for maps ``(N, L, *positions)`` of labels ``(N, L)``, or for maps ``(N, *positions)`` of one label each ``(N,)``; tensors
    or arrays. Every option overrides the game's own setting.

    Args:
        curve: settings by name: ``paper``, ``released``, ``rise`` or ``restricted``.
        target: what is read off the net: ``probability`` (the default), ``decision``, ``margin``, ...
    """
    options = {
        "curve": curve,
        "fill": fill,
        "points": points,
        "within": within,
        "ties": ties,
        "draws": draws,
        "target": target,
    }
    chosen = make_game(game, **{key: value for key, value in options.items() if value is not None})
    ready = Pools(lambda: None).bind(chosen).prepare(as_classifier(classifier))
    maps, labels = given_pairs(maps, labels, classifier.inputs)
    return play(ready, classifier, images, maps, labels, matrix=matrix, seed=seed, progress=progress)


def play(
    game: ReadyGame,
    classifier: Classifier,
    images: Tensor,
    maps: Tensor,
    labels: Tensor,
    *,
    matrix: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Curves:
    """Play a prepared game. Each input is played with its own number of positions."""
    inputs = classifier.inputs
    groups = inputs.by_length(images)
    if groups:

        def at_length(n: int, places: Tensor, progress: Progress) -> Curves:
            near = game.game.prepare(classifier.at_length(n))
            some = inputs.cut(images[places], n), maps[places][..., :n], labels[places]
            return play(near, classifier.at_length(n), *some, matrix=matrix, seed=seed, progress=progress)

        parts = each_length(classifier, groups, at_length, labels=labels.shape[1], progress=progress)
        return join_lengths(parts, [places for _, places in groups], inputs.count)
    return play_on(
        GameBoard(classifier, images, maps, labels, seed=seed), game, matrix=matrix, progress=progress
    )


@torch.no_grad()
def masked_batch(
    game: ReadyGame, classifier: Classifier, images: Tensor, labels: Tensor
) -> tuple[Classifier, Tensor]:
    """Randomly masked images, as many as one batch of a game has, and the classifier that takes them. Of inputs with different numbers of
    positions, those of the commonest number are used.
    """
    groups = classifier.inputs.by_length(images)
    if groups:
        n, places = max(groups, key=lambda group: len(group[1]))
        images, labels = classifier.inputs.cut(images[places], n), labels[places.to(labels.device)]
        classifier = classifier.at_length(n)
        game = game.game.prepare(classifier)
    inputs, most = classifier.inputs, classifier.batches[0].size
    passes = max(1, game.game.passes(inputs.count) * int((labels != NO_LABEL).sum()))
    count = -(-passes // -(-passes // most))
    image = torch.arange(count) % len(images)
    random = torch.rand(count, inputs.count, generator=torch.Generator().manual_seed(0))
    shown = random < ((torch.arange(count) + 0.5) / count)[:, None]
    image, keep = image.to(images.device), shown.view(-1, *inputs.positions).to(images.device)
    keys = streams.image_keys(images, 0, "masked batch")[image]
    return classifier, inputs.composite(keep, images[image], game.fill.behind(images[image], keys, keep))


@torch.no_grad()
def play_on(
    board: GameBoard, game: ReadyGame, *, matrix: bool = False, progress: Progress | None = None
) -> Curves:
    """Play a prepared game on a board. The board keeps what further games can share."""
    with steady_kernels(tf32=False):
        return _Runner(game, board, matrix).run(progress or Silent())


class _Runner:
    """Plays one game over all maps: a flat list of jobs (map, step, draw), run in full batches.

    Normalising and choosing between two values commute to the bit, so images and fills are normalised before they are repeated for
    every step, in the memory layout of the net. A soft game mixes the values of image and fill, so here the mixed images are
    normalised.
    """

    def __init__(self, ready: ReadyGame, board: GameBoard, matrix: bool) -> None:
        self.ready, self.game, self.fill, self.draws = ready, ready.game, ready.fill, ready.draws
        self.board, self.classifier, self.matrix = board, board.classifier, matrix
        self.n = self.classifier.inputs.count
        self.nodes = self.game.quadrature.nodes(self.n)
        self.ranks = board.ranks(self.game)
        self.keys = board.keys(*(("curve fill", draw) for draw in range(self.draws)), drawn=self.fill.random)
        moving = self.fill.random or self.fill.fill.reads_mask
        self.fixed = (
            None
            if moving
            else self._prepared(drop_repeats(private_copy(self.fill(board.images, self.keys[:, 0]))))
        )

    def run(self, progress: Progress) -> Curves:
        device, n_labels = self.ranks.device, self.board.labels.shape[1]
        counts = self.nodes.counts.to(device, torch.int32)  # as ranks are
        values = torch.zeros(len(self.ranks), len(counts), n_labels, device=device, dtype=torch.float32)
        f, ends = self._curve_ends()
        inner = []
        for step, count in enumerate(self.nodes.counts.tolist()):
            end = ends.get(self.game.all_shown(count, self.n))
            if end is None:
                inner.append(step)
            else:
                values[:, step] = end[self.board.image_of]
        job_map = torch.arange(len(self.ranks), device=device).repeat_interleave(len(inner))
        job_step = torch.tensor(inner, dtype=torch.long, device=device).repeat(len(self.ranks))
        images = self.board.images_in_order  # those of jobs in a row are a slice
        safe = self.board.labels.clamp_min(0)

        with progress.task(self.game.name, len(job_map) * self.draws) as task:

            def run_jobs(start: int, stop: int) -> None:
                which, step = job_map[start:stop], job_step[start:stop]
                first, last = images[start // len(inner)], images[(stop - 1) // len(inner)]
                image, some = self.board.image_of[which], slice(first, last + 1)
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
        return x.contiguous(memory_format=layout_of(self.classifier.net))

    def _read(self, keep: Tensor, image: Tensor, some: slice) -> Tensor:
        """The values ``(B, A)`` that the game reads from the net for keep-masks ``(B, n)``, averaged over the draws of the fill.
        ``image`` ``(B,)`` is the index of each mask's image; these indices lie in the slice ``some``.
        """
        inputs = self.classifier.inputs
        mask = keep.view(-1, *inputs.positions)
        composites = inputs.composite(
            mask[:, None],
            _rows(self._prepared(self.board.images[some]), image - some.start)[:, None],
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
        images, draws = self.board.images, self.draws
        if self.fill.fill.reads_mask:
            x, shown = (each.repeat_interleave(draws, 0) for each in (images[image], mask))
            drawn = self._prepared(self.fill.behind(x, self.keys[image].flatten(), shown))
            return drawn.view(-1, draws, *drawn.shape[1:])
        drawn = self._prepared(self.fill(images[some].repeat_interleave(draws, 0), self.keys[some].flatten()))
        return drawn.view(-1, draws, *drawn.shape[1:])[image - some.start]

    def _curve_ends(self) -> tuple[Tensor, dict[bool | None, Tensor]]:
        """f(x, a) ``(N, L)``, and the ends of the curves ``(N, L)``: the values read for the whole image (key True) and for the
        fill alone (key False). The ends are the same for every map.
        """
        safe, logits = self.board.labels.clamp_min(0), self.board.logits
        f = self.classifier.log_f(logits).exp().gather(1, safe)
        # the next game reads them too
        whole = self.game.read(self.classifier, logits.clone()).gather(1, safe)
        nothing = self.board.once(self.ready.bare, self._nothing_shown)
        return f, {True: whole, False: nothing.gather(1, safe)}

    def _nothing_shown(self) -> Tensor:
        """The values ``(N, A)`` that the game reads for the fill alone."""
        images = self.board.images
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
        none = self.board.labels == NO_LABEL
        column = torch.arange(self.board.labels.shape[1], device=values.device)
        own = values.transpose(1, 2)[self.board.map_of, column].masked_fill(none[..., None], torch.nan)
        # in float64 (on the CPU: not every device has it), so that sums over labels of one map are exact to float32
        weights, coarse = self.nodes.weights, self.nodes.coarse
        exact = own.cpu().double()
        areas, halves = (torch.einsum("nls,s->nl", exact, each) for each in (weights, coarse))
        cross = None
        if self.matrix:
            cross = torch.einsum("usb,s->ub", values.cpu().double(), weights).to(values)[self.board.map_of]
            cross = cross.masked_fill(none[:, :, None] | none[:, None, :], torch.nan)
        return Curves(
            game=self.game.name,
            labels=self.board.labels,
            f=f.masked_fill(none, torch.nan),
            counts=self.nodes.counts,
            quadrature=self.game.quadrature,
            positions=self.n,
            probabilities=own,
            auc=areas.to(own),
            error=(areas - halves).abs().to(own),
            matrix=cross,
            settings={**self.ready.record(), **_label_record(self.classifier)},
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
