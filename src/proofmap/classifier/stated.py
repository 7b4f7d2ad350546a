"""Size, normalisation and names of labels where they are stated: by a net of timm, or by the transforms of torchvision's weights."""

from __future__ import annotations

import math
import warnings
from importlib import import_module
from typing import Any, get_args

from proofmap.core.errors import InputError
from proofmap.core.inputs.pictures import Interpolation


def stated_by(net: Any, transforms: Any = None) -> dict[str, Any]:
    """What ``transforms``, or a net of timm, state; empty if neither is there."""
    if transforms is not None:
        return of_transforms(transforms)
    return of_timm(net, type(net).__name__) if type(net).__module__.startswith("timm.") else {}


def of_timm(net: Any, title: str) -> dict[str, Any]:
    """The arguments of a classifier for a net of timm."""
    data = import_module("timm.data")
    config = data.resolve_model_data_config(net)
    height, width = config["input_size"][1:]
    resize, squashes = math.floor(min(height, width) / config["crop_pct"]), config["crop_mode"] == "squash"
    subset = data.infer_imagenet_subset(net)  # inferred from the number of outputs and the weights' tag
    labels = None if subset is None else data.ImageNetInfo(subset)
    return {
        "size": (height, width),
        **(squashing(title, min(height, width), resize) if squashes else {"resize": resize}),
        "interpolation": interpolation(config["interpolation"]),
        "mean": config["mean"],
        "std": config["std"],
        "names": labels and [labels.index_to_description(k) for k in range(net.num_classes)],
    }


def of_transforms(transforms: Any) -> dict[str, Any]:
    """The arguments of a classifier that are stated by torchvision's ``weights.transforms()``."""
    if not all(
        hasattr(transforms, name) for name in ("crop_size", "resize_size", "mean", "std", "interpolation")
    ):
        raise InputError(
            f"transforms must be those of torchvision's weights, weights.transforms(), not {type(transforms).__name__}; otherwise give size, mean and std"
        )
    return {
        "size": transforms.crop_size[0],
        "resize": transforms.resize_size[0],
        "interpolation": interpolation(transforms.interpolation.value),
        "mean": tuple(transforms.mean),
        "std": tuple(transforms.std),
    }


def interpolation(name: str) -> str:
    """The interpolation of this name; bilinear for timm's "random" and "hamming", which are for training."""
    return name if name in get_args(Interpolation) else "bilinear"


def squashing(title: str, side: int, resize: int) -> dict[str, Any]:
    """The arguments of a net whose transform squashes photos to ``resize`` and then crops them to ``side``."""
    if resize > side:
        warnings.warn(
            f"{title} was evaluated on photos squashed to {resize} pixels, of which the middle {side} were cut out; Proofmap "
            f"squashes them to {side}, so probabilities differ a little from the hub's",
            stacklevel=2,
        )
    return {"fit": "squash"}
