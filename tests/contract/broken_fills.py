"""For each promise of fills, one that breaks it and what the message says."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from proofmap.core.inputs import Inputs
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


def dark(images: Tensor, *_: Any) -> Tensor:
    return images / 2


def careless(what: Callable[[Tensor], object]) -> Fill:
    """A fill that does something it must not do, beside its work."""

    def backgrounds(images: Tensor, keys: Tensor, inputs: Inputs) -> Tensor:
        shown = images / 2
        what(images)
        return shown

    return showing(backgrounds)


def with_own_settings() -> Fill:
    class Mutable(Gray):
        share: float = 0.5

    return Mutable()


def restless() -> Fill:
    """The record says how often it was asked for."""
    times = itertools.count()
    return fill(record=lambda self, session: {"fill": "gray", "time": next(times)})


def eating() -> Fill:
    """A fill that is called without the copies that others are given, and leaves nothing of the images."""

    def call(self: Fill, session: Session, images: Tensor, keys: Tensor) -> Tensor:
        shown = Gray.__call__(self, session, images, keys).clone()
        images.zero_()
        return shown

    return fill(__call__=call)


def remembering() -> Fill:
    """It keeps the gray of the first net that it was used for."""

    def backgrounds(self: Any, session: Session, images: Tensor, keys: Tensor) -> Tensor:
        if not hasattr(self, "_first"):
            object.__setattr__(self, "_first", session)
        return Gray.backgrounds(self, self._first, images, keys)

    return fill(backgrounds=backgrounds)


def of_positions(images: Tensor, keys: Tensor, inputs: Inputs) -> Tensor:
    """Brightness at each place of the batch."""
    return images * torch.linspace(0.5, 1, len(images)).view(-1, *[1] * (images.ndim - 1))


FILLS: dict[str, tuple[Fill, str]] = {
    "its_settings_are_frozen_keyword_only_and_recorded": (
        with_own_settings(),
        r"these are not settings: share; decorate Mutable with @dataclass",
    ),
    "it_compares_by_its_settings_and_can_be_a_key": (
        dataclasses.dataclass(frozen=True, eq=False)(
            type("Changed", (Gray,), {"__eq__": lambda a, b: a is b, "__hash__": lambda a: 0})
        )(),
        "with the same settings is not equal",
    ),
    "it_has_a_name_and_a_description": (fill(description=""), "description must say in one line"),
    "it_serves_a_kind_of_input_and_refuses_others_with_an_input_error": (
        showing(lambda images, *_: images.flip(2)),
        "rows end in IndexError: .*; raise an InputError instead",
    ),
    "its_record_is_plain_data_that_names_it_and_the_same_each_time": (restless(), "two records differ"),
    "its_record_differs_where_its_backgrounds_do": (
        fill(record=lambda self, session: self.settings()),
        "different backgrounds, but the same record: {'fill': 'gray', 'color': None}",
    ),
    "its_use_for_one_net_does_not_disturb_another": (
        remembering(),
        "used for another net before shows something else",
    ),
    "backgrounds_are_inputs_of_the_net": (
        showing(lambda images, *_: images + 0.5),
        r"images must lie in \[0, 1\]",
    ),
    "a_background_depends_on_its_image_and_key_alone": (showing(of_positions), "change with the order"),
    "random_means_that_the_key_matters": (
        fill(Noise, random=False),
        "random is False, but two keys give different backgrounds",
    ),
    "images_and_keys_stay_as_they_are": (eating(), "the images were changed"),
    "the_global_random_state_is_not_touched": (
        careless(lambda images: torch.manual_seed(0)),
        "torch's global generator was used or seeded",
    ),
}
