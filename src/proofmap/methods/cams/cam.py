"""What class activation maps share: the backbone runs once, and only the head is differentiated for each label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.batching import in_batches
from proofmap.core.progress import Progress
from proofmap.methods.cams.layers import Layer, captured, find_layer, named_layer
from proofmap.methods.method import Cost, Family, Method, Need, ReadyMethod
from proofmap.plugins.settings import setting

M = TypeVar("M", bound="CAM")


@dataclass(frozen=True, kw_only=True)
class CAM(Method):
    """A map made from the activations A ``(N, C, h, w)`` of one layer, enlarged bilinearly to the input.

    The layer is found by itself when not named. Tokens of a transformer are put into their places, and class tokens and
    registers left out, by a gradient probe.
    """

    family: ClassVar[Family] = "cam"
    needs: ClassVar[frozenset[Need]] = frozenset({"gradients", "layer"})
    layer: str = setting("", "the layer's name; found by itself when left out")

    def find(self, classifier: Classifier) -> Layer:
        if not self.layer:
            return find_layer(classifier)
        return named_layer(classifier, self.layer, gradients="gradients" in self.needs)


@dataclass(frozen=True, eq=False)
class ReadyCAM(ReadyMethod, Generic[M]):
    """A class activation map of one net, at the layer that was named or found."""

    method: M
    layer: Layer

    def record(self) -> dict[str, object]:
        return {**super().record(), "layer": self.layer.name}

    def compute(self, images: Tensor, labels: Tensor, *, seed: int, progress: Progress) -> Tensor:
        with progress.task(self.method.name, len(images)) as task:

            def run(start: int, stop: int) -> Tensor:
                low = self.low_resolution(images[start:stop], labels[start:stop])
                task.advance(stop - start)
                return enlarged(low, images)

            return torch.cat(in_batches(run, len(images), self.classifier.batches[1]))

    def low_resolution(self, images: Tensor, labels: Tensor) -> Tensor:
        """The maps ``(N, L, h, w)`` before enlarging."""
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

    def prepare(self, classifier: Classifier) -> ReadyGradientCAM:
        return ReadyGradientCAM(self, classifier, self.find(classifier))

    def cost(self, labels: int) -> Cost:
        return Cost(gradient=1)


@dataclass(frozen=True, eq=False)
class ReadyGradientCAM(ReadyCAM[GradientCAM]):
    """Of one net: one pass of the backbone, and one gradient through the head for each label."""

    def low_resolution(self, images: Tensor, labels: Tensor) -> Tensor:
        with torch.enable_grad(), captured(self.classifier, self.layer) as outputs:
            chosen = self.classifier(images).gather(1, labels.clamp_min(0))
            activations = self.layer.places.of(outputs[-1].detach()).float()
            maps = []
            for j in range(labels.shape[1]):
                more = j < labels.shape[1] - 1
                (gradient,) = torch.autograd.grad(chosen[:, j].sum(), outputs[-1], retain_graph=more)
                maps.append(self.method.combine(activations, self.layer.places.of(gradient).float()))
        return torch.stack(maps, dim=1)
