"""Shared code of the adapters of other libraries: find a class by name, parse its options, give it a module, call it once per label."""

from __future__ import annotations

import ast
import inspect
import random
import re
import sys
import warnings
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partialmethod
from importlib.metadata import version
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.batching import in_batches, is_out_of_memory
from proofmap.core.errors import InputError, ProofmapError, require
from proofmap.core.text import did_you_mean
from proofmap.methods.cams import find_layer
from proofmap.methods.from_function import given_maps, returned_maps
from proofmap.methods.method import Method
from proofmap.plugins.settings import check_names, required
from proofmap.plugins.values import split_outside_brackets
from proofmap.session import Session

_FORM = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*(?:\((?P<inside>.*)\)|:(?P<after>.*))?", re.DOTALL)
_WORDS = {"true": True, "false": False, "none": None}


@dataclass(frozen=True)
class Call:
    """The name of a class, and options for its constructor or its call; ``str(call)`` is the text of the call in one standard form.

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
        """The values of the options: numbers, booleans, tuples, otherwise text."""
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
    """The parameters of a function: all of them, those without a default, and whether it accepts other keywords."""

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


Attribute = Callable[[Tensor, Tensor], Any]
"""(images (n, *shape), labels (n,)) -> what the library returns."""


@dataclass(frozen=True)
class LibraryNet:
    """The net in the form that a library's class gets: a module, and the chosen layers in it."""

    classifier: Classifier
    module: nn.Module
    layers: list[nn.Module]


@dataclass(frozen=True, kw_only=True)
class NamedClass(Method):
    """A method that is a class of another library, named with its options: ``captum:Saliency(abs=false)``, ``shap:KernelExplainer``."""

    family = "adapter"
    package: ClassVar[str]
    """The name of the library's distribution."""
    example: ClassVar[str]

    of: str = required("a class of the library, with its options in brackets", main=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "of", str(Call.read(self.of)))
        self.check(self.call)

    @classmethod
    def build(cls, options: Mapping[str, Any]) -> Self:
        if "of" not in options:
            raise InputError(f"{cls.name} needs a class of the library, such as {cls.name}:{cls.example}")
        return super().build(options)

    def title(self) -> str:
        return super().title().replace(f"{self.name}:of=", f"{self.name}:", 1)

    @property
    def call(self) -> Call:
        return Call.read(self.of)

    @abstractmethod
    def check(self, call: Call) -> None:
        """Raise an error for an unknown class, or for unknown or missing options, before anything is computed."""


@dataclass(frozen=True, kw_only=True)
class LibraryMethod(NamedClass):
    """A method that calls a class of another library on ``classifier.as_module()``.

    The options are the library's own. Each is passed to the constructor or to the call, whichever takes it. If the class takes a
    layer, ``layer`` is its name (several names are joined by +); if ``layer`` is left out, a layer is chosen automatically.
    """

    place: ClassVar[str]
    """The Python module that contains the library's classes."""
    extra: ClassVar[str]
    random_classes: ClassVar[frozenset[str]] = frozenset()
    """The names of the classes that draw random numbers."""
    precision: ClassVar[torch.dtype | None] = None
    """The precision that the library needs; None if it can use the net's own."""

    @property
    def stochastic(self) -> bool:  # type: ignore[override]
        return self.call.name in self.random_classes

    @classmethod
    def class_named(cls, name: str) -> Any:
        """The library's class of this name; the error for an unknown name suggests similar ones."""
        there = require(cls.place, extra=cls.extra, purpose=f"the method {cls.name}:{name}")
        found = getattr(there, name, None)
        if not isinstance(found, type) or not cls.serves(found):
            known = [
                key
                for key in dir(there)
                if isinstance(kind := getattr(there, key), type) and cls.serves(kind)
            ]
            hint = did_you_mean(name, known) or f" There are: {', '.join(known)}"
            raise InputError(f"{cls.package} has no class {name!r} that makes maps.{hint}")
        return found

    @classmethod
    @abstractmethod
    def serves(cls, kind: Any) -> bool:
        """Whether this class of the library makes a map for a label."""

    @abstractmethod
    def takes_layer(self) -> bool:
        """Whether the class must be given a layer."""

    @abstractmethod
    def opened(self, subject: LibraryNet) -> AbstractContextManager[Attribute]:
        """A context manager that makes an object of the class for a net, and yields the function that computes attributions. The
        object is closed at the end if the library supports this.
        """

    def check_options(self, call: Call, known: tuple[str, ...], lacking: tuple[str, ...]) -> None:
        check_names(f"{self.package}'s {call.name}", call.options, known)
        missing = [name for name in lacking if name not in call.options]
        if missing:
            raise InputError(
                f"{self.package}'s {call.name} needs {' and '.join(missing)}: write "
                f"{self.name}:{call.name}({','.join(f'{name}=...' for name in missing)})"
            )

    def merged(self, found: Any, classifier: Classifier) -> Tensor:
        """The library's result for one label, as maps ``(n, *grid)``."""
        return returned_maps(found, self.title())

    def found_for(self, classifier: Classifier) -> dict[str, object]:
        """Further entries of the record, in addition to the options: arguments that the class gets for this net."""
        return {}

    def prepare(self, session: Session) -> None:
        super().prepare(session)
        self.layer_in(session)

    def layer_in(self, session: Session) -> str:
        """The name of the layer, given or found; empty if the class takes no layer."""
        layer = str(self.call.options.get("layer", ""))
        return layer or (
            session.memo((self, "layer"), lambda: self.found_layer(session.net)) if self.takes_layer() else ""
        )

    def found_layer(self, classifier: Classifier) -> str:
        """The name of the layer that a class gets if none is named."""
        return find_layer(classifier).name

    def record(self, session: Session) -> dict[str, object]:
        found: dict[str, object] = {"library": f"{self.package} {version(self.package)}"}
        found |= self.found_for(session.net)
        layer = self.layer_in(session)
        return {**self.settings(), **found, **({"layer": layer} if layer else {})}

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        net = session.net
        with library_errors(self.title()), ExitStack() as stack:
            module = net.as_module(dtype=self.precision)  # made again, for the net as it is now
            subject = LibraryNet(net, module, layers_named(self.layer_in(session), module))
            with quietly():
                attribute = stack.enter_context(self.opened(subject))
            return label_by_label(self, session, images, labels, attribute, self.merged)


def layers_named(names: str, module: nn.Module) -> list[nn.Module]:
    """The layers of a module, given their names in the net, joined by +. The prefix ``net.`` of the module may be left out."""
    known = dict(module.named_modules())
    found = []
    for name in names.split("+") if names else []:
        if f"net.{name}" not in known and not (name.startswith("net.") and name in known):
            last = [key.removeprefix("net.") for key in known if key.startswith("net.")][-6:]
            raise InputError(f"the net has no layer {name!r}; its last layers are {', '.join(last)}")
        found.append(known.get(f"net.{name}") or known[name])
    return found


def label_by_label(
    method: Method,
    session: Session,
    images: Tensor,
    labels: Tensor,
    attribute: Attribute,
    merged: Callable[[Any, Classifier], Tensor],
) -> Tensor:
    """Maps ``(N, L, *positions)`` from one call per batch and label. If the class draws random numbers, there is one call per image and
    label, so that the random numbers of a pair depend only on its content and the seed.
    """
    title, random_numbers, classifier = method.title(), method.stochastic, session.net
    labels = torch.where(labels < 0, labels[:, :1].clamp_min(0), labels)
    with session.progress.task(title, labels.numel()) as task, torch.enable_grad():

        def run(start: int, stop: int) -> Tensor:
            some = images[start:stop]
            columns = []
            for j in range(labels.shape[1]):
                asked = labels[start:stop, j]
                key = (
                    streams.key_of(streams.content_keys(some)[0], int(asked[0]), session.seed, title)
                    if random_numbers
                    else 0
                )
                with own_generators(key, classifier.device), quietly():
                    found = attribute(some.detach().clone().requires_grad_(True), asked)
                columns.append(merged(found, classifier).clone())
                task.advance(stop - start)
            return given_maps(torch.stack(columns, dim=1), classifier.inputs, title)

        if random_numbers:
            return torch.cat([run(i, i + 1) for i in range(len(images))])
        return torch.cat(in_batches(run, len(images), classifier.batches[1]))


@contextmanager
def own_generators(key: int, device: torch.device) -> Iterator[None]:
    """Seed the global random generators of torch, NumPy and Python from a key, because libraries use them. Their states are restored at the
    end.
    """
    python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002 - libraries draw from it
    gpus = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        # torch.manual_seed would seed other devices too
        torch.default_generator.manual_seed(key & (2**63 - 1))
        for gpu in gpus:
            with torch.cuda.device(gpu):
                torch.cuda.manual_seed(key & (2**63 - 1))
        np.random.seed(key % 2**32)  # noqa: NPY002
        random.seed(key)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(legacy)  # noqa: NPY002


@contextmanager
def quietly() -> Iterator[None]:
    """Suppress a library's warnings and its tqdm bars, because bars would mix with ours."""
    bars = getattr(sys.modules.get("tqdm"), "tqdm", None)
    usual = None if bars is None else bars.__init__
    if bars is not None:
        bars.__init__ = partialmethod(usual, disable=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            yield
    finally:
        if bars is not None:
            bars.__init__ = usual


@contextmanager
def library_errors(title: str) -> Iterator[None]:
    """Raise errors of a library as an InputError that names the method."""
    try:
        yield
    except ProofmapError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise InputError(f"{title} fails on this net: {type(error).__name__}: {error}") from error
