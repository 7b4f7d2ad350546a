"""``list``: lists everything that the command line takes by name, with what each costs and needs, and its settings."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proofmap.cli import options
from proofmap.cli.console import print_result
from proofmap.core.errors import InputError
from proofmap.core.files import DATA_FOLDER
from proofmap.core.text import check_known

if TYPE_CHECKING:
    from proofmap.core.registry import Registry
    from proofmap.plugins.settings import Plugin

Record = dict[str, Any]

_EXAMPLES = {
    "methods": "learned-mask:tv=0.1,scale=4 or learned-mask:preset=paper",
    "metrics": "soundness:thresholds=released,curve=rise",
    "fills": "blur:sigma=3, or inside another plug-in: insertion:fill=blur(sigma=3)",
    "games": "insertion:fill=blur,points=16",
    "targets": "decision:k=5, or inside another plug-in: completeness:target=decision(k=5)",
}
"""An example of settings for each kind of plug-in."""
_NOTES = {
    "methods": "passes: runs of the net for one image; METHOD's are those of the method inside. signed: values below zero speak against the label.",
    "datasets": "Words in capitals stand for your own values; what follows them is optional.",
    "recipes": "What is missing: proofmap list recipes NAME. --data names another folder.",
}
"""The last lines of a list."""
_FACTS: Mapping[str, Callable[[Any], str]] = {
    "form": "write {}".format,
    "size": "input {}".format,
    "weights": "weights {}".format,
    "state": str,
    "passes": lambda passes: f"passes: {_passes(passes)}",
    "label_free": lambda yes: "one map for all labels" if yes else "",
    "signed": lambda yes: "signed" if yes else "",
    "stochastic": lambda yes: "random" if yes else "",
    "better": "{} is better".format,
    "limits": lambda limits: " to ".join("any" if limit is None else f"{limit:g}" for limit in limits),
    "intrinsic": lambda yes: "" if yes else "extrinsic: uses more than the net and the image",
    "needs": lambda needs: f"needs {needs if isinstance(needs, str) else ' and '.join(needs)}",
    "reference": str,
}
"""The facts of a record that the list says, in this order, and the words for each."""


def list_kind(
    kind: Annotated[
        str | None,
        options.choice_argument(KINDS, KIND_HELP, metavar="KIND"),
    ] = None,
    name: Annotated[
        str | None,
        typer.Argument(help="Show only this entry, with all its settings.", show_default=False),
    ] = None,
    data: Annotated[
        Path, typer.Option(help="Folder with the data and weights that recipes need.")
    ] = DATA_FOLDER,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    if kind is None:
        print_result(f"proofmap list KIND [NAME]\nKIND: {KIND_HELP}")
        return
    records = KINDS[kind](kind, name, data)
    lines = _listed(kind, records) if name is None else _about(records[0])
    print_result(json.dumps(records, indent=1) if as_json else "\n".join(lines))


def _listed(kind: str, records: Sequence[Record]) -> list[str]:
    """Each entry with its facts, and the names of its settings; methods by family."""
    lines: list[str] = []
    if kind == "methods":
        for title, members in methods_by_family().items():
            lines += [title, *(line for facts in members for line in _entry(facts, 2)), ""]
    else:
        for record in records:
            lines += _entry(record)
            known = [
                *record.get("shortcuts", ()),
                *(setting["name"] for setting in record.get("settings", ())),
            ]
            lines += _wrap(f"settings: {', '.join(known)}", 4) if known else []
    if kind in _EXAMPLES:
        lines += ["", *_wrap(f"Settings follow a colon: {_EXAMPLES[kind]}")]
        lines.append(f"All about one: proofmap list {kind} NAME")
    return [*lines, *_wrap(_NOTES.get(kind, ""))]


def _entry(record: Record, indent: int = 0) -> list[str]:
    facts = [words(record[key]) for key, words in _FACTS.items() if record.get(key) not in (None, "", [])]
    return [
        " " * indent + record["name"],
        *_wrap("; ".join([record["description"], *filter(None, facts)]), indent + 2),
    ]


def _about(record: Record) -> list[str]:
    """Everything about one entry: its facts, its shortcuts and its settings."""
    lines = [
        *_entry(record),
        *(line for words in record.get("missing", ()) for line in _wrap(f"missing: {words}", 2)),
    ]
    for key, values in record.get("shortcuts", {}).items():
        lines += ["", f"{key}=NAME sets several settings at once:"]
        for value, given in values.items():
            settings = ", ".join(f"{k}={v}" for k, v in given.items()) or "the defaults"
            lines += _wrap(f"{value}: {settings}", 4)
    if record.get("settings"):
        lines += ["", "settings, with their defaults:"]
    for setting in record.get("settings", ()):
        lines += _wrap(f"{setting['name']}={setting['default']} ({setting['type']})", 2)
        lines += _wrap(setting["help"], 6)
    return lines


def _wrap(text: str, indent: int = 0) -> list[str]:
    """Wrap a text into indented lines as wide as the terminal, broken only between words, so that names and specs stay whole."""
    width = max(40, shutil.get_terminal_size((80, 24)).columns)
    start = " " * indent
    wrapper = textwrap.TextWrapper(width, start, start, break_on_hyphens=False, break_long_words=False)
    return wrapper.wrap(text)


# ---- plug-ins -------------------------------------------------------------------------------------------------------


def methods_by_family() -> dict[str, list[Record]]:
    """The facts of the registered methods, sorted by name, under the titles of their families."""
    from proofmap.methods import METHODS, Method

    known = [METHODS[name].facts() for name in sorted(METHODS)]
    listed = {
        title: [facts for facts in known if facts["family"] == family]
        for family, title in Method.FAMILIES.items()
    }
    return {title: members for title, members in listed.items() if members}


def _passes(passes: Mapping[str, Any] | None) -> str:
    from proofmap.methods import Method

    return Method.passes_text(passes) or "not known beforehand"


def _plugins(kind: str, name: str | None, _: Path) -> list[Record]:
    from proofmap.fills import FILLS
    from proofmap.methods import METHODS
    from proofmap.metrics import GAMES, METRICS, TARGETS
    from proofmap.plugins.python_file import from_python_file
    from proofmap.plugins.settings import Plugin

    registries: tuple[Registry[Any], ...] = (METHODS, METRICS, FILLS, GAMES, TARGETS)
    registry = dict(zip(_EXAMPLES, registries, strict=True))[kind]
    if name is not None and ".py" in name:
        found = from_python_file(name if ".py:" in name else f"{name}:", registry.kind)
        if not (isinstance(found, type) and issubclass(found, Plugin)):
            raise InputError(f"{name} is not a class, so it has no settings to list")
        return [_plugin_record(found)]
    return [_plugin_record(registry[key]) for key in (registry if name is None else [name])]


def _plugin_record(kind: type[Plugin]) -> Record:
    """A plug-in as plain data: its facts, its shortcuts and its settings."""
    from proofmap.methods import Method
    from proofmap.plugins.settings import Setting, settings_of

    infos = {info.name: info for info in settings_of(kind)}
    stated = {
        "needs": getattr(kind, "needs", ()),
        "kind": getattr(kind, "kind", ""),
        "per": getattr(kind, "per", None),
        "better": {True: "higher", False: "lower"}.get(getattr(kind, "higher_is_better", None)),  # type: ignore[arg-type]
        "limits": [limit if abs(limit) < float("inf") else None for limit in getattr(kind, "limits", ())],
        "intrinsic": getattr(kind, "intrinsic", None),
        "random": getattr(kind, "random", None),
        "reference": kind.reference,
    }
    known = {  # a property depends on the settings of an instance
        key: sorted(value) if key == "needs" else value
        for key, value in stated.items()
        if value is not None and not isinstance(value, property) and value not in ("", [], ())
    }
    shortcuts = {
        key: {
            value: {n: Setting(n, infos[n].types, v).default_text() for n, v in given.items() if n in infos}
            for value, given in values.items()
        }
        for key, values in kind.shortcuts.items()
    }
    settings = [
        {"name": info.name, "type": info.type_text(), "default": info.default_text(), "help": info.help}
        for info in infos.values()
    ]
    facts = kind.facts() if issubclass(kind, Method) else {}
    return {
        "name": kind.name,
        "description": kind.description,
        **known,
        **facts,
        "shortcuts": shortcuts,
        "settings": settings,
    }


# ---- models, datasets, figures, recipes -----------------------------------------------------------------------------


def _named(kind: str, name: str | None, _: Path) -> list[Record]:
    """The records of models, datasets or figures, or the one with this name."""
    records: list[Record]
    if kind == "models":
        from proofmap.models import list_models

        records = [asdict(info) for info in list_models()]
    elif kind == "datasets":
        from proofmap.data import list_datasets

        records = [asdict(info) for info in list_datasets()]
    else:
        from proofmap.report.figures.drawing import FIGURES

        records = [{"name": i.name, "needs": i.needs, "description": i.description} for i in FIGURES.values()]
    if name is not None:
        check_known(kind.removesuffix("s"), name, [record["name"] for record in records])
    return [record for record in records if name in (None, record["name"])]


def _recipes(_: str, name: str | None, data: Path) -> list[Record]:
    """The recipes, each with what is missing for it: for all of it, or for its first variant if none can be run."""
    from proofmap.reproduce.recipe import Recipe

    records = []
    for recipe in map(Recipe.named, Recipe.names() if name is None else [name]):
        ready, missing = recipe.ready_variant(data), recipe.missing(data)
        state = "data missing" if recipe.lacks(data) else "in part" if missing else "ready"
        if recipe.variants and ready is None:
            state, missing = "data missing", [*missing, *recipe.variants[0].lacks(data)]
        elif ready is not None and ready is not recipe.variants[0]:
            state = f"with {ready.name}"
        records.append(
            {
                "name": recipe.name,
                "state": state,
                "description": f"{recipe.title} ({recipe.paper})",
                "missing": [need.describe(data) for need in missing],
            }
        )
    return records


KINDS: dict[str, Callable[[str, str | None, Path], list[Record]]] = {
    **dict.fromkeys(_EXAMPLES, _plugins),
    **dict.fromkeys(("models", "datasets", "figures"), _named),
    "recipes": _recipes,
}
KIND_HELP = f"One of {', '.join(KINDS)}."
