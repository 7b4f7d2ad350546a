"""What a method is: settings that make one heat map per label, registered by name."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, get_type_hints

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL, check_labels
from proofmap.core.progress import Progress, Silent
from proofmap.fills import Fill
from proofmap.plugins.code import code_digest
from proofmap.plugins.python_file import from_python_file, is_python_file, split_python_file
from proofmap.plugins.registry import Registry
from proofmap.plugins.settings import read_settings

Need = Literal["gradients", "layer", "distractors", "masker"]


@dataclasses.dataclass(frozen=True)
class Cost:
    """Passes of the net: forward only, and forward with an input gradient.

    >>> Cost(forward=2) + Cost(gradient=3)
    Cost(forward=2, gradient=3)
    """

    forward: int = 0
    gradient: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.forward + other.forward, self.gradient + other.gradient)

    def __mul__(self, times: int) -> Cost:
        return Cost(self.forward * times, self.gradient * times)

    @property
    def passes(self) -> int:
        return self.forward + self.gradient


class Method(ABC):
    """(classifier, images, labels) -> one heat map per label, larger = more salient, raw values.

    A subclass is a frozen, keyword-only dataclass of its settings, checked in ``__post_init__``, that implements
    :meth:`compute`. It states three facts: ``label_free`` (one map serves all labels of an image), ``stochastic``
    (the seed matters) and ``needs``.
    """

    name: ClassVar[str]
    meaning: ClassVar[str]
    label_free: bool = False
    stochastic: bool = False
    needs: ClassVar[frozenset[Need]] = frozenset()

    def __call__(
        self,
        classifier: Classifier,
        images: Tensor,
        labels: Tensor,
        *,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Tensor:
        """Maps ``(N, L, H, W)`` float32 on the classifier's device for labels ``(N, L)``.

        Places without a label (-1) get a map of zeros. The same inputs and seed give the same maps, whatever the
        batch size or order, up to rounding.
        """
        images = classifier.check_images(images)
        labels = check_labels(
            labels.to(classifier.device), len(images), len(classifier.names), classifier.label_set
        )
        asked = labels[:, :1] if self.label_free else labels
        maps = self.compute(classifier, images, asked, seed=seed, progress=progress or Silent())
        expected = (*asked.shape, *images.shape[2:])
        if tuple(maps.shape) != expected:
            raise InputError(
                f"the method {self.settings()['method']} returned maps {tuple(maps.shape)}, expected {expected}"
            )
        maps = maps.detach().to(classifier.device, torch.float32)
        bad = ~maps.flatten(2).isfinite().all(dim=2)
        if bool(bad.any()):
            i, j = bad.nonzero()[0].tolist()
            raise InputError(
                f"the method {self.settings()['method']} made a map with NaN or infinity for image {i}, label {int(asked[i, j])} "
                f"({int(bad.sum())} of {bad.numel()} maps)"
            )
        maps = maps.expand(-1, labels.shape[1], *maps.shape[2:])
        if bool((labels == NO_LABEL).any()):
            maps = maps.masked_fill((labels == NO_LABEL)[:, :, None, None], 0.0)
        return maps

    @abstractmethod
    def compute(
        self, classifier: Classifier, images: Tensor, labels: Tensor, *, seed: int, progress: Progress
    ) -> Tensor:
        """Maps ``(N, L, H, W)`` for checked input; places labelled -1 may hold anything finite.

        For a label-free method ``labels`` is ``(N, 1)`` and so is the answer's L.
        """

    @classmethod
    def setting_names(cls) -> tuple[str, ...]:
        """The names of the settings, in order."""
        return tuple(f.name for f in dataclasses.fields(cls)) if dataclasses.is_dataclass(cls) else ()

    def settings(self) -> dict[str, object]:
        """What a record of results must carry: the name and every setting."""
        values = {name: getattr(self, name) for name in self.setting_names()}
        return {"method": self.name, **{k: _plain(v) for k, v in values.items()}}

    def prepare(self, classifier: Classifier) -> Method:
        """The same method with everything looked up that its record must name: distractors, a layer."""
        return self

    def cost(self, labels: int) -> Cost | None:
        """Passes of the net for one image with so many labels, for the plan of a study; None where it is not known."""
        return None

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Method:
        """Settings by name; a method without presets refuses."""
        raise InputError(f"the method {cls.name!r} has no presets, so no preset {name!r}")


def _plain(value: object) -> object:
    if isinstance(value, Method) or hasattr(value, "settings"):
        return value.settings()
    return list(value) if isinstance(value, tuple) else value


METHODS: Registry[Method] = Registry("method", "proofmap.methods")

MapFunction = Callable[[Classifier, Tensor, Tensor], Tensor]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FromFunction(Method):
    """Any function ``(classifier, images (N, C, H, W), labels (N, L)) -> maps (N, L, H, W)`` as a method."""

    name: ClassVar[str] = "function"
    meaning: ClassVar[str] = "a function of yours"
    function: MapFunction

    def compute(
        self, classifier: Classifier, images: Tensor, labels: Tensor, *, seed: int, progress: Progress
    ) -> Tensor:
        maps = self.function(classifier, images, torch.where(labels == NO_LABEL, labels[:, :1], labels))
        if not isinstance(maps, Tensor):
            raise InputError(
                f"the function {self.settings()['method']} must return a tensor (N, L, H, W), not {type(maps).__name__}"
            )
        return maps

    def settings(self) -> dict[str, object]:
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        return {"method": name, "code": code_digest(self.function)}


MethodLike = str | Method | MapFunction


def make_method(spec: MethodLike) -> Method:
    """A method from its spec: a name, ``name:key=value,key=value``, an instance, or a function.

    ``preset=NAME`` starts from a preset; ``top-label:METHOD`` wraps another method; ``FILE.py:NAME`` is a function or
    a class of yours, in a file.

    >>> make_method("random:seed_offset=3")
    Random(per_label=False, seed_offset=3)
    """
    if isinstance(spec, Method):
        return spec
    if not isinstance(spec, str):
        if isinstance(spec, type):
            raise InputError(f"{spec.__name__} is a class; pass an instance of it, {spec.__name__}(...)")
        if callable(spec):
            return FromFunction(function=spec)
        raise InputError(f"a method is a name, a Method or a function, not {type(spec).__name__}")
    name, _, rest = spec.strip().partition(":")
    if is_python_file(spec) and name not in METHODS:  # top-label:FILE.py:NAME is top-label's own business
        return _from_file(spec)
    kind = METHODS[name]
    if hasattr(kind, "from_text"):
        method: Method = kind.from_text(rest)
        return method
    return build_method(name, _read(kind, rest))


def _read(kind: type[Method], text: str) -> dict[str, Any]:
    types = {"preset": str, **get_type_hints(kind)}
    known = {key: types[key] for key in ("preset", *kind.setting_names())}
    return read_settings(f"method {kind.name!r}", text, known, kind.setting_names())


def _from_file(spec: str, settings: Mapping[str, Any] | None = None) -> Method:
    """A function, a Method or a class of Methods that a file of the user's holds, with settings from text or values."""
    file, name, text = split_python_file(spec.strip())
    found = from_python_file(file, name, "method")
    if isinstance(found, type) and issubclass(found, Method):
        return _made(found, {**_read(found, text), **(settings or {})})
    if text or settings:
        raise InputError(
            f"{file}:{name} is no class of Methods, so it has no settings; write {file}:{name} alone"
        )
    return make_method(found)


def build_method(name: str, settings: Mapping[str, Any]) -> Method:
    """A method by name with settings as values; ``preset`` starts from a preset, ``of`` may be another's spec.

    >>> build_method("top-label", {"of": "random"})
    TopLabel(of=Random(per_label=False, seed_offset=0))
    """
    return _from_file(name, settings) if is_python_file(name) else _made(METHODS[name], settings)


def _made(kind: type[Method], settings: Mapping[str, Any]) -> Method:
    name, given = kind.name, dict(settings)
    unknown = [key for key in given if key not in ("preset", *kind.setting_names())]
    if unknown:
        known = ", ".join(kind.setting_names()) or "none"
        raise InputError(f"method {name!r} has no setting {unknown[0]!r}; its settings are {known}")
    if isinstance(given.get("of"), str):
        given["of"] = make_method(given["of"])
    chosen = given.pop("preset", None)
    try:
        return kind.preset(str(chosen), **given) if chosen is not None else kind(**given)
    except TypeError as error:
        raise InputError(f"method {name!r}: {error}") from None


def split_methods(text: str) -> list[str]:
    """Specs from a comma-separated list, where ``key=value`` parts belong to the method before them.

    >>> split_methods("learned-mask:tv=0.1,scale=8,grad-cam")
    ['learned-mask:tv=0.1,scale=8', 'grad-cam']
    """
    specs: list[str] = []
    for part in (p.strip() for p in text.split(",")):
        if not part:
            continue
        if "=" in part and ":" not in part.partition("=")[0]:
            if not specs:
                raise InputError(f"{part!r} in {text!r} is a setting without a method before it")
            specs[-1] += ("," if "=" in specs[-1] else ":") + part
        else:
            specs.append(part)
    if not specs:
        raise InputError("no method was named; see: proofmap methods")
    return specs


def title_of(method: Method) -> str:
    """A short name: the method's own, with the settings that differ from its defaults.

    >>> title_of(make_method("top-label:learned-mask:steps=5,fill=gray"))
    'top-label:learned-mask:steps=5,fill=gray'
    """
    inner = getattr(method, "of", None)
    if isinstance(inner, Method):
        return f"{method.name}:{title_of(inner)}"
    settings: tuple[dataclasses.Field[Any], ...] = ()
    if dataclasses.is_dataclass(method):
        settings = dataclasses.fields(method)
    changed: list[str] = []
    for setting in settings:
        value = getattr(method, setting.name)
        shown = value.name if isinstance(value, Fill) else value
        if setting.default is not dataclasses.MISSING and shown != setting.default:
            changed.append(f"{setting.name}={shown}")
    return str(method.settings()["method"]) + (":" + ",".join(changed) if changed else "")
