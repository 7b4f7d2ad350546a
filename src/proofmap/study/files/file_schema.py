"""A JSON Schema of study files, generated from the settings of studies and plug-ins. Editors use it to complete and check a file.

The schema accepts every file that :meth:`~proofmap.study.Study.from_toml` accepts. It may accept more: plug-ins written as text
(``"learned-mask:tv=0.1"``, ``"mine.py:Mine"``) are checked only when a study is opened.
"""

from __future__ import annotations

import collections.abc
from collections.abc import Mapping
from dataclasses import MISSING, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from proofmap.core.registry import Registry
from proofmap.core.version import __version__
from proofmap.fills import FILLS, Fill
from proofmap.methods import METHODS, Method
from proofmap.metrics import GAMES, METRICS, TARGETS, Game, Metric, Target
from proofmap.plugins.settings import Plugin, Setting, settings_of
from proofmap.plugins.values import alternatives
from proofmap.study.study import Study

Schema = dict[str, Any]
_KINDS: Mapping[type[Plugin], Registry[Any]] = {
    Method: METHODS,
    Metric: METRICS,
    Fill: FILLS,
    Game: GAMES,
    Target: TARGETS,
}
_DESCRIPTIONS = {
    "data": "the data: a dataset such as cifar10:FOLDER, or photos and folders",
    "images": "the rules that select inputs of the data",
    "names": "only inputs with these names, in this order",
    "labels": "the labels that are explained: all, top5, top5+wrong (also two labels that the net does not believe), p>=0.01, true (the true "
    "labels of each input), or a list of names or indices for every input",
    "label_set": "the labels that count, as names or indices; left out: all outputs of the net",
    "methods": "the methods that are judged: names, or tables with method = ...",
    "metrics": "the metrics that judge the methods: names, or tables with metric = ...; left out: the usual five",
    "fills": "fills, the values that replace hidden positions: every metric that has a fill is computed once with each of these",
}
"""Descriptions of the fields that are declared without help, because a study checks them itself."""
_PLAIN = {bool: "boolean", int: "integer", float: "number", str: "string", Path: "string"}


def study_schema() -> Schema:
    """The JSON Schema of study files, as plain data that can be written as JSON.

    >>> schema = study_schema()
    >>> schema["properties"]["images"]["properties"]["number"]["minimum"]
    1
    """
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": f"A study file of Proofmap {__version__}",
        **_object(Study),
        "definitions": {kind.noun: _plugin(kind, registry) for kind, registry in _KINDS.items()},
    }


def _object(kind: type) -> Schema:
    """The schema of a TOML table for a dataclass whose fields are settings."""
    properties = {info.name: _setting(info) for info in settings_of(kind)}
    for name in properties.keys() & _DESCRIPTIONS:
        properties[name]["description"] = _DESCRIPTIONS[name]
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _setting(info: Setting) -> Schema:
    """The schema of one setting: its type, bounds, help and default."""
    schema = _any_of(info.types)
    limits = {"minimum": info.least, "exclusiveMinimum": info.above, "maximum": info.most}
    bounds = {key: limit for key, limit in limits.items() if limit is not None}
    for part in schema.get("anyOf", [schema]):
        if part.get("type") in ("integer", "number"):
            part |= bounds
    if info.help:
        schema["description"] = info.help
    if isinstance(info.default, (bool, int, float, str)):
        schema["default"] = info.default
    return schema


def _any_of(types: tuple[Any, ...]) -> Schema:
    """The schema of a value with one of these types. TOML has no None; a setting that is None is left out of the file."""
    parts: list[Schema] = []
    for kind in types:
        parts += [part for part in _of_type(kind) if part not in parts]
    if {} in parts or not parts:
        return {}
    return parts[0] if len(parts) == 1 else {"anyOf": parts}


def _of_type(kind: Any) -> list[Schema]:
    """The schemas for one type of a setting, as a list. An empty schema allows any value; an empty list means that TOML cannot
    express the type."""
    origin = get_origin(kind)
    if kind in _PLAIN:
        return [{"type": _PLAIN[kind]}]
    if origin is Literal:
        return [{"enum": list(get_args(kind))}]
    if origin is tuple:
        inner = [part for part in get_args(kind) if part is not Ellipsis]
        items = _any_of(tuple(kind for part in inner for kind in alternatives(part)))
        plugins = [part for part in inner if isinstance(part, type) and issubclass(part, Plugin)]
        text = [{"type": "string"}] if str in inner else []  # one name stands for a list of one
        return [{"type": "array", "items": items}, *(_reference(part) for part in plugins), *text]
    if origin is collections.abc.Sequence:  # in a study, one thing stands for a list of one
        items = _any_of(tuple(part for hint in get_args(kind) for part in alternatives(hint)))
        return [{"type": "array", "items": items}, *items.get("anyOf", [items])]
    if isinstance(kind, type) and issubclass(kind, Plugin):
        return [_reference(kind)]
    if isinstance(kind, type) and is_dataclass(kind):
        return [_object(kind)]
    if kind is NoneType or origin in (collections.abc.Mapping, collections.abc.Callable):
        return []  # tables are those of plug-ins, and no file contains a function
    return [{}]


def _reference(kind: type[Plugin]) -> Schema:
    noun = next((base.noun for base in _KINDS if issubclass(kind, base)), None)
    return {} if noun is None else {"$ref": f"#/definitions/{noun}"}


def _plugin(base: type[Plugin], registry: Registry[Any]) -> Schema:
    """The schema of a plug-in, which a study file gives as text, or as a table with the plug-in's name and settings."""
    names = list(registry)
    text = {"anyOf": [{"enum": names}, {"type": "string"}]}  # editors offer the names
    cases = [
        {"if": {"properties": {base.noun: {"const": name}}}, "then": _settings(registry[name], base.noun)}
        for name in names
    ]
    table = {
        "type": "object",
        "properties": {base.noun: text, "name": {"type": "string", "description": "the name in tables"}},
        "required": [base.noun],
        "allOf": cases,
    }
    return {"anyOf": [*text["anyOf"], table]}


def _settings(kind: type[Plugin], noun: str) -> Schema:
    """The schema of the settings that the table of this plug-in may contain in addition to the plug-in's name."""
    infos = settings_of(kind)
    properties: Schema = {noun: {"description": kind.description}, "name": {}}
    properties |= {info.name: _setting(info) for info in infos}
    own_words = kind.expand_shortcut.__func__ is not Plugin.expand_shortcut.__func__  # type: ignore[attr-defined]
    for key, values in kind.shortcuts.items():
        properties[key] = (
            {} if own_words else {"enum": list(values), "description": "sets several settings at once"}
        )
    schema: Schema = {"properties": properties}
    if kind.build.__func__ is Plugin.build.__func__:  # type: ignore[attr-defined]
        schema["additionalProperties"] = False
        needed = [info.name for info in infos if info.default is MISSING]
        schema |= {"required": needed} if needed else {}
    return schema
