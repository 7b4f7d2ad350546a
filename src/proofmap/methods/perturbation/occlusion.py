"""Occlusion: slide a window over the input, hide what is under it, and measure what the label loses."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs
from proofmap.core.progress import Progress
from proofmap.methods.grids import enlarged
from proofmap.methods.method import METHODS
from proofmap.methods.perturbation.regions import MaskedNet, PerturbationMethod
from proofmap.plugins.settings import setting
from proofmap.session import Session


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
