"""Targets: what is read from the net. This is the paper's target function h; f(x, a) is one example.

Definition 3.3 of the paper: an input modification Gamma and a target function h of the net make a base metric,

    g(x, a, M) = E over x~ from Gamma(x, M) of h(x~, a),

and a base metric makes a completeness and a soundness. Gamma is a game with its fill; h is a :class:`Target`.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.registry import Registry
from proofmap.plugins.settings import Plugin, setting
from proofmap.plugins.specs import make_plugin


class Target(Plugin):
    """The description of a target function: a number for every label from the net's logits.

    ``limits`` are the least and the greatest value. Completeness and soundness are ratios, so they need targets that are
    never negative.
    """

    noun = "target"
    limits: ClassVar[tuple[float, float]] = (-math.inf, math.inf)

    @classmethod
    def make(cls, spec: Any) -> Target:
        return make_plugin(TARGETS, Target, spec)

    def read(self, classifier: Classifier, logits: Tensor) -> Tensor:
        """h(x, .) ``(B, A)`` from logits ``(B, A)``, finite for every label of the classifier's label set."""
        raise NotImplementedError(f"{type(self).__name__} must say what is read")


TARGETS: Registry[Target] = Registry("target", "proofmap.targets")
"""The registered targets, by name."""


@TARGETS.register
class Probability(Target):
    """h = f(x, a): a softmax over the labels that count, or each label's own sigmoid."""

    name = "probability"
    description = "f(x, a), the probability of the label"
    limits = (0.0, 1.0)

    def read(self, classifier: Classifier, logits: Tensor) -> Tensor:
        return classifier.log_f(logits).exp()


@TARGETS.register
class Decision(Target):
    """h = 1 if the label is among the k most probable ones (for independent labels: if f >= 1/2), otherwise 0.

    The paper's theorems about linear nets use this target with k = 1. Labels that are equally probable all count.
    """

    name = "decision"
    description = "1 where the label is among the k most probable (independent labels: f >= 1/2)"
    reference = "Gupta et al., NeurIPS 2022, appendix"
    limits = (0.0, 1.0)
    k: int = setting(1, "number of most probable labels that count as the net's decision", least=1)

    def read(self, classifier: Classifier, logits: Tensor) -> Tensor:
        log_f = classifier.log_f(logits)
        if classifier.independent:
            return (log_f >= math.log(0.5)).float()
        kth = log_f.topk(min(self.k, log_f.shape[1]), dim=1).values[:, -1:]
        return (log_f >= kth).float()


@TARGETS.register
class Rival(Target):
    """h = f_a / (f_a + f_b) with b the best other label: the belief in a if only a and b can be right.

    With independent labels a label has no rival, and h = f.
    """

    name = "rival"
    description = "f of the label where only it and the best other label can be right"
    limits = (0.0, 1.0)

    def read(self, classifier: Classifier, logits: Tensor) -> Tensor:
        return margins(classifier, logits).sigmoid()


@TARGETS.register
class Margin(Target):
    """h = log f_a - log f_b with b the best other label: above zero where the net decides for a.

    With independent labels h is the logit, which is log f_a - log (1 - f_a).
    """

    name = "margin"
    description = "log-odds of the label against the best other one"

    def read(self, classifier: Classifier, logits: Tensor) -> Tensor:
        return margins(classifier, logits)


@TARGETS.register
class Logit(Target):
    """h = the net's output for the label (its log-probability where the net ends in a softmax)."""

    name = "logit"
    description = "the net's own output for the label"

    def read(self, classifier: Classifier, logits: Tensor) -> Tensor:
        return logits


@TARGETS.register
class LogProbability(Target):
    """h = log f(x, a), not below ``floor``."""

    name = "log-probability"
    description = "log f(x, a)"
    limits = (-math.inf, 0.0)
    floor: float = setting(-100.0, "smallest value; a lower log-probability counts as this", most=0)

    def read(self, classifier: Classifier, logits: Tensor) -> Tensor:
        return classifier.log_f(logits).clamp_min(self.floor)


def margins(classifier: Classifier, logits: Tensor) -> Tensor:
    """log f_a minus log f of the best other label, ``(B, A)``. For independent labels, the logit; 0 if there is no other label.

    >>> from torch import nn
    >>> f = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(12, 3)), size=2)
    >>> margins(f, torch.tensor([[3.0, 1.0, 0.0]]))
    tensor([[ 2., -2., -3.]])
    """
    if classifier.independent:
        return logits
    log_f = classifier.log_f(logits)
    if len(classifier.label_set) < 2:
        return torch.zeros_like(log_f)
    members = torch.zeros(log_f.shape[1], dtype=torch.bool, device=log_f.device)
    members[list(classifier.label_set)] = True
    inside = log_f.masked_fill(~members, -torch.inf)
    best, second = inside.topk(2, dim=1).values.split(1, dim=1)
    place = torch.arange(log_f.shape[1], device=log_f.device)
    rival = torch.where(place == inside.argmax(dim=1, keepdim=True), second, best)
    return log_f - rival
