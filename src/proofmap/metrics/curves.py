"""Playing a game: show the net the top s positions of a map (or hide them), for many s.

Each map is ranked once, on the device; all steps of all maps go through the net in full batches; a masked pass yields
every label's probability, so the label x label matrix costs nothing more; equal maps of one image are scored once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.kernels import steady_kernels
from proofmap.core import streams
from proofmap.core.batching import in_batches
from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL, check_labels
from proofmap.core.progress import Progress, Silent
from proofmap.core.ranking import Ties
from proofmap.fills import Fill
from proofmap.metrics.games import Game, ReadyGame, make_game
from proofmap.metrics.targets import Target

_VALUES_AT_ONCE = 2**22  # of maps that are ranked together


@dataclass(frozen=True)
class Curves:
    """Probabilities along the game, and their areas.

    ``probabilities`` is ``(N, L, S)`` at ``counts`` ``(S,)`` of ``positions``; ``auc`` and ``error`` are ``(N, L)``
    (``error``: how much the area changes when every second step is left out); ``matrix[i, a, b]`` is the area of
    label b under the map of label a. Places without a label hold NaN. ``f`` is f(x, a) on the whole image
    and ``whole`` what the game reads there: the same, unless it reads something else than probabilities, of which
    ``probabilities`` then are the values.
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

    @property
    def h(self) -> Tensor:
        """The game's target on the whole image ``(N, L)``, with which its areas are to be compared."""
        return self.f if self.whole is None else self.whole


def insertion(classifier: Classifier, images: Tensor, maps: Tensor, labels: Tensor, **options: Any) -> Curves:
    """The insertion game (the paper's AUC): the top s positions are shown, the rest is filled.

    AUC(x, a, M) = mean over s of f(x~_s, a), where x~_s equals x on the top s positions of M. Options as in
    :func:`curves`.

    >>> from torch import nn
    >>> f = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(12, 2)), size=2)
    >>> x, map_ = torch.rand(1, 3, 2, 2), torch.rand(1, 1, 2, 2).expand(1, 2, 2, 2)
    >>> insertion(f, x, map_, torch.tensor([[0, 1]]), points="all").auc.sum().item()  # one map for all labels
    1.0
    """
    return curves("insertion", classifier, images, maps, labels, **options)


def deletion(classifier: Classifier, images: Tensor, maps: Tensor, labels: Tensor, **options: Any) -> Curves:
    """The deletion game: the top s positions are hidden, s = 1 .. n; lower is better. Options as in :func:`curves`."""
    return curves("deletion", classifier, images, maps, labels, **options)


def curves(
    game: str | Game,
    classifier: Classifier,
    images: Tensor,
    maps: Tensor,
    labels: Tensor,
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
    """Play a game for maps ``(N, L, *positions)`` of labels ``(N, L)``; every option overrides the game's own setting.

    Args:
        curve: settings by name: ``paper``, ``released``, ``rise`` or ``restricted``.
        target: what is read off the net: ``probability`` when left out, ``decision``, ``margin``, ...
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
    ready = chosen.prepare(classifier)
    return play(ready, classifier, images, maps, labels, matrix=matrix, seed=seed, progress=progress)


@torch.no_grad()
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
    """Play a game that is ready for this classifier."""
    images = classifier.check_images(images)
    labels = check_labels(
        labels.to(classifier.device), len(images), len(classifier.names), classifier.label_set
    )
    maps = check_maps(maps.to(classifier.device), labels, classifier.inputs.positions)
    runner = _Runner(game, classifier, images, maps, labels, matrix, seed)
    with steady_kernels(tf32=False):
        return runner.run(progress or Silent())


def check_maps(maps: Tensor, labels: Tensor, positions: tuple[int, ...]) -> Tensor:
    """The maps, or an error that says what is wrong with them; places without a label may hold anything."""
    expected = (*labels.shape, *positions)
    if tuple(maps.shape) != expected:
        raise InputError(f"maps must be (N, L, positions) = {expected}, got {tuple(maps.shape)}")
    bad = maps.flatten(2).isnan().any(dim=2) & (labels != NO_LABEL)
    if bool(bad.any()):
        i, j = bad.nonzero()[0].tolist()
        raise InputError(f"the map of image {i}, label {int(labels[i, j])} contains NaN; check the method")
    return maps


class _Runner:
    """One game over all maps: the flat list of jobs (map, step, draw), run in full batches."""

    def __init__(
        self,
        ready: ReadyGame,
        classifier: Classifier,
        images: Tensor,
        maps: Tensor,
        labels: Tensor,
        matrix: bool,
        seed: int,
    ) -> None:
        self.ready, self.game, self.fill, self.draws = ready, ready.game, ready.fill, ready.draws
        self.classifier, self.images, self.labels, self.matrix = classifier, images, labels, matrix
        self.n = classifier.inputs.count
        self.nodes = self.game.quadrature.nodes(self.n)
        ties, self.keys = self._stream_keys(seed)
        self.ranks, self.image_of, self.map_of = _distinct_ranks(maps, labels, self.game, ties)
        moving = self.fill.random or self.fill.fill.reads_mask
        self.fixed = None if moving else self.fill(images, self.keys[:, 0])

    def _stream_keys(self, seed: int) -> tuple[Tensor, Tensor]:
        """Keys ``(N,)`` that decide ties, and ``(N, draws)`` of the fills; zeros where nothing is left to chance."""
        by_chance = self.fill.random or self.game.ties == "random" or type(self.game).order is not Game.order
        if not by_chance:
            none = torch.zeros(len(self.images), 1, dtype=torch.int64, device=self.images.device)
            return none[:, 0], none
        contents = streams.content_keys(self.images)
        purposes = [("ties",), *(("curve fill", draw) for draw in range(self.draws))]
        keys = [streams.image_keys(self.images, seed, *purpose, contents=contents) for purpose in purposes]
        return keys[0], torch.stack(keys[1:], dim=1)

    def run(self, progress: Progress) -> Curves:
        device, n_labels = self.images.device, self.labels.shape[1]
        counts = self.nodes.counts.to(device)
        values = torch.zeros(len(self.ranks), len(counts), n_labels, device=device, dtype=torch.float32)
        f, ends = self._ends()
        inner = []
        for step, count in enumerate(counts.tolist()):
            end = ends.get(self.game.all_shown(count, self.n))
            if end is None:
                inner.append(step)
            else:
                values[:, step] = end[self.image_of]
        job_map = torch.arange(len(self.ranks), device=device).repeat_interleave(len(inner))
        job_step = torch.tensor(inner, dtype=torch.long, device=device).repeat(len(self.ranks))
        image_of: list[int] = self.image_of.tolist()  # never falls: the images of jobs in a row are a slice
        safe = self.labels.clamp_min(0)

        with progress.task(self.game.name, len(job_map) * self.draws) as task:

            def run_jobs(start: int, stop: int) -> None:
                which, step = job_map[start:stop], job_step[start:stop]
                first, last = image_of[start // len(inner)], image_of[(stop - 1) // len(inner)]
                image, some = self.image_of[which], slice(first, last + 1)
                read = self._read(self.game.shown(self.ranks[which], counts[step, None]), image, some)
                values[which, step] = read.gather(1, safe[image])
                task.advance((stop - start) * self.draws)

            in_batches(
                run_jobs, len(job_map), self.classifier.batches[0], cost=self.draws, item="masked image"
            )
        return self._record(values, f, ends[True])

    def _read(self, keep: Tensor, image: Tensor, some: slice) -> Tensor:
        """What the game reads off ``(B, A)``, the mean over the draws of the fill, for keep-masks ``(B, n)`` of ``some`` images."""
        inputs = self.classifier.inputs
        x, mask = self.images[image], keep.view(-1, *inputs.positions)
        if self.fixed is not None:
            composite = inputs.composite(mask, x, self.fixed[image])
            return self.game.read(self.classifier, self.classifier(composite))
        x, mask = x.repeat_interleave(self.draws, 0), mask.repeat_interleave(self.draws, 0)
        composite = inputs.composite(mask, x, self._behind(x, mask, image, some))
        read = self.game.read(self.classifier, self.classifier(composite))
        return read.view(len(image), self.draws, -1).mean(dim=1)

    def _behind(self, x: Tensor, mask: Tensor, image: Tensor, some: slice) -> Tensor:
        """Every draw of the backgrounds ``(B * draws, *shape)``: drawn once for an image, unless it depends on what is shown."""
        if self.fill.fill.reads_mask:
            return self.fill.behind(x, self.keys[image].flatten(), mask)
        repeated = self.images[some].repeat_interleave(self.draws, 0)
        drawn = self.fill(repeated, self.keys[some].flatten())
        return drawn.view(-1, self.draws, *drawn.shape[1:])[image - some.start].flatten(0, 1)

    def _ends(self) -> tuple[Tensor, dict[bool | None, Tensor]]:
        """f(x, a) ``(N, L)``, and what is read off the whole image and off the fill alone: the same for every map."""
        safe = self.labels.clamp_min(0)
        logits = self.classifier.logits(self.images)
        f = self.classifier.log_f(logits).exp().gather(1, safe)
        whole = self.game.read(self.classifier, logits).gather(1, safe)
        nothing = torch.zeros(len(self.images), self.n, dtype=torch.bool, device=self.images.device)
        rows = in_batches(
            lambda a, b: self._read(nothing[a:b], torch.arange(a, b, device=nothing.device), slice(a, b)),
            len(nothing),
            self.classifier.batches[0],
            cost=self.draws,
        )
        return f, {True: whole, False: torch.cat(rows).gather(1, safe)}

    def _record(self, values: Tensor, f: Tensor, whole: Tensor) -> Curves:
        if not bool(values.isfinite().all()):
            raise InputError("the net returned NaN on a masked image; check its weights and preprocessing")
        none = self.labels == NO_LABEL
        column = torch.arange(self.labels.shape[1], device=values.device)
        own = values.transpose(1, 2)[self.map_of, column].masked_fill(none[..., None], torch.nan)
        # in float64 (on the CPU: not every device has it), so that sums over labels of one map are exact to float32
        weights, coarse = self.nodes.weights, self.nodes.coarse
        areas = torch.einsum("nls,s->nl", own.cpu().double(), weights)
        halves = torch.einsum("nls,s->nl", own.cpu().double(), coarse)
        cross = None
        if self.matrix:
            cross = torch.einsum("usb,s->ub", values.cpu().double(), weights).to(values)[self.map_of]
            cross = cross.masked_fill(none[:, :, None] | none[:, None, :], torch.nan)
        return Curves(
            game=self.game.name,
            labels=self.labels,
            f=f.masked_fill(none, torch.nan),
            counts=self.nodes.counts,
            positions=self.n,
            probabilities=own,
            auc=areas.to(own),
            error=(areas - halves).abs().to(own),
            matrix=cross,
            settings={**self.ready.record(), **_label_record(self.classifier)},
            whole=whole.masked_fill(none, torch.nan),
        )


def _label_record(classifier: Classifier) -> dict[str, object]:
    settings = classifier.settings()
    return {key: settings[key] for key in ("label_set", "renormalise", "outputs")}


def _distinct_ranks(maps: Tensor, labels: Tensor, game: Game, keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Ranks ``(U, n)`` of the distinct maps, the image of each ``(U,)``, and which one each label uses ``(N, L)``."""
    flat, (n_images, n_labels) = maps.flatten(0, 1), labels.shape
    chosen, signatures = (labels != NO_LABEL).tolist(), _signatures(flat)
    distinct: list[int] = []  # places in flat
    map_of = [[0] * n_labels for _ in range(n_images)]
    for i in range(n_images):
        first_of: dict[int, int] = {}  # signature -> slot of the first map that has it
        for j in range(n_labels):
            place = i * n_labels + j
            slot = first_of.get(signatures[place])
            if not chosen[i][j]:
                map_of[i][j] = map_of[i][0]
            elif slot is not None and torch.equal(flat[distinct[slot]], flat[place]):
                map_of[i][j] = slot
            else:
                map_of[i][j] = first_of[signatures[place]] = len(distinct)
                distinct.append(place)
    places = torch.tensor(distinct, dtype=torch.long, device=maps.device)
    image_of = places // n_labels
    ranks = [game.order(flat[some], keys[some // n_labels]) for some in places.split(_at_once(flat))]
    return torch.cat(ranks), image_of, torch.tensor(map_of, device=maps.device)


def _signatures(maps: Tensor) -> list[int]:
    """A 64-bit number per map that equal maps share; different maps almost never do."""
    odd = 2 * torch.arange(maps[0].numel(), device=maps.device) + 1
    found = [
        (some.flatten(1).float().contiguous().view(torch.int32).long() * odd).sum(dim=1)
        for some in maps.split(_at_once(maps))
    ]
    signatures: list[int] = torch.cat(found).tolist()
    return signatures


def _at_once(maps: Tensor) -> int:
    """How many maps ``(P, *positions)`` are ranked together: enough to fill a GPU, few enough for any memory."""
    return max(1, _VALUES_AT_ONCE // maps[0].numel())
