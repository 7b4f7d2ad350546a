"""The sum rule: what a map adds up to, and a warning where it does not.

Some methods share out a number among the positions: integrated gradients and DeepLIFT the change of the logit from a
baseline to the input, relevance propagation the logit itself. Then the values of the map add up to that number, and where
they do not, the map is not what its name promises: too few steps, or an operation that was treated wrongly.
"""

from __future__ import annotations

import warnings

from torch import Tensor

from proofmap.core.labels import NO_LABEL

TOLERANCE = 0.05
"""The gap from which on a method warns, as a share of what its maps should add up to."""


class SumRuleWarning(UserWarning):
    """Maps do not add up to what they share out."""


def gap(found: Tensor, expected: Tensor, labels: Tensor) -> float:
    """sum |found - expected| / sum |expected| over all (image, label) pairs ``(N, L)``; 0 where there is nothing to share.

    >>> gap(Tensor([[1.0, 3.0]]), Tensor([[1.0, 4.0]]), Tensor([[0, 1]]))
    0.2
    """
    here = labels != NO_LABEL
    off = (found.double() - expected.double())[here].abs().sum()
    whole = expected.double()[here].abs().sum()
    return 0.0 if float(off) == 0 else round(float(off / whole.clamp_min(1e-12)), 6)


def check_sums(method: str, found: Tensor, expected: Tensor, labels: Tensor, advice: str) -> None:
    """Warn, with the measured gap and what can be done, where maps do not add up to what was expected of them."""
    measured = gap(found, expected, labels)
    if measured > TOLERANCE:
        warnings.warn(
            f"the maps of {method} should add up to {float(expected[labels != NO_LABEL].abs().mean()):.3g} on average "
            f"and are off by {measured:.0%} of it; {advice}",
            SumRuleWarning,
            stacklevel=2,
        )
