"""Label names of ImageNet and CIFAR, in the order of the outputs of their nets."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Literal

_CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@cache
def label_names(dataset: Literal["cifar10", "cifar100", "imagenet"]) -> tuple[str, ...]:
    """The label names of a dataset, each once: the fine labels of CIFAR-100, the 1000 labels of ImageNet.

    >>> names = label_names("imagenet")
    >>> len(names), names[0], names[134], names[517]
    (1000, 'tench', 'crane (bird)', 'crane (machine)')
    """
    if dataset == "cifar10":
        return _CIFAR10
    file = files("proofmap.models").joinpath(f"{dataset}_names.txt")
    return tuple(file.read_text(encoding="utf-8").splitlines())
