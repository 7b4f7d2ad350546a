"""The border for nets: a classifier of what a person hands over beside some images."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import data as torch_data

from proofmap.classifier.classifier import Classifier
from proofmap.classifier.probability_models import ProbabilityModel
from proofmap.classifier.stated import stated_by
from proofmap.core.errors import InputError, ModelError
from proofmap.core.inputs import Inputs, Pictures, Rows, Series, Volumes

_FOUND = {
    "logits": "logits",
    "probabilities": "probabilities",
    "sigmoid": "logits of independent labels",
    "sigmoid-probabilities": "probabilities of independent labels",
}


def as_classifier(net: Any, images: Any = None) -> Classifier:
    """The classifier itself, or one made from a module, a function or a fitted model and the ``images`` that come with it.

    The inputs of a module or a function are then what it takes: hidden positions show 0, the mean of normalised data, labels are named by
    their numbers, and the kind of its outputs is found by a look at them. A warning says so, and results record it. A net of timm reads
    photos as it states. A fitted model of another library learns its columns, or that it takes texts, from the images.
    """
    if isinstance(net, Classifier):
        return net
    if isinstance(net, str):
        raise InputError(f"the first argument must be a model, not a name; write pm.load_classifier({net!r})")
    if not (callable(net) or ProbabilityModel.wraps(net)):
        raise InputError(
            f"the first argument must be a Classifier, a module, a function or a fitted model, not {type(net).__name__}"
        )
    if images is None:
        raise InputError(
            f"a {type(net).__name__} needs images beside it; otherwise write pm.Classifier(net, ...)"
        )
    given = _first(images)
    if isinstance(images, str) and ProbabilityModel.takes_texts(net):
        return Classifier(net)
    of_table = (
        not isinstance(net, nn.Module)
        and not isinstance(given, Tensor)
        and (np.ndim(given) == 2 or isinstance(given, str))
    )
    if ProbabilityModel.wraps(net) or of_table:
        return Classifier(net, data=images)
    if not isinstance(given, (Tensor, np.ndarray)):
        if "size" in stated_by(net, None, None)[1]:
            return Classifier(net)
        raise InputError(
            f"how {type(given).__name__} reaches the net is not known; give tensors as the net takes them, or write pm.Classifier(net, size=224, "
            "mean=..., std=...), or transforms=weights.transforms() for a net of torchvision"
        )
    found = _looked_at(net, given)
    inputs = found.inputs
    shape = " x ".join(map(str, inputs.shape))
    found.assumed = (
        f"{found.name}: inputs ({shape}) as the net takes them; hidden {inputs.position_noun} show 0, the mean of normalised data; outputs are "
        f"{_FOUND[found.outputs]}, as a look at them shows; labels are numbered; pm.Classifier(net, ...) says it otherwise"
    )
    if found.one_output:
        found.assumed += ". If the one output is a number, such as a price, write pm.Classifier(net, ..., at_least=..., error=...)"
    low, high = (float(end) for end in torch.as_tensor(given).float().aminmax())
    if isinstance(inputs, Pictures) and low >= 0 and high <= 1:
        found.assumed += (
            f". The images lie between {low:.3g} and {high:.3g}: if the net was trained on normalised ones, write pm.Classifier(net, "
            f"size={inputs.size}, mean=..., std=...)"
        )
    warnings.warn(found.assumed, stacklevel=1)  # here, so that it is said once
    return found


def _first(images: Any) -> Any:
    """Some of the images, from which their kind is read: all, or the first batch."""
    if isinstance(images, torch_data.Dataset) and not isinstance(images, torch_data.IterableDataset):
        images = torch_data.DataLoader(images)
    found = images
    if (
        not hasattr(images, "shape")
        and isinstance(images, Iterable)
        and not isinstance(images, (str, bytes, Mapping, Iterator))
    ):
        found = next(iter(images), None)
    return found[0] if isinstance(found, (tuple, list)) and len(found) else found


def _looked_at(net: Any, given: Tensor | np.ndarray) -> Classifier:
    """The classifier of a net that takes a batch, or a single picture, as it is."""
    try:
        return Classifier(net, inputs=_inputs_of(given), outputs="find")
    except ModelError:
        if given.ndim == 3:
            with suppress(ModelError):
                return Classifier(net, inputs=_inputs_of(given[None]), outputs="find")
        raise


def _inputs_of(given: Tensor | np.ndarray) -> Inputs:
    """The kind of input with the shape of a batch, in the units that the net takes."""
    shape = tuple(given.shape[1:])
    if (
        isinstance(given, np.ndarray)
        and len(shape) in (3, 4)
        and shape[-1] in (1, 3, 4)
        and shape[0] not in (1, 3, 4)
    ):
        shape = (shape[-1], *shape[:-1])  # channels last, as arrays of pictures have them
    real = (
        given.is_floating_point() if isinstance(given, Tensor) else given.dtype.kind == "f" or len(shape) >= 3
    )
    if not real or len(shape) not in (1, 2, 3, 4):
        what = "whole numbers, such as tokens, need" if not real else "inputs of this shape need"
        raise InputError(
            f"{what} pm.Classifier(net, inputs=...): {tuple(given.shape)} {given.dtype} does not say what they are"
        )
    zeros, ones = (0.0,) * shape[0], (1.0,) * shape[0]
    if len(shape) == 3:
        return Pictures(size=shape[1:], mean=zeros, std=ones, unlimited=True)
    if len(shape) == 4:
        return Volumes(size=shape[1:], mean=zeros, std=ones)
    return (
        Rows(columns=shape[0], mean=zeros, std=ones)
        if len(shape) == 1
        else Series(length=shape[1], mean=zeros, std=ones)
    )
