"""Maps made worse in known steps, without a pass of the net.

A step changes only the *order* of positions. The values of the map stay the same and are placed again, so that metrics which read values see no
other difference. A map with equal values, which would lose a part of a new order, gets evenly spaced values first (``kept``). With h(p) = 1 - rank(p) / n in (0, 1], the height of a position p:

    shuffled t      a share t of the positions, drawn at random, exchange their heights in a circle; a larger share contains the smaller
    shifted c       h moved by c cells along every axis; the first heights of each axis are repeated
    blurred c       h blurred by a Gaussian with a standard deviation of c cells, edges repeated
    noise t         (1 - t) h + t u,   u uniform in [0, 1)
    other label     h of the image's next label
    other image     h of the same label of the next image; if inputs differ in length, stretched
    into t          the blind positions of a share t, drawn at random, before all others

A cell is 1/56 of the longest side, and at least one position. ``into`` is for a net that sees nothing in the blind half. There the curve of a game
depends only on the *seen* positions that are shown, so ``into`` does not change their order: it only delays the curve. If m of n positions are moved
from a place where the insertion curve is p, the area changes by (f(fill) - p) m / n, which is a loss wherever the map had proved anything.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from proofmap.core import streams
from proofmap.core.inputs import Inputs
from proofmap.core.labels import NO_LABEL
from proofmap.core.ranking import rank
from proofmap.methods.grids import enlarged, smoothing

CELLS = 56


@dataclass(frozen=True)
class Step:
    """One change of a map: its kind and its size, which is a share or a number of cells."""

    kind: str
    size: float = 1.0

    def __str__(self) -> str:
        """Such as ``shuffled 20 %`` or ``blurred 8 cells``."""
        if self.kind == "kept" or self.kind.startswith("other"):
            return self.kind
        if self.kind in ("blurred", "shifted"):
            return f"{self.kind} {self.size:g} {'cell' if self.size == 1 else 'cells'}"
        return f"{self.kind} {100 * self.size:g} %"


KEPT = Step("kept")
LADDER = (
    *(Step("shuffled", share) for share in (0.05, 0.1, 0.2, 0.4, 0.8)),
    Step("shifted", 8),
    Step("blurred", 8),
    Step("noise", 0.5),
    Step("other label"),
    Step("other image"),
)
DETAIL = (Step("blurred", 0.5), Step("blurred", 1), Step("blurred", 2), Step("shifted", 0.5))
BLIND = tuple(Step("into", share) for share in (0.25, 0.5, 1.0))


class Places:
    """The maps ``(N, L, *positions)`` of one block of images and labels ``(N, L)``, all of whose inputs have ``n`` positions or fewer."""

    def __init__(self, inputs: Inputs, images: Tensor, labels: Tensor, maps: Tensor, seed: int) -> None:
        self.inputs, self.labels, self.maps = inputs, labels, maps
        pairs = [(i, int(a)) for i, row in enumerate(labels.tolist()) for a in row]
        self.keys = streams.pair_keys(images, pairs, seed, "validation")
        lengths = inputs.lengths(images)
        self.lengths = torch.full_like(labels[:, 0], inputs.count) if lengths is None else lengths

    def after(self, step: Step, blind: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The maps ``(N, L, *positions)`` after a step, and for which images ``(N,)`` the step exists. ``blind`` ``(*positions)`` is the half that
        ``into`` is about."""
        found, there = self.maps.clone(), torch.zeros(len(self.maps), dtype=torch.bool)
        for n in self.lengths.unique().tolist():
            own = (self.lengths == n).nonzero()[:, 0]
            whole = n == self.inputs.count
            maps = self.maps[own] if whole else self.maps[own][..., :n]
            half = blind if blind is None or whole else blind[:n]
            height = self._height(step, own, maps, half)
            if height is not None:
                placed = reordered(maps.flatten(0, 1), height).view(maps.shape)
                if whole:
                    found[own] = placed
                else:
                    found[own, ..., :n] = placed
                enough = (self.labels[own] != NO_LABEL).sum(dim=1) > 1
                there[own.cpu()] = enough.cpu() if step.kind == "other label" else True
        changed = (
            (found != self.maps).flatten(1).any(dim=1).cpu()
        )  # two labels may have one map, which is not worse
        return found, there & (changed | (step.kind == "kept"))

    def _height(self, step: Step, own: Tensor, maps: Tensor, blind: Tensor | None) -> Tensor | None:
        """New heights ``(P, n)`` of the images with the indices ``own``; None if the step does not exist for them."""
        n, width = maps[0, 0].numel(), self.labels.shape[1]
        height = heights(maps.flatten(0, 1))
        keys = self.keys.view(-1, width)[own].flatten()
        if step.kind == "kept":
            return height
        if step.kind == "shuffled":
            chosen = streams.permutations(keys, n)[:, : round(step.size * n)]
            return _circled(height, chosen) if chosen.shape[1] > 1 else None
        if step.kind in ("shifted", "blurred"):
            if not self.inputs.has_neighbours:
                return None
            return (shifted if step.kind == "shifted" else blurred)(
                height.view(-1, *maps.shape[2:]), step.size
            )
        if step.kind == "noise":
            return (1 - step.size) * height + step.size * streams.uniform(keys, n)
        if step.kind == "into" and blind is not None:
            return height + 2.0 * ((streams.uniform(keys, n) < step.size) & blind.flatten().to(height.device))
        if step.kind == "other label":
            count = (self.labels[own] != NO_LABEL).sum(dim=1, keepdim=True).clamp_min(1)
            next_one = (torch.arange(width, device=own.device) + 1) % count
            return (
                height.view(len(own), width, n).gather(1, next_one[..., None].expand(-1, -1, n)).flatten(0, 1)
            )
        if len(self.maps) < 2:
            return None
        others = (own + 1) % len(self.maps)
        return torch.cat([self._stretched(int(other), maps.shape[2:]) for other in others])

    def _stretched(self, image: int, positions: torch.Size) -> Tensor:
        """The heights ``(L, n)`` of another image's maps, on the grid of inputs with these positions."""
        maps, n = self.maps[image], int(self.lengths[image])
        if n == self.inputs.count and positions == maps.shape[1:]:
            return heights(maps)
        at = (torch.arange(positions[0], device=maps.device) * n) // positions[0]
        return heights(maps[..., :n])[:, at]


def heights(maps: Tensor) -> Tensor:
    """1 - rank / n of each position, ``(P, n)``, of maps ``(P, *positions)``.

    >>> heights(torch.tensor([[0.1, 0.9, 0.5, 0.3]]))
    tensor([[0.2500, 1.0000, 0.7500, 0.5000]])
    """
    ranks = rank(maps)
    return 1 - ranks.float() / ranks.shape[1]


def reordered(maps: Tensor, height: Tensor) -> Tensor:
    """The values of maps ``(P, *positions)``, placed in the order of ``height``, of which the largest gets the largest value. If a map has
    equal values, its values are replaced by evenly spaced ones.

    >>> reordered(torch.tensor([[5.0, 7.0, 6.0]]), torch.tensor([[0.1, 0.2, 0.9]]))
    tensor([[5., 6., 7.]])
    """
    values = maps.flatten(1).sort(dim=1, descending=True).values
    high, low = values[:, :1], values[:, -1:]
    spaced = torch.linspace(1, 0, values.shape[1], device=values.device)
    even = low + (high - low).where(high > low, 1.0) * spaced
    values = even.where((values.diff(dim=1) == 0).any(dim=1, keepdim=True), values)
    return values.gather(1, rank(height.view(len(maps), -1)).long()).view(maps.shape)


def shifted(height: Tensor, cells: float) -> Tensor:
    """Heights ``(P, *positions)`` moved by a number of cells along every axis, at least by one position; the first ones are repeated."""
    by = max(1, round(cells * max(height.shape[1:]) / CELLS))
    for axis in range(1, height.ndim):
        places = torch.arange(height.shape[axis], device=height.device)
        height = height.index_select(axis, (places - by).clamp_min(0))
    return height


def blurred(height: Tensor, cells: float) -> Tensor:
    """Heights ``(P, *positions)`` blurred by a Gaussian, whose standard deviation is a number of cells."""
    sigma = cells * max(max(height.shape[1:]) / CELLS, 1.0)
    return enlarged(height, [smoothing(side, sigma, device=height.device) for side in height.shape[1:]])


def _circled(height: Tensor, chosen: Tensor) -> Tensor:
    """Heights ``(P, n)`` in which the positions ``chosen`` ``(P, k)`` pass theirs on in a circle."""
    return height.scatter(1, chosen, height.gather(1, chosen.roll(1, dims=1)))
