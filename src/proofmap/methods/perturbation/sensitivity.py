"""Two measures of how much the net's values vary with each cell of a grid: Sobol' indices and HSIC.

Both use quasi-random masks on a small grid: points of a Sobol' sequence. All points of an image are shifted (modulo 1) by the same random
amount, so they stay evenly spread. The values of the cells are enlarged linearly to a map.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Literal

import torch
from torch import Tensor

from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs
from proofmap.core.progress import Progress
from proofmap.methods.grids import enlarged, upsamplings
from proofmap.methods.method import METHODS
from proofmap.methods.perturbation.passes import MaskedNet, PerturbationMethod
from proofmap.methods.perturbation.regions import Regions, exact, grid_regions
from proofmap.plugins.settings import Shortcuts, setting

Bandwidth = Literal["median", "distances"]

_ROUNDING = 1e-6
"""Relative difference that is due to rounding between the net's values for the same input in batches of other sizes."""


@dataclass(frozen=True, kw_only=True)
class SensitivityMethod(PerturbationMethod):
    """Base class of methods that compute one value per cell of a grid; the values are enlarged to a map."""

    stochastic = True
    grid: int = setting(8, "cells along each axis; each column of a table is a cell", least=1)

    def cells(self, inputs: Inputs) -> list[int]:
        return [min(self.grid, side) if inputs.has_neighbours else side for side in inputs.positions]

    def explain(self, net: MaskedNet, progress: Progress) -> Tensor:
        inputs, cells = net.inputs, self.cells(net.inputs)
        values = self.values(net, grid_regions(net.images, inputs, cells), progress)
        up = upsamplings(cells, inputs.positions, device=values.device)
        return enlarged(values.view(*net.labels.shape, *cells), up)

    def values(self, net: MaskedNet, regions: Regions, progress: Progress) -> Tensor:
        """The values ``(N, L, cells)`` of all cells for each image and label."""
        raise NotImplementedError


def quasi_random(net: MaskedNet, points: int, dimension: int) -> Tensor:
    """Points ``(N, points, dimension)`` in [0, 1) for each image: a Sobol' sequence, shifted by a random amount for each image."""
    most = torch.quasirandom.SobolEngine.MAXDIM
    if dimension > most:
        raise InputError(
            f"{net.name} needs {dimension} random numbers per point for this grid, and at most {most} are possible; "
            "lower grid, or use another method"
        )
    sequence = _sobol_sequence(points, dimension).to(net.images.device)
    return (sequence + streams.uniform(net.keys, dimension)[:, None]) % 1.0


@cache
def _sobol_sequence(points: int, dimension: int) -> Tensor:
    return torch.quasirandom.SobolEngine(dimension).draw(points)


@METHODS.register
class Sobol(SensitivityMethod):
    """Total Sobol' indices (Fel et al. 2021), by Jansen's estimator: the share of the variance in which cell i is involved,

        S_i = mean over j of (f(A_j) - f(C_ij))^2 / (2 var f(A)),      C_i = A with cell i from B

    for masks A and B with values in [0, 1], ``designs`` of each. C_ij is mask A_j with the value of cell i taken from B_j. The indices are
    zero for a net whose values are constant.
    """

    name = "sobol"
    reference = "Fel et al. 2021"
    description = "total Sobol' indices: the share of the variance that a cell has a part in"

    designs: int = setting(
        32, "number of masks in each of the two random designs; powers of two are spread most evenly", least=2
    )

    def passes(self, inputs: Inputs, labels: int) -> int:
        return self.designs * (math.prod(self.cells(inputs)) + 1)

    def values(self, net: MaskedNet, regions: Regions, progress: Progress) -> Tensor:
        count, designs = regions.count, self.designs
        a, b = quasi_random(net, designs, 2 * count).split(count, dim=2)
        cells = torch.arange(count, device=a.device)

        def shown(image: Tensor, sample: Tensor) -> Tensor:
            point, changed = sample // (count + 1), sample % (count + 1)  # the last one is A itself
            from_b = cells == changed[:, None]
            return torch.where(from_b, b[image, point], a[image, point])

        def draw(sample: Tensor) -> Tensor:
            return sample // (count + 1)  # A and its changes see the same fill

        found = net.samples(designs * (count + 1), regions.masks(shown), progress, draw=draw)
        found = found.view(len(found), designs, count + 1, -1)
        return jansen(found[:, :, -1], found[:, :, :-1])


def jansen(a: Tensor, c: Tensor) -> Tensor:
    """Total indices ``(N, L, cells)`` from the net's values for A ``(N, designs, L)`` and for C ``(N, designs, cells, L)``.

    The indices are zero if f(A) varies by no more than rounding. They are computed in double precision, which the squares of an unlikely
    label's values need.
    """
    dtype, a, c = a.dtype, exact(a), exact(c)
    variance = a.var(dim=1)[:, None]  # (N, 1, L)
    part = (a[:, :, None] - c).square().mean(dim=1) / 2
    varies = variance > (_ROUNDING * a.abs().amax(dim=1)[:, None]).square()
    return torch.where(varies, part / variance.where(varies, 1.0), 0.0).transpose(1, 2).to(dtype)


@METHODS.register
class HSIC(SensitivityMethod):
    """The Hilbert-Schmidt independence criterion between a cell being shown and the net's values (Novello et al. 2022):

        HSIC_i = tr(K_i H L H) / (n - 1)^2,    K_i(z, z') = 1/2 - (z_i - z'_i)^2,    L(y, y') = exp(-(y - y')^2 / (2 h^2))

    for n masks z and the net's values y; H is the matrix that subtracts the mean. Masks are zeros and ones; each cell is shown with
    probability 1/2. The bandwidth h is the median of the net's values, as in the paper; for logits the median of distances fits better.

    Presets: ``fast`` (the defaults, those of the authors' library), ``paper`` (7 x 7 cells, 1500 masks).
    """

    name = "hsic"
    reference = "Novello et al. 2022"
    description = "how much what the net says depends on a cell being shown"
    shortcuts: ClassVar[Shortcuts] = {"preset": {"fast": {}, "paper": {"grid": 7, "samples": 1500}}}

    samples: int = setting(500, "masks for each image; all labels share them", least=2)
    bandwidth: Bandwidth = setting(
        "median",
        "width of the kernel on the net's values: their median, or the median of the distances between them",
    )

    def passes(self, inputs: Inputs, labels: int) -> int:
        return self.samples

    def values(self, net: MaskedNet, regions: Regions, progress: Progress) -> Tensor:
        shown = quasi_random(net, self.samples, regions.count) < 0.5
        masks = regions.masks(lambda image, sample: shown[image, sample])
        found = net.samples(self.samples, masks, progress)
        # K_i = s s' / 2 with s = 2 z_i - 1, but for a constant that H removes: a quadratic form, without the matrix K_i
        signs = 2 * shown.to(found.dtype) - 1
        rows = [
            [self._dependence(signs[i], found[i, :, j]) for j in range(found.shape[2])]
            for i in range(len(found))
        ]
        return torch.stack([torch.stack(row) for row in rows])

    def _dependence(self, signs: Tensor, values: Tensor) -> Tensor:
        """HSIC ``(cells,)`` between each cell and one label's values ``(n,)``. ``signs`` ``(n, cells)`` is 1 where a mask shows the cell, else
        -1.
        """
        distances = (values[:, None] - values).abs()
        width = values.median().abs() if self.bandwidth == "median" else distances.median()
        kernel = torch.exp(-0.5 * (distances / width.clamp_min(torch.finfo(values.dtype).tiny)) ** 2)
        centred = signs - signs.mean(dim=0)
        quadratic = (centred * (kernel @ centred)).sum(dim=0)
        return quadratic.clamp_min(0) / (2 * (len(values) - 1) ** 2)
