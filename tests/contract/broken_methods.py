"""For each promise of methods, one that breaks it and what the message says."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from proofmap.methods import Gradient, Method, Random
from proofmap.session import Session


def method(kind: type[Method] = Gradient, /, **changes: Any) -> Method:
    """A method with other attributes."""
    return type("Changed", (kind,), changes)()


def after(change: Callable[[Tensor], Tensor]) -> Method:
    """Gradients, changed."""

    def maps(self: Method, session: Session, x: Tensor, labels: Tensor) -> Tensor:
        return change(Gradient.maps(self, session, x, labels))

    return method(maps=maps)


def computing(compute: Callable[..., Tensor], kind: type[Method] = Gradient, **changes: Any) -> Method:
    """A method with other maps: ``compute(classifier, images, labels, progress)``."""

    def maps(self: Method, session: Session, x: Tensor, labels: Tensor) -> Tensor:
        return compute(session.net, x, labels, session.progress)

    return method(kind, maps=maps, **changes)


def brightness(f: Any, x: Tensor, labels: Tensor, *_: Any) -> Tensor:
    return x.mean(dim=1, keepdim=True).expand(-1, labels.shape[1], -1, -1)


def per_label(f: Any, x: Tensor, labels: Tensor, *_: Any) -> Tensor:
    """Brightness to the power of label + 1: different for each label, and for -1 constant."""
    return brightness(f, x, labels) ** (labels + 1)[:, :, None, None]


def halved(f: Any, x: Tensor, labels: Tensor, *_: Any) -> Tensor:
    """Found on a grid of half the size, and doubled: only even sides come back as they were."""
    small = per_label(f, x, labels)[:, :, ::2, ::2][:, :, : x.shape[2] // 2, : x.shape[3] // 2]
    return small.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)


def in_its_precision(f: Any, x: Tensor, labels: Tensor, *_: Any) -> Tensor:
    """Values that half precision cannot tell apart."""
    return (1e4 + per_label(f, x, labels)).to(f.dtype)


def careless(what: Callable[[Any, Tensor, Tensor], object]) -> Method:
    """A method that does something it must not do, beside its work."""

    def compute(f: Any, x: Tensor, labels: Tensor, *_: Any) -> Tensor:
        what(f, x, labels)
        return per_label(f, x, labels)

    return computing(compute)


def with_own_settings() -> Method:
    class Positional(Gradient):
        power: float = 2.0

    return dataclasses.dataclass(frozen=True)(Positional)()


def announcing(f: Any, x: Tensor, labels: Tensor, progress: Any) -> Tensor:
    with progress.task("careless", 10) as task:
        task.advance(9)
    return per_label(f, x, labels)


def enabling(f: Any, x: Tensor, labels: Tensor, *_: Any) -> Tensor:
    torch.set_grad_enabled(True)
    return per_label(f, x, labels)


def counting(f: Any, x: Tensor, labels: Tensor, *_: Any) -> Tensor:
    """Brightness times the number of labels of the image."""
    return per_label(f, x, labels) * (labels >= 0).sum(dim=1)[:, None, None, None]


def net_of(f: Any) -> Any:
    return next(f.net.children())


METHODS: dict[str, tuple[Method, str]] = {
    "its_settings_are_frozen_keyword_only_and_recorded": (with_own_settings(), "not keyword-only: power"),
    "it_compares_by_its_settings_and_can_be_a_key": (
        method(__eq__=lambda a, b: a is b, __hash__=lambda a: 0),
        "with the same settings is not equal",
    ),
    "it_has_a_name_and_a_description": (method(name="My Method"), "'My Method' must be lower case"),
    "what_it_needs_is_known": (method(needs=frozenset({"luck"})), r"not \['luck'\]"),
    "its_family_is_known": (method(family="magic"), "families are adapter, attention, .*, not 'magic'"),
    "maps_are_finite_float32_one_per_label": (
        after(lambda maps: maps / 0),
        r"made a map with NaN or infinity for image 0, label 2 \(9 of 9 maps\)",
    ),
    "maps_are_not_constant": (after(torch.ones_like), "9 of 9 maps have one value only"),
    "one_image_with_one_label_is_enough": (
        after(lambda maps: maps.expand(maps.shape[0], 3, *maps.shape[2:])),
        r"returned maps \(1, 3, 8, 10\), expected \(1, 1, 8, 10\)",
    ),
    "label_free_means_one_map_for_all_labels": (
        computing(brightness),
        "label_free is False, but labels get the same maps",
    ),
    "stochastic_means_that_the_seed_matters": (
        method(Random, stochastic=False),
        "stochastic is False, but two seeds give different maps",
    ),
    "places_without_a_label_are_zero_and_disturb_no_other": (
        computing(counting),
        "maps change where another place has the label -1",
    ),
    "series_and_rows_get_maps_or_are_refused": (
        computing(per_label),
        "series end in RuntimeError: .*; raise an InputError instead",
    ),
    "inputs_that_lack_what_it_needs_are_refused": (
        method(needs=frozenset({"neighbours"}), prepare=lambda method, session: None),
        "it needs neighbours, which rows lack, but takes them",
    ),
    "pictures_of_odd_sizes_and_of_1_or_4_channels_get_maps": (
        computing(halved),
        r"pictures of 3 channels and 7 x 9 pixels ends in InputError: .*returned maps \(1, 3, 6, 8\)",
    ),
    "nets_of_half_precision_get_maps": (
        computing(in_its_precision),
        r"a net of torch\.float16: every map has one value only",
    ),
    "nets_without_convolution_and_functions_get_maps_or_are_refused": (
        careless(lambda f, x, labels: f.net[0].weight),
        "a net without convolution ends in AttributeError: .*; raise an InputError instead",
    ),
    "a_net_that_ignores_the_image_gets_a_constant_map_or_is_refused": (
        computing(per_label),
        r"its map spreads over 0.88, those of a usual net over 0.88",
    ),
    "the_batch_size_changes_nothing": (
        computing(lambda f, *rest: per_label(f, *rest) * f.batches[0].size),
        "maps change with batches of 1",
    ),
    "the_order_of_images_and_labels_changes_nothing": (
        computing(lambda f, x, labels, *_: per_label(f, x, labels) * (1 + labels[:, :1, None, None])),
        "maps change with the order",
    ),
    "an_image_alone_gets_the_map_it_gets_among_others": (
        computing(lambda f, x, labels, *_: per_label(f, x / x.mean(), labels)),
        "maps change when an image is alone",
    ),
    "it_works_where_gradients_are_switched_off": (computing(enabling), "gradients are left switched on"),
    "the_net_is_afterwards_what_it_was": (
        careless(lambda f, x, labels: f.logits(x).sum() and next(f.net.parameters()).data.add_(1)),
        "these weights changed: ",
    ),
    "no_hook_is_left_on_the_classifier": (
        careless(lambda f, x, labels: net_of(f).register_forward_hook(print)),
        r"a hook is left on classifier\.net",
    ),
    "the_global_random_state_is_not_touched": (
        careless(lambda f, x, labels: torch.manual_seed(0)),
        "torch's global generator was used or seeded",
    ),
    "progress_does_what_it_announced": (computing(announcing), "10 passes were announced and 9 done"),
}
