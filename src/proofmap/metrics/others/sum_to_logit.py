"""Completeness as attribution methods mean it: the values of a map add up to what the label gained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from proofmap.core import streams
from proofmap.core.labels import NO_LABEL
from proofmap.fills import Fill, Gray
from proofmap.methods.method import Cost
from proofmap.methods.perturbation.regions import exact
from proofmap.metrics.context import Judged
from proofmap.metrics.metric import METRICS, Metric
from proofmap.plugins.settings import setting


@METRICS.register
@dataclass(frozen=True, kw_only=True)
class SumToLogit(Metric):
    """The error of the sum, relative to what is to be explained:

        | sum of M_a - (F(x, a) - F(x', a)) |  /  | F(x, a) - F(x', a) |

    F is the logit, or f itself, and x' the fill in place of the input. Zero: the axiom that integrated gradients, Shapley values
    and layer-wise relevance call completeness, summation to delta or efficiency. The value of an image is the mean over its labels;
    pairs that gain nothing, below 1e-6, do not count. Only maps whose values have the units of F can do well; a rescaled map is not worse as a
    proof. Captum calls the numerator the convergence delta.
    """

    name: ClassVar[str] = "sum-to-logit"
    kind: ClassVar[str] = "sum-to-logit"
    higher_is_better: ClassVar[bool] = False
    limits: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    description: ClassVar[str] = "how far a map's values are from adding up to what the label gained"
    reference: ClassVar[str] = "Sundararajan et al. 2017 (completeness axiom)"
    quantity: Literal["logit", "probability"] = setting("logit", "what the values are to add up to")
    fill: Fill = setting(Gray(), "the input without information, from which the label gains")

    def cost(self, labels: int, method: Cost | None) -> Cost:
        return Cost(forward=2)

    def pairs(self, judged: Judged) -> Tensor:
        return judged.once(self, lambda: self._errors(judged))

    def from_pairs(self, judged: Judged, pairs: Tensor) -> Tensor:
        return pairs.nanmean(dim=1)

    def _errors(self, judged: Judged) -> Tensor:
        keys = streams.image_keys(judged.images, judged.seed, self.name)
        without = self.fill.prepare(judged.classifier)(judged.images, keys)
        read = judged.classifier.logits if self.quantity == "logit" else judged.classifier.probabilities
        gained = (read(judged.images) - read(without)).gather(1, judged.labels.clamp_min(0))
        error = (exact(judged.maps.flatten(2)).sum(dim=2) - gained).abs() / gained.abs()
        unknown = (judged.labels == NO_LABEL) | (gained.abs() < 1e-6)
        return error.float().masked_fill(unknown, torch.nan)
