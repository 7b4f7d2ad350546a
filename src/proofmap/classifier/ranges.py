"""A model that predicts a number, such as a price, as a net of labels: the labels are ranges of the number.

The true number is taken to be normal around the prediction p, with a standard deviation s, the error of the prediction. So the probability
of the range from a to b is

    f = Phi((b - p) / s) - Phi((a - p) / s)

where Phi is the distribution function of the standard normal distribution; the first range has a = -infinity and the last one has b = infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from proofmap.core.errors import InputError, ModelError
from proofmap.core.ranges import range_names
from proofmap.core.text import counted

_PARTS = 3
_MOST_PARTS = 20


class Ranges(nn.Module):
    """From predictions ``(N,)`` or ``(N, 1)`` to log f of the ranges ``(N, R)``: logits, because f sums to 1 over them.

    Args:
        limits: the R - 1 numbers between the ranges, ascending.
        error: the standard deviation s of a prediction.

    >>> Ranges([0, 2], error=1)(torch.tensor([1.0])).exp()  # Phi(-1), Phi(1) - Phi(-1), Phi(-1)
    tensor([[0.1587, 0.6827, 0.1587]])
    """

    def __init__(self, limits: Sequence[float], error: float) -> None:
        super().__init__()
        self.limits, self.error = tuple(map(float, limits)), float(error)  # not buffers, which become float16
        if not self.limits or not all(a < b for a, b in pairwise((-math.inf, *self.limits, math.inf))):
            raise InputError(f"ranges must be ascending numbers, the limits between labels, not {limits!r}")
        if not 0 < self.error < math.inf:
            raise InputError(
                f"the error of a prediction must be a number above 0, its standard deviation, not {error!r}"
            )

    @property
    def names(self) -> tuple[str, ...]:
        return range_names(self.limits)

    def forward(self, prediction: Tensor) -> Tensor:
        return _log_shares(prediction, self.limits, self.error)

    def directions(self, prediction: Tensor) -> Tensor:
        """The sign of the derivative of f in the prediction, 1 or -1, ``(N, R)``: a larger prediction raises f below the middle of a range."""
        middles = [-math.inf, *((a + b) / 2 for a, b in pairwise(self.limits)), math.inf]
        return torch.where(prediction.reshape(-1, 1) < prediction.new_tensor(middles), 1.0, -1.0)

    def record(self) -> dict[str, object]:
        return {"ranges": list(self.limits), "error": self.error}


@torch.fx.wrap
def _log_shares(prediction: Tensor, limits: Sequence[float], error: float) -> Tensor:
    """log f ``(N, R)``, exact and with gradients also far from a prediction, where f is 0 in float32."""
    if prediction.ndim not in (1, 2) or prediction.numel() != len(prediction):
        raise ModelError(
            f"the model returned {tuple(prediction.shape)} for {counted(len(prediction), 'input')}; with ranges of a number it must return one number "
            "for each, (N,) or (N, 1)"
        )
    p = prediction.reshape(-1, 1)
    p = p if p.dtype == torch.float64 else p.float()
    log_below = torch.special.log_ndtr
    z = (p.new_tensor(limits) - p) / error  # (N, R - 1)
    low, high = z[:, :-1], z[:, 1:]
    low, high = (
        torch.where(low > 0, -high, low),
        torch.where(low > 0, -low, high),
    )  # the tail where f is small
    up = log_below(high)
    step = (log_below(low) - up).clamp_max(-torch.finfo(p.dtype).tiny)
    middle = up + (-step.expm1()).log()
    return torch.cat([log_below(z[:, :1]), middle, log_below(-z[:, -1:])], dim=1)


def predicts_number(model: Any) -> bool:
    """Whether a fitted model is a regressor: it has ``predict``, and neither classes nor probabilities."""
    if isinstance(model, nn.Module) or callable(model) or type(model).__name__ == "Booster":
        return False
    return (
        hasattr(model, "predict")
        and not hasattr(model, "predict_proba")
        and not np.size(getattr(model, "classes_", ()))
    )


def chosen_ranges(
    predict: Callable[[Any], Any],
    data: Any,
    name: str,
    ranges: int | Sequence[float] | None = None,
    at_least: float | None = None,
    error: float | None = None,
    truth: Any = None,
) -> Ranges:
    """The ranges of the model ``name`` that a person describes with the arguments of Classifier. ``predict`` is called with ``data`` if they
    need its predictions."""
    if ranges is not None and at_least is not None:
        raise InputError("give ranges= or at_least=, not both")
    if (error is None) == (truth is None):
        raise InputError(
            f"{name} predicts a number, so its labels are ranges, and their probabilities need its error: give error=, the standard deviation of a "
            f"prediction, or truth=, the true numbers of the rows of data{', not both' if error is not None else ''}, as in "
            "pm.Classifier(model, data=frame, truth=y)"
        )
    if at_least is not None:
        ranges = [at_least]
    parts = _PARTS if ranges is None else ranges
    counts = np.ndim(parts) == 0
    if counts and parts not in range(2, _MOST_PARTS + 1):
        raise InputError(
            f"ranges={parts}: give 2 to {_MOST_PARTS} ranges with equally many predictions, or the limits between ranges, [{parts}]"
        )
    if data is None and (counts or truth is not None):
        raise InputError(
            f"{name} predicts a number; give data=, a sample of its inputs, or ranges=[...] and error="
        )
    found = np.zeros(0)
    if counts or truth is not None:
        found = _numbers(predict(data), f"the predictions of {name} for data")
    if truth is not None:
        true = _numbers(truth, "truth")
        if len(true) != len(found):
            raise InputError(
                f"truth has {counted(len(true), 'number')} for {counted(len(found), 'row')} of data"
            )
        error = float(np.sqrt(np.square(true - found).mean()))
        if error == 0:
            raise InputError(f"{name} predicts truth exactly; give rows that it was not fitted on, or error=")
    assert error is not None
    return Ranges(_equal_parts(found, parts) if isinstance(parts, int) else parts, error)


def _equal_parts(predictions: NDArray[np.float64], parts: int) -> list[float]:
    """The limits between ranges with equally many predictions, rounded to a hundredth of their spread."""
    spread = float(np.ptp(predictions))
    digits = -math.floor(math.log10(spread / 100)) if spread else 0
    found = [round(float(each), digits) for each in np.quantile(predictions, np.arange(1, parts) / parts)]
    if not all(a < b for a, b in pairwise(found)) or not spread:
        raise InputError(
            f"{parts} ranges with equally many predictions would have the limits {found}, as many predictions are equal; give other limits, ranges=[...]"
        )
    return found


def _numbers(given: Any, what: str) -> NDArray[np.float64]:
    try:
        found = np.asarray(given.detach().cpu() if isinstance(given, Tensor) else given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} must be numbers: {error}") from None
    if found.shape not in ((len(found),), (len(found), 1)) or not np.isfinite(found).all():
        raise InputError(f"{what} must be one number for each row, not {found.shape} or missing values")
    return found.reshape(-1)
