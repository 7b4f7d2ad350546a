"""What class activation maps share: the backbone runs once, and only the head is differentiated for each label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.progress import Progress
from proofmap.methods.cams.layers import Layer, captured, find_layer, named_layer
from proofmap.methods.method import Cost, Family, Method, Need, ReadyMethod
from proofmap.plugins.settings import setting


@dataclass(frozen=True, kw_only=True)
class CAM(Method):
    """A map made from the activations A ``(N, C, h, w)`` of one layer, enlarged bilinearly to the input.

    The layer is found by itself when not named. Tokens of a transformer are put into their places, and class tokens and
    registers left out, by a gradient probe.
    """

    family: ClassVar[Family] = "cam"
    needs: ClassVar[frozenset[Need]] = frozenset({"gradients", "layer"})
    layer: str = setting("", "the layer's name; found by itself when left out")

    def state_for(self, classifier: Classifier) -> Layer:
        if not self.layer:
            return find_layer(classifier)
        return named_layer(classifier, self.layer, gradients="gradients" in self.needs)

    def record(self, ready: ReadyMethod) -> dict[str, object]:
        return {**self.settings(), "layer": ready.state.name}

    def make_maps(
        self, ready: ReadyMethod, images: Tensor, labels: Tensor, *, seed: int, progress: Progress
    ) -> Tensor:
        def low_resolution(some: Tensor, own: Tensor) -> Tensor:
            return enlarged(self.low_resolution(ready, some, own), some)

        return ready.in_batches(low_resolution, images, labels, progress, per_image=1)

    def low_resolution(self, ready: ReadyMethod, images: Tensor, labels: Tensor) -> Tensor:
        """The maps ``(N, L, h, w)`` of one batch, before enlarging; ``ready.state`` is the layer."""
        raise NotImplementedError


def enlarged(maps: Tensor, images: Tensor) -> Tensor:
    """Maps ``(N, L, h, w)`` at the images' size."""
    return F.interpolate(maps, size=images.shape[2:], mode="bilinear", align_corners=False)


@dataclass(frozen=True, kw_only=True)
class GradientCAM(CAM):
    """A map made from the activations A and the gradient G = d logit_a / d A of each label, by :meth:`combine`."""

    def combine(self, activations: Tensor, gradient: Tensor) -> Tensor:
        """``(N, h, w)`` from A and G, both ``(N, C, h, w)``."""
        raise NotImplementedError

    def cost(self, labels: int) -> Cost:
        return Cost(gradient=1)

    def low_resolution(self, ready: ReadyMethod, images: Tensor, labels: Tensor) -> Tensor:
        """One pass of the backbone, and one gradient through the head for each label."""
        layer: Layer = ready.state
        with torch.enable_grad(), captured(ready.classifier, layer) as outputs:
            chosen = ready.classifier(images).gather(1, labels.clamp_min(0))
            activations = layer.places.of(outputs[-1].detach()).float()
            maps = []
            for j in range(labels.shape[1]):
                more = j < labels.shape[1] - 1
                (gradient,) = torch.autograd.grad(chosen[:, j].sum(), outputs[-1], retain_graph=more)
                maps.append(self.combine(activations, layer.places.of(gradient).float()))
        return torch.stack(maps, dim=1)
