"""What a study is: a net, pictures, labels, methods and metrics, as plain settings from a file or from flags.

model = "efficientnet-lite0"
data = "imagenette:data/imagenette[val]"
labels = "top5"
methods = ["learned-mask", "grad-cam", "random"]        # or tables, see below
metrics = ["completeness", "soundness", "best-effort"]  # the usual five when left out
controls = true                                         # noise, the middle, blurred and cheating rows too
seed = 0

[images]
number = 200        # so many at random; all of them when left out
correct = true      # only those whose most probable label is the true one
second = 0.01       # only those whose second label has at least this probability

[[methods]]         # instead of the list
method = "learned-mask"
tv = 0.2
name = "smooth mask"
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from proofmap.core.errors import InputError
from proofmap.core.files import distinct_names, suggest_path
from proofmap.core.inputs import Inputs
from proofmap.core.pictures import SUFFIXES, Fit
from proofmap.core.text import did_you_mean
from proofmap.methods.controls import control_rows
from proofmap.methods.method import Method, MethodLike, make_method
from proofmap.metrics.metric import Metric, make_metric
from proofmap.metrics.proof_scores import default_metrics
from proofmap.models import DEFAULT_MODEL
from proofmap.plugins.specs import with_files_in

Thing = TypeVar("Thing")
KeptMaps = Literal["none", "float16", "float32"]
_MAPS = {"keep": "float16"}  # what a person may also write
_LISTS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "data": ((str, Path), "places: a folder, photos, or a dataset such as cifar10:FOLDER"),
    "label_set": ((str, int), "names or indices of labels"),
    "methods": ((str, Method, Mapping), "methods: names, or tables with method = ..."),
    "metrics": ((str, Metric, Mapping), "metrics: names, or tables with metric = ..."),
}


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which pictures of the dataset are taken.

    Args:
        number: so many at random, in an order that a larger number continues; None for all, in the data's order.
        seed: of that order.
        correct: only pictures whose most probable label is the true one.
        second: only pictures whose second label has at least this probability.
        names: only these, in this order.
    """

    number: int | None = None
    seed: int = 0
    correct: bool = False
    second: float | None = None
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.names, str):
            object.__setattr__(self, "names", (self.names,))
        _check_list("images.names", self.names, (str,), "names of pictures")
        object.__setattr__(self, "names", tuple(self.names))
        if self.number is not None and not (_whole(self.number) and self.number >= 1):
            raise InputError(f"images.number must be a whole number of at least 1, not {self.number!r}")
        if not _whole(self.seed):
            raise InputError(f"images.seed must be a whole number, not {self.seed!r}")
        if not isinstance(self.correct, bool):
            raise InputError(f"images.correct must be true or false, not {self.correct!r}")
        if self.second is not None and not (_number(self.second) and 0 <= self.second <= 1):
            raise InputError(f"images.second must be a probability between 0 and 1, not {self.second!r}")


@dataclass(frozen=True, kw_only=True)
class Study:
    """The settings of a study. Methods and metrics are specs, tables or objects; see the module's text.

    Args:
        model, weights: a net's name and weights file, as :func:`proofmap.load_classifier` takes them.
        fit: what happens to photos of other proportions: ``crop``, ``pad`` or ``squash``; as the net says when left out.
        data: a dataset string, or photos and folders.
        images: which of its pictures.
        labels: the label rule: ``all``, ``top5``, ``p>=0.01``, ``true`` (the true labels of each picture), or labels by name or index,
            for every picture.
        label_set, renormalise: the labels that count; empty for all outputs.
        methods, metrics: what is judged, and by what.
        controls: judge noise, the middle, and every method's maps blurred and shown for every label too.
        thresholds, curve: of every metric that has such a setting and does not say otherwise.
        maps: ``none``, ``float16`` (also written ``keep``) or ``float32``: whether and how maps are stored.
        block: images in one unit of work; found from the device when left out.
        seed: same seed, same numbers.
    """

    model: str = DEFAULT_MODEL
    weights: str | None = None
    data: Sequence[str | Path] = ()
    images: Selection = field(default_factory=Selection)
    labels: str | int | Sequence[int | str] = "top5"
    label_set: Sequence[int | str] = ()
    renormalise: bool | None = None
    fit: Fit | None = None
    methods: Sequence[MethodLike | Mapping[str, Any]] = ()
    metrics: Sequence[str | Metric | Mapping[str, Any]] = ()
    controls: bool = False
    thresholds: str = "paper"
    curve: str = "paper"
    maps: KeptMaps = "float16"
    block: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, (kinds, words) in _LISTS.items():
            value = getattr(self, name)
            alone = isinstance(value, kinds) or callable(value)
            value = (value,) if alone else value
            _check_list(name, value, kinds, words)
            object.__setattr__(self, name, tuple(value))
        if not isinstance(self.labels, str):
            labels: Any = [self.labels] if isinstance(self.labels, Integral) else self.labels
            _check_list("labels", labels, (str, Integral), "names or indices, or a rule such as top5")
            labels = tuple(a if isinstance(a, str) else int(a) for a in labels)
            object.__setattr__(self, "labels", labels)
        for name in ("model", "weights", "thresholds", "curve"):
            value = getattr(self, name)
            if not isinstance(value, str) and not (name == "weights" and isinstance(value, Path | None)):
                raise InputError(f"{name} must be a text, not {value!r}")
        if self.fit is not None and self.fit not in get_args(Fit):
            raise InputError(f"fit must be one of {', '.join(get_args(Fit))}, not {self.fit!r}")
        if not isinstance(self.renormalise, bool | None):
            raise InputError(f"renormalise must be true or false, not {self.renormalise!r}")
        if not isinstance(self.controls, bool):
            raise InputError(f"controls must be true or false, not {self.controls!r}")
        object.__setattr__(self, "maps", _MAPS.get(str(self.maps), self.maps))
        if self.maps not in get_args(KeptMaps):
            raise InputError(f"maps must be none, keep, float16 or float32, not {self.maps!r}")
        if self.block is not None and not (_whole(self.block) and self.block >= 1):
            raise InputError(f"block must be a whole number of at least 1, not {self.block!r}")
        if not _whole(self.seed):
            raise InputError(f"seed must be a whole number, not {self.seed!r}")

    @classmethod
    def from_toml(cls, path: str | Path) -> Study:
        """The study that a TOML file describes; places in it are relative to the file."""
        path = Path(path)
        if path.is_dir():
            raise InputError(f"{path} is a folder, not a study file; for photos in it write --data {path}")
        if path.suffix.lower() in SUFFIXES:
            raise InputError(f"{path} is a picture, not a study file; write --data {path}")
        try:
            text = path.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            raise InputError(f"there is no study file {path}.{suggest_path(path)}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path} cannot be read: {error}") from None
        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{path} is not TOML: {error}") from None
        try:
            return _beside(cls.from_table(table), path.parent)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Study:
        """The study that a table of settings describes.

        >>> Study.from_table({"data": "photos", "methods": ["random"], "images": {"number": 5}}).images.number
        5
        """
        given = dict(table)
        selection = given.pop("images", {})
        if not isinstance(selection, Mapping):
            raise InputError("images must be a table: [images] with number, correct, second, names or seed")
        _known(given, cls, "a study")
        _known(selection, Selection, "images")
        return cls(images=Selection(**selection), **given)

    def named_methods(self, inputs: Inputs | None = None) -> dict[str, Method]:
        """The methods under the names that the study knows them by; with the controls for a net with these inputs."""
        made = [_named_or_not(entry, make_method) for entry in self.methods]
        if not made:
            raise InputError("the study names no methods; see: proofmap list methods")
        if self.controls and inputs is not None:
            made += [("", control) for control in control_rows([method for _, method in made], inputs)]
        return dict(_named("methods", made, lambda method: method.title()))

    def named_metrics(self) -> dict[str, Metric]:
        """The metrics under the names of their scores."""
        if self.metrics:
            usual = {"thresholds": self.thresholds, "curve": self.curve}
            made = [_named_or_not(entry, partial(make_metric, defaults=usual)) for entry in self.metrics]
        else:
            made = [("", metric) for metric in default_metrics(self.thresholds, self.curve)]
        return dict(_named("metrics", made, lambda metric: metric.name))


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _check_list(name: str, value: object, kinds: tuple[type, ...], words: str) -> None:
    """Refuse what is no list of these kinds; TOML has numbers, dates and tables where a person meant a list."""
    if not isinstance(value, Sequence):
        raise InputError(f"{name} must be a list of {words}, not {value!r}")
    for entry in value:
        if isinstance(entry, bool) or not (isinstance(entry, kinds) or callable(entry)):
            raise InputError(f"{name} must be a list of {words}; {entry!r} is none")


def _named_or_not(entry: Any, make: Callable[[Any], Thing]) -> tuple[str, Thing]:
    """The name that a table gives (or none), and what it describes."""
    if not isinstance(entry, Mapping):
        return "", make(entry)
    table = dict(entry)
    return str(table.pop("name", "")), make(table)


def _named(kind: str, made: Sequence[tuple[str, Any]], title: Any) -> list[tuple[str, Any]]:
    """Distinct names: those that were given as they are, the others from the things themselves."""
    given = [name for name, _ in made if name]
    doubled = [name for name in given if given.count(name) > 1]
    if doubled:
        raise InputError(f"two {kind} are named {doubled[0]!r}; give them different names")
    names = distinct_names([name or title(thing) for name, thing in made])
    return [(name, thing) for name, (_, thing) in zip(names, made, strict=True)]


def _known(table: Mapping[str, Any], kind: type, what: str) -> None:
    known = [f.name for f in fields(kind)]
    for key in table:
        if key not in known:
            hint = did_you_mean(key, known, most=1) or f" Known are {', '.join(known)}"
            raise InputError(f"{what} has no setting {key!r}.{hint}")


def _beside(study: Study, folder: Path) -> Study:
    """Places that exist beside the study file are meant before those beside the working folder."""

    def found(text: str, cut: str = "") -> str:
        head, colon, place = text.partition(":") if cut else ("", "", text)
        for bare in (place, place.partition("[")[0].partition("?")[0]):
            here = folder / bare
            if bare and not os.path.isabs(bare) and here.exists():
                return f"{head}{colon}{here}{place[len(bare) :]}"
        return text

    data = tuple(found(found(str(place)), cut=":") for place in study.data)
    weights = None if study.weights is None else found(str(study.weights))
    model = found(study.model) if ".py:" not in study.model else _model_file(study.model, folder)

    def file_beside(file: str) -> str:
        return str(folder / file) if (folder / file).is_file() else file

    methods = tuple(with_files_in(entry, file_beside) for entry in study.methods)
    metrics = tuple(with_files_in(entry, file_beside) for entry in study.metrics)
    return replace(study, data=data, weights=weights, model=model, methods=methods, metrics=metrics)


def _model_file(model: str, folder: Path) -> str:
    file, _, function = model.rpartition(":")
    return f"{folder / file}:{function}" if (folder / file).is_file() else model
