"""A recipe is a TOML file of this package: what is run, with which settings, what it needs, and what the paper printed.

title = "Completeness and soundness by total variation, CIFAR-10"
paper = "appendix, table 5"
experiment = "study"            # what runs it, see proofmap.reproduce.experiments

[[needs]]                       # what must be there; each names one thing
path = "cifar-10-batches-py"    # below the folder of --data
what = "CIFAR-10, the Python version, unpacked"

[[needs]]
module = "sklearn"              # or a Python package
what = "scikit-learn: pip install 'proofmap[theory]'"
gives = "digits"                # optional: without it only this part is left out

[settings]                      # the experiment's own; {data} in a text stands for the folder of --data

[quick]                         # what --quick changes in them
"""

from __future__ import annotations

import importlib.util
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from proofmap.core.errors import InputError

_KNOWN = {"title", "paper", "experiment", "needs", "settings", "quick"}


@dataclass(frozen=True, kw_only=True)
class Need:
    """Something that a recipe cannot do without: a file or folder below the data folder, or a Python package."""

    what: str
    path: str = ""
    module: str = ""
    gives: str = ""

    def is_there(self, data: Path) -> bool:
        return (data / self.path).exists() if self.path else importlib.util.find_spec(self.module) is not None

    def words(self, data: Path) -> str:
        """What to supply, and where it goes."""
        return f"{data / self.path}: {self.what}" if self.path else f"the package {self.module}: {self.what}"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One table or figure of the paper."""

    name: str
    title: str
    paper: str
    experiment: str
    needs: tuple[Need, ...]
    settings: Mapping[str, Any]
    quick: Mapping[str, Any]
    text: str
    """The file as it is."""

    @classmethod
    def named(cls, name: str) -> Recipe:
        """A recipe of this package."""
        known = recipe_names()
        if name not in known:
            raise InputError(f"no recipe is named {name!r}; known are {', '.join(known)}")
        return cls.from_text(name, (_folder() / f"{name}.toml").read_text(encoding="utf-8"))

    @classmethod
    def from_text(cls, name: str, text: str) -> Recipe:
        """The recipe that a TOML text describes."""
        table = tomllib.loads(text)
        wrong = sorted(set(table) - _KNOWN) or sorted({"title", "paper", "experiment"} - set(table))
        if wrong:
            raise InputError(f"the recipe {name} is not as it should be: see {', '.join(wrong)}")
        needs = tuple(Need(**need) for need in table.get("needs", ()))
        return cls(
            name=name,
            title=table["title"],
            paper=table["paper"],
            experiment=table["experiment"],
            needs=needs,
            settings=table.get("settings", {}),
            quick=table.get("quick", {}),
            text=text,
        )

    def missing(self, data: Path) -> list[Need]:
        return [need for need in self.needs if not need.is_there(data)]

    def check_needs(self, data: Path) -> list[Need]:
        """The optional needs that are not there; an error that says what to supply where others are not."""
        missing = self.missing(data)
        required = [need for need in missing if not need.gives]
        if required:
            listed = "".join(f"\n  {need.words(data)}" for need in required)
            data_too = (
                "\nAnother folder in place of " + f"{data} is named with --data"
                if _any_path(required)
                else ""
            )
            raise InputError(f"the recipe {self.name} needs what is not here. Supply{listed}{data_too}")
        return missing

    def chosen(self, *, data: Path, quick: bool = False) -> dict[str, Any]:
        """The settings, with those of ``quick`` where it is asked for, and the data folder in its place."""
        settings = merged(self.settings, self.quick) if quick else dict(self.settings)
        return {key: _placed(value, data) for key, value in settings.items()}


def recipe_names() -> list[str]:
    """The names of all recipes."""
    return sorted(
        file.name.removesuffix(".toml") for file in _folder().iterdir() if file.name.endswith(".toml")
    )


def merged(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with changes; tables are merged, everything else is replaced.

    >>> merged({"a": {"x": 1, "y": 2}, "b": [1]}, {"a": {"y": 3}, "b": []})
    {'a': {'x': 1, 'y': 3}, 'b': []}
    """
    both = {
        key: merged(settings[key], value)
        if isinstance(value, Mapping) and isinstance(settings.get(key), Mapping)
        else value
        for key, value in changes.items()
    }
    return {**settings, **both}


def _folder() -> Any:
    return files("proofmap.reproduce") / "recipes"


def _any_path(needs: list[Need]) -> bool:
    return any(need.path for need in needs)


def _placed(value: Any, data: Path) -> Any:
    if isinstance(value, str):
        return value.replace("{data}", str(data))
    if isinstance(value, Mapping):
        return {key: _placed(inner, data) for key, inner in value.items()}
    return [_placed(inner, data) for inner in value] if isinstance(value, list) else value
