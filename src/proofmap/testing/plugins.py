"""The class of contracts, and the promises and helpers that the contracts of methods, fills, games and metrics share."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.classifier.view import has_hooks
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs
from proofmap.plugins.settings import Plugin
from proofmap.testing.nets import PICTURES, classifier_of, net_for

Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Check(Generic[Thing]):
    """The check of one promise. ``check(plugin)`` raises an AssertionError with the promise if the plug-in breaks it. ``str(check)`` is a test
    id."""

    function: Callable[[Thing], None]

    @property
    def promise(self) -> str:
        return self.function.__name__.replace("_", " ")

    def __call__(self, thing: Thing) -> None:
        if not __debug__:
            raise RuntimeError("the checks are assertions, which python -O removes; run Python without -O")
        try:
            self.function(thing)
        except Exception as error:
            shared_classifier.cache_clear()  # it may have been changed
            reason = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
            raise AssertionError(f"{self.promise}: {reason}") from error

    def __str__(self) -> str:
        return self.function.__name__


class Contract(Generic[Thing]):
    """The promises of one ``kind`` of plug-in. ``contract(plugin)`` runs all ``checks`` and reports each broken promise.

    >>> check_even = Contract[int]("even number")
    >>> @check_even.promise
    ... def half_of_it_is_whole(number: int) -> None:
    ...     assert number % 2 == 0, f"{number} / 2 is {number / 2}"
    >>> check_even(4)
    >>> check_even(3)
    Traceback (most recent call last):
        ...
    AssertionError: 3 breaks 1 of the 1 promises of every even number:
    - half of it is whole: 3 / 2 is 1.5
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.checks: list[Check[Thing]] = []

    def promise(self, function: Callable[[Thing], None]) -> Callable[[Thing], None]:
        """Add a check: a function that raises an AssertionError if a plug-in breaks a promise. Its name states the promise."""
        self.checks.append(Check(function))
        return function

    def __call__(self, thing: Thing) -> None:
        errors: list[AssertionError] = []
        for check in self.checks:
            try:
                check(thing)
            except AssertionError as error:
                errors.append(error)
        if errors:
            shared_classifier.cache_clear()
            name = getattr(thing, "__name__", None) or repr(thing)
            heading = f"{name} breaks {len(errors)} of the {len(self.checks)} promises of every {self.kind}:"
            raise AssertionError("\n- ".join([heading, *map(str, errors)])) from errors[0]


P = TypeVar("P", bound=Plugin)


# ---- descriptions -----------------------------------------------------------------------------------------------


def plugin_contract(kind: type[P]) -> Contract[P]:
    """A new contract for a kind of plug-in, with the promise that all kinds of plug-in share."""
    contract: Contract[P] = Contract(kind.noun)
    contract.promise(it_is_known_by_its_name_and_its_settings)
    return contract


def it_is_known_by_its_name_and_its_settings(plugin: Plugin) -> None:
    """It is equal to another one with the same settings, and ``settings()`` gives all of them as plain data."""
    assert is_plain_name(getattr(plugin, "name", "")), (
        f"the name {getattr(plugin, 'name', '')!r} must be lower case, without spaces or any of : , = ( )"
    )
    described = getattr(plugin, "description", "")
    assert described and "\n" not in described, "description must say in one line what it is"
    same = dataclasses.replace(plugin)
    assert same == plugin and hash(same) == hash(plugin), (
        "another one with the same settings is not equal to it"
    )
    recorded = plugin.settings()
    lacking = {field.name for field in dataclasses.fields(plugin)} - set(recorded)
    assert not lacking, f"settings() lacks {', '.join(sorted(lacking))}"
    json.dumps(recorded)


def is_plain_name(name: object) -> bool:
    """Whether a name can be written in a spec.

    >>> is_plain_name("learned-mask"), is_plain_name("My Mask")
    (True, False)
    """
    return isinstance(name, str) and bool(name) and name == name.lower() and not set(name) & set(" :,=()")


def assert_records(record: Mapping[str, object], again: Mapping[str, object]) -> None:
    """Assert that the record of a plug-in is plain data, and equal to that of another plug-in with the same settings."""
    assert record == again, f"two records differ: {record} and {again}"
    assert json.loads(json.dumps(record)) == record, f"the record changes when JSON carries it: {record}"


# ---- results ----------------------------------------------------------------------------------------------------


@functools.cache
def shared_classifier(inputs: Inputs, *, batch_size: int = 64, attention: bool = False) -> Classifier:
    """The classifier of :func:`classifier_of`, made once, because making and freezing a net takes longer than most checks."""
    return classifier_of(inputs, batch_size=batch_size, attention=attention)


def assert_close(found: Tensor, expected: Tensor, what: str, when: str) -> None:
    """Assert that two tensors are equal up to the rounding differences between batches. NaN equals NaN."""
    assert found.shape == expected.shape, (
        f"{what} {when} are {tuple(found.shape)}, not {tuple(expected.shape)}"
    )
    largest = float(expected.nan_to_num().abs().max()) if expected.numel() else 0.0
    assert torch.allclose(found, expected, rtol=1e-3, atol=1e-3 * largest + 1e-12, equal_nan=True), (
        f"{what} change {when}, by up to {float((found - expected).nan_to_num().abs().max()):.2g} of {largest:.2g}"
    )


@contextmanager
def may_be_refused(what: str, *, allowed: bool = True) -> Iterator[None]:
    """Allow an InputError in the block, because a plug-in need not support ``what``. Other errors fail the check; with ``allowed=False``,
    an InputError does too."""
    try:
        yield
    except Exception as error:
        if isinstance(error, InputError) and allowed:
            return
        if isinstance(error, AssertionError):
            raise AssertionError(f"{what}: {error}") from error
        instead = "; raise an InputError instead" if allowed else ""
        raise AssertionError(f"{what}: {type(error).__name__}: {error}{instead}") from error


def assert_leaves_alone(
    run: Callable[[Classifier], Tensor], what: str, *, inputs: Inputs = PICTURES, attention: bool = False
) -> None:
    """Assert that ``run(classifier)`` changes neither the classifier's net, which is in training mode, nor torch's global random state, and
    that its result does not depend on that state."""
    net = nn.Sequential(net_for(inputs, attention=attention), nn.Dropout(0.5)).train()
    f, before, found = Classifier(net, inputs=inputs, batch_size=64), copy.deepcopy(net.state_dict()), []
    for seed in (8_191_031, 1):
        with torch.random.fork_rng(devices=[]):
            state = torch.manual_seed(seed).get_state()
            found.append(run(f).nan_to_num())
            assert torch.equal(torch.get_rng_state(), state), "torch's global generator was used or seeded"
    assert torch.equal(*found), f"{what} depend on torch's global seed"
    assert all(module.training for module in net.modules()), "the net left its training mode"
    kept = all(weight.requires_grad and weight.grad is None for weight in net.parameters())
    assert kept, "the gradients of the net's weights were switched off or set"
    changed = [key for key, value in net.state_dict().items() if not torch.equal(value, before[key])]
    assert not changed, f"these weights changed: {', '.join(changed)}"
    assert not has_hooks(net) and not has_hooks(f.net), "a hook is left on the net"
