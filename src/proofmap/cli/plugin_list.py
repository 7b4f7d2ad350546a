"""The plug-ins of a registry as text and as records: what each is, what it costs and needs, and its settings."""

from __future__ import annotations

import json
import shutil
import textwrap
from typing import Any

from proofmap.core.registry import Registry
from proofmap.methods import METHODS, Method
from proofmap.methods.method import FAMILIES, Cost, passes_text
from proofmap.metrics import Metric, RunMetric
from proofmap.plugins.settings import Plugin, Setting, settings_of

_EXAMPLES = {
    "method": "learned-mask:tv=0.1,scale=4 or learned-mask:preset=paper",
    "metric": "soundness:thresholds=released,curve=rise",
    "fill": "blur:sigma=3, or inside another plug-in: insertion:fill=blur(sigma=3)",
    "game": "insertion:fill=blur,points=16",
    "target": "decision:k=5, or inside another plug-in: completeness:target=decision(k=5)",
}
_PICTURE = 224 * 224
"""Number of positions of the input for which costs are listed."""


def methods_by_family() -> dict[str, list[dict[str, Any]]]:
    """The facts of the registered methods, sorted by name, under the titles of their families."""
    known = [METHODS[name].facts() for name in sorted(METHODS)]
    listed = {
        title: [facts for facts in known if facts["family"] == family] for family, title in FAMILIES.items()
    }
    return {title: members for title, members in listed.items() if members}


def plugin_list(registry: Registry[Any], name: str | None = None, *, as_json: bool = False) -> str:
    """All plug-ins of a registry, or everything about the one with this name, as text or JSON."""
    if as_json:
        kinds = [registry[key] for key in (registry if name is None else [name])]
        return json.dumps([_plugin_record(kind) for kind in kinds], indent=1)
    return _all_of(registry) if name is None else _plugin_text(registry[name])


def _all_of(registry: Registry[Any]) -> str:
    """All plug-ins of a registry, each with its facts; methods by family, the others with the names of their settings."""
    lines: list[str] = []
    if registry is METHODS:
        for title, members in methods_by_family().items():
            lines.append(title)
            for facts in members:
                words = "; ".join([facts["description"], *_method_facts(facts)])
                lines += [f"  {facts['name']}", *_wrap(words, 4)]
            lines.append("")
        lines += _wrap("passes: runs of the net for one image; METHOD's are those of the method inside.")
        lines += _wrap("signed: values below zero speak against the label.")
    else:
        for kind in (registry[name] for name in registry):
            record = _plugin_record(kind)
            lines += [kind.name, *_wrap("; ".join([kind.description, *_facts(record)]), 4)]
            if kind.reference and "cost" in record:
                lines += _wrap(f"after {kind.reference}", 4)
            known = [*kind.shortcuts, *(setting["name"] for setting in record["settings"])]
            if known:
                lines += _wrap(f"settings: {', '.join(known)}", 4)
        lines.append("")
    lines += _wrap(f"Settings follow a colon: {_EXAMPLES[registry.kind]}")
    return "\n".join([*lines, f"All about one: proofmap list {registry.kind}s NAME"])


def _plugin_text(kind: type[Plugin]) -> str:
    """A text with everything about one plug-in: description, facts, shortcuts and settings."""
    record = _plugin_record(kind)
    lines = _wrap(f"{kind.name}: {kind.description}")
    if issubclass(kind, Method):
        facts = [f"family: {FAMILIES[kind.family].lower()}", *_method_facts(kind.facts())]
    else:
        facts = [*_facts(record), *([kind.reference] if kind.reference else [])]
    lines += [line for fact in facts for line in _wrap(fact, 4)]
    for key, values in record["shortcuts"].items():
        lines += ["", f"{key}=NAME sets several settings at once:"]
        for value, given in values.items():
            settings = ", ".join(f"{k}={v}" for k, v in given.items()) or "the defaults"
            lines += _wrap(f"{value}: {settings}", 4)
    if record["settings"]:
        lines += ["", "settings, with their defaults:"]
    for setting in record["settings"]:
        lines += _wrap(f"{setting['name']}={setting['default']} ({setting['type']})", 2)
        lines += _wrap(setting["help"], 6)
    return "\n".join(lines)


def _wrap(text: str, indent: int = 0) -> list[str]:
    """Wrap a text into indented lines as wide as the terminal, broken only between words, so that names and specs stay whole."""
    width = max(40, shutil.get_terminal_size((80, 24)).columns)
    start = " " * indent
    return textwrap.wrap(
        text,
        width,
        initial_indent=start,
        subsequent_indent=start,
        break_on_hyphens=False,
        break_long_words=False,
    )


def _method_facts(facts: dict[str, Any]) -> list[str]:
    """The cost, properties, needs and reference of a method, in a few words each."""
    found = [
        f"passes: {passes_text(facts['passes']) or 'not known beforehand'}",
        "one map for all labels" if facts["label_free"] else "",
        "signed" if facts["signed"] else "",
        "random" if facts["stochastic"] else "",
        f"needs {' and '.join(facts['needs'])}" if facts["needs"] else "",
        facts["reference"],
    ]
    return [words for words in found if words]


def _plugin_record(kind: type[Plugin]) -> dict[str, Any]:
    """A plug-in as plain data: its facts, its shortcuts and its settings."""
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
        # a property depends on the settings of an instance
        **{
            key: value
            for key, value in stated.items()
            if value not in (None, "", []) and not isinstance(value, property)
        },
        **(kind.facts() if issubclass(kind, Method) else {}),
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
    """The cost of a metric for one image and label, without the cost of the maps, in words; None for other kinds of plug-ins."""
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
    """The settings that a shortcut sets, as texts, as a user would write them."""
    infos = {info.name: info for info in settings_of(kind)}
    # thresholds name two settings; some metrics have only one of them
    known = {name: value for name, value in given.items() if name in infos}
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
