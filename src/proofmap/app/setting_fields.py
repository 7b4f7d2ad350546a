"""The settings of methods as fields of a form. Kind, bounds, default and help of each field are generated from the setting.

Also the limits of numbers that visitors may set; see :mod:`proofmap.app.choices`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import MISSING
from types import NoneType
from typing import get_origin

from proofmap.app.answers import SettingField
from proofmap.fills import FILLS, Fill, Images
from proofmap.methods import METHODS, Method
from proofmap.methods.masks.method import MaskMethod
from proofmap.plugins.settings import Plugin, Setting, settings_of

TIMES = {"method": 4, "fill": 2}
"""The largest value of a number in the settings of a method or fill, as a multiple of its default."""
SAFE_TEXTS = frozenset({"layer"})
"""Settings whose text visitors may choose, because it can only name a part of the net."""
_SEEDS = ("seed", "seed_offset")
_STEP_COUNTS = ("steps", "passes", "iterations")
"""Settings with the number of steps of methods that learn masks. They have no limit of their own: a job can be cancelled between two steps."""
_WITHOUT_DEFAULT = 1_000.0
"""The largest value of a number whose default is none or zero."""


def is_live(kind: type[Plugin]) -> bool:
    """Whether a class of methods can show masks while they are learned."""
    return issubclass(kind, MaskMethod)


def bounds(kind: type[Plugin], info: Setting) -> tuple[float, float]:
    """The smallest and largest number that a visitor may choose for a setting. A bound is infinite if this setting has no limit of its own."""
    if info.name in _SEEDS or (info.name in _STEP_COUNTS and issubclass(kind, Method) and is_live(kind)):
        return -math.inf, math.inf
    default = info.default if isinstance(info.default, (int, float)) else 0.0
    if not default:
        return -math.inf, _WITHOUT_DEFAULT
    pooled = issubclass(kind, Images) and info.name == "size"
    most = abs(default) * (1 if pooled else TIMES.get(kind.noun, 1))
    positive = info.above is not None and isinstance(info.default, float)  # a length or a rate
    return default / TIMES["method"] if positive else -math.inf, most


NONE = "none"


def fields_of(kind: type[Method], default_method: str, accepts: Callable[[str], bool]) -> list[SettingField]:
    """The form fields of the settings that a visitor may choose, presets first.

    Settings and values that only the command line accepts are left out.
    ``accepts`` says whether a visitor may use a spec (the name of a method with its settings).
    """
    presets = [
        SettingField(
            name=name,
            kind="choice",
            help=f"a {name} sets several of the settings below at once; settings that you change yourself take precedence",
            default="",
            choices=["", *values],
        )
        for name, values in kind.shortcuts.items()
    ]
    settings = (_field(kind, info, default_method) for info in settings_of(kind))
    fields = presets + [field for field in settings if field is not None]
    for field in fields:
        needed = [f"{other.name}={other.default}" for other in fields if other.required and other != field]
        specs = {v: f"{kind.name}:{','.join([*needed, f'{field.name}={v}'])}" for v in field.choices}
        field.choices = [v for v in field.choices if v in ("", field.default) or accepts(specs[v])]
    return fields


def _field(kind: type[Plugin], info: Setting, default_method: str) -> SettingField | None:
    default = default_method if info.default is MISSING else info.default_text()
    made = SettingField(name=info.name, kind="text", help=info.help, default=default)
    made.required = info.default is MISSING
    if info.plugin is not None or info.choices or bool in info.types:
        made.kind, made.choices = "choice", _choices(info, default)
        return made
    if int in info.types or float in info.types:
        made.kind = "number" if float in info.types else "whole"
        made.least, made.most = _limits(kind, info)
        made.optional = NoneType in info.types
        return made
    listed = info.several is not None or any(get_origin(t) is tuple for t in info.types)
    return made if listed or info.name in SAFE_TEXTS else None


def _choices(info: Setting, default: str) -> list[str]:
    """The values of a setting that has a fixed list of values. A default that is not in the list comes first."""
    if info.plugin is not None:
        found: Sequence[str] = _plugin_names(info.plugin)
    else:
        found = ["true", "false"] if bool in info.types else [str(choice) for choice in info.choices]
    found = [*found, *([NONE] if NoneType in info.types and NONE not in found else [])]
    return list(found) if default in found else [default, *found]


def _plugin_names(kind: type[Plugin]) -> list[str]:
    """The fills or methods that need no settings and no files."""
    if issubclass(kind, Fill):
        return [name for name in FILLS if not FILLS[name].reads_mask]
    simple = [name for name in METHODS if METHODS[name].family not in ("adapter", "masker", "control")]
    return [
        name for name in simple if all(info.default is not MISSING for info in settings_of(METHODS[name]))
    ]


def _limits(kind: type[Plugin], info: Setting) -> tuple[float | None, float | None]:
    """The smallest and largest value that both the setting and the server allow."""
    lowest, highest = bounds(kind, info)
    own = [x for x in (info.least, info.above, lowest) if x is not None and math.isfinite(x)]
    caps = [x for x in (info.most, highest) if x is not None and math.isfinite(x)]
    return max(own, default=None), min(caps, default=None)
