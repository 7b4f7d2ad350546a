"""Integrated gradients: the change of the logit from a baseline to the image, shared out among the positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.batching import in_batches
from proofmap.core.progress import Progress, Task
from proofmap.fills import Fill, Gray
from proofmap.methods.gradients.baseline import DRAWS_HELP, BaselineMethod
from proofmap.methods.gradients.plain import CHANNELS_HELP, Channels
from proofmap.methods.gradients.points import Each, blocks, sums_over_points
from proofmap.methods.method import METHODS, Cost, Family, Need, ReadyMethod
from proofmap.methods.sum_rule import check_sums
from proofmap.plugins.settings import setting

Rule = Literal["gauss-legendre", "right", "middle"]


def path(rule: Rule, steps: int) -> tuple[Tensor, Tensor]:
    """Places t in [0, 1] and weights ``(steps,)``, so that sum w g(t) is the integral of g.

    >>> [values.tolist() for values in path("right", 2)]
    [[0.5, 1.0], [0.5, 0.5]]
    """
    if rule == "gauss-legendre":
        nodes, weights = np.polynomial.legendre.leggauss(steps)
        return torch.from_numpy((nodes + 1) / 2).float(), torch.from_numpy(weights / 2).float()
    places = (torch.arange(steps) + (1.0 if rule == "right" else 0.5)) / steps
    return places, torch.full((steps,), 1 / steps)


@METHODS.register
@dataclass(frozen=True, kw_only=True)
class IntegratedGradients(BaselineMethod):
    """(x - x') * integral over t in [0, 1] of d logit_a / d x at x' + t (x - x') (Sundararajan et al. 2017).

    x' is the baseline, any fill: ``gray`` (the mean colour, zero for the net), ``gray:color=0`` (black), ``blur``, ...; a random
    fill is drawn ``draws`` times and the maps averaged (expected gradients, Erion et al. 2021, with random images).
    Values are signed and add up to logit_a(x) - logit_a(x'); where they do not, too few steps were taken, and a
    :class:`~proofmap.methods.sum_rule.SumRuleWarning` says by how much.

    Presets: ``captum`` (the defaults: zero after normalisation, 50 Gauss-Legendre steps), ``sundararajan`` (black, a
    right Riemann sum of 300 steps, the most they say is needed).

    >>> IntegratedGradients.preset("sundararajan").title()
    'integrated-gradients:baseline=gray(color=0),steps=300,rule=right'
    """

    name: ClassVar[str] = "integrated-gradients"
    family: ClassVar[Family] = "gradients"
    reference: ClassVar[str] = "Sundararajan et al. 2017"
    description: ClassVar[str] = "gradients on the way from a baseline to the image, signed"
    needs: ClassVar[frozenset[Need]] = frozenset({"gradients"})
    signed = True
    shortcuts: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
        "preset": {
            "captum": {},
            "sundararajan": {"baseline": Gray(color=(0.0,)), "steps": 300, "rule": "right"},
        }
    }

    baseline: Fill = setting(Gray(), "where the way begins")
    steps: int = setting(50, "gradients on each way", least=1)
    rule: Rule = setting("gauss-legendre", "where they are taken: Gauss-Legendre, or equal steps")
    draws: int = setting(1, DRAWS_HELP, least=1)
    channels: Channels = setting("sum", CHANNELS_HELP)

    def cost(self, labels: int) -> Cost:
        return Cost(gradient=labels * self.steps * self.ways, forward=1 + self.ways)

    def make_maps(
        self, ready: ReadyMethod, images: Tensor, labels: Tensor, *, seed: int, progress: Progress
    ) -> Tensor:
        classifier, inputs = ready.classifier, ready.classifier.inputs
        keys, points = self.keys_of_ways(images, seed), self.steps * self.ways
        maps, sums, changes = [], [], []
        with progress.task(self.name, labels.numel() * points) as task:
            for some in blocks(len(images), classifier, points):
                x, a = images[some], labels[some]
                baselines = torch.stack([ready.state(x, key[some]) for key in keys], dim=1)
                values = self._values(classifier, x, baselines, a, task)
                maps.append(inputs.merged_channels(values, self.channels))
                sums.append(values.flatten(2).sum(dim=2))
                changes.append(_changes(classifier, x, baselines, a))
        advice = "take more steps, or another baseline"
        check_sums(self.name, torch.cat(sums), torch.cat(changes), labels, advice)
        return torch.cat(maps)

    def _values(
        self, classifier: Classifier, images: Tensor, baselines: Tensor, labels: Tensor, task: Task
    ) -> Tensor:
        """The integral times the difference, averaged over baselines ``(N, ways, *shape)``: ``(N, L, *shape)``."""
        places, weights = (values.to(images) for values in path(self.rule, self.steps))
        ones = [1] * (images.ndim - 1)

        def points(image: Tensor, point: Tensor) -> tuple[Tensor, Each]:
            step, start = point % self.steps, baselines[image, point // self.steps]
            way = images[image] - start
            share = (weights[step] / self.ways).view(-1, *ones)
            return start + places[step].view(-1, *ones) * way, lambda gradient: gradient * way * share

        return sums_over_points(classifier, labels, self.steps * self.ways, points, task)


@torch.no_grad()
def _changes(classifier: Classifier, images: Tensor, baselines: Tensor, labels: Tensor) -> Tensor:
    """logit_a(x) - mean logit_a(x'), ``(N, L)``."""
    fast, places = classifier.frozen(), labels.clamp_min(0)
    every = torch.cat([images[:, None], baselines], dim=1).flatten(0, 1)
    logits = torch.cat(in_batches(lambda a, b: fast(every[a:b]), len(every), fast.batches[0]))
    logits = logits.view(len(images), -1, logits.shape[1])
    return (logits[:, 0] - logits[:, 1:].mean(dim=1)).gather(1, places)
