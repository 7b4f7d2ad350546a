"""Fills for series that use the series itself: backwards in time, or shifted in time."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs, Series
from proofmap.fills.fill import FILLS, Fill, ReadyFill
from proofmap.plugins.settings import setting


@dataclass(frozen=True, kw_only=True)
class TimeFill(Fill):
    """A fill that has a meaning for series alone."""

    def prepare(self, classifier: Classifier) -> ReadyFill:
        inputs = classifier.inputs
        if not isinstance(inputs, Series):
            raise InputError(
                f"the fill {self.name} is for series, and the net takes {inputs.noun}; use one of {', '.join(inputs.fills)}"
            )
        return super().prepare(classifier)


@FILLS.register
class TimeReversal(TimeFill):
    """The series itself, backwards: the same values and the same spectrum, in another order."""

    name = "time-reversal"
    description = "the series itself, backwards in time"

    def backgrounds(self, images: Tensor, keys: Tensor, inputs: Inputs) -> Tensor:
        return images.flip(-1)


@FILLS.register
class TimeShift(TimeFill):
    """The series itself, shifted in time by a random number of steps; the end is continued by the beginning.

    The shift is drawn evenly between ``least`` and 1 - ``least`` of the length, so that no position shows nearly its own value.
    """

    name = "time-shift"
    description = "the series itself, moved in time by a drawn number of steps"
    random = True
    least: float = setting(0.125, "least shift, as a share of the length", least=0, most=0.5)

    def backgrounds(self, images: Tensor, keys: Tensor, inputs: Inputs) -> Tensor:
        length = images.shape[-1]
        draws = streams.uniform(keys, 1)[:, 0]
        shift = ((self.least + (1 - 2 * self.least) * draws) * length).round().long()
        steps = (torch.arange(length, device=images.device) - shift[:, None]) % length
        return images.gather(-1, steps[:, None].expand_as(images))
