"""The class of contracts, and the promises and helpers that the contracts of methods, fills, games and metrics share."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar, get_origin, get_type_hints
from unittest import TestCase

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.classifier.view import has_hooks
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs
from proofmap.metrics import Metric
from proofmap.plugins.settings import Plugin, setting_names
from proofmap.testing.nets import PICTURES, classifier_of, picture_net

Thing = TypeVar("Thing")

raises = TestCase().assertRaisesRegex
"""``with raises(InputError, "pattern"):`` fails unless the block raises an error with this type and message."""


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
            name = getattr(thing, "__name__", None) or repr(thing)
            heading = f"{name} breaks {len(errors)} of the {len(self.checks)} promises of every {self.kind}:"
            raise AssertionError("\n- ".join([heading, *map(str, errors)])) from errors[0]


P = TypeVar("P", bound=Plugin)
Answer = TypeVar("Answer")

_SEPARATORS = " :,=()"

# ---- descriptions -----------------------------------------------------------------------------------------------


def its_settings_are_frozen_keyword_only_and_recorded(plugin: Plugin) -> None:
    """The plug-in must be a frozen, keyword-only dataclass whose ``settings()`` returns all of its settings as plain data."""
    kind = type(plugin)
    assert dataclasses.is_dataclass(plugin), f"{kind.__name__} is not a dataclass"
    assert kind.__dataclass_params__.frozen, "the dataclass is not frozen"
    fields = dataclasses.fields(plugin)
    positional = [field.name for field in fields if not field.kw_only]
    assert not positional, f"these settings are not keyword-only: {', '.join(positional)}"
    annotated = [name for name, hint in get_type_hints(kind).items() if get_origin(hint) is not ClassVar]
    forgotten = sorted({*annotated} - {field.name for field in fields})
    assert not forgotten, (
        f"these are not settings: {', '.join(forgotten)}; decorate {kind.__name__} with "
        "@dataclass(frozen=True, kw_only=True)"
    )
    recorded = plugin.settings()
    # a metric's name is recorded separately
    named = {} if isinstance(plugin, Metric) else {plugin.noun: plugin.name}
    wrong = [key for key in named if recorded.get(key) != named[key]]
    assert not wrong, f"settings() calls it {recorded.get(wrong[0])!r}, not {plugin.name!r}"
    expected = {*named, *setting_names(kind)}
    assert set(recorded) == expected, f"settings() has {sorted(recorded)}, expected {sorted(expected)}"
    json.dumps(recorded)


def it_compares_by_its_settings_and_can_be_a_key(plugin: Plugin) -> None:
    """A plug-in with the same settings is equal and has the same hash."""
    same = dataclasses.replace(plugin)  # type: ignore[type-var]
    assert same == plugin, "another one with the same settings is not equal to it"
    assert same in {plugin: 1}, "another one with the same settings has another hash"


def it_has_a_name_and_a_description(plugin: Plugin) -> None:
    name = getattr(plugin, "name", "")
    assert is_plain_name(name), f"{name!r} must be lower case, without spaces or any of : , = ( )"
    described = getattr(plugin, "description", "")
    assert described and "\n" not in described, "description must say in one line what it is"


def is_plain_name(name: object) -> bool:
    """Whether a name can be written in a spec.

    >>> is_plain_name("learned-mask"), is_plain_name("My Mask")
    (True, False)
    """
    return isinstance(name, str) and bool(name) and name == name.lower() and not set(name) & set(_SEPARATORS)


def plugin_contract(kind: type[P]) -> Contract[P]:
    """A new contract for a kind of plug-in, with the promises that all kinds of plug-in share."""
    contract: Contract[P] = Contract(kind.noun)
    contract.promise(its_settings_are_frozen_keyword_only_and_recorded)
    contract.promise(it_compares_by_its_settings_and_can_be_a_key)
    contract.promise(it_has_a_name_and_a_description)
    return contract


# ---- what promises share ----------------------------------------------------------------------------------------


def remembered(function: Callable[[P], Answer]) -> Callable[[P], Answer]:
    """A decorator that caches the last result of a function, because many promises about a plug-in need the same maps."""
    last: list[tuple[P, Answer]] = []

    @functools.wraps(function)
    def answer(plugin: P) -> Answer:
        if not last or last[0][0] is not plugin:
            last[:] = [(plugin, function(plugin))]
        return last[0][1]

    return answer


_shared: dict[tuple[Inputs, int, bool], tuple[Classifier, dict[str, Tensor]]] = {}


def shared_classifier(inputs: Inputs, *, batch_size: int = 64, attention: bool = False) -> Classifier:
    """The classifier of :func:`classifier_of`. It is cached as long as it is unchanged, because making and freezing a net takes longer than
    most checks."""
    key = inputs, batch_size, attention
    if key not in _shared or not _is_untouched(*_shared[key]):
        f = classifier_of(inputs, batch_size=batch_size, attention=attention)
        _shared[key] = f, copy.deepcopy(_state(f))
    return _shared[key][0]


def _is_untouched(classifier: Classifier, before: dict[str, Tensor]) -> bool:
    net, state = classifier.net, _state(classifier)
    return (
        isinstance(net, nn.Module)
        and not any(module.training for module in net.modules())
        and not has_hooks(net)
        and state.keys() == before.keys()
        and all(torch.equal(state[name], before[name]) for name in before)
    )


def _state(classifier: Classifier) -> dict[str, Tensor]:
    assert isinstance(classifier.net, nn.Module)
    return classifier.net.state_dict()


# ---- results ----------------------------------------------------------------------------------------------------


def assert_close(found: Tensor, expected: Tensor, what: str, when: str) -> None:
    """Assert that two tensors are equal up to the rounding differences between batches. NaN equals NaN."""
    assert found.shape == expected.shape, (
        f"{what} {when} are {tuple(found.shape)}, not {tuple(expected.shape)}"
    )
    unknown = found.isnan() != expected.isnan()
    assert not bool(unknown.any()), (
        f"{int(unknown.sum())} of {unknown.numel()} {what} become NaN or a number {when}"
    )
    largest = float(expected.nan_to_num().abs().max()) if expected.numel() else 0.0
    assert torch.allclose(found, expected, rtol=1e-3, atol=1e-3 * largest + 1e-12, equal_nan=True), (
        f"{what} change {when}, by up to {float((found - expected).nan_to_num().abs().max()):.2g} of {largest:.2g}"
    )


@contextmanager
def may_be_refused(inputs: Inputs, what: str = "", *, allowed: bool = True) -> Iterator[None]:
    """Allow an InputError in the block, because a plug-in need not support every kind of input. Other errors fail the check.

    ``what`` names the case in messages if it is more specific than the kind of input. With ``allowed=False``, an InputError fails the
    check too.
    """
    try:
        yield
    except AssertionError:
        raise
    except Exception as error:
        if isinstance(error, InputError) and allowed:
            return
        reason = f"{type(error).__name__}: {error}"
        instead = "; raise an InputError instead" if allowed else ""
        ends = f"{what} ends" if what else f"{inputs.noun} end"
        raise AssertionError(f"{ends} in {reason}{instead}") from error


def with_another_seed(compute: Callable[[], Answer]) -> tuple[Answer, bool]:
    """The result of ``compute()`` under another global seed of torch, and whether it left the global generator unchanged."""
    with torch.random.fork_rng(devices=[]):
        before = torch.manual_seed(8_191_031).get_state()
        found = compute()
        return found, torch.equal(torch.get_rng_state(), before)


def assert_global_randomness_is_not_used(found: tuple[Tensor, bool], expected: Tensor, what: str) -> None:
    """Assert that the result of :func:`with_another_seed` equals ``expected``, the result under the usual seed."""
    result, untouched = found
    assert untouched, "torch's global generator was used or seeded"
    same = torch.equal(result.nan_to_num(), expected.nan_to_num())
    assert same, f"{what} depend on torch's global seed"


def assert_net_stays_as_it_is(run: Callable[[Classifier], object], *, attention: bool = False) -> None:
    """Assert that ``run(classifier)`` does not change the classifier's net, which is in training mode."""
    net = nn.Sequential(picture_net(PICTURES, attention=attention), nn.Dropout(0.5)).train()
    before = copy.deepcopy(net.state_dict())
    run(Classifier(net, inputs=PICTURES, batch_size=64))
    assert all(module.training for module in net.modules()), "the net left its training mode"
    weights = list(net.parameters())
    assert all(weight.requires_grad for weight in weights), "weights require no gradient any more"
    assert all(weight.grad is None for weight in weights), "weights were given a gradient"
    changed = [key for key, value in net.state_dict().items() if not torch.equal(value, before[key])]
    assert not changed, f"these weights changed: {', '.join(changed)}"
    assert not has_hooks(net), "a hook is left on the net"
