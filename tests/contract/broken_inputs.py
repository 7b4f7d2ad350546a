"""For each promise of kinds of input, one that breaks it and what the message says."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from proofmap.core.inputs import Inputs, Rows, Series

_ROWS = {"columns": 3, "mean": (0.0, 1.0, 2.0), "std": (1.0, 1.0, 2.0)}
_SERIES = {"length": 6, "mean": (0.0, 1.0), "std": (1.0, 2.0)}


def broken(kind: type[Inputs], /, settings: dict[str, Any], **changes: Any) -> Inputs:
    """Inputs with other attributes."""
    return type(kind.__name__, (kind,), changes)(**settings)


def rows(**changes: Any) -> Inputs:
    return broken(Rows, _ROWS, **changes)


def series(**changes: Any) -> Inputs:
    return broken(Series, _SERIES, **changes)


def lopsided(self: Series, values: Tensor) -> Tensor:
    """The first position owns the second one's values too."""
    values = values.clone()
    values[..., 1] = values[..., 0]
    return values.unsqueeze(-2)


INPUTS: list[tuple[str, Inputs, str]] = [
    ("it_is_registered_and_described_by_its_record", rows(), "Rows is not registered"),
    (
        "every_value_belongs_to_one_position_and_every_position_has_values",
        series(over_channels=lopsided),
        "6 positions, but values belong to 5",
    ),
    (
        "every_position_has_a_name_and_a_value_in_words",
        rows(position_names=property(lambda self: ("a", "b", "a"))),
        "two positions have the same name",
    ),
    (
        "every_value_belongs_to_one_position_and_every_position_has_values",
        series(merged_channels=lambda self, values, how="sum": values.sum(dim=-2)),
        "the mean of position",
    ),
    (
        "it_takes_inputs_of_its_shape_and_no_others",
        rows(probe=lambda self: self.blank(1)),
        "must differ from the neutral input",
    ),
    (
        "it_takes_inputs_of_its_shape_and_no_others",
        rows(_check_finite=lambda self, inputs, problem: None),
        r"check\(\) takes infinity",
    ),
    (
        "it_takes_inputs_of_its_shape_and_no_others",
        rows(prepare=lambda self, item, cropped=False: torch.as_tensor(item) * 2),
        r"prepare\(\) changes numbers",
    ),
    ("its_fills_show_inputs", series(fills=("gray", "misty")), "no fill is named 'misty'"),
    (
        "its_picture_shows_every_position",
        rows(picture=lambda self, x: np.zeros((*self.picture_size(), 3), dtype=np.uint8)),
        "two inputs have the same picture",
    ),
    (
        "methods_are_judged_on_it",
        rows(record=lambda self: {"inputs": "rows", "columns": 3, "mean": [0.0] * 3, "std": [1.0] * 3}),
        "a result describes Rows",
    ),
]
