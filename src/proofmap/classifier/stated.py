"""Size, normalisation and names of labels where they are stated: by a net of timm, by the transforms of torchvision's weights, by a processor of
Hugging Face."""

from __future__ import annotations

import math
import warnings
from importlib import import_module
from typing import Any, get_args

import torch
from PIL import Image
from torch import Tensor, nn

from proofmap.classifier.token_nets import TokenReader
from proofmap.classifier.view import copy_net, place_of
from proofmap.core.errors import InputError, ModelError
from proofmap.core.inputs import Tokens
from proofmap.core.inputs.pictures import Interpolation
from proofmap.core.text import distinct


def stated_by(net: Any, transforms: Any, processor: Any, title: str = "") -> tuple[Any, dict[str, Any]]:
    """The net as a module from inputs to logits, and the arguments of a classifier that ``transforms``, a ``processor`` of Hugging Face or the net
    itself state. Messages call the net ``title``, by default its class.
    """
    title = title or type(net).__name__
    homes = {kind.__module__.partition(".")[0] for kind in type(net).__mro__}
    if transforms is not None and processor is not None:
        raise InputError("give transforms= or processor=, not both")
    if "transformers" in homes:
        return _of_transformer(net, title, transforms, processor)
    if processor is not None:
        raise InputError(
            f"processor= is for models of Hugging Face; for a {title} write transforms=, or size=, mean= and std="
        )
    if transforms is not None:
        return net, _of_transforms(transforms)
    return net, _of_timm(net, title) if "timm" in homes else {}


def _of_timm(net: Any, title: str) -> dict[str, Any]:
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
        "names": labels and distinct([labels.index_to_description(k) for k in range(net.num_classes)]),
    }


def _of_transforms(transforms: Any) -> dict[str, Any]:
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


# ---- Hugging Face ------------------------------------------------------------------------------------------


def _of_transformer(model: Any, who: str, transforms: Any, processor: Any) -> tuple[Any, dict[str, Any]]:
    if hasattr(processor, "convert_tokens_to_ids"):
        device = place_of(model)[0]
        # a copy, as the embeddings of special tokens and of texts are read once
        model = copy_net(model).float().eval().requires_grad_(False).cpu()
        reader = TokenReader(who, model, processor)
        net, found = reader.sequence_net(model)
        inputs = Tokens(width=reader.table.shape[1], length=min(256, reader.most), slots=4, reader=reader)
        return net, {**found, "inputs": inputs, "device": device, "name": who}
    if getattr(model, "main_input_name", "") != "pixel_values":
        raise ModelError(
            f"a {who} is explained with its tokenizer: pm.Classifier(model, processor=tokenizer), where the model is for sequence classification"
        )
    config, reverse, found = model.config, False, {}
    if transforms is not None:
        found = _of_transforms(transforms)
    elif processor is not None:
        found, reverse = of_processor(processor, who)
    names = [str(config.id2label[k]) for k in range(config.num_labels)]
    several = getattr(config, "problem_type", None) == "multi_label_classification"
    found |= {"names": distinct(names), "name": who, **({"outputs": "sigmoid"} if several else {})}
    return LogitsOf(model, reverse), found


class LogitsOf(nn.Module):
    """A transformers model as a module from images to logits. The colour channels are put into the model's order."""

    def __init__(self, model: nn.Module, reverse_channels: bool = False) -> None:
        super().__init__()
        self.model = model
        self.reverse_channels = reverse_channels

    def forward(self, x: Tensor) -> Tensor:
        if self.reverse_channels:
            x = x.flip(1)
        logits: Tensor = self.model(pixel_values=x).logits
        return logits


def of_processor(processor: Any, who: str) -> tuple[dict[str, Any], bool]:
    """Size, mean and std of the preprocessing, and whether it reverses the colour channels. They are measured on the image processor.

    Processors rescale and normalise in different ways, but all are affine per channel, ``value = (pixel - mean) / std``. So their outputs
    for black and white pixels determine mean and std.
    """
    black, white, red = (_processed(processor, colour) for colour in ("black", "white", "red"))
    centre = (slice(None), black.shape[1] // 2, black.shape[2] // 2)
    low, high = black[centre], white[centre]
    std = 1 / (high - low)
    mean = 0 - low * std
    reverse = bool((red[centre] - low).abs().argmax() != 0)
    if reverse:
        mean, std = mean.flip(0), std.flip(0)
    height, width = black.shape[1:]
    return {
        "size": (height, width),
        **_fit(processor, min(height, width), who),
        "interpolation": _resampling(processor),
        "mean": tuple(round(float(v), 6) for v in mean),
        "std": tuple(round(float(v), 6) for v in std),
    }, reverse


def _processed(processor: Any, colour: str) -> Tensor:
    values = processor(images=Image.new("RGB", (512, 512), colour), return_tensors="pt")["pixel_values"]
    return torch.as_tensor(values)[0].double()


def _fit(processor: Any, side: int, who: str) -> dict[str, Any]:
    """The arguments of Classifier that say how photos are fitted: the size of the shorter side before the centre crop, or squashing."""
    size = dict(getattr(processor, "size", None) or {})
    crop_pct = getattr(processor, "crop_pct", None)
    if size.get("shortest_edge") and crop_pct and size["shortest_edge"] < 384:  # ConvNeXT's rule
        return {"resize": int(size["shortest_edge"] / crop_pct)}
    if size.get("shortest_edge") and not crop_pct:
        return {"resize": int(size["shortest_edge"])}
    return squashing(who, side, max(side, int(size.get("height") or side)))


def _resampling(processor: Any) -> str:
    code = getattr(processor, "resample", None)
    return interpolation(Image.Resampling(code).name.lower() if code is not None else "bilinear")
