"""What every method must do, whoever wrote it: one function per promise, each called with a method.

Another package checks its own method against all of them:

    @pytest.mark.parametrize("check", CHECKS)
    def test_my_method_keeps_the_contract(check):
        check(MyMethod())
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.progress import Silent, Task
from proofmap.methods import Method
from proofmap.plugins.settings import setting_names
from tests.toys import MEAN, STD, conv_net, pixels

Check = Callable[[Method], None]
CHECKS: list[Check] = []

N, SIZE = 3, (8, 10)
LABELS = torch.tensor([[2, 0, 1], [1, 3, 0], [0, 2, 3]])


def promise(check: Check) -> Check:
    CHECKS.append(check)
    return check


def classifier(**options: Any) -> Classifier:
    return Classifier(conv_net(), size=SIZE, **{"mean": MEAN, "std": STD, "batch_size": 64, **options})


def images() -> Tensor:
    return pixels(N, SIZE)


def assert_alike(maps: Tensor, expected: Tensor) -> None:
    """Equal up to the rounding of another batch."""
    torch.testing.assert_close(maps, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()) + 1e-12)


# ---- what it is --------------------------------------------------------------------------------------------


@promise
def its_settings_are_frozen_keyword_only_and_told(method: Method) -> None:
    assert dataclasses.is_dataclass(method)
    assert type(method).__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert all(f.kw_only for f in dataclasses.fields(method))
    told = method.settings()
    assert told["method"] == method.name
    assert set(told) == {"method", *setting_names(type(method))}
    json.dumps(told)


@promise
def it_equals_its_copy_and_can_be_a_key(method: Method) -> None:
    assert copy.deepcopy(method) == method
    assert {method: 1}[copy.deepcopy(method)] == 1


@promise
def it_has_a_name_and_a_meaning(method: Method) -> None:
    assert method.name == method.name.lower().strip() and not set(method.name) & set(" :,=")
    assert method.description
    assert method.needs <= {"gradients", "layer", "distractors", "masker"}


# ---- what it returns ---------------------------------------------------------------------------------------


@promise
def maps_are_finite_float32_one_per_label(method: Method) -> None:
    maps = method(classifier(), images(), LABELS)
    assert maps.shape == (N, 3, *SIZE) and maps.dtype == torch.float32 and maps.device.type == "cpu"
    assert bool(maps.isfinite().all()) and not maps.requires_grad


@promise
def maps_are_not_constant(method: Method) -> None:
    maps = method(classifier(), images(), LABELS).flatten(2)
    assert bool((maps.amax(dim=2) > maps.amin(dim=2)).all())


@promise
def one_image_with_one_label_is_enough(method: Method) -> None:
    assert method(classifier(), images()[:1], LABELS[:1, :1]).shape == (1, 1, *SIZE)


@promise
def label_free_means_one_map_for_all_labels(method: Method) -> None:
    maps = method(classifier(), images(), LABELS)
    same = torch.equal(maps[:, 0], maps[:, 1]) and torch.equal(maps[:, 0], maps[:, 2])
    assert same == method.label_free


@promise
def stochastic_means_that_the_seed_matters(method: Method) -> None:
    one, again, other = (method(classifier(), images(), LABELS, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(one, again)
    assert torch.equal(one, other) != method.stochastic


@promise
def places_without_a_label_are_zero_and_disturb_nobody(method: Method) -> None:
    expected = method(classifier(), images(), LABELS)
    padded = LABELS.clone()
    padded[1, 1:], padded[2, 1] = -1, -1
    maps = method(classifier(), images(), padded)
    assert maps[padded < 0].count_nonzero() == 0
    assert_alike(maps[padded >= 0], expected[padded >= 0])


# ---- what it does not depend on ----------------------------------------------------------------------------


@promise
def the_batch_size_changes_nothing(method: Method) -> None:
    expected = method(classifier(batch_size=64), images(), LABELS)
    for batch_size in (1, 5):
        assert_alike(method(classifier(batch_size=batch_size), images(), LABELS), expected)


@promise
def the_order_of_images_and_labels_changes_nothing(method: Method) -> None:
    expected = method(classifier(), images(), LABELS)
    turned, shuffled = torch.tensor([2, 0, 1]), torch.tensor([1, 2, 0])
    maps = method(classifier(), images()[turned], LABELS[turned][:, shuffled])
    assert_alike(maps, expected[turned][:, shuffled])


@promise
def an_image_alone_gets_the_map_it_gets_in_company(method: Method) -> None:
    together = method(classifier(), images(), LABELS)
    assert_alike(method(classifier(), images()[1:2], LABELS[1:2]), together[1:2])


@promise
def it_works_where_gradients_are_switched_off(method: Method) -> None:
    expected = method(classifier(), images(), LABELS)
    with torch.no_grad():
        assert_alike(method(classifier(), images(), LABELS), expected)
        assert not torch.is_grad_enabled()


# ---- what it leaves alone ----------------------------------------------------------------------------------


@promise
def the_net_is_afterwards_what_it_was(method: Method) -> None:
    net = nn.Sequential(conv_net(), nn.Dropout(0.5)).train()
    before = copy.deepcopy(net.state_dict())
    method(Classifier(net, size=SIZE, batch_size=64), images(), LABELS)
    assert all(module.training for module in net.modules())
    assert all(weight.requires_grad and weight.grad is None for weight in net.parameters())
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    assert not any(module._forward_hooks or module._backward_hooks for module in net.modules())


@promise
def the_classifiers_own_view_keeps_no_hook(method: Method) -> None:
    f = classifier()
    method(f, images(), LABELS)
    assert isinstance(f.net, nn.Module)
    assert not any(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks
        for module in f.net.modules()
    )


@promise
def images_and_labels_stay_as_they_are(method: Method) -> None:
    x, labels = images(), LABELS.clone()
    method(classifier(), x, labels)
    assert torch.equal(x, images()) and torch.equal(labels, LABELS) and not x.requires_grad


@promise
def the_global_random_state_is_not_touched(method: Method) -> None:
    f, x = classifier(), images()
    with torch.random.fork_rng(devices=[]):
        before = torch.manual_seed(1).get_state()
        expected = method(f, x, LABELS)
        assert torch.equal(torch.get_rng_state(), before)
        torch.manual_seed(2)
        assert torch.equal(method(f, x, LABELS), expected)


# ---- what it says ------------------------------------------------------------------------------------------


class Watched(Silent):
    """Progress that counts what is announced and what is done."""

    def __init__(self) -> None:
        self.announced, self.done = 0, 0

    def task(self, what: str, passes: int) -> Task:
        self.announced += passes
        task = super().task(what, passes)
        task.advance = self._advance  # type: ignore[method-assign]
        return task

    def _advance(self, passes: int, note: str = "") -> None:
        self.done += passes


@promise
def progress_does_what_it_announced(method: Method) -> None:
    progress = Watched()
    method(classifier(batch_size=2), images(), LABELS, progress=progress)
    assert progress.done == progress.announced


@promise
def labels_and_images_that_cannot_be_are_refused(method: Method) -> None:
    f = classifier()
    with pytest.raises(InputError, match=r"labels must lie in 0 \.\. 3"):
        method(f, images(), LABELS + 2)
    with pytest.raises(InputError, match=r"labels must be \(N, L\) with N = 3"):
        method(f, images(), LABELS[:2])
    with pytest.raises(InputError, match=r"images must be \(N, 3, 8, 10\)"):
        method(f, images()[:, :, :7], LABELS)
    with pytest.raises(InputError, match=r"images must lie in \[0, 1\]"):
        method(f, images() * 255, LABELS)
