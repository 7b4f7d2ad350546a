"""Gradients of the label's logit with respect to the input, for all labels of an image from one forward pass.

Gradients are taken with respect to the *normalised* input, as users of Captum know them. Guided backpropagation and RectGrad decide at
every rectifier (ReLU, ReLU6, a clamp at zero) which part of the gradient passes. They do so in autograd's graph of one forward pass. In
this graph every call of a rectifier is a node, whether the net calls a module, a function or a method. The net is not changed and no hook
stays: the graph is freed after the pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.graph import Node
from torch.utils.hooks import RemovableHandle

from proofmap.classifier import Classifier
from proofmap.core.batching import in_batches
from proofmap.core.errors import InputError
from proofmap.methods.graph import Rewriting
from proofmap.methods.method import METHODS, Cost, Method
from proofmap.plugins.settings import setting
from proofmap.session import Session

Channels = Literal["max", "sum", "mean"]
CHANNELS_HELP = "how the channels of a position become one value"
_ABSOLUTE_HELP = "take the absolute value of each channel; false keeps the signs"


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


class GradientMethod(Method):
    """Base class of methods that make a label's map from the gradient and the image ``(N, *shape)``, both in normalised units."""

    family = "gradients"
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
    absolute: bool = setting(True, _ABSOLUTE_HELP)

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
    absolute: bool = setting(False, _ABSOLUTE_HELP)

    @property
    def signed(self) -> bool:  # type: ignore[override]
        return not self.absolute

    def attribution(self, gradient: Tensor, x: Tensor) -> Tensor:
        product = gradient * x
        return product.abs() if self.absolute else product


_LOWER_LIMITS = {
    "ReluBackward0": None,
    "HardtanhBackward0": "_saved_min_val",
    "ClampBackward1": "_saved_min",
    "ClampMinBackward0": "_saved_min",
    "ThresholdBackward0": "_saved_threshold",
}
"""Names of nodes in autograd's graph that may be rectifiers, and the attribute that holds their lower limit. The limit of a
rectifier is zero.
"""


def _is_rectifier(node: Any) -> bool:
    """Whether a node is max(x, 0), with or without an upper limit."""
    name = node.name()
    if name not in _LOWER_LIMITS:
        return False
    limit = _LOWER_LIMITS[name]
    return limit is None or getattr(node, limit) == 0


def _activation(node: Any) -> Tensor:
    """The output of a rectifier in the forward pass."""
    name = node.name()
    if name == "ReluBackward0":
        found: Tensor = node._saved_result
        return found
    x: Tensor = node._saved_self
    high = {"HardtanhBackward0": "_saved_max_val", "ClampBackward1": "_saved_max"}.get(name)
    return x.clamp(0, None if high is None else getattr(node, high))


class RectifiedMethod(GradientMethod):
    """Base class of methods in which every rectifier changes the gradient in the backward pass, by :meth:`passed`."""

    def passed(self, gradient: Tensor, node: Node) -> Tensor:
        """The part of the gradient ``(N, ...)`` that a rectifier lets through."""
        raise NotImplementedError

    def gradients(
        self, classifier: Classifier, images: Tensor, labels: Tensor, each: Callable[[Tensor], Tensor]
    ) -> Tensor:
        handles: list[RemovableHandle] = []

        def changed(images: Tensor) -> Tensor:
            logits = classifier(images)
            rectifiers = [node for node in Rewriting.nodes_behind(logits) if _is_rectifier(node)]
            if not rectifiers and logits.requires_grad:
                raise InputError(
                    f"{self.name} changes the gradient at rectifiers (ReLU, ReLU6), and none is visible in this net; "
                    "use gradient or smooth-grad"
                )
            handles.extend(node.register_prehook(self._hook(node)) for node in rectifiers)
            return logits

        try:
            return input_gradients(changed, images, labels, each)
        finally:
            for handle in handles:  # a node that holds a hook that holds the node would hold the graph
                handle.remove()

    def _hook(self, node: Node) -> Callable[[tuple[Tensor | None, ...]], tuple[Tensor | None, ...]]:
        def hook(gradients: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
            return tuple(None if each is None else self.passed(each, node) for each in gradients)

        return hook


@METHODS.register
class GuidedBackprop(RectifiedMethod):
    """|d logit_a / d x|, where every rectifier passes only positive gradients back (Springenberg et al. 2015).

    At a rectifier with input z:  R_z = 1[z > 0] max(R, 0). Caution: such maps depend little on the label and on the weights of later
    layers (Adebayo et al. 2018), which soundness reveals.
    """

    name = "guided-backprop"
    reference = "Springenberg et al. 2015"
    description = "gradient of which each ReLU lets back the positive part"
    channels: Channels = setting("max", CHANNELS_HELP)

    def passed(self, gradient: Tensor, node: Node) -> Tensor:
        return gradient.clamp_min(0)

    def attribution(self, gradient: Tensor, x: Tensor) -> Tensor:
        return gradient.abs()


@METHODS.register
class RectGrad(RectifiedMethod):
    """The gradient through only the most important units of each layer, times the input (Kim et al. 2019).

    At a ReLU with output a, the gradient R that arrives from above passes only at units with a R > tau. tau is the ``quantile`` of a R
    over the units of the layer, for each image and label separately; a negative tau is replaced by 0. With tau = 0 this is guided
    backpropagation. The released code also removes the border of padded convolutions and allows tau below 0; neither is done here.
    """

    name = "rect-grad"
    reference = "Kim et al. 2019"
    description = "gradient through the most important units of each layer, times input"
    quantile: float = setting(0.98, "share of each layer's units that block the gradient", least=0, most=1)
    times_input: bool = setting(
        True,
        "multiply the gradient by the input, which gives a signed map; false: the gradient's absolute value",
    )

    @property
    def signed(self) -> bool:  # type: ignore[override]
        return self.times_input

    def passed(self, gradient: Tensor, node: Node) -> Tensor:
        importance = (_activation(node).float() * gradient.float()).flatten(1)
        place = 1 + int(self.quantile * (importance.shape[1] - 1))
        tau = importance.kthvalue(place, dim=1, keepdim=True).values.clamp_min(0)
        return gradient * (importance > tau).view_as(gradient)

    def attribution(self, gradient: Tensor, x: Tensor) -> Tensor:
        return gradient * x if self.times_input else gradient.abs()
