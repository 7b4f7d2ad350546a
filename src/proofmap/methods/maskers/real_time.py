"""Real-time saliency (Dabkowski and Gal 2017): how its masker is trained.

First the selector alone learns which labels are in an image, by a logistic loss on the mean of its evidence; half of the labels
it is asked about are wrong ones. Then the decoder learns masks m, with three labels in ten wrong:

    loss = destroyer + .3 preserver + 8 mean((m + .0005)^.3) + .005 smoothness(m),

with Carlini and Wagner's hinges on the lead d of the true label over all others. For a label that is there the preserved image
must show it (relu(1 - d)) and the destroyed one must not (relu(d + 5)); for a wrong one the other way round (by 1 each), so
that its mask is empty. That is the released code; the paper's text has log-probabilities in place of the hinges.

The preserved image is m x + (1 - m) b, the destroyed one has m and 1 - m exchanged. In units where pixels lie in [-1, 1], x
carries noise N(0, .03); b is a colour U(-.33, .33) with noise N(0, .11) or, half of the time, x blurred by a Gaussian of sigma 11 in a
window of 55. Source: 8,500 steps of 128 images, Adam at 1e-3 (a tenth every 4,000), weight decay 1e-4; then 3,000 of 64. Here
both phases have the same batch, and the first has a quarter of ``steps``: in the source's three quarters a short training ends before there
are masks, and the selector of the few labels of small data is ready long before. Wrong labels are drawn from those in the data.
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.fills import Blur
from proofmap.methods.maskers.features import Scale
from proofmap.methods.maskers.nets import RealTimeNet, resized
from proofmap.methods.maskers.objective import Batch, Objective, Recipe
from proofmap.methods.maskers.terms import area, hinge, smoothness

_SELECTOR_SHARE, _DECAY = 0.25, 4000 / 8500
_WRONG_FIRST, _WRONG_THEN = 0.5, 0.3
_AREA, _POWER, _SMOOTH, _PRESERVER = 8.0, 0.3, 0.005, 0.3


class RealTimeObjective(Objective):
    kind = "dabkowski"
    width: ClassVar[int] = 64
    net: RealTimeNet

    def __init__(self, recipe: Recipe, classifier: Classifier, present: Tensor) -> None:
        super().__init__(recipe, classifier, present)
        self.blur = Blur(sigma=11.0, kernel=55).prepare(classifier)
        self.selector_steps = max(1, round(_SELECTOR_SHARE * recipe.steps))

    @classmethod
    def build(cls, scales: tuple[Scale, ...], classifier: Classifier, width: int) -> RealTimeNet:
        return RealTimeNet([scale.channels for scale in scales], len(classifier.names), width)

    def selecting(self, step: int) -> bool:
        return step < self.selector_steps

    def passes(self, step: int) -> int:
        return 1 if self.selecting(step) else 3

    def learned(self, step: int) -> list[nn.Parameter]:
        selector = list(self.net.selector.parameters())
        return (
            selector if self.selecting(step) else [*self.net.up.parameters(), *self.net.saliency.parameters()]
        )

    def rate_at(self, step: int) -> float:
        if not self.selecting(step):
            return self.recipe.learning_rate
        return self.recipe.learning_rate * 0.1 ** int(step / (_DECAY * self.selector_steps))

    def loss(self, batch: Batch) -> Tensor:
        asked = self.asked(batch, _WRONG_FIRST if self.selecting(batch.step) else _WRONG_THEN)
        real = asked == batch.labels
        if self.selecting(batch.step):
            evidence = self.net.evidence(batch.features[0], asked[:, None]).mean(dim=(1, 2, 3))
            return F.binary_cross_entropy_with_logits(evidence, real.float())
        masks = resized(self.net(batch.features, asked[:, None])[:, 0], self.inputs.positions)
        preserved = self.says(self.composites(batch, masks, "preserved"))
        destroyed = self.says(self.composites(batch, 1 - masks, "destroyed"))
        losses = (
            hinge(destroyed, batch.labels, ~real, lead=1.0, lag=5.0)
            + _PRESERVER * hinge(preserved, batch.labels, real, lead=1.0, lag=1.0)
            + _AREA * area(masks, _POWER)
            + _SMOOTH * smoothness(masks)
        )
        return losses.mean()

    def asked(self, batch: Batch, wrong: float) -> Tensor:
        """The label that the masker is told for each image: its own, or with some probability another one of the data."""
        coin, drawn = batch.uniform("asked", 2).unbind(dim=1)
        if len(self.present) < 2:
            return batch.labels
        own = torch.searchsorted(self.present, batch.labels).clamp_max(len(self.present) - 1)
        turn = 1 + (drawn * (len(self.present) - 1)).long()
        return torch.where(coin < wrong, self.present[(own + turn) % len(self.present)], batch.labels)

    def composites(self, batch: Batch, kept: Tensor, purpose: str) -> Tensor:
        """``kept`` ``(N, H, W)`` of the images, with noise, over a random background."""
        noisy = batch.images + 0.015 * batch.normal(f"{purpose} image")
        draws = batch.uniform(f"{purpose} background", 1 + self.inputs.channels)
        colours = 0.5 + 0.33 * (draws[:, 1:, None, None] - 0.5) + 0.055 * batch.normal(f"{purpose} colour")
        blurred = self.blur(noisy, batch.keys)
        background = torch.where(draws[:, 0, None, None, None] < 0.5, blurred, colours)
        return self.inputs.composite(kept, noisy, background)
