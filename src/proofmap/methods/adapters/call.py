"""A class of a library with its options, as text: ``IntegratedGradients(n_steps=20)``."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from proofmap.core.errors import InputError
from proofmap.plugins.values import split_outside_brackets

_FORM = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*(?:\((?P<inside>.*)\)|:(?P<after>.*))?", re.DOTALL)
_WORDS = {"true": True, "false": False, "none": None}


@dataclass(frozen=True)
class Call:
    """The name of a class, and options for its constructor or its call; ``str`` writes it as it is read.

    >>> str(Call.read("Occlusion: sliding_window_shapes=(3,4,4), perturbations_per_eval=2"))
    'Occlusion(sliding_window_shapes=(3,4,4),perturbations_per_eval=2)'
    >>> Call.read("Occlusion(sliding_window_shapes=(3,4,4))").options["sliding_window_shapes"]
    (3, 4, 4)
    """

    name: str
    texts: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(cls, text: str) -> Call:
        found = _FORM.fullmatch(text.strip())
        if found is None:
            raise InputError(f"{text!r} is not the name of a class with options, CLASS(KEY=VALUE,...)")
        pairs = []
        for part in split_outside_brackets(found["inside"] or found["after"] or ""):
            key, equals, value = part.partition("=")
            if not equals or not key.strip().isidentifier():
                raise InputError(f"{part!r} in {text!r} is not an option, KEY=VALUE")
            pairs.append((key.strip(), re.sub(r"\s*,\s*", ",", value.strip())))
        return cls(found["name"], tuple(pairs))

    @property
    def options(self) -> dict[str, Any]:
        """The options as values: numbers, truth values, tuples; what is none of these stays text."""
        return {key: _value(text) for key, text in self.texts}

    def __str__(self) -> str:
        inside = ",".join(f"{key}={text}" for key, text in self.texts)
        return f"{self.name}({inside})" if inside else self.name


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


@dataclass(frozen=True)
class Parameters:
    """The names that a function takes, those among them without a default, and whether it takes any other, too."""

    names: tuple[str, ...]
    required: tuple[str, ...]
    any_other: bool

    @classmethod
    def of(cls, function: Callable[..., Any], without: Collection[str] = ()) -> Parameters:
        kinds = inspect.Parameter
        listed = [
            p for p in inspect.signature(function).parameters.values() if p.name not in ("self", *without)
        ]
        plain = [p for p in listed if p.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)]
        return cls(
            tuple(p.name for p in plain),
            tuple(p.name for p in plain if p.default is kinds.empty),
            any(p.kind is kinds.VAR_KEYWORD for p in listed),
        )
