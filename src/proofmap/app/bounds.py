"""The limits of numbers that visitors may set for a method or fill: see :mod:`proofmap.app.choices`."""

from __future__ import annotations

import math

from proofmap.fills import Images
from proofmap.methods import Method
from proofmap.methods.masks.method import MaskMethod
from proofmap.plugins.settings import Plugin, Setting

TIMES = {"method": 4, "fill": 2}
"""The limit of a number of a method or fill, as a multiple of its default."""
SAFE_TEXTS = frozenset({"layer"})
"""Settings whose text can only name a part of the net."""
_SEEDS = ("seed", "seed_offset")
_STEP_COUNTS = ("steps", "passes", "iterations")
"""Settings that count the steps of methods that learn masks; a job can be cancelled between two steps."""
_WITHOUT_DEFAULT = 1_000.0
"""The largest number of a setting whose default is none or zero."""


def is_live(kind: type[Plugin]) -> bool:
    """Whether a class of methods can show masks while they are learned."""
    return issubclass(kind, MaskMethod)


def bounds(kind: type[Plugin], info: Setting) -> tuple[float, float]:
    """The smallest and the largest number that a visitor may give for a setting; infinite where only the passes of a job limit it."""
    if info.name in _SEEDS or (info.name in _STEP_COUNTS and issubclass(kind, Method) and is_live(kind)):
        return -math.inf, math.inf
    default = info.default if isinstance(info.default, (int, float)) else 0.0
    if not default:
        return -math.inf, _WITHOUT_DEFAULT
    pooled = issubclass(kind, Images) and info.name == "size"
    most = abs(default) * (1 if pooled else TIMES.get(kind.noun, 1))
    positive = info.above is not None and isinstance(info.default, float)  # a length or a rate
    return default / TIMES["method"] if positive else -math.inf, most
