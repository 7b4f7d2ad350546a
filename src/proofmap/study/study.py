"""A study: a net, pictures, labels, methods and metrics, as plain settings from a TOML file, from flags or from Python. An example of a file:

model = "efficientnet-lite0"
data = "imagenette:data/imagenette[val]"
labels = "top5"
methods = ["learned-mask", "grad-cam", "random"]        # or tables, see below
metrics = ["completeness", "soundness", "best-effort"]  # the usual five when left out
controls = true                                         # also judge controls, such as random maps
seed = 0

[images]
number = 200        # at random; all of them if left out
correct = true      # only those whose most probable label is the true one
min_second_probability = 0.01

[[methods]]         # instead of the list
method = "learned-mask"
tv = 0.2
name = "smooth mask"
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, TypeVar

from proofmap.core.errors import InputError
from proofmap.core.files import distinct_names, suggest_path
from proofmap.core.inputs import Inputs
from proofmap.core.inputs.pictures import SUFFIXES, Fit
from proofmap.data.photos import SAMPLE
from proofmap.data.specs import is_dataset, names_data_file
from proofmap.fills import Fill, make_fill
from proofmap.methods.controls import control_rows
from proofmap.methods.method import Method, MethodLike, make_method
from proofmap.metrics.metric import Metric, make_metric
from proofmap.metrics.proof_scores import default_metrics
from proofmap.models import DEFAULT_MODEL
from proofmap.plugins.settings import check_names, check_settings, setting, setting_names
from proofmap.plugins.specs import run_files_in, with_files_in
from proofmap.study.manifest import Selection, list_of

Thing = TypeVar("Thing")
KeptMaps = Literal["none", "keep", "float16", "float32"]
_LISTS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "data": ((str, Path), "places: a folder, photos, or a dataset such as cifar10:FOLDER"),
    "label_set": ((str, int), "names or indices of labels"),
    "methods": ((str, Method, Mapping), "methods: names, or tables with method = ..."),
    "metrics": ((str, Metric, Mapping), "metrics: names, or tables with metric = ..."),
    "fills": ((str, Fill), "fills: names, with settings as name:key=value"),
}


@dataclass(frozen=True, kw_only=True)
class Study:
    """The settings of a study. A method or metric is a text such as ``name:key=value``, a table or an object; see the module's example."""

    model: str = setting(DEFAULT_MODEL, "name of the net, as proofmap.load_classifier takes it")
    weights: str | Path | None = setting(None, "file with the weights of the net")
    data: Sequence[str | Path] = ()
    """The data: a dataset string such as ``cifar10:FOLDER``, or photos and folders."""
    images: Selection = field(default_factory=Selection)
    """The rules that select pictures of the data: a :class:`~proofmap.study.Selection`, or its settings, such as ``{"number": 5}``."""
    labels: str | int | Sequence[int | str] = "top5+wrong"
    """The label rule: ``all``, ``top5``, ``top5+wrong`` (also two labels that the net does not believe), ``p>=0.01``, ``true`` (the true
    labels of each picture), or a list of names or indices, which is used for every picture."""
    label_set: Sequence[int | str] = ()
    """The labels that count, as names or indices; empty for all outputs of the net."""
    renormalise: bool | None = setting(
        None, "compute the softmax over label_set only, which is the default; false: over all outputs"
    )
    fit: Fit | None = setting(
        None,
        "whether photos of other proportions are cropped, padded or squashed; none: the net's own choice",
    )
    methods: Sequence[MethodLike | Mapping[str, Any]] = ()
    """The methods that are judged."""
    metrics: Sequence[str | Metric | Mapping[str, Any]] = ()
    """The metrics that judge the methods; by default the usual five."""
    fills: Sequence[str | Fill] = ()
    """Fills, the values that replace hidden positions. Every metric that has a fill is computed once with each of these; by default with
    the metric's own."""
    controls: bool = setting(
        False,
        "also judge controls: random maps, a centred Gaussian, each method's maps blurred, and its top label's map for every label",
    )
    thresholds: str = setting(
        "paper",
        "floors e1 and e2 of completeness and soundness: a preset, or two numbers such as 0.01,0.001; for every metric that does not set "
        "its own",
    )
    curve: str = setting(
        "paper", "preset of the settings of curves; for every metric with a curve that does not set its own"
    )
    maps: KeptMaps = setting(
        "float16", "number format in which maps are stored; none: they are not stored; keep: float16"
    )
    images_per_unit: int | None = setting(
        None, "number of images in one unit of work; chosen for the device if left out", least=1
    )
    seed: int = setting(0, "seed of all random numbers; the same seed gives the same results")

    def __post_init__(self) -> None:
        if not isinstance(self.images, Selection):
            object.__setattr__(self, "images", _selection(self.images))
        for name, (kinds, words) in _LISTS.items():
            value = getattr(self, name)
            value = (value,) if isinstance(value, kinds) or callable(value) else value
            object.__setattr__(self, name, list_of(name, value, kinds, words))
        if not isinstance(self.labels, str):
            given: Any = [self.labels] if isinstance(self.labels, Integral) else self.labels
            labels = list_of("labels", given, (str, Integral), "names or indices, or a rule such as top5")
            object.__setattr__(self, "labels", tuple(a if isinstance(a, str) else int(a) for a in labels))
        check_settings(self)
        if self.maps == "keep":
            object.__setattr__(self, "maps", "float16")

    @classmethod
    def from_toml(cls, path: str | Path) -> Study:
        """The study that a TOML file describes. Paths in the file are looked up in its folder first, then in the working folder."""
        path = Path(path)
        if path.is_dir():
            raise InputError(f"{path} is a folder, not a study file; for photos in it write --data {path}")
        if path.suffix.lower() in SUFFIXES or names_data_file(str(path)):
            noun = "a picture" if path.suffix.lower() in SUFFIXES else "a file of data"
            raise InputError(f"{path} is {noun}, not a study file; write --data {path}")
        try:
            text = path.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            hint = (
                f" For data write --data {path}."
                if is_dataset(str(path)) or str(path).startswith(SAMPLE)
                else ""
            )
            raise InputError(f"there is no study file {path}.{hint or suggest_path(path)}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path} cannot be read: {error}") from None
        try:
            table = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
            raise InputError(f"{path} is not TOML: {reason}") from None
        try:
            return _with_places(cls.from_table(table), path.parent)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Study:
        """The study that a table of settings describes.

        >>> Study.from_table({"data": "photos", "methods": ["random"], "images": {"number": 5}}).images.number
        5
        """
        check_names("a study", table, setting_names(cls))
        return cls(**table)

    def named_methods(self, inputs: Inputs | None = None) -> dict[str, Method]:
        """The methods by their names in the study. If ``controls`` is set and ``inputs`` are given, controls for such inputs are included."""
        self._run_files()
        made = [_named_or_not(entry, make_method) for entry in self.methods]
        if not made:
            raise InputError("the study names no methods; see: proofmap list methods")
        if self.controls and inputs is not None:
            made += [("", control) for control in control_rows([method for _, method in made], inputs)]
        return dict(_named("methods", made, lambda method: method.title()))

    def named_metrics(self) -> dict[str, Metric]:
        """The metrics by the names of their scores."""
        self._run_files()
        if self.metrics:
            usual = {"thresholds": self.thresholds, "curve": self.curve}
            made = [_named_or_not(entry, partial(make_metric, defaults=usual)) for entry in self.metrics]
        else:
            made = [("", metric) for metric in default_metrics(self.thresholds, self.curve)]
        if self.fills:
            filled = [(name, metric) for name, metric in made if "fill" in setting_names(type(metric))]
            if not filled:
                names = ", ".join(name or metric.name for name, metric in made)
                raise InputError(
                    f"fills are given, but none of the metrics has a fill: {names}; leave fills out"
                )
            made = [
                (f"{name or metric.name} ({fill.title()})", metric.changed(fill=fill))
                for fill in map(make_fill, self.fills)
                for name, metric in filled
            ] + [entry for entry in made if entry not in filled]
        return dict(_named("metrics", made, lambda metric: metric.name))

    def _run_files(self) -> None:
        run_files_in((self.methods, self.metrics, self.fills))


def _selection(settings: Any) -> Selection:
    if not isinstance(settings, Mapping):
        raise InputError(
            "images must be a table: [images] with number, correct, min_second_probability, names or seed"
        )
    check_names("images", settings, setting_names(Selection))
    return Selection(**settings)


def _named_or_not(entry: Any, make: Callable[[Any], Thing]) -> tuple[str, Thing]:
    """The name that ``entry`` gives (empty if it gives none), and the plug-in that it describes. ``make`` builds the plug-in."""
    if not isinstance(entry, Mapping):
        return "", make(entry)
    table = dict(entry)
    return str(table.pop("name", "")), make(table)


def _named(kind: str, made: Sequence[tuple[str, Any]], title: Any) -> list[tuple[str, Any]]:
    """The plug-ins with distinct names. A plug-in without a given name is named by ``title``."""
    given = [name for name, _ in made if name]
    doubled = [name for name in given if given.count(name) > 1]
    if doubled:
        raise InputError(f"two {kind} are named {doubled[0]!r}; give them different names")
    names = distinct_names([name or title(thing) for name, thing in made])
    return [(name, thing) for name, (_, thing) in zip(names, made, strict=True)]


def _with_places(study: Study, folder: Path) -> Study:
    """The study with its paths resolved: a relative path that exists in the folder of the study file is replaced by that path."""

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

    def file_in_folder(file: str) -> str:
        return str(folder / file) if (folder / file).is_file() else file

    methods = tuple(with_files_in(entry, file_in_folder) for entry in study.methods)
    metrics = tuple(with_files_in(entry, file_in_folder) for entry in study.metrics)
    fills = tuple(with_files_in(entry, file_in_folder) for entry in study.fills)
    return replace(
        study, data=data, weights=weights, model=model, methods=methods, metrics=metrics, fills=fills
    )


def _model_file(model: str, folder: Path) -> str:
    name, _, function = model.partition(".py:")
    file = folder / f"{name}.py"
    return f"{file}:{function}" if file.is_file() else model
