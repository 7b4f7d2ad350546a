"""Settings of plug-ins, defined in the same way for methods, metrics, fills and games.

A plug-in is a class whose annotated fields are its settings: numbers, texts, choices, and other plug-ins. The same code reads them from
text, from TOML and from Python, checks them, and prints them::

    class Brightness(Method):
        name = "brightness"
        power: float = setting(1.0, "exponent of the brightness", above=0)

    brightness:power=2                     as text
    {method = "brightness", power = 2}     in a study file
    Brightness(power=2)                    in Python
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Any,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from proofmap.core.errors import InputError
from proofmap.core.text import did_you_mean

__all__ = ["Plugin", "required", "setting"]

T = TypeVar("T")
Shortcuts = Mapping[str, Mapping[str, Mapping[str, Any]]]
_READERS: Mapping[type, Any] = {
    bool: lambda text: {"true": True, "false": False}[text.lower()],
    int: int,
    float: float,
}
"""Functions that read a value of each plain type from text."""
_TYPE_TEXT = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    NoneType: "none",
}


def setting(
    default: T,
    help: str = "",
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    main: bool = False,
    last: bool = False,
) -> T:
    """A dataclass field for a setting, with its default, one line of help, and its bounds: ``least`` and ``most`` are allowed values,
    ``above`` is not.

    The value of the ``main`` setting may be written alone after the plug-in's name: ``top-label:METHOD``, ``images:FOLDER``. A setting
    of a base class with ``last=True`` is listed after the settings of subclasses.
    """
    about = {"help": help, "least": least, "above": above, "most": most, "main": main, "last": last}
    found: T = dataclasses.field(default=default, metadata=about)
    return found


def required(help: str = "", *, main: bool = False) -> Any:
    """A dataclass field for a setting without a default, with one line of help."""
    return dataclasses.field(metadata={"help": help, "main": main})


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclass(frozen=True, kw_only=True)
class Plugin(ABC):
    """The description of a plug-in: its name and its settings, which also determine equality, hash and text.

    A subclass becomes a frozen, keyword-only dataclass by being defined, without a decorator. Its settings are its annotated fields.

    Attributes:
        noun: the kind of plug-in in messages and TOML tables: method, metric, fill, game.
        name: the name that the plug-in is registered under.
        description: one line.
        reference: the paper that the plug-in comes from.
        revision: a number to increase when results change; a study does not mix results of two revisions.
        shortcuts: settings such as ``preset=paper`` or ``curve=rise``, each value of which stands for several other settings.
    """

    noun: ClassVar[str] = "plug-in"
    name: ClassVar[str]
    description: ClassVar[str] = ""
    reference: ClassVar[str] = ""
    revision: ClassVar[int] = 1
    shortcuts: ClassVar[Shortcuts] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclass(frozen=True, kw_only=True)(cls)

    def __post_init__(self) -> None:
        check_settings(self)

    @classmethod
    def make(cls, spec: Any) -> Self:
        """The plug-in that ``spec`` describes (:mod:`proofmap.plugins.specs`). Each kind of plug-in overrides this method."""
        if isinstance(spec, cls):
            return spec
        raise InputError(f"a {cls.noun} cannot be made from {spec!r}")

    @classmethod
    def build(cls, options: Mapping[str, Any]) -> Self:
        """The plug-in with these settings. A setting given by name overrides a shortcut."""
        try:
            return cls(**cls.expanded(options))
        except TypeError as error:
            raise InputError(f"{cls.noun} {cls.name!r}: {error}") from None

    def changed(self, **options: Any) -> Self:
        """The same plug-in with other settings; they may be shortcuts."""
        return dataclasses.replace(self, **self.expanded(options))

    @classmethod
    def expanded(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """The settings ``options``, with each shortcut replaced by the settings that it stands for."""
        check_names(f"{cls.noun} {cls.name!r}", options, [*cls.shortcuts, *setting_names(cls)])
        given: dict[str, Any] = {}
        for key in cls.shortcuts:
            if key in options:
                given |= cls.expand_shortcut(key, options[key])
        return given | {key: value for key, value in options.items() if key not in cls.shortcuts}

    @classmethod
    def expand_shortcut(cls, key: str, value: Any) -> Mapping[str, Any]:
        """The settings that the value ``value`` of the shortcut ``key`` stands for."""
        values = cls.shortcuts[key]
        if value not in values:
            raise InputError(f"{cls.name} has no {key} {value!r}; known are {', '.join(values)}")
        return values[value]

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Self:
        """The plug-in with the settings of a preset, and changes to them."""
        if "preset" not in cls.shortcuts:
            raise InputError(f"the {cls.noun} {cls.name!r} has no presets, so no preset {name!r}")
        return cls.build({"preset": name, **changes})

    def settings(self) -> dict[str, object]:
        """The name and every setting as plain data, for records."""
        values = {info.name: _plain_data(getattr(self, info.name)) for info in settings_of(type(self))}
        return {self.noun: self.name, **values}

    def _members(self) -> list[Plugin]:
        """The plug-ins among its settings, alone or in tuples."""
        values = (getattr(self, info.name) for info in settings_of(type(self)))
        members = (item for value in values for item in (value if isinstance(value, tuple) else (value,)))
        return [item for item in members if isinstance(item, Plugin)]

    def title(self) -> str:
        """The name with the settings that differ from their defaults, or with the preset that they are nearest to, as in a spec.

        >>> from proofmap.methods.masks.belief import BeliefMask
        >>> (
        ...     BeliefMask.preset("steady").title(),
        ...     BeliefMask.preset("steady", pull=2).title(),
        ...     BeliefMask(passes=60).title(),
        ... )
        ('belief-mask:steady', 'belief-mask:steady,pull=2', 'belief-mask:passes=60')
        """
        changes = self.changes()
        for preset in presets_of(type(self)):
            other = [preset, *self._changes_from(type(self).preset(preset))]
            changes = other if len(other) < len(changes) else changes
        main = next((info.name for info in settings_of(type(self)) if info.main), "")
        inner = getattr(self, main, None)
        if len(changes) == 1 and changes[0].startswith(f"{main}=") and isinstance(inner, Plugin):
            return f"{self._title_name()}:{inner.title()}"  # the main setting alone
        return self._title_name() + (f":{','.join(changes)}" if changes else "")

    def changes(self) -> list[str]:
        """The settings that differ from their defaults, each written as in a spec. Of the settings without a default, only the main setting
        is listed."""
        return self._changes_from(None)

    def _changes_from(self, other: Plugin | None) -> list[str]:
        """The settings that differ from those of another plug-in of its class, or from their defaults, as in a spec."""
        written = []
        for info in settings_of(type(self)):
            text, usual = (
                _text(getattr(self, info.name)),
                info.default if other is None else getattr(other, info.name),
            )
            if info.main if usual is MISSING else text != _text(usual):
                written.append(f"{info.name}={text}")
        return written

    def _title_name(self) -> str:
        return self.name


@cache
def presets_of(kind: type[Plugin]) -> tuple[str, ...]:
    """The names of presets that may stand alone after a plug-in's name; none if its main setting or a file of the user does."""
    infos = settings_of(kind)
    return (
        ()
        if any(info.main or info.default is MISSING for info in infos)
        else (*kind.shortcuts.get("preset", ()),)
    )


@dataclass(frozen=True)
class Setting:
    """One setting: how it is listed, read and checked."""

    name: str
    types: tuple[Any, ...]
    default: Any = MISSING
    help: str = ""
    least: float | None = None
    above: float | None = None
    most: float | None = None
    main: bool = False
    last: bool = False

    @property
    def choices(self) -> tuple[Any, ...]:
        literals = (kind for kind in self.types if get_origin(kind) is Literal)
        return tuple(choice for kind in literals for choice in get_args(kind))

    @property
    def plugin(self) -> type[Plugin] | None:
        """The kind of plug-in, if the setting's value is a plug-in; otherwise None."""
        return _plugin_in(self.types)

    @property
    def several(self) -> type[Plugin] | None:
        """The kind of plug-in, if the setting's value is a tuple of plug-ins; otherwise None."""
        return _plugin_in(get_args(kind)[0] for kind in self.types if get_origin(kind) is tuple)

    def type_text(self) -> str:
        """A description of the values that the setting takes."""
        if self.several is not None:
            return f"{self.several.noun}s joined by +"
        parts = [
            _TYPE_TEXT[kind]
            for kind in self.types
            if kind in _TYPE_TEXT and not (kind is int and float in self.types)
        ]
        if any(get_origin(kind) is tuple for kind in self.types):
            parts.append("numbers such as 0.2:0.6")
        if self.plugin is not None:
            parts = [f"a {self.plugin.noun}", *(part for part in parts if part != "a text")]
        if self.choices:
            parts.append(("one of " if len(self.choices) > 1 else "") + ", ".join(map(str, self.choices)))
        return " or ".join(parts) or "a value"

    def default_text(self) -> str:
        return "required" if self.default is MISSING else _text(self.default)

    def read(self, text: str) -> object:
        """The value that ``text`` stands for, if it is one of the setting's type; otherwise the text, which :meth:`checked` reads or refuses."""
        if NoneType in self.types and text.lower() == "none":
            return None
        with suppress(KeyError, ValueError):
            if any(get_origin(kind) is tuple for kind in self.types) and self.several is None:
                return tuple(_number(part) for part in text.split(":"))
        for kind, reader in _READERS.items():
            with suppress(KeyError, ValueError):
                if kind in self.types:
                    return reader(text)
        return text

    def checked(self, value: Any) -> Any:
        """The value in the setting's declared type, with plug-ins made from their specs. Raises an InputError if the value does not fit."""
        value = value if Any in self.types else _without_library(value)
        if self.plugin is not None and not isinstance(value, self.plugin) and value is not None:
            return self.plugin.make(value)
        if self.several is not None:
            given = split_outside_brackets(value, "+") if isinstance(value, str) else value
            several = given if isinstance(given, (tuple, list)) else (given,)
            value = tuple(self.several.make(item) for item in several)
            if not value:
                raise InputError(f"{self.name} needs at least one {self.several.noun}")
        try:
            found = _typed(value, self.types)
        except (ValueError, OverflowError):
            expected, whole = self.type_text(), _TYPE_TEXT[int]
            if self.least is not None and not isinstance(value, str):
                expected = expected.replace(whole, f"{whole} of at least {self.least:g}")
            hint = ""
            if isinstance(value, str) and "=" in value.partition(":")[2]:
                hint = "; settings are separated by commas"
            raise InputError(f"{self.name} must be {expected}, not {value!r}{hint}") from None
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            infinite = isinstance(value, float) and math.isinf(value)
            if infinite or not self._holds(value):
                raise InputError(
                    f"{self.name} must {'be a finite number' if infinite else self._bounds()}, not {value}"
                )
        return found

    def _holds(self, value: float) -> bool:
        """Whether a number is inside the bounds."""
        low = (self.least is None or value >= self.least) and (self.above is None or value > self.above)
        return low and (self.most is None or value <= self.most)

    def _bounds(self) -> str:
        if self.least is not None and self.most is not None:
            return f"lie between {self.least:g} and {self.most:g}"
        whole = "a whole number of " if int in self.types and float not in self.types else ""
        bounds = [] if self.least is None else [f"{whole}at least {self.least:g}"]
        bounds += [] if self.above is None else [f"above {self.above:g}" if self.above else "positive"]
        bounds += [] if self.most is None else [f"at most {self.most:g}"]
        return f"be {' and '.join(bounds)}"


@cache
def settings_of(kind: type) -> tuple[Setting, ...]:
    """The settings of a class, in order.

    >>> settings_of(Plugin)
    ()
    """
    found, hints = [], get_type_hints(kind)
    for field in dataclasses.fields(kind):
        types, default = _alternatives(hints[field.name]), field.default
        with suppress(ValueError):  # not every default has the type, such as a name of a plug-in
            default = _typed(default, types)
        found.append(Setting(field.name, types, default, **dict(field.metadata)))
    return tuple(sorted(found, key=lambda info: info.last))


def _plugin_in(kinds: Iterable[Any]) -> type[Plugin] | None:
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Plugin)), None)


def setting_names(kind: type) -> tuple[str, ...]:
    return tuple(info.name for info in settings_of(kind))


def check_settings(described: object, owner: str = "") -> None:
    """Check the settings of a frozen dataclass ``described``, and convert each to its declared type. In error messages, ``owner`` comes
    before the name of a setting."""
    for info in settings_of(type(described)):  # type: ignore[arg-type]
        if info.help or isinstance(described, Plugin):  # other fields of other dataclasses are no settings
            try:
                object.__setattr__(described, info.name, info.checked(getattr(described, info.name)))
            except InputError as error:
                raise InputError(f"{owner}{error}") from None


def check_names(owner: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Refuse unknown settings, and suggest a known one."""
    for key in given:
        if key not in known:
            hint = did_you_mean(key, known, most=1)
            raise InputError(
                f"{owner} has no setting {key!r}.{hint} Its settings are: {', '.join(known) or 'none'}"
            )


def _plain_data(value: object) -> object:
    if isinstance(value, Plugin):
        return value.settings()
    if isinstance(value, Path):
        return str(value)
    return [_plain_data(item) for item in value] if isinstance(value, tuple) else value


def _text(value: object) -> str:
    """A value as it would be written in a spec."""
    if isinstance(value, Plugin):
        changes = ",".join(value.changes())  # in brackets, which separate them from what follows
        return value._title_name() + (f"({changes})" if changes else "")
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, float):
        return str(value).removesuffix(".0")
    if not isinstance(value, tuple):
        return str(value)
    return ("+" if any(isinstance(item, Plugin) for item in value) else ":").join(map(_text, value))


# ---- values -----------------------------------------------------------------------------------------------------


def _number(text: str) -> float:
    """A number from text; a whole number becomes an int."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def _alternatives(hint: Any) -> tuple[Any, ...]:
    """The types that a type hint allows."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _without_library(value: Any) -> Any:
    """A scalar of NumPy or torch as a Python number, also inside a tuple or list; other values are returned unchanged."""
    if isinstance(value, (tuple, list)):
        return type(value)(map(_without_library, value)) if type(value) in (tuple, list) else value
    return value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value


def _typed(value: Any, kinds: Sequence[Any]) -> Any:
    """The value converted to the first of the types ``kinds`` that it fits, float before others: 8 becomes 8.0 for a float, a list becomes a
    tuple. An int counts as a float; a bool counts neither as an int nor as a float.

    After the conversion, equal values are also equal as text; for this reason -0.0 becomes 0.0. Raises ValueError if no type fits, and
    OverflowError for an int that is too large for a float.

    >>> (
    ...     _typed(8, (float, NoneType)),
    ...     _typed([0, 1], (tuple[float, ...],)),
    ...     _typed("all", (int, Literal["all"])),
    ... )
    (8.0, (0.0, 1.0), 'all')
    """
    for kind in sorted(kinds, key=lambda kind: kind is not float):
        with suppress(ValueError):
            return _as(value, kind)
    raise ValueError(f"{value!r} has another type")


def _as(value: Any, kind: Any) -> Any:
    """The value converted to one type. Raises ValueError if it does not fit."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        if value in inner:
            return next(choice for choice in inner if choice == value)
    elif kind in (int, float):
        if isinstance(value, (int, kind)) and not isinstance(value, bool):
            return kind(value) + 0  # not -0.0
    elif origin is tuple:
        if isinstance(value, (tuple, list)):
            each = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
            return tuple(_typed(item, _alternatives(one)) for item, one in zip(value, each, strict=True))
    elif kind is Any or not isinstance(kind, type) or isinstance(value, kind):
        return str(value) if kind is str else value
    raise ValueError(f"{value!r} is not of the type {kind}")


def split_outside_brackets(text: str, separator: str = ",") -> list[str]:
    """The parts of a text, split at each separator that is not inside round brackets.

    >>> split_outside_brackets("tv=0.1,fill=blur(sigma=3,kernel=5), grad-cam")
    ['tv=0.1', 'fill=blur(sigma=3,kernel=5)', 'grad-cam']
    """
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == separator and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]
