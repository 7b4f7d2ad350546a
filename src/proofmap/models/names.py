"""Label names of ImageNet and CIFAR, in the order of the outputs of their nets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

CIFAR10_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@cache
def imagenet_names() -> tuple[str, ...]:
    """The 1000 ImageNet labels in the usual order, each name once.

    >>> names = imagenet_names()
    >>> len(names), names[0], names[134], names[517]
    (1000, 'tench', 'crane (bird)', 'crane (machine)')
    """
    return _read_names("imagenet_names.txt")


@cache
def cifar100_names() -> tuple[str, ...]:
    """The 100 fine labels of CIFAR-100, in alphabetical order.

    >>> cifar100_names()[:2]
    ('apple', 'aquarium fish')
    """
    return _read_names("cifar100_names.txt")


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """The names, with the index added to each name that occurs more than once. Upper and lower case count as equal.

    >>> distinct(["Cardigan", "cat", "cardigan"])
    ('Cardigan (0)', 'cat', 'cardigan (2)')
    """
    times = Counter(name.lower() for name in names)
    return tuple(f"{name} ({index})" if times[name.lower()] > 1 else name for index, name in enumerate(names))


def _read_names(file: str) -> tuple[str, ...]:
    return tuple(files("proofmap.models").joinpath(file).read_text(encoding="utf-8").splitlines())
