"""Residual nets for 32x32 images, in the two architectures that the CIFAR experiments use.

* Depths 20, 32, 44, 56, 110: He et al., *Deep residual learning* (CVPR 2016), section 4.2: pairs of 3x3
  convolutions, and shortcuts without parameters (option A: every second pixel, new channels zero).
* Depth 164: bottleneck blocks with a 1x1 convolution on the shortcut if the shape changes. This is the net of the paper. The
  repository with the net's weights calls it ResNet-110, because it counts two layers per block instead of three.

Both have three stages of 16, 32, 64 channels. Every activation is its own module and no operation works in place, so that hooks can be
used.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from proofmap.core.errors import InputError
from proofmap.models.names import CIFAR10_NAMES, cifar100_names
from proofmap.models.weights import State

BASIC_DEPTHS = (20, 32, 44, 56, 110)
BOTTLENECK_DEPTH = 164
_CHANNELS = (16, 32, 64)
_EXPANSION = 4  # outputs per channel of a bottleneck


class PaddedShortcut(nn.Module):
    """The shortcut "option A": every second pixel, with zero channels added evenly before and after, up to ``outputs`` channels.

    ``(N, inputs, H, W)`` to ``(N, outputs, ceil(H / 2), ceil(W / 2))``.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.before = (outputs - inputs) // 2
        self.after = outputs - inputs - self.before

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.before, self.after))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with an option-A shortcut."""

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Identity() if stride == 1 else PaddedShortcut(inputs, channels)
        self.relu2 = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu1(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        z: Tensor = self.relu2(y + self.shortcut(x))
        return z


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 convolutions with a shortcut, which is a 1x1 convolution if the shape changes."""

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        outputs = channels * _EXPANSION
        self.conv1 = nn.Conv2d(inputs, channels, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(channels, channels, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu2 = nn.ReLU()
        self.conv3 = nn.Conv2d(channels, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            conv = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.downsample = nn.Sequential(conv, nn.BatchNorm2d(outputs))
        self.relu3 = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu1(self.bn1(self.conv1(x)))
        y = self.relu2(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        z: Tensor = self.relu3(y + self.downsample(x))
        return z


class CifarResNet(nn.Module):
    """A net from normalised images ``(N, 3, 32, 32)`` to logits ``(N, num_classes)``.

    A basic net of depth d has (d - 2) / 6 blocks per stage, a bottleneck net (d - 2) / 9.

    >>> import torch
    >>> CifarResNet(20).eval()(torch.zeros(1, 3, 32, 32)).shape
    torch.Size([1, 10])
    """

    def __init__(self, depth: int, num_classes: int = 10) -> None:
        super().__init__()
        if depth not in (*BASIC_DEPTHS, BOTTLENECK_DEPTH):
            raise InputError(f"depth must be one of {[*BASIC_DEPTHS, BOTTLENECK_DEPTH]}, not {depth}")
        bottleneck = depth == BOTTLENECK_DEPTH
        block = Bottleneck if bottleneck else BasicBlock
        blocks = (depth - 2) // (9 if bottleneck else 6)
        expansion = _EXPANSION if bottleneck else 1

        self.conv1 = nn.Conv2d(3, _CHANNELS[0], 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(_CHANNELS[0])
        self.relu = nn.ReLU()
        inputs, stages = _CHANNELS[0], []
        for channels in _CHANNELS:
            stride = 1 if channels == _CHANNELS[0] else 2
            outputs = channels * expansion
            first = block(inputs, channels, stride)
            stages.append(nn.Sequential(first, *(block(outputs, channels, 1) for _ in range(blocks - 1))))
            inputs = outputs
        self.layer1, self.layer2, self.layer3 = stages
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.fc = nn.Linear(inputs, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        logits: Tensor = self.fc(self.flatten(self.pool(x)))
        return logits


def classifier_arguments(depth: int, num_classes: int) -> dict[str, Any]:
    """The arguments of Classifier for this net, other than the net itself: normalisation and label names."""
    if depth == BOTTLENECK_DEPTH:
        mean, std = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
    else:
        mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    names = CIFAR10_NAMES if num_classes == 10 else cifar100_names()
    return {"size": 32, "mean": mean, "std": std, "names": names}


def rename_keys(state: State) -> State:
    """The weights with ``linear`` renamed to ``fc``. Checkpoints of the basic nets call the last layer ``linear``.

    >>> list(rename_keys({"linear.bias": Tensor(), "bn1.bias": Tensor()}))
    ['fc.bias', 'bn1.bias']
    """
    last = {"linear.weight": "fc.weight", "linear.bias": "fc.bias"}
    return {last.get(key, key): value for key, value in state.items()}
