"""The lists: methods, metrics, fills, games and targets with their settings; models and datasets."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from typing import Annotated, Any

import typer

import proofmap as pm
from proofmap.cli.console import print_result
from proofmap.cli.method_list import fact_words, method_list, settings_table
from proofmap.cli.options import AsJson
from proofmap.data import list_datasets
from proofmap.fills import FILLS
from proofmap.methods import METHODS, Method
from proofmap.methods.facts import FAMILIES, facts_of
from proofmap.methods.method import Cost
from proofmap.metrics import GAMES, METRICS, TARGETS, Metric, RunMetric
from proofmap.plugins.registry import Registry
from proofmap.plugins.settings import Plugin, Setting, settings_of
from proofmap.results import tables

Name = Annotated[str | None, typer.Argument(help="Only this one, with all its settings.", show_default=False)]

_PICTURE = 224 * 224
"""Positions of the input that costs are told for."""


def methods(name: Name = None, as_json: AsJson = False) -> None:
    """The methods by family, what they cost and need; of one by NAME everything, settings and presets included."""
    if name is None and not as_json:
        print_result(method_list(_width()))
        return
    _list(METHODS, name, as_json, "")


def metrics(name: Name = None, as_json: AsJson = False) -> None:
    """The metrics: which way is better, range, cost, reference and settings; of one by NAME everything."""
    _list(METRICS, name, as_json, "soundness:thresholds=released,curve=rise")


def fills(name: Name = None, as_json: AsJson = False) -> None:
    """What hidden pixels can show, and the settings; of one by NAME everything."""
    _list(FILLS, name, as_json, "blur:sigma=3, or inside another's: insertion:fill=blur(sigma=3)")


def games(name: Name = None, as_json: AsJson = False) -> None:
    """The games that maps are judged by, and the settings; of one by NAME everything."""
    _list(GAMES, name, as_json, "insertion:fill=blur,points=16")


def targets(name: Name = None, as_json: AsJson = False) -> None:
    """What games can read off the net, and the settings; of one by NAME everything."""
    _list(TARGETS, name, as_json, "decision:k=5, or inside another's: completeness:target=decision(k=5)")


def _list(registry: Registry[Any], name: str | None, as_json: bool, example: str) -> None:
    kinds: list[type[Plugin]] = [registry[key] for key in (registry if name is None else [name])]
    if as_json:
        print_result(json.dumps([_record(kind) for kind in kinds], indent=1))
        return
    if name is not None:
        print_result(_in_full(kinds[0]))
    for kind in kinds if name is None else []:
        record = _record(kind)
        facts = "".join(f"; {fact}" for fact in _facts(record))
        print_result(f"{kind.name}\n    {kind.description}{facts}")
        if kind.reference and "cost" in record:
            print_result(f"    after {kind.reference}")
        known = [*kind.shortcuts, *(setting["name"] for setting in record["settings"])]
        if known:
            print_result(f"    settings: {', '.join(known)}")
    if name is None:
        print_result(f"\nSettings follow a colon: {example}\nAll about one: proofmap {registry.kind}s NAME")


def _width() -> int:
    """Of the terminal; 80 where there is none."""
    return shutil.get_terminal_size((80, 24)).columns


def _record(kind: type[Plugin]) -> dict[str, Any]:
    """A plug-in as plain data: what it states about itself, its shortcuts and its settings."""
    needs = getattr(kind, "needs", ())
    stated = {
        "needs": [] if isinstance(needs, property) else sorted(needs),
        "kind": getattr(kind, "kind", "") or None,
        "per": getattr(kind, "per", None),
        "better": {True: "higher", False: "lower"}.get(getattr(kind, "higher_is_better", None)),  # type: ignore[arg-type]
        "limits": [limit if abs(limit) < float("inf") else None for limit in getattr(kind, "limits", ())],
        "intrinsic": getattr(kind, "intrinsic", None),
        "cost": _cost(kind),
        "random": getattr(kind, "random", None),
        "reference": kind.reference,
    }
    return {
        "name": kind.name,
        "description": kind.description,
        # what an instance says depends on its settings
        **{
            key: value
            for key, value in stated.items()
            if value not in (None, "", []) and not isinstance(value, property)
        },
        **(facts_of(kind).record() if issubclass(kind, Method) else {}),
        "shortcuts": {
            key: {value: _texts(kind, given) for value, given in values.items()}
            for key, values in kind.shortcuts.items()
        },
        "settings": [
            {
                "name": info.name,
                "type": info.type_text(),
                "default": info.default_text(),
                "help": info.help,
            }
            for info in settings_of(kind)
        ],
    }


def _cost(kind: type[Plugin]) -> str | None:
    """What a metric costs for one image and label beyond the maps, in words; None for other kinds, and where nobody can tell."""
    if not issubclass(kind, Metric):
        return None
    if issubclass(kind, RunMetric):
        return "no passes"
    metric, method = kind(), Cost(gradient=1)
    games = sum(game.passes(_PICTURE) for game in metric.games())
    own, without = (metric.cost(1, given) for given in (method, Cost()))
    if own is None or without is None:
        return "depends on the input"
    runs, passes = own.passes - without.passes, games + without.passes
    words = [f"{passes} passes"] * (passes > 0) + [f"{runs} x the method"] * (runs > 0)
    return " and ".join(words) or "no passes"


def _texts(kind: type[Plugin], given: Any) -> dict[str, str]:
    """Settings of a shortcut as they would be written."""
    infos = {info.name: info for info in settings_of(kind)}
    known = {
        name: value for name, value in given.items() if name in infos
    }  # thresholds name two, a metric has one
    return {name: Setting(name, infos[name].types, value).default_text() for name, value in known.items()}


def _facts(record: dict[str, Any]) -> list[str]:
    facts = [f"{record['better']} is better"] if "better" in record else []
    if "limits" in record:
        low, high = ("any" if limit is None else f"{limit:g}" for limit in record["limits"])
        facts.append("any value" if low == high == "any" else f"{low} to {high}")
    if "intrinsic" in record:
        facts.append(
            "intrinsic" if record["intrinsic"] else "extrinsic: uses more than the net and the image"
        )
    if "cost" in record:
        facts.append(f"{record['cost']} for an image" + " of a label" * (record.get("per") != "run"))
    if record.get("needs"):
        facts.append(f"needs {', '.join(record['needs'])}")
    return facts


def _in_full(kind: type[Plugin]) -> str:
    """Everything about one plug-in."""
    record = _record(kind)
    lines = [f"{kind.name}: {kind.description}"]
    if issubclass(kind, Method):
        found = facts_of(kind)
        facts = [f"family: {FAMILIES[found.family].lower()}", *fact_words(found)]
    else:
        facts = [*_facts(record), *([kind.reference] if kind.reference else [])]
    lines += [f"    {fact}" for fact in facts]
    for key, values in record["shortcuts"].items():
        lines += ["", f"{key}=NAME sets several settings at once:"]
        rows = [
            [value, ", ".join(f"{k}={v}" for k, v in given.items()) or "the defaults"]
            for value, given in values.items()
        ]
        table = settings_table([key, "stands for"], rows, _width() - 4)
        lines += [f"    {line}" for line in table.splitlines()]
    if record["settings"]:
        rows = [[s["name"], s["default"], s["type"], s["help"]] for s in record["settings"]]
        lines += ["", settings_table(["setting", "default", "is", "what it does"], rows, _width())]
    return "\n".join(lines)


def models(as_json: AsJson = False) -> None:
    """The nets that have a name here, and how to name any other."""
    infos = pm.list_models()
    if as_json:
        print_result(json.dumps([asdict(info) for info in infos], indent=1))
        return
    rows = [[i.name, str(i.size or "any"), i.weights, i.description] for i in infos]
    print_result(tables.aligned(["model", "input", "weights", "what it is"], rows))


def datasets(as_json: AsJson = False) -> None:
    """The kinds of data, and how to write them after --data or in a study file."""
    infos = list_datasets()
    if as_json:
        print_result(json.dumps([asdict(info) for info in infos], indent=1))
        return
    print_result(tables.aligned(["write", "what it is"], [[i.form, i.description] for i in infos]))
    print_result("\nCapitals stand for something of yours; what follows them may be left out.")
