"""Metrics of Captum: infidelity and sensitivity of Yeh et al., computed by ``captum.metrics``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from proofmap.core import streams
from proofmap.core.errors import require
from proofmap.core.labels import NO_LABEL
from proofmap.core.tensors import exact
from proofmap.methods.method import Cost
from proofmap.metrics.judged import Judged
from proofmap.metrics.metric import METRICS, Metric
from proofmap.plugins.settings import setting


class _OfCaptum(Metric):
    """A metric of ``captum.metrics`` for the first label of each image; lower is better."""

    reference = "Yeh et al. 2019, by captum.metrics"
    higher_is_better = False
    limits = (0.0, float("inf"))
    reads = "first"
    samples: int = setting(10, "perturbed inputs for each image", least=1)

    def pairs(self, judged: Judged) -> Tensor:
        there = require("captum.metrics", extra="captum", purpose=f"the metric {self.name}")
        keys = judged.keys((self.name,))
        found = torch.full(judged.labels.shape, torch.nan, device=judged.labels.device)
        for i, k in (judged.labels != NO_LABEL).nonzero().tolist():
            found[i, k] = self.of_one(there, judged, i, k, keys[i])
        return found

    def of_one(self, there: Any, judged: Judged, i: int, k: int, key: Tensor) -> Tensor:
        """The value of image ``i`` and its label ``k``; random numbers are drawn from ``key``."""
        raise NotImplementedError


@METRICS.register
class CaptumInfidelity(_OfCaptum):
    """Whether the map predicts what hiding positions changes in the label's logit z:

        mean over I of (sum over p of I_p beta M_p  -  (z(x) - z(x with I hidden)))^2

    I hides each position with probability 1/2 behind the baseline, which is what the fill gray shows. beta is the factor that makes the
    value least (Captum's ``normalize=True``), as maps have no unit.
    """

    name = "captum-infidelity"
    description = "Captum's infidelity: does the map predict how hiding random positions changes the logit?"

    def cost(self, labels: int, method: Cost | None) -> Cost | None:
        return Cost(forward=self.samples + 1)

    def of_one(self, there: Any, judged: Judged, i: int, k: int, key: Tensor) -> Tensor:
        image, map_, inputs = judged.images[i : i + 1], exact(judged.maps[i, k][None]), judged.inputs
        blank = inputs.blank_like(image)
        chance = streams.uniform(key.expand(1), self.samples * inputs.count)
        hidden = (chance < 0.5).to(map_).view(self.samples, *inputs.positions)

        def logit(kept: Tensor) -> Tensor:
            shown = inputs.composite(kept > 0.5, image, blank)
            return judged.classifier.logits(shown)[:, int(judged.labels[i, k])].to(map_)

        found: Tensor = there.infidelity(
            logit,
            lambda kept: (hidden, kept - hidden),
            torch.ones_like(map_),
            map_,
            n_perturb_samples=self.samples,
            normalize=True,
        )
        return found[0].clamp_min(0)  # a difference of sums, rounded


@METRICS.register
class CaptumSensitivity(_OfCaptum):
    """How much the map changes, at most, relative to its length, if each value of the input moves by up to ``radius``. The method is run again
    for each of the ``samples`` moved inputs.
    """

    name = "captum-sensitivity"
    description = "Captum's max-sensitivity: how much the map changes if the input moves a little"
    radius: float = setting(0.02, "the most that a value of the input moves, in the units of images", above=0)

    def cost(self, labels: int, method: Cost | None) -> Cost | None:
        return None if method is None else method * (self.samples + 1)

    def of_one(self, there: Any, judged: Judged, i: int, k: int, key: Tensor) -> Tensor:
        image, inputs = judged.images[i : i + 1], judged.inputs
        chance = streams.uniform(key.expand(1), self.samples * image.numel()).view(-1, *image.shape[1:])
        moved = image + self.radius * (2 * chance - 1) * inputs.varied(image)
        moved = moved if inputs.limits is None else moved.clamp(*inputs.limits)

        def explained(x: Any) -> Tensor:
            some = x[0] if isinstance(x, tuple) else x
            return judged.maps_again(some, judged.labels[i : i + 1, k : k + 1].expand(len(some), 1))

        found: Tensor = there.sensitivity_max(
            explained, image, lambda x: moved, n_perturb_samples=self.samples
        )
        return found[0]
