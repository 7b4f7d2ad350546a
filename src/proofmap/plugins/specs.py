"""Make plug-ins from specs. A spec is a text, a table or an object that names a plug-in and its settings:

NAME                          with its defaults
NAME:KEY=VALUE,KEY=VALUE      with settings; NAME(KEY=VALUE,...) as the value of a setting
NAME:PRESET,KEY=VALUE         with the settings of a preset, such as belief-mask:steady
NAME:SPEC                     around another one, such as top-label:grad-cam
NAME:CLASS(KEY=VALUE,...)     of another library, such as captum:IntegratedGradients(n_steps=20)
FILE.py:NAME                  a class or function in a file of the user's, with settings after another colon
{NOUN = NAME, KEY = VALUE}    a table, in a study file
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

from proofmap.core.errors import InputError
from proofmap.core.registry import Registry
from proofmap.plugins.python_file import from_python_file, module_of
from proofmap.plugins.settings import (
    Plugin,
    check_names,
    presets_of,
    setting_names,
    settings_of,
    split_outside_brackets,
)

P = TypeVar("P", bound=Plugin)

_DEEPEST = 16
_depth: ContextVar[int] = ContextVar("depth", default=0)
"""The number of specs around the one that is read."""

_FILE = re.compile(r"[^:=(,]+\.py(?=:)")
"""A Python file in a spec: from the start or a separator to the colon before a name."""


def is_python_file(spec: str) -> bool:
    """Whether a spec (the text that names a plug-in) refers to an object in a Python file.

    >>> is_python_file("mine.py:brightness:power=2"), is_python_file("grad-cam:layer=a.py")
    (True, False)
    """
    return ".py:" in spec and "=" not in spec.partition(".py:")[0]


def make_plugin(
    registry: Registry[P],
    base: type[P],
    spec: Any,
    *,
    defaults: Mapping[str, Any] | None = None,
    adopt: Callable[[Any], P | None] | None = None,
) -> P:
    """The plug-in of the class ``base`` that ``spec`` describes: a text, a table or an object.

    Args:
        defaults: settings to use if the plug-in has them and the spec does not set them.
        adopt: a function that makes a plug-in from another object, such as a function, and returns None for objects that it cannot use.
    """
    if isinstance(spec, base):
        return spec
    around = _depth.get()
    if around >= _DEEPEST:
        raise InputError(
            f"the {base.noun} is inside {around} others; at most {_DEEPEST} may be inside one another: leave some out"
        )
    token = _depth.set(around + 1)
    try:
        return _made(registry, base, spec, defaults, adopt)
    finally:
        _depth.reset(token)


def _made(
    registry: Registry[P],
    base: type[P],
    spec: Any,
    defaults: Mapping[str, Any] | None,
    adopt: Callable[[Any], P | None] | None,
) -> P:
    settings, rest = dict[str, Any](), ""
    if isinstance(spec, Mapping):
        settings = dict(spec)
        spec = settings.pop(base.noun, None)
        if spec is None:
            there = ", ".join(settings) or "nothing"
            raise InputError(f'a {base.noun}\'s table needs {base.noun} = "NAME"; there is only {there}')
        if settings and not isinstance(spec, str):
            raise InputError(
                f"{base.noun} = {spec!r}: in a table with settings, the {base.noun} is given by its name"
            )
    if isinstance(spec, str):
        name, rest = _name_and_rest(spec.strip(), registry)
        if name.endswith(".py"):  # a file alone, of which the message says what it has
            name += ":"
        if not is_python_file(name):
            return _built(registry[name], rest, settings, defaults)
        spec = from_python_file(name, base.noun)
        if (rest or settings) and not isinstance(spec, type):
            raise InputError(
                f"{name} is not a class of {base.noun}s, so it has no settings; write {name} alone"
            )
    if isinstance(spec, type):
        if issubclass(spec, base):
            return _built(spec, rest, settings, defaults)
        raise InputError(
            f"{spec.__name__} is not a class of {base.noun}s (a subclass of {base.__module__}.{base.__name__}); of another library pass an "
            f"instance, {spec.__name__}(...)"
        )
    made = spec if isinstance(spec, base) else adopt(spec) if adopt is not None else None
    if made is None:
        more = " or a function" if adopt is not None else ""
        raise InputError(f"a {base.noun} is a name, a {base.__name__}{more}, not {type(spec).__name__}")
    return made


def _name_and_rest(spec: str, registry: Registry[Any]) -> tuple[str, str]:
    """The name, with its file if it has one, and the text of the settings."""
    name, _, rest = spec.partition(":")
    head, _, inner = spec.partition("(")
    whole = ":" not in head or (is_python_file(head) and name not in registry)
    if spec.endswith(")") and inner and "=" not in head and whole:
        return head.strip(), inner[:-1]
    if is_python_file(spec) and name not in registry:  # in top-label:FILE.py:NAME, the file is a setting
        file, _, after = spec.partition(".py:")
        called, _, rest = after.partition(":")
        return f"{file}.py:{called}", rest
    return name.strip(), rest


def _built(kind: type[P], text: str, settings: Mapping[str, Any], defaults: Mapping[str, Any] | None) -> P:
    if not hasattr(kind, "name"):
        raise InputError(f'the class {kind.__name__} has no name; write in it: name = "..."')
    given = {**read_options(kind, text), **settings}
    unsaid = {*kind.shortcuts, *setting_names(kind)} - {*given}
    usual = {key: value for key, value in (defaults or {}).items() if key in unsaid}
    return kind.build({**kind.expanded(usual), **kind.expanded(given)})


def read_options(kind: type[Plugin], text: str) -> dict[str, Any]:
    """The settings in ``text``, which follows a plug-in's name in a spec: ``key=value,key=value``, or the value of the main setting alone."""
    infos = {info.name: info for info in settings_of(kind)}
    main = next((info for info in infos.values() if info.main), None)
    known = [*kind.shortcuts, *infos]
    first = text.partition("=")[0].strip().replace("-", "_")
    options: dict[str, Any] = {}
    preset = re.match(r"\s*([\w-]+)\s*(?:[:,]|$)", text)
    if preset and preset[1] in presets_of(kind):
        options["preset"], text = preset[1], text[preset.end() :]
    if main is not None and text.strip() and first not in known:
        alone, rest = [text], list[str]()
        if main.plugin is None:  # its text may have commas; settings may follow it
            first, *others = split_outside_brackets(text)
            rest = [part for part in others if part.partition("=")[0].strip().replace("-", "_") in known]
            alone = [first, *(part for part in others if part not in rest)]
        options[main.name], text = main.read(",".join(alone).strip()), ",".join(rest)
    for part in split_outside_brackets(text):
        key, equals, value = part.partition("=")
        key = key.strip().replace("-", "_")
        check_names(f"{kind.noun} {kind.name!r}", [key], known)
        if not equals:
            raise InputError(f"{kind.noun} {kind.name!r}: the setting {key!r} needs a value, {key}=...")
        options[key] = infos[key].read(value.strip()) if key in infos else value.strip()
    return options


def split_specs(text: str, noun: str = "method") -> list[str]:
    """The specs in a text that separates them by commas. A part ``key=value`` is a setting of the spec before it.

    >>> split_specs("learned-mask:tv=0.1,scale=8,grad-cam")
    ['learned-mask:tv=0.1,scale=8', 'grad-cam']
    """
    specs: list[str] = []
    for part in split_outside_brackets(text):
        if "=" in part and ":" not in part.partition("=")[0] and "(" not in part.partition("=")[0]:
            if not specs:
                raise InputError(f"{part!r} in {text!r} is a setting without a {noun} before it")
            specs[-1] += ("," if "=" in specs[-1] else ":") + part
        else:
            specs.append(part)
    if not specs:
        raise InputError(f"no {noun} was named; see: proofmap list {noun}s")
    return specs


def with_files_in(spec: Any, found: Callable[[str], str]) -> Any:
    """The spec with the path of every Python file replaced by ``found(path)``, also in nested plug-ins.

    >>> with_files_in("top-label:mine.py:Mine:fill=mine.py:Shifted", lambda file: f"here/{file}")
    'top-label:here/mine.py:Mine:fill=here/mine.py:Shifted'
    """
    if isinstance(spec, Mapping):
        return {key: with_files_in(value, found) for key, value in spec.items()}
    return _FILE.sub(lambda file: found(file[0]), spec) if isinstance(spec, str) else spec


def run_files_in(specs: Any) -> None:
    """Run the Python files that specs, alone or in lists and tables, name, so that the names which they register are known in every spec.
    A file that is not there is refused later, with what it was for."""
    if isinstance(specs, str):
        for path in (Path(file.strip()) for file in _FILE.findall(specs)):
            if path.is_file():
                module_of(path)
    elif isinstance(specs, (Mapping, list, tuple)):
        for spec in specs.values() if isinstance(specs, Mapping) else specs:
            run_files_in(spec)
