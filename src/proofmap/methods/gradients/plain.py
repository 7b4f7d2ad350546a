"""Gradients of the label's logit with respect to the input, for all labels of an image from one forward pass.

Gradients are taken with respect to the *normalised* input, as users of Captum know them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.batching import in_batches
from proofmap.core.errors import InputError
from proofmap.core.progress import Progress
from proofmap.methods.method import METHODS, Cost, Family, Method, Need
from proofmap.plugins.settings import setting

Channels = Literal["max", "sum", "mean"]


def input_gradients(classifier: Classifier, images: Tensor, labels: Tensor) -> Tensor:
    """d logit_a / d x for one batch, in pixel units: ``(N, L, *shape)``; one forward, L backward passes."""
    with torch.enable_grad():
        x = images.detach().clone().requires_grad_(True)
        chosen = classifier(x).gather(1, labels.clamp_min(0))
        check_differentiable(chosen)
        last = labels.shape[1] - 1
        rows = [
            torch.autograd.grad(chosen[:, j].sum(), x, retain_graph=j < last)[0]
            for j in range(labels.shape[1])
        ]
    return torch.stack(rows, dim=1)


def check_differentiable(outputs: Tensor) -> None:
    """Refuse outputs that gradients cannot be taken of."""
    if not outputs.requires_grad:
        raise InputError(
            "the net's output does not depend on its input through differentiable operations, "
            "so gradients cannot be taken; use a method without gradients"
        )


@dataclass(frozen=True, kw_only=True)
class GradientMethod(Method):
    """One map per label from the gradient ``(N, L, *shape)`` and the image."""

    family: ClassVar[Family] = "gradients"
    needs: ClassVar[frozenset[Need]] = frozenset({"gradients"})
    channels: Channels = setting("sum", "how the channels of a position become one value")

    def attribution(self, gradient: Tensor, x: Tensor) -> Tensor:
        raise NotImplementedError

    def cost(self, labels: int) -> Cost:
        return Cost(gradient=labels)

    def compute(
        self, classifier: Classifier, images: Tensor, labels: Tensor, *, seed: int, progress: Progress
    ) -> Tensor:
        fast = classifier.frozen()
        inputs = fast.inputs
        mean, std = (
            inputs.per_channel(torch.tensor(v, device=images.device, dtype=images.dtype))
            for v in (fast.mean, fast.std)
        )
        with progress.task(self.name, labels.numel()) as task:

            def run(start: int, stop: int) -> Tensor:
                gradient = input_gradients(fast, images[start:stop], labels[start:stop]) * std
                normalised = (images[start:stop, None] - mean) / std
                values = self.attribution(gradient, normalised)
                task.advance((stop - start) * labels.shape[1])
                return inputs.merged_channels(values, self.channels)

            return torch.cat(in_batches(run, len(images), fast.batches[1]))


@METHODS.register
@dataclass(frozen=True, kw_only=True)
class Gradient(GradientMethod):
    """|d logit_a / d x|, the largest over the channels (Simonyan et al. 2014)."""

    name: ClassVar[str] = "gradient"
    reference: ClassVar[str] = "Simonyan et al. 2014"
    description: ClassVar[str] = "size of the logit's gradient"
    channels: Channels = setting("max", "how the channels of a position become one value")

    def attribution(self, gradient: Tensor, x: Tensor) -> Tensor:
        return gradient.abs()


@METHODS.register
@dataclass(frozen=True, kw_only=True)
class GradientInput(GradientMethod):
    """x * d logit_a / d x, signed, summed over the channels (Shrikumar et al. 2017)."""

    name: ClassVar[str] = "gradient-x-input"
    reference: ClassVar[str] = "Shrikumar et al. 2017"
    description: ClassVar[str] = "gradient times input, signed"
    signed = True

    def attribution(self, gradient: Tensor, x: Tensor) -> Tensor:
        return gradient * x
