"""How the published maskers are trained.

Real-time saliency (Dabkowski and Gal 2017): how its masker is trained.

First the selector alone learns which labels are in an image, by a logistic loss on the mean of its evidence; half of its labels
are wrong ones. Then the decoder learns masks m, with three wrong labels in ten:

    loss = destroyer + .3 preserver + 8 mean((m + .0005)^.3) + .005 smoothness(m),

with Carlini and Wagner's hinges on the lead d of the true label over all others. For a label that is there the preserved image must
show it (relu(1 - d)) and the destroyed one must not (relu(d + 5)). For a wrong label the two terms are exchanged, each with a margin of
1, so that its mask is empty. This is the released code; the paper's text has log-probabilities instead of the hinges.

The preserved image is m x + (1 - m) b, the destroyed one has m and 1 - m exchanged. In units where pixels lie in [-1, 1], x
has noise N(0, .03); b is a colour U(-.33, .33) with noise N(0, .11) or, half of the time, x blurred by a Gaussian of sigma 11 in a
window of 55. Source: 8,500 steps of 128 images, Adam at 1e-3 (a tenth every 4,000), weight decay 1e-4; then 3,000 of 64. Here
both phases have the same batch, and the first has a quarter of ``steps``: with the source's three quarters a short training would end before
masks are learned, and the selector of a few labels needs fewer steps. Wrong labels are drawn from those in the data.

The masker of Phang et al. 2020: how it is trained, FIX (against the net as it is) or CA (classifier-agnostic).

With m the mask of image x of label y, hidden parts gray (zero after normalisation), and F the net:

    in  = -log F_y(x m)                          - 1      relu(1[x m is right] - mean m)                   + .001 smoothness(m)
    out = -1[x is right] entropy(F(x (1 - m)))   - lambda relu(1[x is right, x (1 - m) is not] - mean m)   + .001 smoothness(m)
    loss = in + out,       lambda = 10 (FIX) or 15 (CA).

So the mask must keep the label and leave nothing of it outside; once it does, a small mask is rewarded. CA also trains a copy of
the net, by SGD at 1e-3 with momentum .9 and weight decay 1e-4. In each step the copy is trained once on the images, and half of the
time once more on both masked images (the released code draws an old copy in the other half, and does not use it). That copy is F in
the masker's loss; its batch-norm statistics are fixed. The masker always reads the features of the net itself, so it explains the
same net as every other method; the authors' masker reads the features of its copy.

Source: Adam at 1e-3 with weight decay 1e-4, gradient norms up to 10, 72 images a step, 60 rounds over a fifth of ImageNet, the rate
divided by ten after each third.
"""

from __future__ import annotations

import copy
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.maskers.objective import Objective, TrainingBatch, TrainingRecipe
from proofmap.classifier import Classifier
from proofmap.classifier.outputs import as_logits
from proofmap.fills import Blur, Gray
from proofmap.methods.maskers.nets import PhangNet, RealTimeNet, resized
from proofmap.methods.masks.method import total_variation
from proofmap.methods.probe import module_of
from proofmap.session import Session


def hinge(log_f: Tensor, labels: Tensor, shown: Tensor, *, lead: float, lag: float) -> Tensor:
    """Carlini and Wagner's hinge loss ``(N,)`` on d = log f_a - max over other labels b of log f_b, from log f ``(N, A)``.

    If the label a must be ``shown``, the loss is relu(lead - d): the label should be ahead by at least ``lead``. Otherwise it is
    relu(d + lag): the label should be behind by at least ``lag``.

    >>> log_f = torch.tensor([[2.0, 0.0], [2.0, 0.0]])
    >>> hinge(log_f, torch.tensor([0, 0]), torch.tensor([True, False]), lead=5.0, lag=1.0)
    tensor([3., 3.])
    """
    own = log_f.gather(1, labels[:, None])[:, 0]
    others = log_f.scatter(1, labels[:, None], -torch.inf).amax(dim=1)
    d = own - others
    return torch.where(shown, lead - d, d + lag).relu()


def area(masks: Tensor, power: float) -> Tensor:
    """The mean over positions of (m + .0005)^power, ``(N,)``: the loss term that keeps masks m ``(N, H, W)`` small.

    >>> area(torch.tensor([[[0.0, 1.0]]]), 1.0)
    tensor([0.5005])
    """
    return (masks + 0.0005).pow(power).mean(dim=(1, 2))


def smoothness(masks: Tensor, border: float = 0.3) -> Tensor:
    """The roughness ``(N,)`` of masks ``(N, H, W)``: half of the sum of squared differences of neighbours plus ``border`` times the
    sum of squared values on the border.

    >>> smoothness(torch.tensor([[[0.0, 1.0], [0.0, 1.0]]]))  # (1 + 1 + .3 (1 + 1 + 2)) / 2
    tensor([1.6000])
    """
    edge = [masks[:, -1], masks[:, 0], masks[:, :, -1], masks[:, :, 0]]
    along = sum(side.square().sum(dim=1) for side in edge)
    return (total_variation(masks) + border * along) / 2


def entropy(log_f: Tensor) -> Tensor:
    """The entropy ``(N,)`` of f, - sum over labels of f log f, from log f ``(N, A)``. Labels outside the label set (log f =
    -infinity) add nothing.

    >>> entropy(torch.tensor([[0.5, 0.5, 0.0]]).log())
    tensor([0.6931])
    """
    return -(log_f.exp() * log_f.clamp_min(-80.0)).sum(dim=1)


def reward(masks: Tensor, event: Tensor) -> Tensor:
    """The reward ``(N,)`` for small masks m ``(N, H, W)``, relu(1[event] - mean m). It is 0 as long as a mask does not have its
    effect, the ``event``.

    >>> reward(torch.full((2, 2, 2), 0.25), torch.tensor([True, False]))
    tensor([0.7500, 0.0000])
    """
    return (event.float() - masks.mean(dim=(1, 2))).relu()


_SELECTOR_SHARE, _DECAY = 0.25, 4000 / 8500
_WRONG_FIRST, _WRONG_THEN = 0.5, 0.3
_AREA, _POWER, _SMOOTH, _PRESERVER = 8.0, 0.3, 0.005, 0.3


class RealTimeObjective(Objective):
    kind = "dabkowski"
    masker = RealTimeNet
    width = 64
    net: RealTimeNet

    def __init__(self, recipe: TrainingRecipe, classifier: Classifier, present: Tensor) -> None:
        super().__init__(recipe, classifier, present)
        self.session, self.blur = Session(classifier), Blur(sigma=11.0, kernel=55)
        self.selector_steps = max(1, round(_SELECTOR_SHARE * recipe.steps))

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

    def loss(self, batch: TrainingBatch) -> Tensor:
        asked = self.asked(batch, _WRONG_FIRST if self.selecting(batch.step) else _WRONG_THEN)
        real = asked == batch.labels
        if self.selecting(batch.step):
            evidence = self.net.evidence(batch.features[0], asked[:, None]).mean(dim=(1, 2, 3))
            return F.binary_cross_entropy_with_logits(evidence, real.float())
        masks = resized(self.net(batch.features, asked[:, None])[:, 0], self.inputs.positions)
        preserved = self.log_f(self.composites(batch, masks, "preserved"))
        destroyed = self.log_f(self.composites(batch, 1 - masks, "destroyed"))
        losses = (
            hinge(destroyed, batch.labels, ~real, lead=1.0, lag=5.0)
            + _PRESERVER * hinge(preserved, batch.labels, real, lead=1.0, lag=1.0)
            + _AREA * area(masks, _POWER)
            + _SMOOTH * smoothness(masks)
        )
        return losses.mean()

    def asked(self, batch: TrainingBatch, wrong: float) -> Tensor:
        """The label that the masker gets for each image: the true one, or with probability ``wrong`` another label of the data."""
        coin, drawn = batch.uniform("asked", 2).unbind(dim=1)
        if len(self.present) < 2:
            return batch.labels
        own = torch.searchsorted(self.present, batch.labels).clamp_max(len(self.present) - 1)
        turn = 1 + (drawn * (len(self.present) - 1)).long()
        return torch.where(coin < wrong, self.present[(own + turn) % len(self.present)], batch.labels)

    def composites(self, batch: TrainingBatch, kept: Tensor, purpose: str) -> Tensor:
        """Masked images ``(N, C, H, W)``: the images, with noise, weighted by ``kept`` ``(N, H, W)``, over a random background."""
        noisy = batch.images + 0.015 * batch.normal(f"{purpose} image")
        draws = batch.uniform(f"{purpose} background", 1 + self.inputs.channels)
        colours = 0.5 + 0.33 * (draws[:, 1:, None, None] - 0.5) + 0.055 * batch.normal(f"{purpose} colour")
        blurred = self.blur(self.session, noisy, batch.keys)
        background = torch.where(draws[:, 0, None, None, None] < 0.5, blurred, colours)
        return self.inputs.composite(kept, noisy, background)


_INSIDE, _PHANG_SMOOTH = 1.0, 0.001


class PhangFix(Objective):
    kind = "phang-fix"
    masker = PhangNet
    width = 64
    batch = 72
    outside: ClassVar[float] = 10.0
    net: PhangNet

    def __init__(self, recipe: TrainingRecipe, classifier: Classifier, present: Tensor) -> None:
        super().__init__(recipe, classifier, present)
        self.session, self.gray = Session(classifier), Gray()

    def passes(self, step: int) -> int:
        return 3

    def loss(self, batch: TrainingBatch) -> Tensor:
        masks, labels = self.masks(batch), batch.labels
        inside, outside = (self.log_f(x) for x in self.masked(batch, masks))
        right = batch.log_f.argmax(dim=1) == labels
        kept, lost = inside.argmax(dim=1) == labels, outside.argmax(dim=1) != labels
        own = inside.gather(1, labels[:, None])[:, 0]
        losses = (
            -own
            - _INSIDE * reward(masks, kept)
            - right * entropy(outside)
            - self.outside * reward(masks, right & lost)
            + 2 * _PHANG_SMOOTH * smoothness(masks)
        )
        return losses.mean()

    def masks(self, batch: TrainingBatch) -> Tensor:
        return resized(self.net(batch.features)[:, 0], self.inputs.positions, nearest=True)

    def masked(self, batch: TrainingBatch, masks: Tensor) -> tuple[Tensor, Tensor]:
        """The images inside the masks, and the images outside the masks; the rest of both is gray."""
        gray = self.gray(self.session, batch.images, batch.keys)
        shown = self.inputs.composite(masks, batch.images, gray)
        return shown, self.inputs.composite(1 - masks, batch.images, gray)


class PhangCA(PhangFix):
    kind = "phang-ca"
    outside = 15.0

    def __init__(self, recipe: TrainingRecipe, classifier: Classifier, present: Tensor) -> None:
        super().__init__(recipe, classifier, present)
        self.copy = copy.deepcopy(module_of(classifier, "a masker")).float().eval().requires_grad_(True)
        self.copy = self.copy.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimiser = torch.optim.SGD(
            self.copy.parameters(), lr=self.rate, momentum=0.9, weight_decay=1e-4
        )
        self.half = False
        inputs, device = classifier.inputs, classifier.device
        self.mean, self.std = (
            inputs.per_channel(torch.tensor(values, device=device)) for values in (inputs.mean, inputs.std)
        )

    def passes(self, step: int) -> int:
        return 6

    def log_f(self, images: Tensor) -> Tensor:
        x = (images - self.mean) / self.std
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda):
            out: Tensor = self.copy(x.contiguous(memory_format=torch.channels_last))
        return self.classifier.log_f(as_logits(out.float(), self.classifier.outputs))

    def loss(self, batch: TrainingBatch) -> Tensor:
        rate = self.rate_at(batch.step)
        self.adapt([batch.images], batch.labels, rate)
        if float(batch.uniform("historic", 1)[0]) >= 0.5:
            with torch.no_grad():
                masks = self.masks(batch)
            self.adapt(list(self.masked(batch, masks)), batch.labels, rate)
        self.copy.requires_grad_(False)
        try:
            return super().loss(batch)
        finally:
            self.copy.requires_grad_(True)

    def adapt(self, several: list[Tensor], labels: Tensor, rate: float) -> None:
        """Train the copy of the net for one step on the labels of images, or of several masked versions of the images."""
        self.optimiser.zero_grad()
        self.optimiser.param_groups[0]["lr"] = rate
        losses = [-self.log_f(images).gather(1, labels[:, None]).mean() for images in several]
        torch.stack(losses).sum().backward()
        self.optimiser.step()
