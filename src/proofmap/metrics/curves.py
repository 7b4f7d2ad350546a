"""The insertion and deletion games: show the net the top s positions of a map (or hide them), for many s.

Each map is ranked once, on the device; all steps of all maps go through the net in full batches; a masked pass yields
every label's probability, so the label x label matrix costs nothing more; equal maps of one image are scored once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
from proofmap.core.ranking import Ties, rank
from proofmap.fills import Blur, Fill, Gray, make_fill
from proofmap.metrics.quadrature import Quadrature

Game = Literal["insertion", "deletion"]


@dataclass(frozen=True, kw_only=True)
class CurveSettings:
    """How a curve is drawn: the fill for hidden positions, the steps, the ties, the draws of a random fill."""

    fill: Fill = field(default_factory=Gray)
    quadrature: Quadrature = field(default_factory=Quadrature)
    ties: Ties = "index"
    draws: int = 10

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise InputError(f"draws must be at least 1, not {self.draws}")

    def prepare(self, classifier: Classifier) -> CurveSettings:
        """The same settings with a fill that is ready for this classifier."""
        return replace(self, fill=self.fill.prepare(classifier))

    def passes(self, positions: int) -> int:
        """Masked images that go through the net for one map; the ends, which all maps share, are not counted."""
        counts = self.quadrature.nodes(positions).counts
        inner = int(((counts > 0) & (counts < positions)).sum())
        return inner * (self.draws if self.fill.random else 1)

    def record(self) -> dict[str, object]:
        points, (low, high) = self.quadrature.points, self.quadrature.within
        draws = {"draws": self.draws} if self.fill.random else {}
        steps = {"points": points, "rule": self.quadrature.rule, "within": [low, high], "ties": self.ties}
        return {**self.fill.settings(), **steps, **draws}


PRESETS: Mapping[str, CurveSettings] = {
    "paper": CurveSettings(),
    "released": CurveSettings(quadrature=Quadrature(points=28, rule="right")),
    "rise": CurveSettings(fill=Blur(), quadrature=Quadrature(points=28, rule="trapezoid")),
    "restricted": CurveSettings(quadrature=Quadrature(points=32, within=(0.2, 0.6))),
}
"""``paper``: mean over all s, gray. ``released``: 28 points, right Riemann, gray. ``rise``: trapezoid, blur for
insertion (its deletion uses gray). ``restricted``: the paper's range 0.2 to 0.6."""


def curve_settings(preset: str | CurveSettings, game: Game = "insertion", **changes: Any) -> CurveSettings:
    """Settings from a preset's name, with changes; the fill may be given by name.

    >>> curve_settings("released", fill="blur").quadrature.points
    28
    """
    if isinstance(preset, str):
        if preset not in PRESETS:
            raise InputError(f"no curve preset is named {preset!r}; known are {', '.join(PRESETS)}")
        settings = PRESETS[preset]
        if preset == "rise" and game == "deletion":
            settings = replace(settings, fill=Gray())
    else:
        settings = preset
    if "fill" in changes:
        changes["fill"] = make_fill(changes["fill"])
    return replace(settings, **changes)


@dataclass(frozen=True)
class Curves:
    """Probabilities along the game, and their areas.

    ``probabilities`` is ``(N, L, S)`` at ``counts`` ``(S,)`` of ``positions``; ``auc`` and ``error`` are ``(N, L)``
    (``error``: how much the area changes when every second step is left out); ``matrix[i, a, b]`` is the area of
    label b under the map of label a. Places without a label hold NaN. ``f`` is f(x, a) on the whole image.
    """

    game: Game
    labels: Tensor
    f: Tensor
    counts: Tensor
    positions: int
    probabilities: Tensor
    auc: Tensor
    error: Tensor
    matrix: Tensor | None
    settings: dict[str, object]


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


@torch.no_grad()
def curves(
    game: Game,
    classifier: Classifier,
    images: Tensor,
    maps: Tensor,
    labels: Tensor,
    *,
    preset: str | CurveSettings = "paper",
    fill: str | Fill | None = None,
    points: int | Literal["all"] | None = None,
    within: tuple[float, float] | None = None,
    ties: Ties | None = None,
    draws: int | None = None,
    matrix: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Curves:
    """Play one game for maps ``(N, L, *positions)`` of labels ``(N, L)``; every option overrides the preset."""
    changes = {"fill": fill, "ties": ties, "draws": draws}
    settings = curve_settings(preset, game, **{k: v for k, v in changes.items() if v is not None})
    quadrature = settings.quadrature
    if points is not None:
        quadrature = replace(quadrature, points=points)
    if within is not None:
        quadrature = replace(quadrature, within=within)
    settings = replace(settings, quadrature=quadrature)

    images = classifier.check_images(images)
    labels = check_labels(
        labels.to(classifier.device), len(images), len(classifier.names), classifier.label_set
    )
    positions = tuple(images.shape[2:])
    maps = check_maps(maps.to(classifier.device), labels, positions)
    runner = _Runner(game, classifier, images, maps, labels, settings, matrix, seed)
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
        game: Game,
        classifier: Classifier,
        images: Tensor,
        maps: Tensor,
        labels: Tensor,
        settings: CurveSettings,
        matrix: bool,
        seed: int,
    ) -> None:
        settings = settings.prepare(classifier)
        self.game, self.classifier, self.images, self.labels = game, classifier, images, labels
        self.settings, self.matrix = settings, matrix
        self.positions = tuple(images.shape[2:])
        self.n = math.prod(self.positions)
        self.nodes = settings.quadrature.nodes(self.n)
        self.draws = settings.draws if settings.fill.random else 1
        ties = streams.image_keys(images, seed, "ties")
        self.ranks, self.image_of, self.map_of = _distinct_ranks(maps, labels, settings.ties, ties)
        draw_names = [streams.image_keys(images, seed, "curve fill", d) for d in range(self.draws)]
        self.keys = torch.stack(draw_names, dim=1)
        self.fixed = None if settings.fill.random else settings.fill(images, self.keys[:, 0])

    def run(self, progress: Progress) -> Curves:
        device, n_labels = self.images.device, self.labels.shape[1]
        counts = self.nodes.counts.to(device)
        inner = ((counts > 0) & (counts < self.n)).nonzero()[:, 0]
        job_map = torch.arange(len(self.ranks), device=device).repeat_interleave(len(inner))
        job_step = inner.repeat(len(self.ranks))
        shown = torch.zeros(len(self.ranks), len(counts), n_labels, device=device)
        f_whole, f_filled = self._ends()
        for step, count in enumerate(counts.tolist()):
            if count in (0, self.n):
                whole = (count == self.n) == (self.game == "insertion")
                shown[:, step] = (f_whole if whole else f_filled)[self.image_of]
        safe = self.labels.clamp_min(0)

        with progress.task(self.game, len(job_map) * self.draws) as task:

            def play(start: int, stop: int) -> None:
                which, step = job_map[start:stop], job_step[start:stop]
                image = self.image_of[which]
                keep = self.ranks[which] < counts[step, None]
                if self.game == "deletion":
                    keep = ~keep
                p = self._probabilities(keep, image)
                shown[which, step] = p.gather(1, safe[image])
                task.advance((stop - start) * self.draws)

            in_batches(play, len(job_map), self.classifier.batches[0], cost=self.draws, item="masked image")
        return self._record(shown, f_whole)

    def _probabilities(self, keep: Tensor, image: Tensor) -> Tensor:
        """Mean probability ``(B, A)`` over the draws of the fill, for keep-masks ``(B, n)``."""
        x = self.images[image]
        mask = keep.view(-1, 1, *self.positions)
        if self.fixed is not None:
            composite = torch.where(mask, x, self.fixed[image])
            return self.classifier.log_softmax(self.classifier(composite)).exp()
        x, mask = x.repeat_interleave(self.draws, 0), mask.repeat_interleave(self.draws, 0)
        composite = torch.where(mask, x, self.settings.fill(x, self.keys[image].flatten()))
        p = self.classifier.log_softmax(self.classifier(composite)).exp()
        return p.view(len(image), self.draws, -1).mean(dim=1)

    def _ends(self) -> tuple[Tensor, Tensor]:
        """f on the whole image and on the fill alone, ``(N, L)`` each: the same for every map of the image."""
        safe = self.labels.clamp_min(0)
        whole = self.classifier.probabilities(self.images).gather(1, safe)
        nothing = torch.zeros(len(self.images), self.n, dtype=torch.bool, device=self.images.device)
        rows = in_batches(
            lambda a, b: self._probabilities(nothing[a:b], torch.arange(a, b, device=nothing.device)),
            len(nothing),
            self.classifier.batches[0],
            cost=self.draws,
        )
        return whole, torch.cat(rows).gather(1, safe)

    def _record(self, shown: Tensor, f_whole: Tensor) -> Curves:
        if not bool(shown.isfinite().all()):
            raise InputError("the net returned NaN on a masked image; check its weights and preprocessing")
        none = self.labels == NO_LABEL
        column = torch.arange(self.labels.shape[1], device=shown.device)
        own = shown.transpose(1, 2)[self.map_of, column].masked_fill(none[..., None], torch.nan)
        # in float64 (on the CPU: not every device has it), so that sums over labels of one map are exact to float32
        weights, coarse = self.nodes.weights, self.nodes.coarse
        areas = torch.einsum("nls,s->nl", own.cpu().double(), weights)
        halves = torch.einsum("nls,s->nl", own.cpu().double(), coarse)
        cross = None
        if self.matrix:
            cross = torch.einsum("usb,s->ub", shown.cpu().double(), weights).to(shown)[self.map_of]
            cross = cross.masked_fill(none[:, :, None] | none[:, None, :], torch.nan)
        return Curves(
            game=self.game,
            labels=self.labels,
            f=f_whole.masked_fill(none, torch.nan),
            counts=self.nodes.counts,
            positions=self.n,
            probabilities=own,
            auc=areas.to(own),
            error=(areas - halves).abs().to(own),
            matrix=cross,
            settings={"game": self.game, **self.settings.record(), **_label_record(self.classifier)},
        )


def _label_record(classifier: Classifier) -> dict[str, object]:
    settings = classifier.settings()
    return {key: settings[key] for key in ("label_set", "renormalise")}


def _distinct_ranks(maps: Tensor, labels: Tensor, ties: Ties, keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Ranks ``(U, n)`` of the distinct maps, the image of each ``(U,)``, and which one each label uses ``(N, L)``."""
    rows: list[Tensor] = []
    image_of: list[int] = []
    map_of = torch.zeros(labels.shape, dtype=torch.long)
    for i, chosen in enumerate((labels != NO_LABEL).tolist()):
        first_of: dict[int, int] = {}  # signature -> slot of the first map that has it
        slots: list[int] = []
        for j, signature in enumerate(_signatures(maps[i])):
            twin = first_of.get(signature)
            if not chosen[j]:
                map_of[i, j] = map_of[i, 0]
            elif twin is not None and torch.equal(maps[i, twin], maps[i, j]):
                map_of[i, j] = map_of[i, twin]
            else:
                first_of[signature] = j
                map_of[i, j] = len(image_of)
                image_of.append(i)
                slots.append(j)
        rows.append(rank(maps[i, slots], ties=ties, keys=keys[i].expand(len(slots))))
    return torch.cat(rows), torch.tensor(image_of, device=maps.device), map_of.to(maps.device)


def _signatures(maps: Tensor) -> list[int]:
    """A 64-bit number per map that equal maps share; different maps almost never do."""
    bits = maps.flatten(1).float().contiguous().view(torch.int32).long()
    odd = 2 * torch.arange(bits.shape[1], device=maps.device) + 1
    signatures: list[int] = (bits * odd).sum(dim=1).tolist()
    return signatures
