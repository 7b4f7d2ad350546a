"""Grad-CAM, Grad-CAM++ and Layer-CAM: they differ in how gradients become weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from proofmap.methods.cams.cam import GradientCAM
from proofmap.methods.method import METHODS


@METHODS.register
@dataclass(frozen=True, kw_only=True)
class GradCAM(GradientCAM):
    """Grad-CAM (Selvaraju et al. 2017): relu(sum_k w_k A_k), w_k = mean over places of d logit_a / d A_k.

    A are the activations of ``layer`` (found by itself when not named), enlarged bilinearly to the input.
    """

    name: ClassVar[str] = "grad-cam"
    reference: ClassVar[str] = "Selvaraju et al. 2017"
    description: ClassVar[str] = "last feature map, weighted by the logit's gradient"

    def combine(self, activations: Tensor, gradient: Tensor) -> Tensor:
        weights = gradient.mean(dim=(2, 3), keepdim=True)
        return (weights * activations).sum(dim=1).relu()


@METHODS.register
@dataclass(frozen=True, kw_only=True)
class GradCAMPlusPlus(GradientCAM):
    """Grad-CAM++ (Chattopadhay et al. 2018): relu(sum_k w_k A_k), w_k = sum over places of alpha_k relu(G_k).

    alpha = G^2 / (2 G^2 + S G^3) with S_k the sum of A_k over places, which is 1 / (2 + S G). It is the paper's weight for
    the score exp(logit_a), but for a factor that all places share. A weight whose denominator is zero or less,
    which the paper's non-negative activations exclude, is zero.
    """

    name: ClassVar[str] = "grad-cam++"
    reference: ClassVar[str] = "Chattopadhay et al. 2018"
    description: ClassVar[str] = "Grad-CAM with weights that find several objects"

    def combine(self, activations: Tensor, gradient: Tensor) -> Tensor:
        below = 2 + activations.sum(dim=(2, 3), keepdim=True) * gradient
        alpha = torch.where(below > 0, 1 / below, 0.0)
        weights = (alpha * gradient.relu()).sum(dim=(2, 3), keepdim=True)
        return (weights * activations).sum(dim=1).relu()


@METHODS.register
@dataclass(frozen=True, kw_only=True)
class LayerCAM(GradientCAM):
    """Layer-CAM (Jiang et al. 2021): relu(sum_k relu(G_k) A_k); each place has a weight of its own.

    It is made for earlier layers too: name one with ``layer`` for a finer map.
    """

    name: ClassVar[str] = "layer-cam"
    reference: ClassVar[str] = "Jiang et al. 2021"
    description: ClassVar[str] = "feature map, weighted place by place by the positive gradient"

    def combine(self, activations: Tensor, gradient: Tensor) -> Tensor:
        return (gradient.relu() * activations).sum(dim=1).relu()
