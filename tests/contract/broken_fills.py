"""Fills and kinds of input that break a promise: the promise, the plug-in, and what its check says."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from proofmap.core.inputs import Inputs, Rows, Series
from proofmap.fills import Fill, Gray, Noise
from proofmap.session import Session


def fill(kind: type[Fill] = Gray, /, **changes: Any) -> Fill:
    """A fill with other attributes."""
    return type("Changed", (kind,), changes)()


def showing(backgrounds: Callable[[Tensor, Tensor, Inputs], Tensor], **changes: Any) -> Fill:
    """A fill with other backgrounds."""

    def own(self: Fill, session: Session, images: Tensor, keys: Tensor) -> Tensor:
        return backgrounds(images, keys, session.inputs)

    return fill(backgrounds=own, **changes)


def careless(what: Callable[[Tensor], object]) -> Fill:
    """A fill that does something it must not do, beside its work."""

    def backgrounds(images: Tensor, keys: Tensor, inputs: Inputs) -> Tensor:
        shown = images / 2
        what(images)
        return shown

    return showing(backgrounds)


def with_own_settings() -> Fill:
    class Silent(Gray):
        share: float = 0.5

        def settings(self) -> dict[str, object]:
            return {"fill": "gray", "color": None}

    return Silent()


def restless() -> Fill:
    """The record says how often it was asked for."""
    times = itertools.count()
    return fill(record=lambda self, session: {"fill": "gray", "time": next(times)})


class Forgetful(Gray):
    """What depends on its setting is kept without its settings in the key."""

    share: float = 0.5

    def backgrounds(self, session: Session, images: Tensor, keys: Tensor) -> Tensor:
        return images * session.memo(self.name, lambda: self.share)


def remembering() -> Fill:
    """It keeps the gray of the first net that it was used for."""

    def backgrounds(self: Any, session: Session, images: Tensor, keys: Tensor) -> Tensor:
        if not hasattr(self, "_first") or self._first.inputs.shape != session.inputs.shape:
            object.__setattr__(self, "_first", session)
        return Gray.backgrounds(self, self._first, images, keys)

    return fill(backgrounds=backgrounds)


def of_positions(images: Tensor, keys: Tensor, inputs: Inputs) -> Tensor:
    """Brightness at each place of the batch."""
    return images * torch.linspace(0.5, 1, len(images)).view(-1, *[1] * (images.ndim - 1))


FILLS: list[tuple[str, Fill, str]] = [
    (
        "it_is_known_by_its_name_and_its_settings",
        with_own_settings(),
        r"lacks share",
    ),
    (
        "it_is_known_by_its_name_and_its_settings",
        fill(__eq__=lambda a, b: a is b, __hash__=lambda a: 0),
        "with the same settings is not equal",
    ),
    ("it_is_known_by_its_name_and_its_settings", fill(description=""), "description must say in one line"),
    (
        "it_shows_inputs_of_the_net_or_refuses_their_kind",
        showing(lambda images, *_: images.flip(2)),
        "rows: IndexError: .*; raise an InputError instead",
    ),
    ("its_record_is_plain_data_and_differs_where_its_backgrounds_do", restless(), "two records differ"),
    (
        "its_record_is_plain_data_and_differs_where_its_backgrounds_do",
        fill(record=lambda self, session: self.settings()),
        "different backgrounds, but the same record: {'fill': 'gray', 'color': None}",
    ),
    (
        "a_background_depends_on_its_image_and_key_alone",
        remembering(),
        "used for another net before shows something else",
    ),
    (
        "it_shows_inputs_of_the_net_or_refuses_their_kind",
        showing(lambda images, *_: images + 0.5),
        r"InputError: images must lie in \[0, 1\]",
    ),
    ("a_background_depends_on_its_image_and_key_alone", showing(of_positions), "change with the order"),
    ("a_session_keeps_two_settings_apart", Forgetful(), r"write session.memo\(\(self, ...\), ...\)"),
    (
        "random_means_that_the_key_matters",
        fill(Noise, random=False),
        "random is False, but two keys give different backgrounds",
    ),
    (
        "it_leaves_the_net_and_the_random_state_alone",
        careless(lambda images: torch.manual_seed(0)),
        "torch's global generator was used or seeded",
    ),
]
RECORD = "its_record_is_plain_data_and_differs_where_its_backgrounds_do"
RECORDS: list[tuple[str, Fill, str]] = [
    (RECORD, fill(record=lambda self, session: {"color": (0.5,)}), "the record changes when JSON carries it"),
    (RECORD, fill(record=lambda self, session: {"color": 0.5}), "expected 'fill': 'gray' in it"),
]


# ---- kinds of input ------------------------------------------------------------------------------------------


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
