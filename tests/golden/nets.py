"""Small nets with weights that depend on a seed alone, and inputs for them. The kinds of input are the only names that are not of ``import proofmap``."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

import proofmap as pm

MEAN, STD = (0.5, 0.4, 0.3), (0.25, 0.2, 0.3)
Net = TypeVar("Net", bound=nn.Module)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).float()


def photos(n: int, height: int = 8, width: int = 10, *, seed: int = 5) -> Tensor:
    """Images of 8-bit pixels with some structure: a bright patch on noise."""
    bytes_ = np.random.default_rng(seed).integers(0, 160, (n, 3, height, width))
    for k in range(n):
        bytes_[k, k % 3, 1 + k % 3 : 5 + k % 3, 2 + k % 4 : 6 + k % 4] += 95
    return torch.from_numpy(bytes_).float() / 255


def drawn(net: Net, seed: int = 0) -> Net:
    """The net in evaluation mode, with random weights that are large enough to separate labels."""
    with torch.no_grad():
        for k, weight in enumerate(net.parameters()):
            fan_in = weight[0].numel() if weight.ndim > 1 else 4
            weight.copy_(normal(*weight.shape, seed=1000 * seed + k) * (2 / fan_in) ** 0.5)
    return net.eval()


def conv_net(labels: int = 4, *, seed: int = 0) -> nn.Sequential:
    """Two convolutions with batch norm and ReLU, global pooling, a linear head."""
    layers: list[nn.Module] = []
    for before, after, stride in ((3, 6, 1), (6, 12, 2)):
        layers += [nn.Conv2d(before, after, 3, stride, 1), nn.BatchNorm2d(after), nn.ReLU()]
    net = drawn(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, labels)), seed)
    for k, layer in enumerate(net):
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean = 0.1 * normal(layer.num_features, seed=50 + k)
            layer.running_var = 1 + 0.1 * normal(layer.num_features, seed=60 + k).abs()
            layer.weight.data.abs_().add_(0.5)
    return net


def conv(**options: Any) -> pm.Classifier:
    options = {"size": (8, 10), "mean": MEAN, "std": STD, "batch_size": 64, **options}
    return pm.Classifier(conv_net(), **options)
