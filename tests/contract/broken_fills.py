"""For each promise of fills, one that breaks it and what the message says."""

from __future__ import annotations

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
