"""Maps that functions and other libraries return: tensors or NumPy arrays of any number type, also coarser than the input."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs

_MODES = {1: "linear", 2: "bilinear"}


def given_maps(found: Any, inputs: Inputs, who: str) -> Tensor:
    """Maps ``(N, L, *positions)`` in float32; errors name ``who`` returned them.

    Maps ``(N, L, *grid)`` on a coarser grid are enlarged linearly along each axis (bilinearly for
    pictures, ``align_corners=False``), like class activation maps. Any other shape is left unchanged, and the caller refuses it.

    >>> from proofmap.core.inputs import Pictures
    >>> given_maps(np.array([[[[0, 4]]]]), Pictures(size=(1, 4)), "mine")
    tensor([[[[0., 1., 3., 4.]]]])
    """
    maps = as_tensor(found, who)
    positions = inputs.positions
    grid = tuple(maps.shape[2:])
    coarser = len(grid) == len(positions) and all(
        0 < few <= many for few, many in zip(grid, positions, strict=True)
    )
    if not coarser or grid == positions or not inputs.has_neighbours:
        return maps
    return F.interpolate(maps, size=positions, mode=_MODES[len(positions)], align_corners=False)


def as_tensor(found: Any, who: str) -> Tensor:
    """A tensor, an array, or a list of equally shaped ones, as float32."""
    if isinstance(found, (list, tuple)) and any(isinstance(item, Tensor) for item in found):
        found = torch.stack([torch.as_tensor(item) for item in found])
    if isinstance(found, Tensor):
        values = found.detach()
    else:
        try:
            values = torch.from_numpy(np.array(found))
        except (TypeError, ValueError):
            raise InputError(
                f"{who} must return maps as a tensor or a NumPy array of numbers, not {type(found).__name__}"
            ) from None
    if values.is_complex():
        raise InputError(f"{who} returned complex numbers; a map has one real number per position")
    return values.float()
