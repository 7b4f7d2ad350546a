"""A setting's value takes its declared type, so that equal descriptions have one record, one title and one hash."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import MISSING
from typing import Any, get_args, get_origin

import numpy as np
import torch

from proofmap.core.errors import InputError
from proofmap.fills import FILLS, Gray
from proofmap.methods import METHODS, LearnedMask, make_method
from proofmap.methods.controls import Random
from proofmap.metrics import GAMES, METRICS, TARGETS, Insertion
from proofmap.plugins.settings import Plugin, Setting, settings_of
from proofmap.plugins.specs import read_options

REGISTRIES = (METHODS, METRICS, FILLS, GAMES, TARGETS)
CANDIDATES = (1, 2, 0, 0.25, 0.75)
"""Values to try for a setting: the first that it takes is used."""


def numeric_settings() -> Iterator[tuple[type[Plugin], Setting]]:
    """Every setting of every registered plug-in that takes a number that need not be whole, alone or in a tuple."""
    for registry in REGISTRIES:
        for name in registry:
            for info in settings_of(registry[name]):
                tuples = [kind for kind in info.types if get_origin(kind) is tuple]
                if float in info.types or any(float in get_args(kind) for kind in tuples):
                    yield registry[name], info


def whole_value(kind: type[Plugin], info: Setting) -> Any:
    """A value that the plug-in takes for this setting, if possible without a fraction: a number, or a tuple of numbers."""
    if float in info.types:
        candidates: list[Any] = list(CANDIDATES)
    else:
        candidates = [(0, 1), (1,), (0.5, 0.75)]
    for value in candidates:
        try:
            kind.build({**needed(kind), info.name: value})
        except InputError:
            continue
        return value
    raise AssertionError(f"{kind.__name__}.{info.name} takes none of {candidates}")


def needed(kind: type[Plugin]) -> dict[str, Any]:
    """Values for the settings that have no default."""
    values: dict[str, Any] = {}
    for info in settings_of(kind):
        if info.default is MISSING:
            named = "KernelExplainer" if kind.name == "shap" else "Saliency"
            values[info.name] = Random() if info.plugin is not None else named
    return values


def spellings(value: Any) -> list[Any]:
    """The same value as other types."""
    numbers = value if isinstance(value, tuple) else (value,)
    types: list[Any] = [float, np.float32, np.float64, torch.tensor]
    types += [] if any(number % 1 for number in numbers) else [np.int64]
    if isinstance(value, tuple):
        return [list(value), *(tuple(map(kind, value)) for kind in types)]
    return [kind(value) for kind in types]


def test_equal_numbers_have_one_identity() -> None:
    for kind, info in numeric_settings():
        value, rest, who = whole_value(kind, info), needed(kind), f"{kind.__name__}.{info.name}"
        made = kind.build({**rest, info.name: value})
        text = ":".join(map(str, value)) if isinstance(value, tuple) else str(value)
        toml = tomllib.loads(f"{info.name} = {list(value) if isinstance(value, tuple) else value}")
        others = [kind.build({**rest, info.name: other}) for other in spellings(value)]
        others += [kind.build({**rest, **read}) for read in (toml, read_options(kind, f"{info.name}={text}"))]
        for other in others:
            assert other == made and hash(other) == hash(made), who
            assert other.title() == made.title(), who
            assert json.dumps(other.settings()) == json.dumps(made.settings()), who
        stored = getattr(made, info.name)
        assert {type(number) for number in (stored if isinstance(stored, tuple) else (stored,))} == {float}, (
            who
        )


def test_defaults_have_their_declared_type() -> None:
    for kind, info in numeric_settings():
        if info.default is not MISSING and isinstance(info.default, (int, float)):
            assert type(info.default) is float, f"{kind.__name__}.{info.name}"


def test_a_title_writes_whole_numbers_without_a_fraction() -> None:
    assert LearnedMask(scale=4.0).title() == "learned-mask:scale=4" == LearnedMask(scale=4).title()
    assert make_method("learned-mask:scale=4.0").title() == "learned-mask:scale=4"
    assert LearnedMask(scale=8).title() == "learned-mask", "8 is the default"
    assert LearnedMask(learning_rate=1e22).title() == "learned-mask:learning_rate=1e+22"


def test_zero_has_no_sign() -> None:
    assert json.dumps(Gray(color=(-0.0,)).settings()) == json.dumps(Gray(color=(0.0,)).settings())
    assert Gray(color=(-0.0,)).title() == "gray:color=0"


def test_scalars_of_numpy_become_those_of_python() -> None:
    assert type(LearnedMask(steps=np.int64(3)).steps) is int  # type: ignore[arg-type]
    assert type(LearnedMask(compile=np.bool_(True)).compile) is bool  # type: ignore[arg-type]
    assert type(LearnedMask(decay=np.str_("cosine")).decay) is str  # type: ignore[arg-type]
    assert type(Insertion(points=np.int32(4)).points) is int  # type: ignore[arg-type]
    assert type(Insertion(points=np.str_("all")).points) is str  # type: ignore[arg-type]
