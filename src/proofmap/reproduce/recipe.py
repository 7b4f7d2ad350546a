"""A recipe is a TOML file of this package. It says what is run, with which settings, what it needs, and what the paper printed. For example:

title = "Completeness and soundness by total variation, CIFAR-10"
paper = "appendix, table 5"
experiment = "study"            # what runs it, see proofmap.reproduce.run
extends = ["cifar10"]           # files of recipes/parts that this one adds to: tables are merged, all else replaced

[[needs]]                       # what must be there; each names one thing
path = "cifar-10-batches-py"    # below the folder of --data
what = "CIFAR-10, the Python version, unpacked"

[[needs]]
module = "sklearn"              # or a Python package
what = "scikit-learn: pip install 'proofmap[theory]'"
gives = "digits"                # optional: without it only this part (of a study: this row) is left out

[[variants]]                    # ways to run it, the paper's own first; the first whose needs are met runs
name = "resnet50"
what = "ResNet-50, as in the paper"
by_name = false # true: only if --variant names it
extends = ["..."]               # earlier variants that this one adds to, likewise
needs = [{ path = "weights/resnet50.pth", what = "..." }]
settings = { study = { model = "..." } }    # merged into the settings; likewise quick

[places]                        # names for texts: {train} below stands for this
train = "cifar10:{data}/cifar-10-batches-py[train]"

[settings]                      # the experiment's own; {data} in a text stands for the folder of --data

[quick]                         # what --quick changes in them
"""

from __future__ import annotations

import importlib.util
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from importlib.resources import files
from pathlib import Path
from typing import Any

from proofmap.core.errors import InputError
from proofmap.core.text import check_known

_KNOWN = {"title", "paper", "experiment", "needs", "variants", "places", "settings", "quick"}


@dataclass(frozen=True, kw_only=True)
class Need:
    """Something that a recipe needs: a file or folder below the data folder, a Python package, or a ``shipped`` file of this package.

    If several of these are named, one of them is enough. ``what`` describes the need. ``gives`` is the part of the recipe that is left out if
    the need is missing; if it is empty, the recipe cannot run without the need.
    """

    what: str
    path: str = ""
    module: str = ""
    shipped: str = ""
    gives: str = ""

    def is_there(self, data: Path) -> bool:
        return (
            (bool(self.path) and (data / self.path).exists())
            or (bool(self.module) and importlib.util.find_spec(self.module) is not None)
            or (bool(self.shipped) and (_package() / self.shipped).is_file())
        )

    def describe(self, data: Path) -> str:
        """A text that says what the user must supply, and where."""
        package = f"the package {self.module}" if self.module else ""
        place = f"{data / self.path}" if self.path else ""
        return f"{' or '.join(filter(None, [place, package]))}: {self.what}"

    @staticmethod
    def error(
        owner: str, needs: Sequence[Need], data: Path, one_of: Mapping[str, Sequence[Need]] | None = None
    ) -> InputError:
        """The error that says what ``owner`` needs: all of ``needs``, and the needs of one of the variants in ``one_of``."""
        lines = [f"  {need.describe(data)}" for need in needs] + (["one of these:"] if one_of else [])
        for variant, own in (one_of or {}).items():
            lines += [f"  for {variant}:", *(f"    {need.describe(data)}" for need in own)]
        if any(need.path for some in (needs, *(one_of or {}).values()) for need in some):
            lines.append(f"Another folder in place of {data} is named with --data")
        return InputError("\n".join([f"{owner} needs what is not here. Supply", *lines]))


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to run a recipe: with the paper's data and nets, or with the closest ones available."""

    name: str
    what: str
    by_name: bool = False
    needs: tuple[Need, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    quick: Mapping[str, Any] = field(default_factory=dict)

    def lacks(self, data: Path) -> list[Need]:
        """The needs of this variant that are missing and not optional."""
        return [need for need in self.needs if not need.gives and not need.is_there(data)]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One table or figure of the paper."""

    name: str
    title: str
    paper: str
    experiment: str
    text: str
    """The text of the recipe's file, and of the files that it extends."""
    needs: tuple[Need, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    quick: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    """Texts that replace names in braces in the settings."""
    variants: tuple[Variant, ...] = ()
    """The variants, the paper's own first."""
    chosen_variant: str = ""

    @classmethod
    def named(cls, name: str) -> Recipe:
        """The recipe of this package with this name."""
        check_known("recipe", name, Recipe.names())
        return cls.from_text(name, (_folder() / f"{name}.toml").read_text(encoding="utf-8"))

    @staticmethod
    def names() -> list[str]:
        """The names of all recipes."""
        return sorted(
            file.name.removesuffix(".toml") for file in _folder().iterdir() if file.name.endswith(".toml")
        )

    @classmethod
    def from_text(cls, name: str, text: str) -> Recipe:
        """The recipe that a TOML text describes."""
        table, text = _extended(text)
        wrong = sorted(set(table) - _KNOWN) or sorted({"title", "paper", "experiment"} - set(table))
        if wrong:
            raise InputError(f"the recipe {name} has unknown or missing entries: {', '.join(wrong)}")
        parts = {"needs": _needs(table), "variants": _variants(table.get("variants", ()))}
        return cls(**{**table, **parts, "name": name, "text": text})

    def missing(self, data: Path) -> list[Need]:
        return [need for need in self.needs if not need.is_there(data)]

    def lacks(self, data: Path) -> list[Need]:
        """The needs that are missing and not optional."""
        return [need for need in self.missing(data) if not need.gives]

    def check_needs(self, data: Path) -> list[Need]:
        """The optional needs that are missing. Raises if a need that is not optional is missing; the message says what to supply."""
        required = self.lacks(data)
        if required:
            raise Need.error(f"the recipe {self.name}", required, data)
        return self.missing(data)

    def ready_variant(self, data: Path) -> Variant | None:
        """The first variant whose needs are met. Variants that only run by name are skipped."""
        return next((v for v in self.variants if not v.by_name and not v.lacks(data)), None)

    def with_variant(self, data: Path, name: str | None = None) -> Recipe:
        """The recipe with the settings of a variant: the one of this name, or the first whose needs are met."""
        if name is not None and name not in [variant.name for variant in self.variants]:
            known = ", ".join(variant.name for variant in self.variants) or "none"
            raise InputError(f"the recipe {self.name} has no variant {name!r}; it has {known}")
        if not self.variants:
            return self
        variant = next((v for v in self.variants if v.name == name), None) or self.ready_variant(data)
        if variant is None:
            offered = {f"{v.name} ({v.what})": v.lacks(data) for v in self.variants if not v.by_name}
            raise Need.error(f"the recipe {self.name}", self.lacks(data), data, offered)
        return replace(
            self,
            needs=(*self.needs, *variant.needs),
            settings=merged(self.settings, variant.settings),
            quick=merged(self.quick, variant.quick),
            chosen_variant=variant.name,
        )

    def variant_note(self, data: Path) -> str:
        """A note on which variant is used and what the paper's own variant needs. Empty if there are no variants."""
        if not self.chosen_variant:
            return ""
        own, chosen = self.variants[0], next(v for v in self.variants if v.name == self.chosen_variant)
        note = f"variant {chosen.name}: {chosen.what}"
        if chosen is own:
            return note
        lacking = own.lacks(data)
        how = (
            f"supply {'; '.join(need.describe(data) for need in lacking)}"
            if lacking
            else "everything is there"
        )
        return f"{note}. For {own.what}: {how}; --variant {own.name}"

    def chosen(self, *, data: Path, quick: bool = False) -> dict[str, Any]:
        """The settings with names in braces replaced. With ``quick``, the changes of the recipe's table ``quick`` are applied."""
        settings = merged(self.settings, self.quick) if quick else dict(self.settings)
        places = {**self.places, "data": str(data)}  # the folder last: places lie in it
        return {key: placed(value, places) for key, value in settings.items()}


def merged(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with ``changes`` applied. Tables are merged; all other values are replaced.

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
    return _package() / "reproduce" / "recipes"


def _package() -> Any:
    return files("proofmap")


def _variants(tables: Sequence[Mapping[str, Any]]) -> tuple[Variant, ...]:
    """All variants, each merged with the variants that it extends."""
    whole: dict[str, dict[str, Any]] = {}
    for own in tables:
        whole[own["name"]] = _extending(own, [whole[name] for name in own.get("extends", ())])
    return tuple(Variant(**{**table, "needs": _needs(table)}) for table in whole.values())


def _needs(table: Mapping[str, Any]) -> tuple[Need, ...]:
    return tuple(Need(**need) for need in table.get("needs", ()))


def _extended(text: str) -> tuple[dict[str, Any], str]:
    """A recipe's table merged with the files that it extends, and the texts of all these files, the recipe's own first."""
    own = tomllib.loads(text)
    parts = {
        part: (_folder() / "parts" / f"{part}.toml").read_text(encoding="utf-8")
        for part in own.get("extends", ())
    }
    comments = [f"# ---- {part} ----\n" + re.sub("(?m)^(?=.)", "# ", added) for part, added in parts.items()]
    return _extending(own, [tomllib.loads(added) for added in parts.values()]), "\n".join([text, *comments])


def _extending(own: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The tables merged in order, the recipe's own last, without the key ``extends``."""
    table = reduce(merged, [*others, own], dict[str, Any]())
    return {key: value for key, value in table.items() if key != "extends"}


def placed(value: Any, places: Mapping[str, str]) -> Any:
    """The value with names in braces replaced by ``places``, in a text or in all texts of a table or list."""
    if isinstance(value, str):
        for name, place in places.items():
            value = value.replace(f"{{{name}}}", place)
        return value
    if isinstance(value, Mapping):
        return {key: placed(inner, places) for key, inner in value.items()}
    return [placed(inner, places) for inner in value] if isinstance(value, list) else value
