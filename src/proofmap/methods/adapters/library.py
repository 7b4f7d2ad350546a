"""Methods of other libraries, by the name of their class or as an object: find the class, parse its options, give it a module, call it once
per label.
"""

from __future__ import annotations

import ast
import copy
import inspect
import random
import re
import sys
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partialmethod
from importlib.metadata import version
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.classifier.view import LogitsModule
from proofmap.core import streams
from proofmap.core.batching import in_batches, is_out_of_memory
from proofmap.core.errors import InputError, ProofmapError, require
from proofmap.core.ranking import as_maps
from proofmap.core.text import did_you_mean
from proofmap.methods.cams import find_layer
from proofmap.methods.from_function import given_maps
from proofmap.methods.gradients.plain import CHANNELS_HELP, Channels
from proofmap.methods.method import ADOPTED, Method
from proofmap.plugins.identity import identity
from proofmap.plugins.settings import check_names, required, setting, split_outside_brackets
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
        self.check()

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
    def check(self) -> None:
        """Raise an error for an unknown class, or for unknown or missing options, before anything is computed."""

    @staticmethod
    def parameters(function: Callable[..., Any], *without: str) -> dict[str, bool]:
        """The parameters of a function by name, and whether each must be given; ``**`` stands for any other keyword."""
        found = {}
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                found["**"] = False
            elif parameter.kind is not parameter.VAR_POSITIONAL and name not in ("self", *without):
                found[name] = parameter.default is parameter.empty
        return found


class LibraryMethod(NamedClass):
    """A method that calls a class of another library on ``classifier.as_module()``.

    The options are the library's own. Each is passed to the constructor or to the call, whichever takes it. If the class takes a
    layer, ``layer`` is its name (several names are joined by +); if ``layer`` is left out, a layer is chosen automatically.
    """

    root: ClassVar[str]
    """The name of the library's Python package."""
    place: ClassVar[str]
    """The Python module that contains the library's classes."""
    called: ClassVar[str] = "__call__"
    """The name of the function of an object that computes attributions."""
    extra: ClassVar[str]
    random_classes: ClassVar[frozenset[str]] = frozenset()
    """The names of the classes that draw random numbers."""
    precision: ClassVar[torch.dtype | None] = None
    """The precision that the library needs; None if it can use the net's own."""

    @property
    def stochastic(self) -> bool:  # type: ignore[override]
        return self.call.name in self.random_classes

    @property
    def label_free(self) -> bool:  # type: ignore[override]
        return self.ignores_labels(self.class_named(self.call.name))

    # ---- what differs between libraries -------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def serves(cls, kind: Any) -> bool:
        """Whether this class of the library makes a map for a label."""

    @classmethod
    @abstractmethod
    def attributing(cls, made: Any, options: Mapping[str, Any]) -> Callable[[Tensor, Tensor], Any]:
        """A function (images (n, *shape), labels (n,)) -> what an object of the library returns; ``options`` are those of its call."""

    @abstractmethod
    def opened(
        self, classifier: Classifier, module: nn.Module, layers: list[nn.Module]
    ) -> AbstractContextManager[Callable[[Tensor, Tensor], Any]]:
        """A context manager that makes an object of the class for a classifier, given as a module, and the chosen layers in it. It yields
        the function that computes attributions. The object is closed at the end if the library supports this.
        """

    def takes_layer(self) -> bool:
        """Whether the class must be given a layer."""
        return True

    @classmethod
    def ignores_labels(cls, kind: Any) -> bool:
        """Whether the maps of the class do not depend on the label."""
        return False

    @classmethod
    def has_signs(cls, name: str, options: Mapping[str, Any]) -> bool:
        """Whether attributions of the class ``name`` with these options may be negative."""
        return False

    @classmethod
    def merge(cls, found: Any, classifier: Classifier, channels: str, title: str) -> Tensor:
        """The library's result for one label, as maps ``(n, *grid)``; ``channels`` says how channels become one value."""
        return as_maps(found, f"{title} must return maps")

    @classmethod
    def baseline(cls, kind: Any, classifier: Classifier) -> tuple[Any, object]:
        """The default baseline of a class, and its record; both None if the class takes no baseline."""
        return None, None

    # ---- what all share -----------------------------------------------------------------------------------------

    @classmethod
    def class_named(cls, name: str) -> Any:
        """The library's class of this name; the error for an unknown name suggests similar ones."""
        there = require(cls.place, extra=cls.extra, purpose=f"the method {cls.name}:{name}")
        found = getattr(there, name, None)
        if not isinstance(found, type) or not cls.serves(found):
            kinds = ((key, getattr(there, key)) for key in dir(there))
            known = [key for key, kind in kinds if isinstance(kind, type) and cls.serves(kind)]
            hint = did_you_mean(name, known) or f" There are: {', '.join(known)}"
            raise InputError(f"{cls.package} has no class {name!r} that makes maps.{hint}")
        return found

    def check_options(self, known: Mapping[str, bool]) -> None:
        """Raise an error for options that are not ``known``, or that are missing: ``known`` says which must be given."""
        call = self.call
        check_names(f"{self.package}'s {call.name}", call.options, [name for name in known if name != "**"])
        missing = [name for name, needed in known.items() if needed and name not in call.options]
        if missing:
            raise InputError(
                f"{self.package}'s {call.name} needs {' and '.join(missing)}: write "
                f"{self.name}:{call.name}({','.join(f'{name}=...' for name in missing)})"
            )

    def prepare(self, session: Session) -> None:
        super().prepare(session)
        self.layer_in(session)

    def layer_in(self, session: Session) -> str:
        """The name of the layer, given or found; empty if the class takes no layer."""
        layer = str(self.call.options.get("layer", ""))
        if layer or not self.takes_layer():
            return layer
        return session.memo((self, "layer"), lambda: self.found_layer(session.net))

    def found_layer(self, classifier: Classifier) -> str:
        """The name of the layer that a class gets if none is named."""
        return find_layer(classifier).name

    def record(self, session: Session) -> dict[str, object]:
        layer = self.layer_in(session)
        library = {"library": f"{self.package} {version(self.package)}"}
        return {**self.settings(), **library, **({"layer": layer} if layer else {})}

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        net, title = session.net, self.title()
        with ExitStack() as stack:
            with in_library(title, 0, net.device):
                module = net.as_module(dtype=self.precision)  # made again, for the net as it is now
                layers = _layers_named(self.layer_in(session), module)
                attribute = stack.enter_context(self.opened(net, module, layers))
            return _label_by_label(self, session, images, labels, attribute, self.merged)

    def merged(self, found: Any, classifier: Classifier) -> Tensor:
        """The library's result for one label, as maps ``(n, *grid)``."""
        return self.merge(found, classifier, "sum", self.title())


def _layers_named(names: str, module: nn.Module) -> list[nn.Module]:
    """The layers of a module, given their names in the net, joined by +. The prefix ``net.`` of the module may be left out."""
    known = dict(module.named_modules())
    found = []
    for name in names.split("+") if names else []:
        if f"net.{name}" not in known and not (name.startswith("net.") and name in known):
            last = [key.removeprefix("net.") for key in known if key.startswith("net.")][-6:]
            raise InputError(f"the net has no layer {name!r}; its last layers are {', '.join(last)}")
        found.append(known.get(f"net.{name}") or known[name])
    return found


def _label_by_label(
    method: Method,
    session: Session,
    images: Tensor,
    labels: Tensor,
    attribute: Callable[[Tensor, Tensor], Any],
    merged: Callable[[Any, Classifier], Tensor],
) -> Tensor:
    """Maps ``(N, L, *positions)`` from one call per batch and label. If the class draws random numbers, there is one call per image and
    label, so that the random numbers of a pair depend only on its content and the seed.
    """
    title, classifier = method.title(), session.net
    labels = torch.where(labels < 0, labels[:, :1].clamp_min(0), labels)
    with session.progress.task(title, labels.numel()) as task, torch.enable_grad():

        def run(start: int, stop: int) -> Tensor:
            some, key = images[start:stop], 0
            columns = []
            for asked in labels[start:stop].T:
                if method.stochastic:
                    key = streams.key_of(streams.content_keys(some)[0], int(asked[0]), session.seed, title)
                with in_library(title, key, classifier.device):
                    found = attribute(some.detach().clone().requires_grad_(True), asked)
                    columns.append(merged(found, classifier).clone())
                task.advance(stop - start)
            return given_maps(torch.stack(columns, dim=1), classifier.inputs, title)

        if method.stochastic:
            return torch.cat([run(i, i + 1) for i in range(len(images))])
        return torch.cat(in_batches(run, len(images), classifier.batches[1]))


@contextmanager
def in_library(title: str, key: int, device: torch.device) -> Iterator[None]:
    """A context in which another library runs: its errors name the method ``title``, its warnings and tqdm bars are not shown, and the
    global random generators of torch, NumPy and Python, which libraries use, are seeded from a key and restored at the end.
    """
    python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002 - libraries draw from it
    gpus = [device] if device.type in ("cuda", "xpu") else []
    apple = torch.mps.get_rng_state() if device.type == "mps" else None  # which has one GPU
    bars = getattr(sys.modules.get("tqdm"), "tqdm", None)
    usual = None if bars is None else bars.__init__
    if bars is not None:
        bars.__init__ = partialmethod(usual, disable=True)
    try:
        with (
            torch.random.fork_rng(gpus, device_type=device.type if gpus else "cuda"),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore", UserWarning)
            # torch.manual_seed would seed other devices too
            torch.default_generator.manual_seed(key & (2**63 - 1))
            for gpu in gpus:
                with getattr(torch, gpu.type).device(gpu):
                    getattr(torch, gpu.type).manual_seed(key & (2**63 - 1))
            if apple is not None:
                torch.mps.manual_seed(key & (2**63 - 1))
            np.random.seed(key % 2**32)  # noqa: NPY002
            random.seed(key)
            yield
    except ProofmapError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise InputError(f"{title} fails on this net: {type(error).__name__}: {error}") from error
    finally:
        if apple is not None:
            torch.mps.set_rng_state(apple)
        random.setstate(python)
        np.random.set_state(legacy)  # noqa: NPY002
        if bars is not None:
            bars.__init__ = usual


# ---- objects ----------------------------------------------------------------------------------------------------


class FromObject(Method):
    """An object of Captum or pytorch-grad-cam as a method, made with the user's own model or with ``classifier.as_module()``.

    An object with the user's own model is copied, with a model in evaluation mode that shares the weights. If that model takes normalised
    images, it gets these.

    ``options`` are passed to Captum's ``attribute``, or to the call of an object of the other libraries::

        FromObject(of=Occlusion(f.as_module()), options={"sliding_window_shapes": (3, 8, 8)})

    If the object takes baselines and ``options`` has none, it gets the input that normalises to zero, as with ``captum:NAME``.
    """

    name = "object"
    family = "adapter"
    description = "an object of Captum or pytorch-grad-cam"
    revision = 2
    of: Any = required("the object, made with your model or with classifier.as_module()")
    options: Any = setting((), "keyword arguments for the object's attribute() or its call, as a dictionary")
    channels: Channels = setting("sum", CHANNELS_HELP)

    def __post_init__(self) -> None:
        super().__post_init__()
        if _library_of(self.of) is None:
            kinds = "Captum or pytorch-grad-cam"
            raise InputError(f"{type(self.of).__name__} is not an object of {kinds}")
        given = self.options.items() if isinstance(self.options, Mapping) else self.options
        object.__setattr__(self, "options", tuple(given))

    @property
    def library(self) -> type[LibraryMethod]:
        found = _library_of(self.of)
        assert found is not None, "checked when the method was made"
        return found

    @property
    def inner(self) -> type:
        """The class of the attribution object. If it wraps another one, as a NoiseTunnel does, the class of the wrapped object."""
        return type(getattr(self.of, "attribution_method", self.of))

    @property
    def signed(self) -> bool:  # type: ignore[override]
        return self.library.has_signs(self.inner.__name__, dict(self.options))

    @property
    def stochastic(self) -> bool:  # type: ignore[override]
        return not self.library.random_classes.isdisjoint(kind.__name__ for kind in type(self.of).__mro__)

    @property
    def label_free(self) -> bool:  # type: ignore[override]
        return self.library.ignores_labels(type(self.of))

    def settings(self) -> dict[str, object]:
        """The settings that identify the object: the library's version, options, plain attributes, and the code of the user's class."""
        package, plain = self.library.package, (bool, int, float, str)
        options = {key: value if isinstance(value, plain) else _written(value) for key, value in self.options}
        attributes = {
            key.lstrip("_"): value for key, value in vars(self.of).items() if isinstance(value, plain)
        }
        own = _root(type(self.of)) != self.library.root
        return {
            "method": self._title_name(),
            "library": f"{package} {version(package)}",
            **({"code": identity(type(self.of))} if own else {}),
            **({"attributes": attributes} if attributes else {}),
            **({"options": options} if options else {}),
            "channels": self.channels,
        }

    def _title_name(self) -> str:
        return type(self.of).__name__

    def prepare(self, session: Session) -> None:
        super().prepare(session)
        self._copy(session.net)

    def _copy(self, classifier: Classifier) -> tuple[Any, bool]:
        """The object, a copy if its model is the user's own, and whether its model takes normalised images. Raises if the model is another."""
        made, net = self.of, _module_in(self.of)
        if net is not None and not isinstance(net, LogitsModule):
            kept = [value for value in vars(made).values() if isinstance(value, Tensor) and not value.is_leaf]
            shared = {
                id(weight): nn.Parameter(weight.detach(), requires_grad=False) for weight in net.parameters()
            }
            try:
                made = copy.deepcopy(made, {**{id(value): value.detach() for value in kept}, **shared})
            except Exception as error:
                raise InputError(
                    f"the {self._title_name()} cannot be copied ({type(error).__name__}: {error}); make it with "
                    f"{self._title_name()}(classifier.as_module(), ...)"
                ) from error
            own = _module_in(made)
            assert own is not None
            own.eval()
        model = _model_in(made)
        for normalised in (False, True):
            if model is None or _is_of(model, classifier, normalised):
                return made, normalised
        raise InputError(
            f"the {self._title_name()} was not made for this classifier: its model does not return the "
            f"classifier's logits. Make it with {self._title_name()}(classifier.as_module(), ...), which takes images "
            "in [0, 1], or with the net of the classifier"
        )

    def _baseline(self, classifier: Classifier) -> tuple[Any, object]:
        """The baseline that the object gets because its options have none, and its record; both None if it takes none or has one."""
        given = "baselines" in dict(self.options)
        return (None, None) if given else self.library.baseline(self.inner, classifier)

    def record(self, session: Session) -> dict[str, object]:
        """The settings, and the baseline that is passed to Captum."""
        _, record = self._baseline(session.net)
        return {**self.settings(), **({} if record is None else {"baselines": record})}

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        title, (baseline, _), net = self._title_name(), self._baseline(session.net), session.net
        made, normalised = self._copy(net)
        if normalised and isinstance(baseline, Tensor):
            baseline = net.normalised(baseline)
        given = {} if baseline is None else {"baselines": baseline}
        attribute = self.library.attributing(made, {**dict(self.options), **given})

        def called(x: Tensor, a: Tensor) -> Any:
            return attribute(net.normalised(x.detach()).requires_grad_(True) if normalised else x, a)

        def merged(found: Any, classifier: Classifier) -> Tensor:
            return self.library.merge(found, classifier, self.channels, title)

        return _label_by_label(self, session, images, labels, called, merged)


def _written(value: object) -> str:
    """An option for the record: its text, or its type and a digest if the text would be incomplete."""
    if isinstance(value, (tuple, list)) and all(isinstance(item, (int, float, str, tuple)) for item in value):
        return str(value)
    return f"{type(value).__name__} {identity(value)}"


def _root(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _library_of(thing: Any) -> type[LibraryMethod] | None:
    """The adapter of the library that an attribution object belongs to, also if its class is derived from a class of the library; None if
    it belongs to no known library.
    """
    roots = {_root(kind) for kind in type(thing).__mro__}
    libraries = (kind for kind in LibraryMethod.__subclasses__() if kind.root in roots)
    return next((kind for kind in libraries if hasattr(thing, kind.called)), None)


def _model_in(thing: Any) -> Any:
    """The model of an attribution object; None if it has none."""
    models = (getattr(thing, name, None) for name in ("forward_func", "model"))
    return next((model for model in models if model is not None), None)


def _module_in(thing: Any) -> nn.Module | None:
    """The torch module of an attribution object, also if the object has a method of it; None if it has a function."""
    model = _model_in(thing)
    net = getattr(model, "__self__", model)
    return net if isinstance(net, nn.Module) else None


def _is_of(model: Any, classifier: Classifier, normalised: bool) -> bool:
    """Whether a model returns this classifier's logits or probabilities for a probe, which may be normalised before."""
    probe = classifier.inputs.probe().to(classifier.device)
    with torch.no_grad():
        try:
            found = torch.as_tensor(model(classifier.normalised(probe) if normalised else probe)).float()
        except Exception:  # it takes something else
            return False
        logits = classifier(probe)
        log_f = classifier.log_f(logits)
    return any(
        found.shape == own.shape
        and bool(((found - own).abs() <= 1e-2 * (1 + own.abs()))[own.isfinite()].all())
        for own in (logits, log_f, log_f.exp())
    )


def _from_object(thing: Any) -> Method | None:
    return None if _library_of(thing) is None else FromObject(of=thing)


ADOPTED.insert(0, _from_object)  # before functions: such objects can be called too
