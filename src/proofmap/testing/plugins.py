"""The class of contracts, and what the contracts of methods, fills, games and metrics share: small inputs and nets, promises, and comparisons."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.classifier.view import has_hooks
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs, Pictures, Rows, Series, Text, TextInputs
from proofmap.plugins.settings import Plugin, settings_of
from proofmap.session import Session

Thing = TypeVar("Thing")
P = TypeVar("P", bound=Plugin)


class Contract(Generic[Thing]):
    """The promises of one ``kind`` of plug-in. ``contract(plugin)`` runs all ``checks`` and reports each broken promise; a check is a function
    of the plug-in.

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
        self.checks: list[Callable[[Thing], None]] = []

    def promise(self, function: Callable[[Thing], None]) -> Callable[[Thing], None]:
        """Add a check: a function that raises an AssertionError if a plug-in breaks a promise. Its name states the promise."""

        @functools.wraps(function)
        def check(thing: Thing) -> None:
            if not __debug__:
                raise RuntimeError(
                    "the checks are assertions, which python -O removes; run Python without -O"
                )
            try:
                function(thing)
            except Exception as error:
                shared_classifier.cache_clear()  # it may have been changed
                own = isinstance(error, AssertionError)
                reason = str(error) if own else f"{type(error).__name__}: {error}"
                raise AssertionError(f"{function.__name__.replace('_', ' ')}: {reason}") from error

        self.checks.append(check)
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

    @staticmethod
    def of(kind: type[P]) -> Contract[P]:
        """A new contract for a kind of plug-in, with the promise that all kinds of plug-in share."""
        contract: Contract[P] = Contract(kind.noun)

        @contract.promise
        def it_is_known_by_its_name_and_its_settings(plugin: P) -> None:
            """It is equal to another one with the same settings, and ``settings()`` gives all of them as plain data."""
            name = plugin.name
            assert name and name == name.lower() and not set(name) & set(" :,=()"), (
                f"the name {name!r} must be lower case, without spaces or any of : , = ( )"
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

        return contract


# ---- small inputs and nets --------------------------------------------------------------------------------------

PICTURES = Pictures(size=(8, 10), mean=(0.5, 0.4, 0.3), std=(0.25, 0.2, 0.3))
SERIES = Series(length=12, mean=(1.0, -2.0), std=(3.0, 0.5))
ROWS = Rows(columns=7, mean=(0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0), std=(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0))
TRIED: list[Inputs] = [PICTURES, SERIES, ROWS, Text(length=5, width=8)]
"""The kinds of input on which fills are tried, and the last of them methods that need an order. Append your own kind to it."""


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Standard normal numbers, the same for the same seed."""
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).float()


def values(inputs: Inputs, n: int, *, seed: int = 0) -> Tensor:
    """``n`` inputs ``(n, *shape)`` of independent values: 8-bit pixels, rows of a table, or normal numbers around the mean."""
    if isinstance(inputs, Pictures):
        return (
            torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (n, *inputs.shape))).float() / 255
        )
    if isinstance(inputs, TextInputs) or (isinstance(inputs, Rows) and inputs.table is not None):
        return inputs.strong_noise(n + seed)[seed:]
    mean, std = (inputs.per_channel(torch.tensor(v)) for v in (inputs.mean, inputs.std))
    drawn = mean + std * normal(n, *inputs.shape, seed=seed)
    return drawn if inputs.limits is None else drawn.clamp(*inputs.limits)


class PatchNet(nn.Module):
    """A vision transformer: patches of 2x2 pixels, a class token, two layers of attention, a linear head on the class token."""

    def __init__(self, size: tuple[int, int], labels: int = 4, *, channels: int = 3, width: int = 8) -> None:
        super().__init__()
        patches = (size[0] // 2) * (size[1] // 2)
        self.patches = nn.Conv2d(channels, width, 2, stride=2)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, 1 + patches, width))
        layer = nn.TransformerEncoderLayer(width, 2, 2 * width, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, labels)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(len(x), -1, -1), tokens], dim=1)
        logits: Tensor = self.head(self.encoder(tokens + self.positions)[:, 0])
        return logits


def net_for(inputs: Inputs, labels: int = 4, *, attention: bool = False, conv: bool = True) -> nn.Module:
    """A net with the same weights on every machine: for pictures a :class:`PatchNet` with ``attention``, or two convolutions with ``conv``;
    otherwise two linear layers.
    """
    if isinstance(inputs, Pictures) and attention:
        return drawn(PatchNet(inputs.size, labels, channels=inputs.channels))
    if isinstance(inputs, Pictures) and conv:
        features = (
            nn.Conv2d(inputs.channels, 6, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(6, 12, 3, 2, 1),
            nn.ReLU(),
        )
        return drawn(nn.Sequential(*features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, labels)))
    layers = nn.Flatten(), nn.Linear(math.prod(inputs.shape), 16), nn.ReLU(), nn.Linear(16, labels)
    return drawn(nn.Sequential(*layers))


Net = TypeVar("Net", bound=nn.Module)


def drawn(net: Net, seed: int = 0) -> Net:
    """The net in evaluation mode with random weights that depend on the seed alone, large enough to separate labels."""
    with torch.no_grad():
        for k, weight in enumerate(net.parameters()):
            fan_in = weight[0].numel() if weight.ndim > 1 else 4
            weight.copy_(normal(*weight.shape, seed=1000 * seed + k) * (2 / fan_in) ** 0.5)
    return net.eval()


def classifier_of(
    inputs: Inputs, labels: int = 4, *, batch_size: int = 64, attention: bool = False
) -> Classifier:
    """A classifier with the small net of :func:`net_for`."""
    return Classifier(net_for(inputs, labels, attention=attention), inputs=inputs, batch_size=batch_size)


@functools.cache
def shared_classifier(inputs: Inputs, *, batch_size: int = 64, attention: bool = False) -> Classifier:
    """The classifier of :func:`classifier_of`, made once, because making and freezing a net takes longer than most checks."""
    return classifier_of(inputs, batch_size=batch_size, attention=attention)


# ---- comparisons ------------------------------------------------------------------------------------------------


def assert_records(record: Mapping[str, object], again: Mapping[str, object]) -> None:
    """Assert that the record of a plug-in is plain data, and equal to that of another plug-in with the same settings."""
    assert record == again, f"two records differ: {record} and {again}"
    assert json.loads(json.dumps(record)) == record, f"the record changes when JSON carries it: {record}"


def assert_close(found: Tensor, expected: Tensor, what: str, when: str) -> None:
    """Assert that two tensors are equal up to the rounding differences between batches. NaN equals NaN."""
    assert found.shape == expected.shape, (
        f"{what} {when} are {tuple(found.shape)}, not {tuple(expected.shape)}"
    )
    largest = float(expected.nan_to_num().abs().max()) if expected.numel() else 0.0
    assert torch.allclose(found, expected, rtol=1e-3, atol=1e-3 * largest + 1e-12, equal_nan=True), (
        f"{what} change {when}, by up to {float((found - expected).nan_to_num().abs().max()):.2g} of {largest:.2g}"
    )


def _with_other_settings(plugin: P) -> P | None:
    """The plug-in with its switches turned and its numbers halved or raised by 1; None if it has none, or refuses them together."""
    other: dict[str, object] = {}
    for info in settings_of(type(plugin)):
        value = getattr(plugin, info.name)
        tried = (
            (value // 2, value + 1)
            if isinstance(value, int)
            else (value / 2, value + 1)
            if isinstance(value, float)
            else ()
        )
        for new in (not value,) if isinstance(value, bool) else tried:
            with suppress(InputError):
                if info.checked(new) != value:
                    other[info.name] = new
                    break
    with suppress(InputError):
        return dataclasses.replace(plugin, **other) if other else None
    return None


def assert_apart(
    plugin: P, session: Callable[[], Session], run: Callable[[P, Session], Tensor], what: str
) -> None:
    """Assert that the result of a plug-in with other settings does not depend on whether ``plugin`` was used in its session before."""
    other = _with_other_settings(plugin)
    if other is None:
        return
    shared = session()
    run(plugin, shared)
    with suppress(InputError):  # these settings may be refused for the net
        assert_close(
            run(other, shared),
            run(other, session()),
            what,
            f"in a session that {plugin.title()} has used before {other.title()}; write session.memo((self, ...), ...), "
            "so that settings are in the key",
        )


@contextmanager
def may_be_refused(what: str, *, allowed: bool = True) -> Iterator[None]:
    """Allow an InputError in the block, because a plug-in need not support ``what``. Other errors fail the check; with ``allowed=False``,
    an InputError does too."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{what}: {error}") from error
    except Exception as error:
        if not (isinstance(error, InputError) and allowed):
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


def assert_alone(run: Callable[[int, list[int]], Tensor], n: int, what: str) -> Tensor:
    """Assert that the result of each of ``n`` images does not depend on the others, their order or the size of batches. ``run(batch_size,
    rows)`` gives the results of some images; returned are those of all.
    """
    rows = list(range(n))
    usual = run(64, rows)
    assert torch.equal(run(64, rows).nan_to_num(), usual.nan_to_num()), f"{what} differ when made again"
    order = [*rows[2:], *rows[:2]]
    for size, some, when in (
        (64, order, "with the order"),
        (64, [0], "when an image is alone"),
        (5, rows, "with batches of 5"),
    ):
        assert_close(run(size, some), usual[some], what, when)
    return usual
