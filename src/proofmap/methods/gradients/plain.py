"""Gradients of the label's logit with respect to the input, for all labels of an image from one forward pass.

Gradients are taken with respect to the *normalised* input, as users of Captum know them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.batching import in_batches
from proofmap.core.errors import InputError
from proofmap.methods.method import METHODS, Cost, Family, Method
from proofmap.plugins.settings import setting
from proofmap.session import Session

Channels = Literal["max", "sum", "mean"]
CHANNELS_HELP = "how the channels of a position become one value"
ABSOLUTE_HELP = "take the absolute value of each channel; false keeps the signs"


def input_gradients(
    classifier: Callable[[Tensor], Tensor],
    images: Tensor,
    labels: Tensor,
    each: Callable[[Tensor], Tensor] = lambda gradient: gradient,
) -> Tensor:
    """The gradients d logit_a / d x ``(N, L, *shape)`` for one batch, in pixel units. This takes one forward pass and L backward
    passes.

    ``each`` reduces a label's gradient ``(N, *shape)``, so that the gradients of many labels are not in memory together.
    """
    with torch.enable_grad():
        x = images.detach().clone().requires_grad_(True)
        chosen = classifier(x).gather(1, labels.clamp_min(0))
        check_differentiable(chosen)
        rows = [each(gradient.detach()) for (gradient,) in label_gradients(chosen, [x])]
    return torch.stack(rows, dim=1)


def label_gradients(chosen: Tensor, tensors: Sequence[Tensor]) -> Iterator[tuple[Tensor, ...]]:
    """For each label j, the gradients of its logits ``chosen[:, j]`` with respect to ``tensors``; ``chosen`` is ``(N, L)``. The
    graph is freed at the end.
    """
    last = chosen.shape[1] - 1
    for j in range(last + 1):
        yield torch.autograd.grad(chosen[:, j].sum(), tensors, retain_graph=j < last)


def check_differentiable(outputs: Tensor) -> None:
    """Raise an error if the outputs have no gradient."""
    if not outputs.requires_grad:
        raise InputError(
            "the net's output does not depend on its input through differentiable operations, "
            "so gradients cannot be taken; use a method without gradients"
        )


@dataclass(frozen=True, kw_only=True)
class GradientMethod(Method):
    """Base class of methods that make a label's map from the gradient and the image ``(N, *shape)``, both in normalised units."""

    family: ClassVar[Family] = "gradients"
    needs = frozenset({"gradients"})
    channels: Channels = setting("sum", CHANNELS_HELP)

    def attribution(self, gradient: Tensor, x: Tensor) -> Tensor:
        raise NotImplementedError

    def gradients(
        self, classifier: Classifier, images: Tensor, labels: Tensor, each: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """The result of :func:`input_gradients`. Methods that change the backward pass override this method."""
        return input_gradients(classifier.frozen(), images, labels, each)

    def cost(self, labels: int, session: Session | None = None) -> Cost:
        return Cost(gradient=labels)

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        inputs = session.inputs
        mean, std = session.inputs.scale(session.net.device)
        with session.progress.task(self.name, labels.numel()) as task:

            def run(start: int, stop: int) -> Tensor:
                x = (images[start:stop] - mean) / std
                maps = self.gradients(
                    session.net,
                    images[start:stop],
                    labels[start:stop],
                    lambda gradient: inputs.merged_channels(
                        self.attribution(gradient * std, x), self.channels
                    ),
                )
                task.advance((stop - start) * labels.shape[1])
                return maps

            return torch.cat(in_batches(run, len(images), session.net.frozen().batches[1]))


@METHODS.register
class Gradient(GradientMethod):
    """The absolute gradient |d logit_a / d x|, the largest over the channels (Simonyan et al. 2014); with ``absolute=false`` the
    signed gradient.

    ``absolute`` is the argument ``abs`` of Captum's ``Saliency``.
    """

    name = "gradient"
    reference = "Simonyan et al. 2014"
    description = "size of the logit's gradient"
    channels: Channels = setting("max", CHANNELS_HELP)
    absolute: bool = setting(True, ABSOLUTE_HELP)

    @property
    def signed(self) -> bool:  # type: ignore[override]
        return not self.absolute

    def attribution(self, gradient: Tensor, x: Tensor) -> Tensor:
        return gradient.abs() if self.absolute else gradient


@METHODS.register
class GradientInput(GradientMethod):
    """x * d logit_a / d x, signed, summed over the channels (Shrikumar et al. 2017).

    With ``absolute`` the map is |x * d logit_a / d x|, summed over the channels. Captum's ``Saliency(abs=True)`` takes absolute values of
    each channel in the same way.

    >>> GradientInput().signed, GradientInput(absolute=True).signed
    (True, False)
    """

    name = "gradient-x-input"
    reference = "Shrikumar et al. 2017"
    description = "gradient times input, signed"
    absolute: bool = setting(False, ABSOLUTE_HELP)

    @property
    def signed(self) -> bool:  # type: ignore[override]
        return not self.absolute

    def attribution(self, gradient: Tensor, x: Tensor) -> Tensor:
        product = gradient * x
        return product.abs() if self.absolute else product
