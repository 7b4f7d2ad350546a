"""Gradients with another backward pass through rectifiers: guided backpropagation and RectGrad.

Both decide at every rectifier (ReLU, ReLU6, a clamp at zero) which part of the gradient passes. They do so in autograd's graph of
one forward pass. In this graph every call of a rectifier is a node, whether the net calls a module, a function or a method. The net
is not changed and no hook stays: the graph is freed after the pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.autograd.graph import Node
from torch.utils.hooks import RemovableHandle

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.methods.gradients.plain import CHANNELS_HELP, Channels, GradientMethod, input_gradients
from proofmap.methods.graph import nodes_behind
from proofmap.methods.method import METHODS
from proofmap.plugins.settings import setting

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


def is_rectifier(node: Any) -> bool:
    """Whether a node is max(x, 0), with or without an upper limit."""
    name = node.name()
    if name not in _LOWER_LIMITS:
        return False
    limit = _LOWER_LIMITS[name]
    return limit is None or getattr(node, limit) == 0


def activation(node: Any) -> Tensor:
    """The output of a rectifier in the forward pass."""
    name = node.name()
    if name == "ReluBackward0":
        found: Tensor = node._saved_result
        return found
    x: Tensor = node._saved_self
    high = {"HardtanhBackward0": "_saved_max_val", "ClampBackward1": "_saved_max"}.get(name)
    return x.clamp(0, None if high is None else getattr(node, high))


@dataclass(frozen=True, kw_only=True)
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
            rectifiers = [node for node in nodes_behind(logits) if is_rectifier(node)]
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
        importance = (activation(node).float() * gradient.float()).flatten(1)
        place = 1 + int(self.quantile * (importance.shape[1] - 1))
        tau = importance.kthvalue(place, dim=1, keepdim=True).values.clamp_min(0)
        return gradient * (importance > tau).view_as(gradient)

    def attribution(self, gradient: Tensor, x: Tensor) -> Tensor:
        return gradient * x if self.times_input else gradient.abs()
