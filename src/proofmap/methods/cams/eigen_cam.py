"""Eigen-CAM: what most of the channels have in common, whatever the label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from proofmap.methods.cams.cam import CAM
from proofmap.methods.cams.layers import activations_of
from proofmap.methods.method import METHODS, Cost, Need, ReadyMethod
from proofmap.plugins.settings import setting


@METHODS.register
@dataclass(frozen=True, kw_only=True)
class EigenCAM(CAM):
    """Eigen-CAM (Muhammad and Yeasin 2020): relu(A v), v the first right singular vector of A as places x channels.

    The sign of v is free; here the larger part of the map is above zero. With ``centred`` each channel's mean is
    taken off first, as pytorch-grad-cam does it, whose sign is left to chance.
    """

    name: ClassVar[str] = "eigen-cam"
    reference: ClassVar[str] = "Muhammad and Yeasin 2020"
    description: ClassVar[str] = "first principal component of the last feature map, without a label"
    label_free = True
    needs: ClassVar[frozenset[Need]] = frozenset({"layer"})
    centred: bool = setting(False, "take off each channel's mean over places first")

    def cost(self, labels: int) -> Cost:
        return Cost(forward=1)

    def low_resolution(self, ready: ReadyMethod, images: Tensor, labels: Tensor) -> Tensor:
        activations = activations_of(ready.classifier, ready.state, images)
        return first_component(activations, self.centred)[:, None]


def first_component(activations: Tensor, centred: bool) -> Tensor:
    """relu(A v) ``(N, h, w)`` for activations ``(N, C, h, w)``.

    v is the last eigenvector of A^T A, channels x channels. With A = U S V^T the map is also the first column of U S, which
    A A^T gives, places x places: whichever is smaller.
    """
    features = activations.flatten(2).transpose(1, 2)
    if centred:
        features = features - features.mean(dim=1, keepdim=True)
    scale = features.abs().amax(dim=(1, 2), keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)
    features = features / scale
    if features.shape[1] <= features.shape[2]:
        values, vectors = torch.linalg.eigh(features @ features.transpose(1, 2))
        component = vectors[:, :, -1] * values[:, -1:].clamp_min(0).sqrt()
    else:
        _, vectors = torch.linalg.eigh(features.transpose(1, 2) @ features)
        component = (features @ vectors[:, :, -1:])[:, :, 0]
    component = component * scale[:, :, 0]
    above, below = component.relu().square().sum(dim=1), (-component).relu().square().sum(dim=1)
    component = torch.where((above >= below)[:, None], component, -component)
    return component.relu().view(-1, *activations.shape[2:])
