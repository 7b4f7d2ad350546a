"""The state of an optimiser of torch as named tensors, as a safetensors file holds them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


def optimiser_state(optimiser: torch.optim.Optimizer, prefix: str) -> dict[str, Tensor]:
    """Every tensor that it keeps, by the number of the weight and its own name.

    >>> weight = torch.nn.Parameter(torch.ones(1))
    >>> adam = torch.optim.Adam([weight])
    >>> weight.sum().backward(), adam.step()
    (None, None)
    >>> sorted(optimiser_state(adam, "adam."))
    ['adam.0.exp_avg', 'adam.0.exp_avg_sq', 'adam.0.step']
    """
    kept = optimiser.state_dict()["state"]
    return {
        f"{prefix}{number}.{name}": value
        for number, values in kept.items()
        for name, value in values.items()
        if isinstance(value, Tensor)
    }


def load_optimiser(optimiser: torch.optim.Optimizer, state: Mapping[str, Tensor], prefix: str) -> None:
    """Go on from :func:`optimiser_state`."""
    kept: dict[int, dict[str, Tensor]] = {}
    for key, value in state.items():
        if key.startswith(prefix):
            number, _, name = key.removeprefix(prefix).partition(".")
            kept.setdefault(int(number), {})[name] = value
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": kept, "param_groups": groups})
