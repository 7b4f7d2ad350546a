"""Load models from files of other libraries: ``onnx:FILE``, ``xgboost:FILE``, ``sklearn:FILE``.

A pipeline of scikit-learn that begins with a vectorizer takes texts, and may have the options ``units``, ``length`` and ``longer``:
``sklearn:spam.joblib?pickle=true&length=1000``. A model of tables needs rows like those that it was fitted on. They are given as ``data``, or the model string names a file of rows:
``onnx:churn.onnx?data=customers.csv&target=churned``. Columns of this file that the model was not fitted on are left out, with a warning.

The labels of a regressor are ranges of the number that it predicts. The options ``ranges`` (limits, ``120000:300000``, or how many), ``at_least`` and
``error`` are those of Classifier. Without ``error``, the target in the file of rows is the truth. Models of XGBoost, LightGBM and ONNX do not say that they
predict a number, so they need one of these options.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from proofmap.classifier.onnx_model import OnnxModel
from proofmap.classifier.probability_models import ProbabilityModel
from proofmap.classifier.ranges import predicts_number
from proofmap.core.errors import InputError, ModelError, ProofmapError, require
from proofmap.core.files import suggest_path
from proofmap.core.inputs import Text, Volumes
from proofmap.core.inputs.frames import read_frame
from proofmap.core.text import counted
from proofmap.models.spec import ModelSpec
from proofmap.plugins.failures import reason_of

_PICTURE = 4  # axes: images, channels, height, width
_TEXT = ("units", "length", "longer")  # options of models of texts
_NAMED = 5  # columns in a warning


def load_model_file(spec: ModelSpec, data: Any = None) -> tuple[Any, dict[str, Any]]:
    """The model in the file that ``spec`` names, and the other arguments to make a Classifier from it."""
    path = Path(spec.name)
    if not path.is_file():
        raise ModelError(f"there is no file {str(path)!r} to take the model from.{suggest_path(path)}")
    try:
        model = _LOADERS[spec.scheme](path, spec)
    except ProofmapError:
        raise
    except Exception as error:  # each library has its own
        raise ModelError(f"{path} cannot be loaded by {spec.scheme}: {reason_of(error)}") from error
    return model, model_arguments(model, spec, data)


def model_arguments(model: Any, spec: ModelSpec, data: Any) -> dict[str, Any]:
    """The other arguments to make a Classifier from a model: what the options of ``spec`` say, and rows or texts like those that it was fitted on."""
    arguments: dict[str, Any] = {"outputs": spec.options.get("outputs"), **_ranges(spec)}
    if "names" in spec.options:
        arguments["names"] = spec.listed("names")
    if isinstance(model, OnnxModel) and len(model.shape) == _PICTURE:
        return {**arguments, "outputs": arguments["outputs"] or "logits", **_picture(model.shape[2:], spec)}
    if spec.scheme == "file" and "size" in spec.options:
        return {**arguments, "outputs": arguments["outputs"] or "find", **_picture((), spec)}
    if hasattr(model, "predict_proba") and ProbabilityModel.takes_texts(model):
        return {**arguments, "inputs": _texts(spec, data)}
    unread = [key for key in _TEXT if key in spec.options]
    if unread or (data is not None and Text().takes(data)):
        raise InputError(
            f"{spec.text} is a model of tables, {'without ' + unread[0] if unread else 'and the data are texts'}"
        )
    if data is None:
        if "data" not in spec.options:
            raise InputError(
                f"{spec.text} is a model of tables and needs rows like those that it was fitted on: write "
                f"{spec.text}{'&' if '?' in spec.text else '?'}data=FILE.csv&target=COLUMN, or load_classifier(..., data=frame)"
            )
        file = Path(spec.options["data"])
        data, target = _table(file, spec.options.get("target"))
        data = _used_columns(model, data, file.name)
        if predicts_number(model) or _ranges(spec):
            arguments |= {"truth": target} if "error" not in spec.options else {}
    return {**arguments, "data": data}


def _ranges(spec: ModelSpec) -> dict[str, Any]:
    """The arguments of a classifier for a model that predicts a number, as far as the options have them."""
    options = spec.options
    try:
        found: dict[str, Any] = {key: float(options[key]) for key in ("at_least", "error") if key in options}
        if "ranges" in options:
            limits = options["ranges"]
            found["ranges"] = (
                int(limits) if limits.isdecimal() else [float(each) for each in limits.split(":")]
            )
    except ValueError as error:
        raise InputError(f"{spec.text}: ranges, at_least and error are numbers; {error}") from None
    return found


def _onnx(path: Path, spec: ModelSpec) -> OnnxModel:
    return OnnxModel(path.read_bytes(), str(path))


def _xgboost(path: Path, spec: ModelSpec) -> Any:
    xgboost = require("xgboost", extra="xgboost", purpose=spec.text)
    model = xgboost.XGBRegressor() if _ranges(spec) else xgboost.XGBClassifier()
    model.load_model(str(path))
    return model


def _lightgbm(path: Path, spec: ModelSpec) -> Any:
    return require("lightgbm", extra="lightgbm", purpose=spec.text).Booster(model_file=str(path))


def _sklearn(path: Path, spec: ModelSpec) -> Any:
    """Load a scikit-learn model from a skops file, which runs no code. A pickle is loaded only if the model string allows it."""
    if path.suffix == ".skops":
        return require("skops.io", extra="skops", purpose=spec.text).load(str(path))
    if spec.options.get("pickle") != "true":
        raise InputError(
            f"{path} is a pickle, and loading a pickle runs any code that is in it. If you made the file, or trust who did, write "
            f"sklearn:{spec.name}?pickle=true; files of the package skops (.skops) and ONNX files need no such trust"
        )
    return require("joblib", extra="sklearn", purpose=spec.text).load(path)


def _picture(sides: Sequence[Any], spec: ModelSpec) -> dict[str, Any]:
    if "size" in spec.options:
        sides = tuple(int(side) for side in spec.options["size"].split("x"))
    if not all(isinstance(side, int) for side in sides):
        raise InputError(
            f"{spec.text}: the model takes pictures of any size; name one, as in onnx:FILE?size=224x224"
        )
    numbers: dict[str, Any] = {
        key: tuple(map(float, spec.options[key].split(":"))) for key in ("mean", "std") if key in spec.options
    }
    if len(sides) == 3:
        return {"inputs": Volumes(size=(sides[0], sides[1], sides[2]), **numbers)}
    return {"size": (sides[0], sides[-1]), **numbers}


def _table(path: Path, target: str | None) -> tuple[Any, Any]:
    """A CSV or Parquet file as a data frame without its target column, and this column."""
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r} of rows.{suggest_path(path)}")
    frame = read_frame(path, str(path), path.suffix)
    if target is None:
        return frame, None
    if target not in frame.columns:
        raise InputError(f"{path} has no column {target!r}; it has {', '.join(map(str, frame.columns))}")
    return frame.drop(columns=[target]), frame[target]


def _texts(spec: ModelSpec, data: Any) -> Text:
    """The description of the texts that a model takes, with ``data`` as a sample."""
    if "data" in spec.options:
        raise InputError(
            f"{spec.text} takes texts: give a sample of them as load_classifier(..., data=[...])"
        )
    settings: dict[str, Any] = {key: spec.options[key] for key in _TEXT if key in spec.options}
    if not (length := settings.get("length", "512")).isdecimal():
        raise InputError(f"length of {spec.text} must be a number, not {length!r}")
    settings |= {"length": int(length)} if "length" in settings else {}
    return Text(**settings) if data is None else Text.of(data, **settings)


def _used_columns(model: Any, frame: Any, title: str) -> Any:
    """The columns of ``frame`` that the model was fitted on, if the model knows them and all are there. A warning names the others."""
    fitted = _fitted_columns(model)
    extra = [name for name in frame.columns if str(name) not in fitted]
    if not fitted or not extra or not fitted <= set(map(str, frame.columns)):
        return frame
    named = ", ".join(map(repr, extra[:_NAMED])) + (", ..." if len(extra) > _NAMED else "")
    warnings.warn(
        f"{title}: {counted(len(extra), 'column')} left out, on which the model was not fitted: {named}",
        stacklevel=2,
    )
    return frame.drop(columns=extra)


def _fitted_columns(model: Any) -> set[str]:
    """The names of the columns that a model was fitted on; empty if it does not know them."""
    if isinstance(model, OnnxModel):
        return {each.name for each in model.inputs} if len(model.inputs) > 1 else set()
    known = getattr(model, "feature_names_in_", None)
    if known is None and callable(own := getattr(model, "feature_name", None)):  # a Booster of LightGBM
        known = own()
    return set() if known is None else set(map(str, known))


_LOADERS = {"onnx": _onnx, "xgboost": _xgboost, "lightgbm": _lightgbm, "sklearn": _sklearn}
READERS = dict.fromkeys(_LOADERS, load_model_file)
