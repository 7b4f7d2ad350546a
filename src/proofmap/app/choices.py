"""Methods and fills that visitors may choose: as on the command line, but without access to files or code; and their settings as fields of
a form.

A fill gives the values that hidden positions show. A spec is the name of a method or fill with its settings, such as ``name:key=value``. A
visitor's spec may set numbers, booleans, choices and the names of layers. Settings that hold any other text (a masker's weights, a folder
of images, a class of another library) and ``FILE.py:NAME`` are reserved for whoever started the server. Methods named on the command line
are offered to visitors under their titles.

The cost of a request is limited too, because one thread serves all visitors:

- If other machines can reach the server, all methods of a job together may need at most 200,000 passes.
- Every other number must be between a quarter of its default and :data:`TIMES` times its default. For a fill
  the limit is twice the default, and for a pool of random images the default. Such numbers decide how long one step takes, and a step
  cannot be interrupted (a pool of 1,024 pictures took 16 seconds, a median over 101 x 101 pixels 28 seconds and 6 GB). ``steps``,
  ``passes`` and ``iterations`` of methods that learn masks only repeat steps, so the limit on passes covers them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING
from functools import cached_property, partial
from types import NoneType
from typing import Any, TypeVar, get_origin

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError, ProofmapError
from proofmap.core.inputs import KINDS, Pictures
from proofmap.fills import FILLS, Fill, Images, make_fill
from proofmap.methods import METHODS, Method, make_method
from proofmap.methods.masks.method import MaskMethod
from proofmap.methods.method import default_method
from proofmap.plugins.settings import Plugin, Setting, settings_of
from proofmap.session import Session

AnyPlugin = TypeVar("AnyPlugin", bound=Plugin)

DEFAULT_METHODS = ("grad-cam", "belief-mask")
"""The methods of the first job of a photo: the first is there after one pass, the second learns its proofs."""
RECOMMENDED = {
    "grad-cam": "quick and well known",
    "belief-mask": "proofs as strong as the belief",
    "learned-mask": "the paper's method",
    "chefer": "attention and gradients",
    "integrated-gradients": "gradients along a path",
    "rise": "no gradients, many passes",
    "occlusion": "one square hidden at a time",
}
"""The methods to try first for photos, each of a different kind, and why. The page lists the first six that fit the net."""
RECOMMENDED_FOR_LISTS = {
    "belief-order": "proofs as strong as the belief",
    "belief-mask": "the same, learned with gradients",
    "kernel-shap": "Shapley values by sampling",
    "occlusion": "one hidden at a time",
    "greedy-insertion": "the strongest first",
    "integrated-gradients": "gradients along a path",
}
"""The methods to try first for inputs whose positions are columns or words, and why."""
_FILL_WORDS = {
    "class-median": "the median row of a class that is drawn",
    "mask": "the mask token",
    "unknown": "the unknown token",
    "closed": "nothing: attention is closed",
    "zero": "a zero embedding",
    "mean-embedding": "the mean embedding",
}
"""Fills of columns and words, and what hidden positions show with each."""
TIMES = {"method": 4, "fill": 2}
"""The largest value of a number in the settings of a method or fill, as a multiple of its default."""
_SAFE_TEXTS = frozenset({"layer"})
"""Settings whose text visitors may choose, because it can only name a part of the net."""
_SEEDS = ("seed", "seed_offset")
_STEP_COUNTS = ("steps", "passes", "iterations")
"""Settings with the number of steps of methods that learn masks. They have no limit of their own: a job can be cancelled between two steps."""
_WITHOUT_DEFAULT = 1_000.0
"""The largest value of a number whose default is none or zero."""
_OF_PICTURES = frozenset({"superpixels", "compactness"})
"""Settings of methods that only pictures have a use for."""
_OF_NEIGHBOURS = frozenset(
    {
        "regions",
        "grid",
        "scale",
        "smoothness",
        "copies",
        "tv",
        "variation",
        "edges",
        "jitter",
        "window",
        "stride",
    }
)
"""Settings of methods that only inputs have a use for whose positions have neighbours."""
_PLAIN = re.compile(r"[A-Za-z0-9 _.,:=()+-]*")
_LONGEST = 16
"""Largest number of values for a setting that takes several."""
_FOR_THE_OWNER = "can only be set by whoever starts the server: proofmap serve --method SPEC"


class Choices:
    """The methods and fills that visitors may choose. ``own`` are the specs of methods named on the command line."""

    def __init__(self, own: Sequence[str] = ()) -> None:
        methods = [(make_method(spec), spec) for spec in own]
        self.own: Mapping[str, Method] = {method.title(): method for method, _ in methods}
        self._written = {method.title(): spec for method, spec in methods}
        self.usual_methods: tuple[str, ...] = DEFAULT_METHODS
        self.usual_fill = "gray"
        self._net: Classifier | None = None
        self._fitting: dict[str, list[str]] = {}

    def suit(self, net: Classifier) -> None:
        """Offer only methods and fills that work for this net of rows or texts."""
        self.usual_methods, self.usual_fill = (default_method(net),), net.inputs.fills[0]
        self._net = net

    def method(self, spec: str) -> Method:
        """The method of a visitor's spec. Raises if visitors may not use the spec."""
        if spec in self.own:
            return self.own[spec]
        return _checked(spec, make_method)

    def fill(self, spec: str) -> Fill:
        """The fill of a visitor's spec. Raises if visitors may not use the spec."""
        fill = _checked(spec, make_fill)
        if fill.reads_mask:
            raise InputError(
                f"the fill {fill.name} depends on what is shown, so it has no picture; choose another"
            )
        return fill

    def written(self, method: Method) -> str:
        """The spec with which the command line names a method."""
        return self._written.get(method.title(), method.title())

    @cached_property
    def methods_about(self) -> list[dict[str, Any]]:
        """The methods that visitors can choose without settings. Those named on the command line come first."""
        first = RECOMMENDED if self._net is None else RECOMMENDED_FOR_LISTS
        registered = [m for name in METHODS if (m := self._default(METHODS[name])) is not None]
        passes = {method.title(): self._passes(method) for method in registered}
        offered = [method for method in registered if passes[method.title()] is not None]
        offered.sort(key=partial(_place, [*first]))
        known = {**self.own, **{m.title(): m for m in offered}}
        return [self._about(name, m, first.get(name, ""), passes.get(name)) for name, m in known.items()]

    def fitting(self, name: str, net: Classifier) -> list[str]:
        """The names of the offered methods that can explain the net with this name. Runs in the worker's thread; methods that look for a layer
        or for attention in the net are prepared, which takes a few passes.
        """
        if name not in self._fitting:
            session = Session(net)
            self._fitting[name] = [
                about["name"]
                for about in self.methods_about
                if about["name"] in self.own
                or _fits(METHODS[about["base"]], self.method(about["name"]), session)
            ]
        return self._fitting[name]

    def _default(self, kind: type[Method]) -> Method | None:
        """A method of this class with default settings; a wrapper wraps the usual method.

        None if a setting without a default is not a plug-in, or if the method calls another library.
        """
        if kind.family == "adapter":
            return None
        needed = [info for info in settings_of(kind) if info.default is MISSING]
        if any(info.plugin is None for info in needed):
            return None
        return kind.build({info.name: self.usual_methods[-1] for info in needed})

    def _passes(self, method: Method) -> str | None:
        """The number of passes of a method on a net of rows or texts, in words; None if the net cannot use the method.

        Empty for photos, for which the method's own description of its passes is shown.
        """
        if self._net is None:
            return ""
        try:
            session = Session(self._net)
            session.prepare(method)
            cost = method.cost(1, session)
        except ProofmapError:
            return None
        return "depends" if cost is None else f"at most {cost.passes:,} for one label"

    def _about(self, name: str, method: Method, why: str, passes: str | None) -> dict[str, Any]:
        kind, own = type(method), name in self.own
        facts = kind.facts() if kind.name in METHODS else None
        usually = (None if facts is None else Method.passes_text(facts["passes"])) or "depends"
        return {
            "name": name,
            "base": kind.name,
            "family": "Of this server" if own else Method.FAMILIES[method.family],
            "recommended": "" if own else why,
            "passes": passes or usually,
            "live": _is_live(kind),
            "label_free": method.label_free if facts is None else facts["label_free"],
            "about": method.description,
            "settings": [] if own else _fields_of(kind, self.usual_methods[-1], self._net),
        }

    def fills_about(self) -> list[dict[str, str]]:
        names = [name for name in FILLS if not FILLS[name].reads_mask]
        if self._net is None:  # also fills of plug-ins, which may be for any kind of input
            others = {name for kind in KINDS for name in KINDS[kind].fills} - {*Pictures.fills}
            return [{"name": name, "about": ""} for name in names if name not in others]
        inputs = self._net.inputs
        words = {**_FILL_WORDS, "gray": inputs.neutral_words, "images": f"another {inputs.singular}"}
        shown = [name for name in inputs.fills if name in names and name != inputs.same_as_gray]
        return [{"name": name, "about": words.get(name, "")} for name in shown]


def _fits(kind: type[Method], method: Method, session: Session) -> bool:
    """Whether the method can explain the net of the session, as far as a few passes tell."""
    inside = {"layer", "attention"} & {*kind.facts()["needs"]}
    if inside and not _is_live(kind):
        try:
            session.prepare(method)
        except ProofmapError:
            return False
    return "gradients" not in method.needs or session.net.differentiable


def _place(first: Sequence[str], method: Method) -> tuple[int, int]:
    """Sort key: recommended methods first, then by family."""
    families = [*Method.FAMILIES]
    place = first.index(method.name) if method.name in first else len(first)
    return place, families.index(method.family)


# ---- settings as fields of a form -----------------------------------------------------------------------------------


def _is_live(kind: type[Plugin]) -> bool:
    """Whether a class of methods can show masks while they are learned."""
    return issubclass(kind, MaskMethod)


def _bounds(kind: type[Plugin], info: Setting) -> tuple[float, float]:
    """The smallest and largest number that a visitor may choose for a setting. A bound is infinite if this setting has no limit of its own."""
    if info.name in _SEEDS or (info.name in _STEP_COUNTS and issubclass(kind, Method) and _is_live(kind)):
        return -math.inf, math.inf
    default = info.default if isinstance(info.default, (int, float)) else 0.0
    if not default:
        return -math.inf, _WITHOUT_DEFAULT
    pooled = issubclass(kind, Images) and info.name == "size"
    most = abs(default) * (1 if pooled else TIMES.get(kind.noun, 1))
    positive = info.above is not None and isinstance(info.default, float)  # a length or a rate
    return default / TIMES["method"] if positive else -math.inf, most


def _fields_of(kind: type[Method], usual_method: str, net: Classifier | None) -> list[dict[str, Any]]:
    """The form fields of the settings that a visitor may choose, presets first. A field without choices takes any text. Settings that only
    the command line accepts are left out, and those that mean nothing for the inputs of ``net``, a model of rows, series or texts.
    """
    fields = [
        _field(
            name,
            f"a {name} sets several of the settings below at once; settings that you change yourself take precedence",
            "",
            ["", *values],
        )
        for name, values in kind.shortcuts.items()
    ]
    inputs = None if net is None else net.inputs
    for info in settings_of(kind):
        if inputs is not None and info.name in (
            _OF_PICTURES if inputs.has_neighbours else _OF_PICTURES | _OF_NEIGHBOURS
        ):
            continue
        is_required = info.default is MISSING
        default = usual_method if is_required else info.default_text()
        choices = _choices(info, default)
        if inputs is not None and info.plugin is not None and issubclass(info.plugin, Fill):
            choices = [c for c in choices if c in (*inputs.fills, default, "none")]
        listed = info.several is not None or any(get_origin(t) is tuple for t in info.types)
        if choices or listed or {int, float} & {*info.types} or info.name in _SAFE_TEXTS:
            fields.append(_field(info.name, info.help, default, choices, is_required))
    required = [f"{field['name']}={field['default']}" for field in fields if field["required"]]
    for field in fields:
        others = [text for text in required if not text.startswith(f"{field['name']}=")]
        specs = {v: f"{kind.name}:{','.join([*others, field['name'] + '=' + v])}" for v in field["choices"]}
        usual = ("", field["default"])
        field["choices"] = [v for v in field["choices"] if v in usual or _accepted(specs[v])]
    return fields


def _field(name: str, help: str, default: str, choices: list[str], required: bool = False) -> dict[str, Any]:
    return {"name": name, "help": help, "default": default, "choices": choices, "required": required}


def _choices(info: Setting, default: str) -> list[str]:
    """The values of a setting that has a fixed list of values; otherwise none. A default that is not in the list comes first."""
    found: Sequence[str] = (
        ["true", "false"] if bool in info.types else [str(choice) for choice in info.choices]
    )
    if info.plugin is not None:
        found = _plugin_names(info.plugin)
    if not found:
        return []
    found = [*found, *(["none"] if NoneType in info.types and "none" not in found else [])]
    return list(found) if default in found else [default, *found]


def _plugin_names(kind: type[Plugin]) -> list[str]:
    """The fills or methods that need no settings and no files."""
    if issubclass(kind, Fill):
        return [name for name in FILLS if not FILLS[name].reads_mask]
    simple = [name for name in METHODS if METHODS[name].family not in ("adapter", "masker", "control")]
    return [
        name for name in simple if all(info.default is not MISSING for info in settings_of(METHODS[name]))
    ]


# ---- what visitors may not ask for ----------------------------------------------------------------------------------


def _checked(spec: str, make: Callable[[str], AnyPlugin]) -> AnyPlugin:
    """The plug-in that ``make`` builds from a visitor's spec. Raises if it would read a file, run code or take too long."""
    if not _PLAIN.fullmatch(spec) or ".py" in spec.lower():
        raise InputError(f"a spec that contains a path or a file {_FOR_THE_OWNER}")
    for name in {*re.split(r"[^A-Za-z0-9_+.-]+", spec)} & {*METHODS}:  # before it imports anything
        if METHODS[name].family == "adapter":
            raise InputError(f"{name}, which calls another library, {_FOR_THE_OWNER}")
    made = make(spec)
    _check_plugin(made)
    return made


def _accepted(spec: str) -> bool:
    """Whether a visitor may use this spec of a method."""
    try:
        _checked(spec, make_method)
    except InputError:
        return False
    return True


def _check_plugin(plugin: Plugin) -> None:
    """Raise if a setting that differs from its default is not allowed for visitors. Settings that are plug-ins are checked recursively."""
    for info in settings_of(type(plugin)):
        value = getattr(plugin, info.name)
        if value == info.default:  # a default may itself be a plug-in with unusual numbers
            continue
        values = value if isinstance(value, tuple) else (value,)
        if len(values) > _LONGEST:
            raise InputError(
                f"{info.name} of {plugin.name} has {len(values)} values; at most {_LONGEST} are allowed here"
            )
        for member in values:
            if isinstance(member, Plugin):
                _check_plugin(member)
            elif isinstance(member, str):
                _check_text(plugin, info, member)
            elif isinstance(member, (int, float)) and not isinstance(member, bool):
                _check_number(plugin, info, member)


def _check_text(plugin: Plugin, info: Setting, value: str) -> None:
    harmless = info.name in _SAFE_TEXTS or value in info.choices
    sampled = isinstance(plugin, Images) and info.name == "source" and value in ("own", "samples")
    if not (harmless or sampled):
        raise InputError(f"the setting {info.name} of {plugin.name} {_FOR_THE_OWNER}")


def _check_number(plugin: Plugin, info: Setting, value: float) -> None:
    least, most = _bounds(type(plugin), info)
    if not abs(value) <= most:
        raise InputError(
            f"{info.name} of {plugin.name} may be at most {most:,g} here, not {value:,g}; "
            "for more, use the command line: proofmap explain"
        )
    if not value >= least:
        raise InputError(
            f"{info.name} of {plugin.name} must be at least {least:,g} here, not {value:,g}; "
            "for less, use the command line: proofmap explain"
        )
