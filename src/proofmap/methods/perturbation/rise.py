"""RISE and occlusion: the input is shown through random masks, or with a sliding window hidden.

RISE shows the input through many random masks; the value of a position is the mean of f over the masks that show the position.

    M_a(p) = E[ f(x * m, a) | m(p) ]  ~  sum_i f(x * m_i, a) m_i(p) / sum_i m_i(p)

m_i are N random masks. The paper divides by N E[m] instead of the sum of the masks (``coverage=false``). This is equal in expectation, but
noisier, because the number of times that each position was shown varies. Masks are made when they are needed and not kept.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs
from proofmap.core.labels import NO_LABEL
from proofmap.core.progress import Progress, ProgressTask
from proofmap.methods.grids import draw_order, enlarged
from proofmap.methods.method import METHODS
from proofmap.methods.perturbation.regions import MaskedNet, PerturbationMethod
from proofmap.plugins.settings import Shortcuts, setting
from proofmap.session import Session

_ROUND = 250
"""Number of masks between two checks whether a map has converged."""
_LEAST_ROUNDS = 2
_SUMS = 2**27
"""Maximum number of values in the sums of images that are processed together."""


@METHODS.register
class RISE(PerturbationMethod):
    """RISE (Petsiuk et al. 2018). A map is finished when two halves of its masks agree, or when all masks are used.

    Let r be the correlation over positions between the maps of the even and the odd masks. The map of all masks is then expected to
    correlate by 2 r / (1 + r) with the map of as many other masks (Spearman and Brown). The map is finished when this number is at least
    1 - ``tolerance``. Each label is checked separately, so a map does not depend on the other labels.

    Presets: ``fast`` (the defaults), ``paper`` (as printed, for ResNet-50), ``released`` (as in its notebook).
    """

    name = "rise"
    reference = "Petsiuk et al. 2018"
    description = "mean of random masks, each weighted by the net's answer to the masked input"
    shortcuts: ClassVar[Shortcuts] = {
        "preset": {
            "fast": {},
            "paper": {"masks": 8000, "tolerance": 0.0, "coverage": False},
            "released": {"masks": 6000, "grid": 8, "shown": 0.1, "tolerance": 0.0, "coverage": False},
        }
    }
    stochastic = True

    masks: int = setting(4000, "maximum number of masks for each image; all labels share them", least=2)
    grid: int = setting(7, "cells of a mask along each axis, before it is enlarged", least=1)
    shown: float = setting(0.5, "probability that a cell is shown", above=0, most=1)
    tolerance: float = setting(
        0.05, "stop when the map's expected correlation with a map of other masks is 1 - tolerance; 0: use all masks",
        least=0, most=1,
    )  # fmt: skip
    coverage: bool = setting(
        True,
        "divide each position's sum by how often it was shown; false: by the expected number, as in the paper",
    )

    def passes(self, inputs: Inputs, labels: int) -> int:
        return self.masks

    def explain(self, net: MaskedNet, progress: Progress) -> Tensor:
        n, labels = net.labels.shape
        together = max(1, _SUMS // (2 * (labels + 1) * net.inputs.count))
        with progress.task(self.name, n * self.masks) as task:
            parts = [self._explain(net, range(k, min(n, k + together)), task) for k in range(0, n, together)]
        return torch.cat(parts).view(n, labels, *net.inputs.positions)

    def _explain(self, net: MaskedNet, images: range, task: ProgressTask) -> Tensor:
        """Maps ``(n, L, positions)`` of the n images with indices in ``images``."""
        sums = _Sums(len(images), net.labels.shape[1], net.inputs.count, net.images.device)
        maps = torch.zeros_like(sums.weighted[:, 0])
        waiting = net.labels[images.start : images.stop] != NO_LABEL
        for done in range(0, self.masks, _ROUND):
            active, until = waiting.any(dim=1).nonzero()[:, 0], min(done + _ROUND, self.masks)
            if not len(active):
                break
            self._add_masks(net, images, active, range(done, until), sums, task)
            expected = None if self.coverage else self.shown * until
            ends = torch.full_like(waiting, until == self.masks)
            if self.tolerance > 0 and until >= min(_LEAST_ROUNDS * _ROUND, self.masks):
                ends[active] |= disagreement(sums.halves(active, expected)) <= self.tolerance
            ends &= waiting
            for image in ends.any(dim=1).nonzero()[:, 0].tolist():
                maps[image, ends[image]] = sums.maps(image, expected)[ends[image]]
            waiting &= ~ends
            task.advance(int((~waiting[active].any(dim=1)).sum()) * (self.masks - until))
        return maps

    def _add_masks(
        self, net: MaskedNet, images: range, active: Tensor, samples: range, sums: _Sums, task: ProgressTask
    ) -> None:
        """Add the masks with the indices ``samples`` to the sums of the active images.

        Masks are made twice, once for the net and once for the sums, so that only the masks of one batch or one image are in memory.
        """
        numbers = torch.arange(samples.start, samples.stop, device=active.device)

        def masks(image: Tensor, sample: Tensor) -> Tensor:
            return self.random_masks(net.sample_keys(image, sample), net.inputs)

        image, sample = (active + images.start).repeat_interleave(len(numbers)), numbers.repeat(len(active))
        values = net.read(image, sample, masks, task).view(len(active), len(numbers), -1)
        for k, place in enumerate(active.tolist()):
            own = masks(torch.full_like(numbers, images.start + place), numbers).flatten(1)
            sums.add(place, values[k], own, begins=samples.start == 0)

    def random_masks(self, keys: Tensor, inputs: Inputs) -> Tensor:
        """One random mask ``(B, *positions)`` for each key ``(B,)``. A small grid of zeros and ones is enlarged linearly to one cell more than
        the input, and cropped at a random place in the first cell. Columns of a table are shown or hidden one by one.
        """
        if not inputs.has_neighbours:
            return (streams.uniform(keys, inputs.count) < self.shown).float().view(-1, *inputs.positions)
        grid = [min(self.grid, side) for side in inputs.positions]
        cells, draws = math.prod(grid), draw_order(len(grid))
        masks = (streams.uniform(keys, cells) < self.shown).float().view(-1, *grid)
        for axis, (few, side) in enumerate(zip(grid, inputs.positions, strict=True)):
            cell = math.ceil(side / few)
            shift = streams.integers(keys, 1, cell, start=cells + draws[axis])
            place = torch.arange(side, device=keys.device) + shift + 0.5  # (B, side), on the enlarged grid
            source = (place * (few / ((few + 1) * cell)) - 0.5).clamp(0, few - 1)
            weights = (1 - (source[..., None] - torch.arange(few, device=keys.device)).abs()).clamp_min(0)
            moved = masks.movedim(1 + axis, 1)
            wide = weights @ moved.reshape(len(keys), few, -1)
            masks = wide.view(len(keys), side, *moved.shape[2:]).movedim(1, 1 + axis)
        return masks


class _Sums:
    """For each image, the sums of m and of v m over the masks m, separately for even and odd indices. v is the net's value under m minus its
    value under the first mask, so constant values give zeros.
    """

    def __init__(self, images: int, labels: int, positions: int, device: torch.device) -> None:
        self.weighted = torch.zeros(images, 2, labels, positions, device=device)
        self.shown = torch.zeros(images, 2, 1, positions, device=device)
        self.first = torch.zeros(images, 1, labels, 1, device=device)

    def add(self, image: int, values: Tensor, masks: Tensor, *, begins: bool) -> None:
        """Add values ``(B, L)`` under masks ``(B, positions)`` to the sums of one image. The first of these masks has an even index. It is the
        first mask of the image if ``begins``.
        """
        if begins:
            self.first[image, 0, :, 0] = values[0]
        values = values - self.first[image, 0, :, 0]
        for half in (0, 1):
            self.weighted[image, half].addmm_(values[half::2].T, masks[half::2])
            self.shown[image, half, 0] += masks[half::2].sum(dim=0)

    def maps(self, image: int, expected: float | None) -> Tensor:
        """Maps ``(L, positions)`` of one image. ``expected`` is the expected sum of the masks, to divide by; None divides by the actual sum."""
        weighted, shown = self.weighted[image].sum(dim=0), self.shown[image].sum(dim=0)
        return _estimate(weighted, shown, self.first[image, 0], expected)

    def halves(self, images: Tensor, expected: float | None) -> Tensor:
        """The maps ``(n, L, 2, positions)`` of the even and of the odd masks."""
        half = None if expected is None else expected / 2
        found = _estimate(self.weighted[images], self.shown[images], self.first[images], half)
        return found.transpose(1, 2)


def _estimate(weighted: Tensor, shown: Tensor, first: Tensor, expected: float | None) -> Tensor:
    if expected is None:
        return first + weighted / shown.clamp_min(1e-6)
    return (weighted + first * shown) / expected


def disagreement(halves: Tensor) -> Tensor:
    """The number 1 - 2 r / (1 + r) ``(...)``, where r is the correlation of the two maps in ``halves`` ``(..., 2, positions)``; 0 if both are
    constant.

    >>> maps = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 4.0]])
    >>> round(disagreement(maps).item(), 3), disagreement(torch.ones(2, 3)).item()
    (0.009, 0.0)
    """
    centred = halves - halves.mean(dim=-1, keepdim=True)
    largest = centred.abs().amax(dim=-1, keepdim=True)
    constant = (largest == 0).squeeze(-1)
    # squares of unlikely labels' values would vanish
    centred = centred / largest.masked_fill(largest == 0, 1.0)
    spread = centred.square().sum(dim=-1).prod(dim=-1).sqrt()
    r = (centred.prod(dim=-2).sum(dim=-1) / spread.masked_fill(constant.any(dim=-1), 1.0)).clamp(0, 1)
    r = r.masked_fill(constant.all(dim=-1), 1.0)
    return 1 - 2 * r / (1 + r)


@METHODS.register
class Occlusion(PerturbationMethod):
    """What the label loses if a sliding window w is hidden (Zeiler and Fergus 2014): M_a(p) = mean over the windows w that cover p of f(x,
    a) - f(x with w hidden, a).

    Windows start at multiples of the stride; those that cross the border are cropped there. Captum's ``Occlusion`` computes the same. The
    columns of a table have no neighbours, so each column is hidden alone.
    """

    name = "occlusion"
    reference = "Zeiler and Fergus 2014"
    description = "what the label loses when a sliding window is hidden"
    signed = True

    window: int | None = setting(
        None, "side of the window in positions; none: an eighth of the longest side", least=1
    )
    stride: int | None = setting(
        None, "positions from one window to the next; none: half the window", least=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window is not None:
            self._check_stride(self.window)

    def _check_stride(self, window: int) -> None:
        if self.stride is not None and self.stride > window:
            raise InputError(
                f"stride must be at most the window, {window}, or positions between two windows are never hidden; "
                f"not {self.stride}"
            )

    def prepare(self, session: Session) -> None:
        super().prepare(session)
        if session.inputs.has_neighbours:
            self._check_stride(self.sides(session.inputs)[0])

    def sides(self, inputs: Inputs) -> tuple[int, int]:
        """The side of the window and the stride for these inputs, in positions."""
        if not inputs.has_neighbours:
            if (self.window or 1) > 1:
                raise InputError(
                    f"the {inputs.position_noun} of {inputs.noun} are hidden one at a time: leave window out"
                )
            return 1, 1
        window = self.window or math.ceil(max(inputs.positions) / 8)
        return window, min(self.stride or math.ceil(window / 2), window)

    def starts(self, inputs: Inputs) -> list[range]:
        """For each axis, the positions at which windows start."""
        window, stride = self.sides(inputs)
        return [range(0, max(1, side - window + stride), stride) for side in inputs.positions]

    def passes(self, inputs: Inputs, labels: int) -> int:
        return 1 + math.prod(map(len, self.starts(inputs)))

    def explain(self, net: MaskedNet, progress: Progress) -> Tensor:
        inputs, device = net.inputs, net.images.device
        window, _ = self.sides(inputs)
        starts = self.starts(inputs)
        inside = []  # (windows, side) along each axis
        for places, side in zip(starts, inputs.positions, strict=True):
            start, line = (
                torch.tensor(list(places), device=device)[:, None],
                torch.arange(side, device=device),
            )
            inside.append((line >= start) & (line < start + window))
        count = math.prod(map(len, starts))

        def masks(image: Tensor, sample: Tensor) -> Tensor:
            # the last sample hides nothing
            hidden, rest = (sample < count).view(-1, *[1] * len(inside)), sample
            for axis in reversed(range(len(inside))):
                own = inside[axis][rest % len(inside[axis])]
                hidden = hidden & own.view(len(own), *[-1 if k == axis else 1 for k in range(len(inside))])
                rest = rest // len(inside[axis])
            return ~hidden

        values = net.samples(count + 1, masks, progress)
        lost = (values[:, -1:] - values[:, :-1]).transpose(1, 2).reshape(*net.labels.shape, *map(len, starts))
        covered = [axis.T.to(lost) for axis in inside]
        return enlarged(lost, covered) / enlarged(torch.ones_like(lost[:1, :1]), covered)
