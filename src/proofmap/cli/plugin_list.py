"""The plug-ins of a registry as text and as records: what each is, what it costs and needs, and its settings."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from proofmap.core.registry import Registry
from proofmap.methods import METHODS, Method
from proofmap.methods.method import FAMILIES, Cost, methods_by_family, passes_text
from proofmap.metrics import Metric, RunMetric
from proofmap.plugins.settings import Plugin, Setting, settings_of

EXAMPLES = {
    "method": "learned-mask:tv=0.1,scale=4 or learned-mask:preset=paper",
    "metric": "soundness:thresholds=released,curve=rise",
    "fill": "blur:sigma=3, or inside another plug-in: insertion:fill=blur(sigma=3)",
    "game": "insertion:fill=blur,points=16",
    "target": "decision:k=5, or inside another plug-in: completeness:target=decision(k=5)",
}
_MIN_WIDTH = 24
_PICTURE = 224 * 224
"""Number of positions of the input for which costs are listed."""


def terminal_width() -> int:
    """Terminal width in columns, or 80 if unknown."""
    return shutil.get_terminal_size((80, 24)).columns


def plugin_list(registry: Registry[Any]) -> str:
    """A text with all plug-ins of a registry, each with its facts and the names of its settings."""
    lines: list[str] = []
    for kind in (registry[name] for name in registry):
        record = plugin_record(kind)
        lines += [kind.name, "    " + "; ".join([kind.description, *_facts(record)])]
        if kind.reference and "cost" in record:
            lines.append(f"    after {kind.reference}")
        known = [*kind.shortcuts, *(setting["name"] for setting in record["settings"])]
        if known:
            lines.append(f"    settings: {', '.join(known)}")
    return "\n".join([*lines, "", *_notes(registry)])


def _notes(registry: Registry[Any]) -> list[str]:
    return [
        f"Settings follow a colon: {EXAMPLES[registry.kind]}",
        f"All about one: proofmap list {registry.kind}s NAME",
    ]


def method_list(width: int) -> str:
    """A text with all methods by family, in lines of at most ``width`` characters. Longer words are not broken."""
    families = methods_by_family()
    names = max(len(facts["name"]) for members in families.values() for facts in members)
    indent = " " * (names + 4)
    lines: list[str] = []
    for title, members in families.items():
        lines.append(title)
        for facts in members:
            room = max(_MIN_WIDTH, width - len(indent))
            first, *more = [*_wrap(facts["description"], room), *_joined(method_facts(facts), room)]
            lines += [f"  {facts['name'].ljust(names)}  {first}", *(indent + line for line in more)]
        lines.append("")
    notes = [
        "passes: runs of the net for one image; METHOD's are those of the method inside.",
        "signed: values below zero speak against the label.",
        *_notes(METHODS),
    ]
    return "\n".join([*lines, *(line for note in notes for line in _wrap(note, width))])


def method_facts(facts: dict[str, Any]) -> list[str]:
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


def _joined(facts: Iterable[str], width: int) -> Iterator[str]:
    """Join facts into lines of at most ``width`` characters. A fact is broken only if it is longer than a line."""
    line = ""
    for fact in facts:
        if line and len(line) + len(fact) + 3 > width:  # with a semicolon before it, and one at the end
            yield line + ";"
            line = ""
        *full, rest = _wrap(fact, width - 1)
        yield from full
        line += f"; {rest}" if line else rest
    yield line


def settings_table(header: list[str], rows: list[list[str]], width: int) -> str:
    """A table whose last column is wrapped to the width, or printed below the other columns if there is no room beside them."""
    before = [max(map(len, column)) for column in list(zip(header, *rows, strict=True))[:-1]]
    start = sum(before) + 2 * len(before)
    below = width - start < _MIN_WIDTH
    lines = []
    for *cells, words in [header, *rows]:
        front = "  ".join(cell.ljust(room) for cell, room in zip(cells, before, strict=True))
        first, *more = _wrap(words, width - (4 if below else start)) or [""]
        if below:
            indented = [f"    {line}" for line in (first, *more) if line and cells != header[:-1]]
            lines += [front.rstrip(), *indented]
        else:
            lines += [f"{front}  {first}".rstrip(), *(" " * start + line for line in more)]
    return "\n".join(lines)


def _wrap(text: str, width: int) -> list[str]:
    """Wrap a text into lines of at most ``width`` characters, broken only between words, so that names and specs stay whole."""
    return textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)


def plugin_record(kind: type[Plugin]) -> dict[str, Any]:
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


def plugin_text(kind: type[Plugin]) -> str:
    """A text with everything about one plug-in: description, facts, shortcuts and settings."""
    record, width = plugin_record(kind), terminal_width()
    lines = [f"{kind.name}: {kind.description}"]
    if issubclass(kind, Method):
        facts = [f"family: {FAMILIES[kind.family].lower()}", *method_facts(kind.facts())]
    else:
        facts = [*_facts(record), *([kind.reference] if kind.reference else [])]
    lines += [f"    {fact}" for fact in facts]
    for key, values in record["shortcuts"].items():
        lines += ["", f"{key}=NAME sets several settings at once:"]
        rows = [
            [value, ", ".join(f"{k}={v}" for k, v in given.items()) or "the defaults"]
            for value, given in values.items()
        ]
        table = settings_table([key, "stands for"], rows, width - 4)
        lines += [f"    {line}" for line in table.splitlines()]
    if record["settings"]:
        rows = [[s["name"], s["default"], s["type"], s["help"]] for s in record["settings"]]
        lines += ["", settings_table(["setting", "default", "is", "what it does"], rows, width)]
    return "\n".join(lines)
