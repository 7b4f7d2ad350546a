"""Maps on the scale from 0 to 1, for measures that read values where the games read ranks."""

from __future__ import annotations

import torch
from torch import Tensor


def unit_scale(maps: Tensor) -> Tensor:
    """Maps ``(P, *positions)`` moved and stretched, each for itself, so that they run from 0 to 1.

    A constant map says nothing of where to look and becomes 0 everywhere. Infinite values count as the largest or the
    least finite one; a map that has no finite value is 1 at plus infinity and 0 elsewhere.

    >>> unit_scale(torch.tensor([[-1.0, 1.0, 3.0], [2.0, 2.0, 2.0], [0.0, 4.0, torch.inf]]))
    tensor([[0.0000, 0.5000, 1.0000],
            [0.0000, 0.0000, 0.0000],
            [0.0000, 1.0000, 1.0000]])
    """
    values = maps.flatten(1).float()
    finite = values.isfinite()
    low = values.masked_fill(~finite, torch.inf).amin(dim=1, keepdim=True)
    high = values.masked_fill(~finite, -torch.inf).amax(dim=1, keepdim=True)
    none = low > high
    low, high = low.masked_fill(none, 0.0), high.masked_fill(none, 1.0)
    inside = torch.where(values == torch.inf, high, torch.where(values == -torch.inf, low, values))
    inside = torch.minimum(torch.maximum(inside, low), high)
    span = (high - low).where(high > low, 1.0)
    return ((inside - low) / span).view(maps.shape)
