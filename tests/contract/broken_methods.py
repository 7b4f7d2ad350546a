"""For each promise of methods, one that breaks it and what the message says."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from proofmap.methods import Method
from proofmap.methods.controls import Random
from proofmap.methods.gradients.plain import Gradient
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


class Seedless(Gradient):
    """What depends on the seed is kept without the seed in the key."""

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        power = session.memo((self, "power"), lambda: 1 + session.seed)
        return per_label(None, images, labels) ** power


class Forgetful(Gradient):
    """What depends on its setting is kept without its settings in the key."""

    power: float = 2.0

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        power = session.memo((self.name, "power"), lambda: self.power)
        return per_label(None, images, labels) ** power


def careless(what: Callable[[Any, Tensor, Tensor], object]) -> Method:
    """A method that does something it must not do, beside its work."""

    def compute(f: Any, x: Tensor, labels: Tensor, *_: Any) -> Tensor:
        what(f, x, labels)
        return per_label(f, x, labels)

    return computing(compute)


def drifting() -> Method:
    times = itertools.count(1)
    return computing(lambda *given: per_label(*given) * next(times))


def counting(f: Any, x: Tensor, labels: Tensor, *_: Any) -> Tensor:
    """Brightness times the number of labels of the image."""
    return per_label(f, x, labels) * (labels >= 0).sum(dim=1)[:, None, None, None]


def net_of(f: Any) -> Any:
    return next(f.net.children())


METHODS: list[tuple[str, Method, str]] = [
    (
        "it_is_known_by_its_name_and_its_settings",
        method(__eq__=lambda a, b: a is b, __hash__=lambda a: 0),
        "with the same settings is not equal",
    ),
    ("it_is_known_by_its_name_and_its_settings", method(name="My Method"), "'My Method' must be lower case"),
    ("it_makes_one_finite_map_for_each_label", after(torch.ones_like), "6 of 6 maps have one value only"),
    (
        "label_free_and_stochastic_are_true",
        computing(brightness),
        "label_free is False, but labels get the same maps",
    ),
    (
        "label_free_and_stochastic_are_true",
        method(Random, stochastic=False),
        "stochastic is False, but two seeds give different maps",
    ),
    (
        "a_map_depends_on_its_image_and_label_alone",
        computing(counting),
        "maps change with the order of labels",
    ),
    (
        "other_inputs_get_maps_or_are_refused",
        computing(per_label),
        "series: RuntimeError: .*; raise an InputError instead",
    ),
    (
        "other_inputs_get_maps_or_are_refused",
        method(needs=frozenset({"neighbours"}), prepare=lambda method, session: None),
        "it needs neighbours, which rows lack, but takes them",
    ),
    (
        "other_pictures_and_nets_get_maps_or_are_refused",
        computing(halved),
        r"pictures of 3 channels and 7 x 9 pixels: InputError: .*returned maps \(1, 3, 6, 8\)",
    ),
    (
        "other_pictures_and_nets_get_maps_or_are_refused",
        computing(in_its_precision),
        r"a net of torch.bfloat16: every map has one value only",
    ),
    (
        "other_pictures_and_nets_get_maps_or_are_refused",
        careless(
            lambda f, x, labels: (
                next(iter(f.net.children())).weight if isinstance(f.net, nn.Sequential) else f.net.no_such
            )
        ),
        "a function: AttributeError: .*; raise an InputError instead",
    ),
    (
        "a_net_that_ignores_the_image_gets_a_constant_map_or_is_refused",
        computing(per_label),
        r"its map spreads over 0.88, those of a usual net over 0.88",
    ),
    (
        "a_map_depends_on_its_image_and_label_alone",
        computing(lambda f, *rest: per_label(f, *rest) * f.batches[0].size),
        "maps change with batches of 5",
    ),
    (
        "a_map_depends_on_its_image_and_label_alone",
        computing(lambda f, x, labels, *_: per_label(f, x, labels) * (1 + labels[:, :1, None, None])),
        "maps change with the order",
    ),
    (
        "a_map_depends_on_its_image_and_label_alone",
        computing(lambda f, x, labels, *_: per_label(f, x / x.mean(), labels)),
        "maps change when an image is alone",
    ),
    (
        "it_works_where_gradients_are_switched_off",
        drifting(),
        "maps change inside torch.no_grad",
    ),
    (
        "a_session_keeps_settings_and_seeds_apart",
        method(Seedless, stochastic=True),
        r"needs session.seed in its key",
    ),
    ("a_session_keeps_settings_and_seeds_apart", Forgetful(), r"write session.memo\(\(self, ...\), ...\)"),
    (
        "it_leaves_the_net_and_the_random_state_alone",
        careless(lambda f, x, labels: f.logits(x).sum() and next(f.net.parameters()).data.add_(1)),
        "these weights changed: ",
    ),
    (
        "it_leaves_the_net_and_the_random_state_alone",
        careless(lambda f, x, labels: net_of(f).register_forward_hook(print)),
        "a hook is left on the net",
    ),
    (
        "it_leaves_the_net_and_the_random_state_alone",
        careless(lambda f, x, labels: torch.manual_seed(0)),
        "torch's global generator was used or seeded",
    ),
]
