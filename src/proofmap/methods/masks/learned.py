"""The paper's method: learn, for each label, a small smooth mask whose pixels show the label on any background.

    min over M of   E[ -log f(x~, a) ]  +  tv * TV(M up)  +  l1 * |M up|_1 ,      x~ = M up * x + (1 - M up) * x'

f(x~, a) is the net's probability of label a for the composite x~. M = sigmoid(W) is the mask, on a grid ``scale`` times coarser than the
image. "M up" is M enlarged linearly along every axis, and TV is the total variation. x' is a background from the fill: a random image by
default. Every (image, label) pair is a separate problem, and many are solved together in one batch. The result of a pair does not depend on
the batch, because the loss is a sum over pairs and each pair has its own random numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.fills import Fill, Images
from proofmap.methods.grids import enlarged
from proofmap.methods.masks.engine import Slots
from proofmap.methods.masks.method import CompositeProblem, MaskMethod, WholeNet, total_variation
from proofmap.methods.method import METHODS, Cost
from proofmap.plugins.settings import Shortcuts, setting
from proofmap.session import Session

Objective = Literal["nll", "nll-of-mean", "released"]

_AS_PUBLISHED: Mapping[str, Any] = {
    "steps": 2000,
    "distractors": 10,
    "learning_rate": 0.05,
    "decay": "constant",
    "scale": 4,
    "tv": 0.01,
}


class LearnedMaskProblem(CompositeProblem):
    """The objective of the paper for the (image, label) pairs in the slots of the engine."""

    def __init__(self, settings: LearnedMask, session: Session, fast: Classifier) -> None:
        inputs = fast.inputs
        grid = [math.ceil(side / settings.scale) for side in inputs.positions]
        super().__init__(settings, session, fast, settings.fill, grid=grid)
        self.settings, self.steps, self.rate = settings, settings.steps, settings.learning_rate
        self.draws = settings.distractors if settings.fill.random else 1
        self.cost = settings.masks * self.draws
        label_set = torch.tensor(fast.label_set, device=fast.device)
        self.members = None if fast.independent else label_set
        self.falls = settings.decay == "cosine"
        self.l1 = 1.0 / inputs.count if settings.l1 is None else settings.l1
        self.gray = fast.normalised(inputs.per_channel(fast.gray))

    def enter(self, slots: Slots) -> Slots:
        """Return the initial state. One mask has zero weights, so it is 1/2 everywhere. K > 1 masks have small random weights, because K equal
        masks would stay equal.
        """
        s = self.settings
        weights = self.even_weights(slots, 0.0, masks=1 if s.masks == 1 else s.masks + 1)
        if s.masks > 1:
            keys = streams.random_words(slots["keys"], 1)[:, 0]  # another stream than that of the distractors
            weights = s.init_noise * streams.normal(~keys, weights[0].numel()).view_as(weights)
        return {**super().enter(slots), "weights": weights}

    def masks(self, weights: Tensor) -> Tensor:
        return enlarged(self.low_masks(weights), self.up)[:, : self.settings.masks]

    def low_masks(self, weights: Tensor) -> Tensor:
        return weights.sigmoid() if self.settings.masks == 1 else weights.softmax(dim=1)

    def losses(self, weights: Tensor, slots: Slots) -> Tensor:
        """The objective ``(P,)`` of each pair, summed over its K masks."""
        s, pairs = self.settings, len(weights)
        masks = enlarged(self.low_masks(weights), self.up)
        composites = self.composites(masks, slots["seen"], self.backgrounds(slots))
        log_p = self.classifier.log_f(self.logits(composites.flatten(0, 1)))
        data = data_term(log_p, slots["labels"].repeat_interleave(s.masks), self.members, s.objective)
        kept = masks[:, : s.masks]
        penalty = self.l1 * kept.sum(dim=tuple(range(2, kept.ndim)))
        if s.tv > 0 and self.inputs.has_neighbours:
            axes = len(self.inputs.positions)
            penalty = penalty + s.tv * total_variation(kept, power=s.variation, border=s.tv_border, axes=axes)
        return data.view(pairs, s.masks).sum(dim=1) + penalty.sum(dim=1)

    def backgrounds(self, slots: Slots) -> Tensor:
        """Normalised backgrounds ``(P, K, D, *shape)`` for K masks and D distractors (random backgrounds), drawn again at every step; ``(P, 1,
        1, *shape)`` if the fill is not random.
        """
        keys = streams.step_keys(slots["keys"], slots["step"], self.cost)
        hidden = self.hidden(slots, keys)
        return hidden.view(len(hidden), -1, self.draws, *hidden.shape[2:])

    def composites(self, masks: Tensor, seen: Tensor, backgrounds: Tensor) -> Tensor:
        """Composites ``(P, K, D, *shape)``: m x + (1 - m) x' for one mask m. For K masks, composite k is m_k x + m_background x' + (the other
        masks) gray.
        """
        inputs, k = self.inputs, self.settings.masks
        x, own = seen[:, None, None], masks[:, :k, None]
        if k == 1:
            return inputs.composite(own, x, backgrounds)
        own, behind = (inputs.over_channels(m.to(x.dtype)) for m in (own, masks[:, k:, None]))
        gray = self.gray
        return gray + own * (x - gray) + behind * (backgrounds - gray)


@METHODS.register
class LearnedMask(WholeNet, MaskMethod):
    """The paper's method: a learned mask that shows the label on random backgrounds.

    Presets: ``fast`` (the defaults), ``paper`` (as printed in the paper), ``released`` (as in the paper's code).

    >>> LearnedMask.preset("released", tv=0.1).steps
    2000
    """

    name = "learned-mask"
    learns = LearnedMaskProblem
    description = "the paper's method: a learned mask that shows the label on random backgrounds"
    reference = "Gupta et al. 2022"
    revision = 2
    needs = frozenset({"gradients", "distractors"})
    shortcuts: ClassVar[Shortcuts] = {
        "preset": {
            "fast": {},
            "paper": {**_AS_PUBLISHED, "objective": "nll", "tv_border": True},
            "released": {**_AS_PUBLISHED, "objective": "released", "tv_border": False},
        }
    }

    steps: int = setting(100, "Adam steps", least=1)
    distractors: int = setting(2, "number of backgrounds per step, drawn again at each step", least=1)
    learning_rate: float = setting(0.2, "step size of Adam", above=0)
    decay: Literal["constant", "cosine"] = setting(
        "cosine", "the learning rate stays constant, or falls to zero as a half cosine"
    )
    scale: float = setting(8, "how many times coarser than the input the grid of the mask is", least=1)
    l1: float | None = setting(
        None, "weight of the mask's sum; none: 1 / number of positions, the paper's choice", least=0
    )
    tv: float = setting(0.1, "weight of the mask's total variation TV; larger gives smoother masks", least=0)
    variation: Literal["squared", "absolute"] = setting(
        "squared", "whether TV sums squared or absolute differences of neighbours"
    )
    tv_border: bool = setting(
        True, "include differences along the last row and column in TV; the released code does not"
    )
    objective: Objective = setting(
        "released",
        "loss of the label's probability f; nll: mean of -log f, as in the paper; nll-of-mean: -log of the mean f; released: the double "
        "softmax of the paper's code",
    )
    fill: Fill = setting(Images(), "what hidden positions show while learning")
    masks: int = setting(
        1,
        "number K of masks; several divide the input among them by a softmax, and each must show the label alone",
        least=1,
    )
    merge: Literal["max", "sum"] = setting("max", "how K masks become one map: their maximum, or their sum")
    init_noise: float = setting(
        0.01, "standard deviation of the first weights of K > 1 masks, which must differ at the start"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.masks > 1 and not self.init_noise > 0:
            raise InputError("masks > 1 needs init_noise > 0: masks that start equal stay equal")

    @property
    def draws(self) -> int:
        """Backgrounds per step; one if the fill is not random."""
        return self.distractors if self.fill.random else 1

    def merged(self, masks: Tensor) -> Tensor:
        return masks.amax(dim=2) if self.merge == "max" else masks.sum(dim=2)

    def cost(self, labels: int, session: Session | None = None) -> Cost:
        return Cost(gradient=labels * self.steps * self.masks * self.draws)


def data_term(log_p: Tensor, labels: Tensor, members: Tensor | None, objective: Objective) -> Tensor:
    """Data term ``(P,)`` of each pair's loss: how weakly its D composites show its label.

    ``log_p`` ``(P, D, A)`` has log f, the log-probability of each of A labels for each composite. ``members`` is the label set; None if
    labels are independent.

    - ``nll``: the mean of -log f over the composites, as the paper prints it;
    - ``nll-of-mean``: -log of the mean f;
    - ``released``: the paper's code passes mean *probabilities* p to a cross-entropy, which takes their softmax again: -p_a + log sum_c
      exp(p_c) over the label set. The range of this term is only 1 wide, so the penalty on the mask's size can outweigh it for a label that
      the net finds impossible. Independent labels share no softmax. Each has the two labels {a, not a}:
      -p_a + log(exp(p_a) + exp(1 - p_a)), again 1 wide.

    >>> log_p = torch.tensor([[[0.5, 0.5], [0.9, 0.1]]]).log()
    >>> data_term(log_p, torch.tensor([0]), torch.tensor([0, 1]), "released")  # -0.7 + log(e^0.7 + e^0.3)
    tensor([0.5130])
    """
    index = labels.view(-1, 1, 1).expand(-1, log_p.shape[1], 1)
    if objective == "nll":
        return -log_p.gather(2, index).squeeze(2).mean(dim=1)
    if objective == "nll-of-mean":
        own = log_p.gather(2, index).squeeze(2)
        return -(own.logsumexp(dim=1) - math.log(own.shape[1]))
    p = log_p.exp().mean(dim=1)
    own = p.gather(1, labels[:, None])[:, 0]
    if members is None:
        return torch.logaddexp(own, 1 - own) - own
    return p[:, members].logsumexp(dim=1) - own
