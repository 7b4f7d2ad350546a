"""Settings are read from text, checked and printed by one piece of code."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import MISSING
from typing import Any, ClassVar, Literal, get_args, get_origin

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from proofmap.core.errors import InputError
from proofmap.fills import FILLS, Blur, Fill, Gray, Images, Noise, make_fill
from proofmap.methods import METHODS, LearnedMask, Method, make_method
from proofmap.methods.controls import Random, TopLabel
from proofmap.metrics import GAMES, METRICS, TARGETS, Insertion, make_metric
from proofmap.metrics.proof_scores import Soundness
from proofmap.plugins.settings import (
    Plugin,
    Setting,
    required,
    setting,
    settings_of,
)
from proofmap.plugins.specs import read_options

# ---- text -> plug-in -> text ----------------------------------------------------------------------------------------

shares = st.floats(0, 1) | st.sampled_from([0, 1])
positive = st.floats(1e-9, 1e6, exclude_min=True) | st.integers(1, 1000)
counts = st.integers(1, 10**6)
colours = st.none() | st.lists(shares, min_size=1, max_size=4).map(tuple)
blurs = st.builds(Blur, sigma=positive, kernel=st.integers(0, 20).map(lambda k: 2 * k + 1))
folders = st.text("abcXYZ0123./-_ ", min_size=1, max_size=12).map(str.strip).filter(bool)
fills: st.SearchStrategy[Fill] = st.one_of(
    blurs,
    st.builds(Gray, color=colours),
    st.builds(Noise, sigma=positive),
    st.builds(
        Images, source=folders, size=counts, crop=st.sampled_from(["random", "none"]), seed=st.integers(0, 9)
    ),
)
masks = st.builds(
    LearnedMask,
    steps=counts,
    distractors=counts,
    learning_rate=positive,
    decay=st.sampled_from(["constant", "cosine"]),
    scale=st.floats(1, 100) | st.integers(1, 100),
    l1=st.none() | shares,
    tv=shares,
    variation=st.sampled_from(["squared", "absolute"]),
    tv_border=st.booleans(),
    objective=st.sampled_from(["nll", "nll-of-mean", "released"]),
    fill=fills,
    masks=counts,
    merge=st.sampled_from(["max", "sum"]),
    init_noise=positive,
    precision=st.sampled_from(["float32", "bfloat16"]),
    compile=st.booleans(),
)
ranges = st.tuples(shares, shares).filter(lambda pair: pair[0] < pair[1])
proofs = st.builds(
    Soundness,
    e2=shares,
    fill=fills,
    points=counts | st.just("all"),
    rule=st.sampled_from(["mean", "right", "trapezoid"]),
    within=ranges,
    ties=st.sampled_from(["index", "random", "center"]),
    draws=counts,
)


@given(masks)
def test_a_learned_mask_is_read_from_its_title(method: LearnedMask) -> None:
    assert make_method(method.title()) == method
    assert make_method(TopLabel(of=method).title()) == TopLabel(of=method)


@given(blurs)
def test_a_blur_is_read_from_its_title_alone_and_inside_another(fill: Blur) -> None:
    assert make_fill(fill.title()) == fill
    assert make_metric(Insertion(fill=fill).title()) == Insertion(fill=fill)


@given(proofs)
def test_a_metric_is_read_from_its_title(metric: Soundness) -> None:
    assert make_metric(metric.title()) == metric


@given(masks | blurs | proofs)
def test_the_settings_of_a_record_build_the_same(plugin: Plugin) -> None:
    table = {key: value for key, value in plugin.settings().items() if key != plugin.noun}
    assert type(plugin).build(table) == plugin, "fills inside are tables, too"


@pytest.mark.parametrize(
    "plugin, title",
    [
        (LearnedMask(), "learned-mask"),
        (LearnedMask(tv=0.5, compile=True, l1=0.0), "learned-mask:l1=0,tv=0.5,compile=true"),
        (LearnedMask(fill=Blur(sigma=3, kernel=5)), "learned-mask:fill=blur(sigma=3,kernel=5)"),
        (LearnedMask(fill=Images(source="a/b")), "learned-mask:fill=images(source=a/b)"),
        (TopLabel(of=Random()), "top-label:random"),
        (TopLabel(of=LearnedMask(fill=Gray(), steps=3)), "top-label:learned-mask:steps=3,fill=gray"),
        (TopLabel(of=TopLabel(of=Random(seed_offset=2))), "top-label:top-label:random:seed_offset=2"),
        (Gray(color=(0.0, 0.5)), "gray:color=0:0.5"),
        (Soundness(points="all", within=(0.2, 0.6)), "soundness:points=all,within=0.2:0.6"),
    ],
)
def test_a_title_tells_what_differs_from_the_defaults(plugin: Plugin, title: str) -> None:
    assert plugin.title() == title


# ---- one of every type ----------------------------------------------------------------------------------------------


class Example(Plugin):
    noun: ClassVar[str] = "example"
    name: ClassVar[str] = "every-type"
    shortcuts: ClassVar[Any] = {
        "preset": {"small": {"number": 1, "real": 0.1}, "odd": {"number": 3}},
        "pace": {"slow": {"number": 9, "text": "slow"}},
    }

    number: int = setting(5, "a whole number", least=1)
    real: float = setting(0.5, "a share", least=0, most=1)
    positive: float = setting(1.0, above=0)
    beyond: float = setting(3.0, above=2.0, most=4)
    small: float = setting(0.0, most=10)
    flag: bool = setting(False)
    text: str = setting("", "any text")
    choice: Literal["red", "green"] = "red"
    count: int | Literal["all"] = setting(2, least=1)
    maybe: float | None = None
    pair: tuple[float, float] = (0.0, 1.0)
    many: tuple[float, ...] | None = None
    fill: Fill = setting(Gray(), "a fill")


GOOD: list[tuple[str, str, Any]] = [
    ("number", "7", 7),
    ("real", "0.25", 0.25),
    ("real", "1", 1),
    ("positive", "1e-3", 1e-3),
    ("flag", "true", True),
    ("flag", "FALSE", False),
    ("text", "none", "none"),
    ("text", "3", "3"),
    ("choice", "green", "green"),
    ("count", "3", 3),
    ("count", "all", "all"),
    ("maybe", "none", None),
    ("maybe", "None", None),
    ("maybe", "2", 2),
    ("pair", "0.2:0.6", (0.2, 0.6)),
    ("many", "1:2:3.5", (1, 2, 3.5)),
    ("many", "4", (4,)),
    ("many", "none", None),
    ("fill", "blur(sigma=3)", Blur(sigma=3)),
    ("fill", "images:a/b", Images(source="a/b")),
]


@pytest.mark.parametrize("name, text, value", GOOD)
def test_text_is_read_as_the_type_wants_it(name: str, text: str, value: Any) -> None:
    assert getattr(Example.build(read_options(Example, f"{name}={text}")), name) == value
    assert Example.build({name: value}) == Example(**{name: value})


BAD: list[tuple[dict[str, Any], str]] = [
    ({"number": 1.5}, "number must be a whole number of at least 1, not 1.5"),
    ({"number": True}, "number must be a whole number of at least 1, not True"),
    ({"number": "3"}, "number must be a whole number, not '3'"),
    ({"number": 0}, "number must be a whole number of at least 1, not 0"),
    ({"real": "0.5"}, "real must be a number, not '0.5'"),
    ({"real": False}, "real must be a number, not False"),
    ({"real": None}, "real must be a number, not None"),
    ({"real": 1.5}, "real must lie between 0 and 1, not 1.5"),
    ({"real": float("nan")}, "real must lie between 0 and 1, not nan"),
    ({"positive": 0}, "positive must be positive, not 0"),
    ({"beyond": 2}, "beyond must be above 2 and at most 4, not 2"),
    ({"beyond": 5}, "beyond must be above 2 and at most 4, not 5"),
    ({"small": 11}, "small must be at most 10, not 11"),
    ({"small": float("nan")}, "small must be at most 10, not nan"),
    ({"flag": 1}, "flag must be true or false, not 1"),
    ({"flag": "true"}, "flag must be true or false, not 'true'"),
    ({"text": 3}, "text must be a text, not 3"),
    ({"choice": "blue"}, "choice must be one of red, green, not 'blue'"),
    ({"count": "some"}, "count must be a whole number or all, not 'some'"),
    ({"count": 0}, "count must be a whole number of at least 1, not 0"),
    ({"maybe": "much"}, "maybe must be a number or none, not 'much'"),
    ({"pair": (0.1,)}, "pair must be numbers such as 0.2:0.6, not (0.1,)"),
    ({"pair": "0.1:0.2"}, "pair must be numbers such as 0.2:0.6, not '0.1:0.2'"),
    ({"many": (1, "2")}, "many must be none or numbers such as 0.2:0.6, not (1, '2')"),
    ({"fill": None}, "fill must be a fill, not None"),
    ({"fill": "grey"}, "no fill is named 'grey'. Did you mean 'gray'? Known are: "),
    ({"fill": 3}, "a fill is a name, a Fill, not int"),
    ({"fill": Random()}, "a fill is a name, a Fill, not Random"),
]


@pytest.mark.parametrize("given_, told", BAD, ids=str)
def test_values_that_do_not_fit_are_told(given_: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as caught:
        Example(**given_)
    assert str(caught.value).startswith(told)


@pytest.mark.parametrize(
    "text, told",
    [
        ("number=1.5", "number must be a whole number, not '1.5'"),
        ("number=", "number must be a whole number, not ''"),
        ("flag=yes", "flag must be true or false, not 'yes'"),
        ("real=much", "real must be a number, not 'much'"),
        ("pair=0.1:b", "pair must be numbers such as 0.2:0.6, not '0.1:b'"),
        ("number", "example 'every-type': the setting 'number' needs a value, number=..."),
        (
            "numbr=3",
            "example 'every-type' has no setting 'numbr'. Did you mean 'number'? Its settings are: preset",
        ),
    ],
)
def test_text_that_cannot_be_read_is_told(text: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        Example.build(read_options(Example, text))
    assert str(caught.value).startswith(told)


def test_a_dash_in_a_key_is_an_underscore() -> None:
    assert read_options(LearnedMask, "learning-rate=1,tv-border=false") == {
        "learning_rate": 1,
        "tv_border": False,
    }


def test_lists_are_taken_where_tuples_are_meant() -> None:
    assert Example(pair=[0.1, 0.2]).pair == (0.1, 0.2)  # type: ignore[arg-type]  # as TOML has them
    assert hash(Example(many=[1.0])) == hash(Example(many=(1.0,)))  # type: ignore[arg-type]


def test_every_setting_says_what_it_takes() -> None:
    told = {info.name: (info.type_text(), info.default_text()) for info in settings_of(Example)}
    assert told == {
        "number": ("a whole number", "5"),
        "real": ("a number", "0.5"),
        "positive": ("a number", "1"),
        "beyond": ("a number", "3"),
        "small": ("a number", "0"),
        "flag": ("true or false", "false"),
        "text": ("a text", ""),
        "choice": ("one of red, green", "red"),
        "count": ("a whole number or all", "2"),
        "maybe": ("a number or none", "none"),
        "pair": ("numbers such as 0.2:0.6", "0:1"),
        "many": ("none or numbers such as 0.2:0.6", "none"),
        "fill": ("a fill", "gray"),
    }
    assert [info.help for info in settings_of(Example)][:2] == ["a whole number", "a share"]


# ---- shortcuts ------------------------------------------------------------------------------------------------------


def test_what_is_said_in_particular_wins_over_a_shortcut_wherever_it_stands() -> None:
    for text in ("preset=small,real=0.9", "real=0.9,preset=small"):
        made = Example.build(read_options(Example, text))
        assert (made.number, made.real) == (1, 0.9)
    both = Example.build({"pace": "slow", "preset": "small"})
    assert (both.number, both.real, both.text) == (9, 0.1, "slow"), "in the order of the class"
    assert Example.preset("odd", real=1).number == 3
    assert Example(real=0.3).changed(preset="odd") == Example(real=0.3, number=3)


@pytest.mark.parametrize(
    "make, told",
    [
        (
            lambda: Example.build({"preset": "large"}),
            "every-type has no preset 'large'; known are small, odd",
        ),
        (lambda: Gray.preset("small"), "the fill 'gray' has no presets, so no preset 'small'"),
        (lambda: Example().changed(speed=3), "has no setting 'speed'"),
        (
            lambda: Needy.build({"times": 2}),
            r"example 'needy': .*missing 1 required keyword-only argument: 'of'",
        ),
    ],
)
def test_what_cannot_be_made_is_told(make: Callable[[], object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        make()


# ---- what must be given ---------------------------------------------------------------------------------------------


class Needy(Plugin):
    noun: ClassVar[str] = "example"
    name: ClassVar[str] = "needy"
    of: Method = required("a method", main=True)
    times: int = 1


def test_a_main_setting_may_stand_alone() -> None:
    assert Needy.build(read_options(Needy, "random:seed_offset=3")) == Needy(of=Random(seed_offset=3))
    assert Needy.build(read_options(Needy, "of=random,times=2")) == Needy(of=Random(), times=2)
    assert Needy(of=Random(seed_offset=3)).title() == "needy:random:seed_offset=3"
    assert settings_of(Needy)[0].default_text() == "required"


def test_a_main_setting_does_not_hide_the_others() -> None:
    made = Needy(of=Random(seed_offset=3, per_label=True), times=2)
    assert made.title() == "needy:of=random(per_label=true,seed_offset=3),times=2"
    assert Needy.build(read_options(Needy, made.title().partition(":")[2])) == made
    deep = Needy(of=TopLabel(of=LearnedMask(fill=Blur(sigma=3, kernel=5), tv=0)), times=2)
    assert deep.title() == "needy:of=top-label(of=learned-mask(tv=0,fill=blur(sigma=3,kernel=5))),times=2"
    assert Needy.build(read_options(Needy, deep.title().partition(":")[2])) == deep


# ---- lists with commas ----------------------------------------------------------------------------------------------


# ---- types ---------------------------------------------------------------------------------------------------


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
