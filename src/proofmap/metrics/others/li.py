"""Soundness and completeness of Li et al.: is what a map marks predictive, and is what is predictive marked?

Both are about one label and about the values of a map, not about other labels. Their released code is where the papers' words
leave a choice; it averages over a data set what is given here for each image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from proofmap.core import streams
from proofmap.core.batching import in_batches
from proofmap.core.labels import NO_LABEL
from proofmap.fills import Fill, Gray
from proofmap.methods.method import Cost
from proofmap.methods.perturbation.regions import exact
from proofmap.metrics.areas import GameMetric
from proofmap.metrics.context import Judged
from proofmap.metrics.metric import METRICS, Metric
from proofmap.plugins.settings import setting

REFERENCE = "Li, Zhang, Kawaguchi, Khakzar, Bischl and Rezaei, TMLR 2024"


@METRICS.register
@dataclass(frozen=True, kw_only=True)
class LiSoundness(GameMetric):
    """The share of the attribution shown that raised the label, while the map's top positions are shown step by step:

        mean over steps i of  (A_i - F_i) / A_i,      F_i = sum of (A_j - A_j-1) over the steps j < i with p_j - p_j-1 <= threshold,

    where A_i is the sum of the map (its part above zero) over the positions shown at step i, and p_i = f then, p_0 = 0.
    The value of an image is that of its first label. NaN for a map without attribution. ``curve=road`` imputes as the authors do.
    """

    name: ClassVar[str] = "li-soundness"
    kind: ClassVar[str] = "li-soundness"
    higher_is_better: ClassVar[bool] = True
    limits: ClassVar[tuple[float, float]] = (0.0, 1.0)
    description: ClassVar[str] = "share of the attribution shown that raised the label (Li et al.: one label)"
    reference: ClassVar[str] = REFERENCE
    threshold: float = setting(0.01, "a step that raises f by no more counts as false", least=0, most=1)

    def pairs(self, judged: Judged) -> Tensor:
        curves = self.curves(judged)
        there = curves.counts > 0
        counts, p = curves.counts[there].to(judged.maps.device), curves.probabilities[..., there]
        shown = exact(_positive(judged.maps).sort(dim=2, descending=True).values).cumsum(dim=2)
        shown = shown[..., counts - 1]  # (N, L, S)
        none = torch.zeros_like(shown[..., :1])
        added = shown - torch.cat([none, shown[..., :-1]], dim=2)
        rise = p - torch.cat([torch.zeros_like(p[..., :1]), p[..., :-1]], dim=2)
        false = torch.where(rise <= self.threshold, added, 0.0).cumsum(dim=2)
        before = torch.cat([none, false[..., :-1]], dim=2)
        ratio = ((shown - before) / shown).mean(dim=2)  # 0 / 0 where there is no attribution
        return ratio.float().masked_fill(judged.labels == NO_LABEL, torch.nan)


@METRICS.register
@dataclass(frozen=True, kw_only=True)
class LiCompleteness(Metric):
    """What is lost when everything that a map marks above a threshold is hidden:

        mean over t = 1/T .. (T-1)/T of  f(x, a) - f(x with every position of M >= t max M hidden, a)

    Positions go by their value, not by their rank: a map that marks more hides more. The value of an image is that of its first label.
    """

    name: ClassVar[str] = "li-completeness"
    kind: ClassVar[str] = "li-completeness"
    higher_is_better: ClassVar[bool] = True
    limits: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    description: ClassVar[str] = (
        "what the label loses when all that a map marks above a threshold is hidden (Li et al.)"
    )
    reference: ClassVar[str] = REFERENCE
    levels: int = setting(10, "T: there are T - 1 thresholds", least=2)
    fill: Fill = setting(Gray(), "what hidden positions show; the authors' is road")

    def cost(self, labels: int, method: Cost | None) -> Cost:
        return Cost(forward=labels * (self.levels - 1))

    def pairs(self, judged: Judged) -> Tensor:
        return judged.once(self, lambda: self._lost(judged))

    @torch.no_grad()
    def _lost(self, judged: Judged) -> Tensor:
        classifier, each = judged.classifier, self.levels - 1
        image, place = (judged.labels != NO_LABEL).nonzero().unbind(dim=1)
        marked, labels = _positive(judged.maps)[image, place], judged.labels[image, place]
        marked = marked / marked.amax(dim=1, keepdim=True).clamp_min(torch.finfo(marked.dtype).tiny)
        fill = self.fill.prepare(classifier)
        keys = streams.image_keys(judged.images, judged.seed, self.name)
        left = torch.empty(len(image) * each, device=image.device)
        with judged.progress.task(self.name, len(left)) as task:

            def run(start: int, stop: int) -> None:
                job = torch.arange(start, stop, device=image.device)
                pair, level = job // each, (job % each + 1) / self.levels
                keep = (marked[pair] < level[:, None]).view(-1, *judged.inputs.positions)
                x = judged.images[image[pair]]
                hidden = fill.behind(x, keys[image[pair]], keep)
                f = classifier.log_f(classifier(judged.inputs.composite(keep, x, hidden))).exp()
                left[start:stop] = f.gather(1, labels[pair, None])[:, 0]
                task.advance(stop - start)

            in_batches(run, len(left), classifier.batches[0], item="masked image")
        lost = torch.full(judged.labels.shape, torch.nan, device=image.device)
        lost[image, place] = judged.f[image, place] - left.view(-1, each).mean(dim=1)
        return lost


def _positive(maps: Tensor) -> Tensor:
    """What speaks for the label, ``(N, L, n)``."""
    return maps.flatten(2).clamp_min(0)
