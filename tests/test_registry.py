"""Things by name: ours, those of other packages, and a helpful word about those that are not there."""

from __future__ import annotations

from typing import Any

import pytest

from proofmap.core import registry as module
from proofmap.core.errors import InputError, MissingExtra, require
from proofmap.core.registry import Registry


class Cup:
    name = "cup"


class Saucer:
    name = "saucer"


class Point:
    """An entry point of another package."""

    dist = None

    def __init__(self, name: str, thing: Any) -> None:
        self.name, self.thing, self.loaded = name, thing, 0

    def load(self) -> Any:
        self.loaded += 1
        if isinstance(self.thing, Exception):
            raise self.thing
        return self.thing


def registry(monkeypatch: pytest.MonkeyPatch, *points: Point) -> Registry[Any]:
    monkeypatch.setattr(module, "entry_points", lambda group: points if group == "mine" else ())
    things: Registry[Any] = Registry("thing", "mine")
    things.register(Cup)
    return things


def test_a_registered_class_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    things = registry(monkeypatch)
    assert things["cup"] is Cup
    assert list(things) == ["cup"]
    assert "cup" in things
    assert "saucer" not in things


def test_other_packages_add_theirs_and_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    point = Point("anything", Saucer)
    things = registry(monkeypatch, point)
    assert point.loaded == 0  # not before something is looked up
    assert things["saucer"] is Saucer
    assert list(things) == ["cup", "saucer"]
    assert point.loaded == 1


def test_a_broken_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    things = registry(monkeypatch, Point("teapot", ImportError("no handle")))
    told = r"the thing 'teapot' of the installed package \? .*no handle"
    with pytest.warns(UserWarning, match=told):
        assert "cup" in things


def test_a_name_belongs_to_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    things = registry(monkeypatch)
    things.register(Cup)  # the same again is no harm
    impostor = type("Impostor", (), {"name": "cup"})
    with pytest.raises(InputError, match="a thing named 'cup' is already registered"):
        things.register(impostor)
    assert things["cup"] is Cup


def test_an_unknown_name_is_refused_with_what_was_probably_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    things = registry(monkeypatch, Point("s", Saucer))
    with pytest.raises(
        InputError, match=r"no thing is named 'sauser'\. Did you mean 'saucer'\? Known are: cup, saucer$"
    ):
        things["sauser"]
    with pytest.raises(InputError, match=r"no thing is named 'xyzzy'\. Known are: cup, saucer$"):
        things["xyzzy"]
    with pytest.raises(InputError, match=r"no thing is named '\[{199}…'\. Known are: cup, saucer$"):
        things["[" * 100_000]


def test_an_optional_package_that_is_not_installed_names_the_extra() -> None:
    with pytest.raises(
        MissingExtra,
        match=r"figures needs the package 'no_such_package', and it is not installed.*proofmap\[figures\]",
    ):
        require("no_such_package.part", extra="figures", purpose="figures")


def test_an_optional_package_that_is_broken_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setattr("importlib.import_module", broken)
    with pytest.raises(MissingExtra, match="its import fails: operator torchvision::nms"):
        require("torchvision", extra="torchvision", purpose="this model")
