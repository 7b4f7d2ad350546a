"""Tensors of images with the names of their files, and copies that other code may write to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from proofmap.core.errors import InputError


class NamedImages(Tensor):
    """A tensor of images ``(N, ...)`` with ``file_names``, one per image.

    Indexing, and conversion to another device or type keep the names. Other results, such as ``images * 2`` or
    ``images[0]``, are plain tensors.

    >>> photos = NamedImages.of(torch.zeros(3, 1, 2, 2), ["cat", "dog", "cup"])
    >>> photos[1:].file_names, photos[[2, 0]].file_names, type(photos * 2)
    (('dog', 'cup'), ('cup', 'cat'), <class 'torch.Tensor'>)
    """

    file_names: tuple[str, ...]

    @classmethod
    def of(cls, images: Tensor, names: Iterable[str]) -> NamedImages:
        """The images with ``names`` as their file names. The data are not copied."""
        named, given = images.as_subclass(cls), tuple(names)
        if len(given) != len(images):
            raise InputError(f"{len(given)} names were given for {len(images)} images")
        named.file_names = given
        return named

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            found, images = func(*args, **(kwargs or {})), args[0]
        if found is images or not isinstance(images, NamedImages):
            return found
        if func in _KEEP_THE_IMAGES:
            return cls.of(found, images.file_names)
        if func is Tensor.__getitem__ and found.ndim == images.ndim:
            index = args[1][0] if isinstance(args[1], tuple) else args[1]
            names = np.array(images.file_names)[index.cpu() if isinstance(index, Tensor) else index]
            return cls.of(found, names.tolist()) if names.shape == found.shape[:1] else found
        return found

    def __deepcopy__(self, memo: dict[int, Any]) -> NamedImages:
        return NamedImages.of(NamedImages.plain(self).__deepcopy__(memo), self.file_names)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle the images as a plain tensor, which every program can load."""
        return NamedImages.plain(self).__reduce_ex__(protocol)

    @staticmethod
    def names_of(images: object) -> tuple[str, ...] | None:
        """The names of the images' files; None if they are not known.

        >>> (
        ...     NamedImages.names_of(NamedImages.of(torch.zeros(1, 3, 2, 2), ["cat"])),
        ...     NamedImages.names_of(torch.zeros(1, 3, 2, 2)),
        ... )
        (('cat',), None)
        """
        return images.file_names if isinstance(images, NamedImages) else None

    @staticmethod
    def plain(images: Tensor) -> Tensor:
        """The same images as a plain tensor."""
        return images.as_subclass(Tensor) if isinstance(images, NamedImages) else images


_KEEP_THE_IMAGES = {
    *(Tensor.to, Tensor.cpu, Tensor.cuda, Tensor.clone, Tensor.detach),
    *(Tensor.float, Tensor.double, Tensor.half),
}
"""Functions whose result has the same images, in the same order."""


def private_copy(x: Tensor, *, repeats: bool = True) -> Tensor:
    """A copy detached from autograd's graph, for code that may write into its input. Expanded axes (stride 0) stay expanded, or have one
    entry if ``repeats`` is false.

    >>> row = torch.arange(3.0)
    >>> mine = private_copy(row.expand(4, 3))
    >>> row.zero_(), mine[0], mine.stride()
    (tensor([0., 0., 0.]), tensor([0., 1., 2.]), (0, 1))
    """
    once = x[tuple(slice(1 if stride == 0 else None) for stride in x.stride())].detach().clone()
    return once.expand_as(x) if repeats else once


def exact(values: Tensor, device: torch.device | None = None) -> Tensor:
    """The values in double precision, on ``device`` if one is given; in float32 where a device has no float64, as on Apple's GPUs and some of Intel's."""
    device = values.device if device is None else device
    return values.to(device, torch.float64 if device.type in ("cpu", "cuda") else torch.float32)
