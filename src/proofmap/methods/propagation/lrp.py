"""Layer-wise relevance propagation, and its contrastive form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.batching import in_batches
from proofmap.core.errors import InputError
from proofmap.methods.gradients.paths import check_sums
from proofmap.methods.gradients.plain import CHANNELS_HELP, Channels, check_differentiable
from proofmap.methods.graph import check_operations
from proofmap.methods.method import METHODS, Cost, Method
from proofmap.methods.propagation.relevance import KNOWN, Composite, Raw, Relevance, Rule
from proofmap.methods.propagation.rewriting import ratio
from proofmap.plugins.settings import Shortcuts, setting
from proofmap.session import Session

RuleName = Literal["epsilon", "gamma", "alpha-beta"]
First = Literal["auto", "box", "w-squared", "flat", "none"]
Biases = Literal["absorb", "ignore"]
Dual = Literal["others", "weighted", "negated"]

_MEMORY = 3
"""The memory of a pass with rules, as a multiple of that of a pass with gradients."""


def check_logits(method: str, classifier: Classifier) -> None:
    """Raise an error if the net ends in a softmax or sigmoid."""
    if classifier.outputs not in ("logits", "sigmoid"):
        raise InputError(
            f"{method} starts at the logits, and this net returns {classifier.outputs}; pass the net without its last "
            "softmax or sigmoid"
        )


@dataclass(frozen=True, kw_only=True)
class RelevanceMethod(Method):
    """Base class of methods that propagate relevance from the logits to the input. Subclasses define the relevance at the logits."""

    family = "propagation"
    needs = frozenset({"gradients"})

    conv: RuleName = setting("gamma", "relevance rule for convolutions")
    dense: RuleName = setting("epsilon", "relevance rule for dense layers")
    first: First = setting(
        "auto",
        "relevance rule for the first layer; auto: box if inputs have limits, as pixels do, else w-squared",
    )
    epsilon: float = setting(1e-6, "small number that keeps denominators away from zero", above=0)
    gamma: float = setting(
        0.25,
        "in the gamma rule, additional weight of contributions with the sign of the unit's output",
        least=0,
    )
    alpha: float = setting(
        2.0,
        "in the alpha-beta rule, weight of positive contributions; negative ones have beta = alpha - 1",
        least=1,
    )
    biases: Biases = setting("absorb", "whether biases absorb their share of relevance, or are ignored")
    channels: Channels = setting("sum", CHANNELS_HELP)

    def composite(self, classifier: Classifier) -> Composite:
        """The rules of this method for the classifier's kind of input."""
        limited = classifier.inputs.limits is not None
        if self.first == "box" and not limited:
            raise InputError(
                f"the box rule needs inputs with limits, and {classifier.inputs.noun} have none; use first=w-squared"
            )
        first = self.first if self.first != "auto" else "box" if limited else "w-squared"
        conv, dense = (
            Rule(name, gamma=self.gamma, alpha=self.alpha, beta=self.alpha - 1)
            for name in (self.conv, self.dense)
        )
        return Composite(conv, dense, first, self.epsilon, absorb=self.biases == "absorb")

    def begin(self, classifier: Classifier, logits: Tensor, labels: Tensor) -> Tensor:
        """The coefficients c ``(N, L, A)`` of the logits with which relevance starts, for each label."""
        raise NotImplementedError

    def finish(self, maps: Tensor) -> Tensor:
        """The maps, from relevance per position ``(N, L, *positions)``; by default unchanged."""
        return maps

    def check(self, arrived: Tensor, begun: Tensor, labels: Tensor) -> None:
        """Compare the total relevance that arrived with the total that started, ``(N, L)``. By default nothing is checked, because
        the totals of a difference of two relevances mean nothing.
        """

    def cost(self, labels: int, session: Session | None = None) -> Cost:
        return Cost(gradient=labels)

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        check_logits(self.name, session.net)
        composite = self.composite(session.net)
        mean, std = session.inputs.scale(session.net.device)
        with session.progress.task(self.name, labels.numel()) as task:

            def run(start: int, stop: int) -> tuple[Tensor, Tensor, Tensor]:
                x = (images[start:stop] - mean) / std
                found = self._propagated(session.net, composite, x, labels[start:stop])
                task.advance((stop - start) * labels.shape[1])
                return found

            parts = in_batches(run, len(images), session.net.batches[1], cost=_MEMORY)
        values, arrived, begun = (torch.cat(each) for each in zip(*parts, strict=True))
        self.check(arrived, begun, labels)
        return self.finish(values)

    def _propagated(
        self, classifier: Classifier, composite: Composite, x: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Relevance per position ``(N, L, *positions)``, and two totals ``(N, L)``: what arrived at the input and at biases, and what
        started.
        """
        inputs = classifier.inputs
        limits = inputs.limits or (0.0, 0.0)
        mean, std = classifier.inputs.scale(classifier.device)
        low, high = (((limit - mean) / std).expand_as(x) for limit in limits)
        with torch.enable_grad():
            leaf, ones = x.detach().requires_grad_(True), torch.ones_like(x).requires_grad_(True)
            shares = torch.ones(len(x), device=x.device).requires_grad_(True)
            entering = leaf.clone()  # a net may work on its input in place
            mode = Relevance(composite, shares, entering, Raw(ones, low, high))
            with mode:
                logits = classifier.from_normalised(entering)
            check_differentiable(logits)
            check_operations(self.name, logits, (leaf, ones), KNOWN, mode.seen)
            begin = self.begin(classifier, logits.detach(), labels)
            maps, sums = [], []
            for j in range(labels.shape[1]):
                at_input, at_ones, absorbed = torch.autograd.grad(
                    logits,
                    (leaf, ones, shares),
                    begin[:, j],
                    retain_graph=j + 1 < labels.shape[1],
                    allow_unused=True,
                )
                relevance = torch.zeros_like(x)
                if at_input is not None:
                    relevance = relevance + x * at_input
                if at_ones is not None:
                    relevance = relevance + at_ones
                total = relevance.flatten(1).sum(dim=1)
                sums.append(total if absorbed is None else total + absorbed)
                maps.append(inputs.merged_channels(relevance, self.channels))
        started = (begin * logits.detach()[:, None]).sum(dim=2)
        return torch.stack(maps, dim=1), torch.stack(sums, dim=1), started


@METHODS.register
class LRP(RelevanceMethod):
    """Layer-wise relevance propagation (Bach et al. 2015): the logit is distributed layer by layer back to the input.

    The rules are in :mod:`proofmap.methods.propagation.relevance`. The defaults, the preset ``epsilon-gamma-box``, are those of
    Montavon et al. 2019: gamma for convolutions, epsilon for dense layers, and at the input the box rule for pictures, w-squared
    for inputs without limits. Other presets: ``epsilon`` (the epsilon rule everywhere), ``captum`` (the same with a smaller
    epsilon), ``epsilon-plus`` (only positive contributions for convolutions), ``epsilon-plus-flat`` and
    ``epsilon-alpha2-beta1-flat`` (Kohlbrenner et al. 2020).

    Values are signed. Together with what biases absorb they add up to the logit; if not, a
    :class:`~proofmap.methods.gradients.paths.SumRuleWarning` reports the difference. A net with an operation without a rule
    (attention, gates, layer-norm) is refused.

    >>> LRP.preset("epsilon").conv
    'epsilon'
    """

    name = "lrp"
    reference = "Bach et al. 2015"
    description = "the logit, shared out layer by layer down to the input, signed"
    signed = True
    shortcuts: ClassVar[Shortcuts] = {
        "preset": {
            "epsilon-gamma-box": {},
            "epsilon": {"conv": "epsilon", "first": "none"},
            "captum": {"conv": "epsilon", "first": "none", "epsilon": 1e-9},
            "epsilon-plus": {"conv": "alpha-beta", "alpha": 1.0, "first": "none"},
            "epsilon-plus-flat": {"conv": "alpha-beta", "alpha": 1.0, "first": "flat"},
            "epsilon-alpha2-beta1-flat": {"conv": "alpha-beta", "alpha": 2.0, "first": "flat"},
        }
    }

    def begin(self, classifier: Classifier, logits: Tensor, labels: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(labels.clamp_min(0), logits.shape[1]).to(logits.dtype)

    def check(self, arrived: Tensor, begun: Tensor, labels: Tensor) -> None:
        advice = "some layer loses or makes relevance: try other rules, biases=absorb, or full precision"
        check_sums(self.name, arrived, begun, labels, advice)


@METHODS.register
class ContrastiveLRP(RelevanceMethod):
    """max(0, R - R'): the relevance R of the label minus the relevance R' of its dual, which starts with the same amount (Gu et al.
    2018).

    R starts with |logit_a| at the label. The dual R' is the evidence for everything else:

        others      the same amount, spread evenly over the other labels of the label set (CLRP1 as printed)
        weighted    ... in proportion to the size of their logits (CLRP1 as released)
        negated     the same amount at the label, with the last layer's weights negated (CLRP2)

    For a net with one output, whose labels are no and yes, each label is the other with its weights negated: all three are
    ``negated``.

    The rules are the paper's: only positive contributions (alpha 1), the box rule at the input, no biases. R - R' takes one
    backward pass, because relevance is linear in its start. The difference is clamped at zero after the channels are added.
    Presets: ``paper`` (the defaults), ``released``.
    """

    name = "contrastive-lrp"
    reference = "Gu et al. 2018"
    description = "relevance of the label less that of the other labels"
    shortcuts: ClassVar[Shortcuts] = {"preset": {"paper": {}, "released": {"dual": "weighted"}}}
    conv: RuleName = setting("alpha-beta", "relevance rule for convolutions")
    dense: RuleName = setting("alpha-beta", "relevance rule for dense layers")
    alpha: float = setting(
        1.0,
        "in the alpha-beta rule, weight of positive contributions; negative ones have beta = alpha - 1",
        least=1,
    )
    biases: Biases = setting("ignore", "whether biases absorb their share of relevance, or are ignored")
    dual: Dual = setting(
        "others",
        "what the label is contrasted with: the other labels equally, the others weighted by their logits, or the label with negated weights",
    )

    def composite(self, classifier: Classifier) -> Composite:
        rules = super().composite(classifier)
        if self.dual != "negated" and not classifier.one_output:
            return rules
        return replace(rules, last=Rule("alpha-beta", alpha=1.0, beta=1.0), layers=_layers(classifier, rules))

    def begin(self, classifier: Classifier, logits: Tensor, labels: Tensor) -> Tensor:
        own = torch.nn.functional.one_hot(labels.clamp_min(0), logits.shape[1]).to(logits.dtype)
        amount = logits.abs().gather(1, labels.clamp_min(0))[..., None]
        relevance = amount * own
        # logits (-z, z): one label has all evidence for z, the other all against it
        if classifier.one_output:
            return ratio(relevance, logits[:, None, 1:].expand_as(relevance), self.epsilon)
        if self.dual != "negated":
            counting = torch.zeros_like(logits)
            counting[:, list(classifier.label_set)] = 1.0
            weights = counting * logits.abs() if self.dual == "weighted" else counting
            others = weights[:, None] * (1 - own)
            if len(classifier.label_set) < 2:
                raise InputError(
                    f"{self.name} contrasts a label with others, and the label set has only one label"
                )
            relevance = relevance - amount * others / others.sum(dim=2, keepdim=True).clamp_min(1e-12)
        return ratio(relevance, logits[:, None].expand_as(relevance), self.epsilon)

    def finish(self, maps: Tensor) -> Tensor:
        return maps.clamp_min(0)


def _layers(classifier: Classifier, composite: Composite) -> int:
    """The number of linear layers that one pass of the net calls."""
    x = classifier.inputs.probe().to(classifier.device).requires_grad_(True)
    with torch.enable_grad():
        mode = Relevance(composite, torch.ones(1, device=x.device), x, Raw(x, x, x))
        with mode:
            classifier.from_normalised(x.clone())
    return mode.calls
