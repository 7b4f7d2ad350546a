"""The masker of Phang et al. 2020: how it is trained, FIX (against the net as it is) or CA (classifier-agnostic).

With m the mask of image x of label y, hidden parts gray (zero after normalisation), and F the net:

    in  = -log F_y(x m)                          - 1      relu(1[x m is right] - mean m)                   + .001 smoothness(m)
    out = -1[x is right] entropy(F(x (1 - m)))   - lambda relu(1[x is right, x (1 - m) is not] - mean m)   + .001 smoothness(m)
    loss = in + out,       lambda = 10 (FIX) or 15 (CA).

So the mask is to keep the label and to leave nothing of it outside; once it does, a small mask is rewarded. CA trains a copy
of the net along, by SGD at 1e-3 with momentum .9 and weight decay 1e-4: a step on the images, and half of the time one on both masked images
(the released code draws an old copy the other half, and uses it for nothing). That copy is F in the masker's loss; its
batch-norm statistics stay. The masker always reads the features of the net itself, so that it explains the net that
everything else explains; the authors' reads those of its own copy.

Source: Adam at 1e-3 with weight decay 1e-4, gradients cut at 10, 72 images a step, 60 rounds over a fifth of ImageNet, a tenth of
the rate after each third.
"""

from __future__ import annotations

import copy
from typing import ClassVar

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.outputs import as_logits
from proofmap.fills import Gray
from proofmap.methods.maskers.features import Scale, module_of
from proofmap.methods.maskers.nets import PhangNet, repeated
from proofmap.methods.maskers.objective import Batch, Objective, Recipe
from proofmap.methods.maskers.optimiser import SGD, below, prefixed
from proofmap.methods.maskers.terms import entropy, reward, smoothness

_INSIDE, _SMOOTH = 1.0, 0.001
_COARSER = 4
"""A mask is so many times coarser than the image, or as fine as the finest features read."""


class PhangFix(Objective):
    kind = "phang-fix"
    most_scales: ClassVar[int] = 2
    width: ClassVar[int] = 64
    batch: ClassVar[int] = 72
    outside: ClassVar[float] = 10.0
    net: PhangNet

    def __init__(self, recipe: Recipe, classifier: Classifier, present: Tensor) -> None:
        super().__init__(recipe, classifier, present)
        self.gray = Gray().prepare(classifier)

    @classmethod
    def build(cls, scales: tuple[Scale, ...], classifier: Classifier, width: int) -> PhangNet:
        finest, (height, image_width) = scales[-1].size, classifier.size
        grid = max(height // _COARSER, finest[0]), max(image_width // _COARSER, finest[1])
        return PhangNet([scale.channels for scale in scales], grid, width)

    def passes(self, step: int) -> int:
        return 3

    def loss(self, batch: Batch) -> Tensor:
        masks, labels = self.masks(batch), batch.labels
        inside, outside = (self.says(x) for x in self.masked(batch, masks))
        right = batch.log_f.argmax(dim=1) == labels
        kept, lost = inside.argmax(dim=1) == labels, outside.argmax(dim=1) != labels
        own = inside.gather(1, labels[:, None])[:, 0]
        losses = (
            -own
            - _INSIDE * reward(masks, kept)
            - right * entropy(outside)
            - self.outside * reward(masks, right & lost)
            + 2 * _SMOOTH * smoothness(masks)
        )
        return losses.mean()

    def masks(self, batch: Batch) -> Tensor:
        return repeated(self.net(batch.features)[:, 0], self.inputs.positions)

    def masked(self, batch: Batch, masks: Tensor) -> tuple[Tensor, Tensor]:
        """The images inside and outside of the masks, gray elsewhere."""
        gray = self.gray(batch.images, batch.keys)
        shown = self.inputs.composite(masks, batch.images, gray)
        return shown, self.inputs.composite(1 - masks, batch.images, gray)


class PhangCA(PhangFix):
    kind = "phang-ca"
    outside: ClassVar[float] = 15.0

    def __init__(self, recipe: Recipe, classifier: Classifier, present: Tensor) -> None:
        super().__init__(recipe, classifier, present)
        self.copy = copy.deepcopy(module_of(classifier)).float().eval().requires_grad_(True)
        self.copy = self.copy.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimiser = SGD(self.copy, weight_decay=1e-4)
        self.half = False
        inputs, device = classifier.inputs, classifier.device
        self.mean, self.std = (
            inputs.per_channel(torch.tensor(values, device=device)) for values in (inputs.mean, inputs.std)
        )

    def passes(self, step: int) -> int:
        return 6

    def says(self, images: Tensor) -> Tensor:
        x = (images - self.mean) / self.std
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda):
            out: Tensor = self.copy(x.contiguous(memory_format=torch.channels_last))
        return self.classifier.log_f(as_logits(out.float(), self.classifier.outputs))

    def loss(self, batch: Batch) -> Tensor:
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
        """One step of the copy towards the labels of images, or of the same images masked in several ways."""
        self.optimiser.zero()
        losses = [-self.says(images).gather(1, labels[:, None]).mean() for images in several]
        torch.stack(losses).sum().backward()
        self.optimiser.step(rate)

    def state(self) -> dict[str, Tensor]:
        return prefixed(self.copy.state_dict(), "copy.") | prefixed(self.optimiser.state(), "sgd.")

    def load_state(self, state: dict[str, Tensor]) -> None:
        self.copy.load_state_dict(below(state, "copy."))
        self.optimiser.load_state(below(state, "sgd."))
