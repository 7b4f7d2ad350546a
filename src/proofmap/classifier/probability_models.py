"""Models that return probabilities and are not torch nets: scikit-learn, XGBoost, LightGBM, CatBoost, ONNX, Keras, functions of a data
frame.

These models have no gradients. Rows ``(N, columns)`` become a data frame or an array like the one that the model was fitted on; texts become
a list of strings (:meth:`~proofmap.core.inputs.Inputs.decode`). The model is called once for a whole batch, because most of the time of a
small call is overhead.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from proofmap.classifier.onnx_model import OnnxModel, is_session
from proofmap.classifier.outputs import Outputs
from proofmap.core.errors import InputError, ModelError, ProofmapError
from proofmap.core.inputs import Columns, Inputs, Rows, Text, TextInputs
from proofmap.core.text import counted
from proofmap.plugins.failures import reason_of

_TOLERANCE = 1e-3
_TRIED, _MOVES = 32, 0.01  # rows, and a change of an output that is not taken for rounding
_SHOWN = 8
_KERAS = ("keras", "tensorflow", "tf_keras")


class ProbabilityModel:
    """A model as a function from inputs ``(N, *shape)`` to probabilities ``(N, A)``, or to other ``declared`` outputs.

    A function that returns one number for each input needs a declaration: the number could be the output of a regressor.

    >>> model = ProbabilityModel(lambda table: [[0.25, 0.75]] * len(table), Rows.of(np.eye(2)))
    >>> model(torch.zeros(1, 2))
    tensor([[0.2500, 0.7500]])
    """

    def __init__(self, model: Any, inputs: Inputs, declared: Outputs | None = None) -> None:
        self.model, self.inputs, self.declared = model, inputs, declared
        self.outputs: Outputs = "probabilities" if declared in (None, "probability") else declared
        self.columns: Columns | None = inputs.table if isinstance(inputs, Rows) else None
        self.call = _call_of(model)
        self.__qualname__ = _name_of(model)

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the labels, if the model knows them."""
        classes = getattr(self.model, "classes_", getattr(self.call, "classes_", None))
        return None if classes is None or np.ndim(classes) != 1 else tuple(str(each) for each in classes)

    def __call__(self, x: Tensor) -> Tensor:
        rows = x.detach().cpu()
        given = self.inputs.decode(rows)
        try:
            found = self.call(given)
        except ProofmapError:
            raise
        except Exception as error:
            raise ModelError(
                f"{self.__qualname__} fails on {counted(len(rows), self.inputs.singular)}: {reason_of(error).removesuffix('.')}.{self._advice(rows)}"
            ) from error
        return torch.from_numpy(self._checked(found, len(rows))).to(x.device)

    def _checked(self, found: Any, count: int) -> NDArray[np.float32]:
        """The probabilities ``(N, A)`` in ``found``, checked. A model with two labels may return only the probabilities of the second label."""
        name = self.__qualname__
        if isinstance(found, list) and found and np.ndim(found[0]) == 2:
            raise ModelError(
                f"{name} has {counted(len(found), 'output')}; Proofmap explains one: pass a function that returns the probabilities of one"
            )
        values = np.asarray(found.detach().cpu() if isinstance(found, Tensor) else found, dtype=np.float64)
        certain = self.outputs == "probabilities"
        if self.declared == "probability" and values.ndim == 2 and values.shape[1] > 1:
            raise ModelError(
                f"outputs='probability' was declared, but {name} returned {values.shape[1]} columns. Leave outputs out if they are the "
                "probabilities of all labels"
            )
        if certain and values.ndim == 2 and values.shape[1] == 1:
            if self.names is not None and len(self.names) == 1:
                raise ModelError(
                    f"{name} was fitted on one label, {self.names[0]!r}, and gives it the probability 1 for every {self.inputs.singular}: "
                    "there is nothing to explain. Fit it on data with two labels or more"
                )
            values = values[:, 0]
        if certain and values.ndim == 1:
            if self.declared is None and not is_probability_model(self.model):
                raise ModelError(
                    f"{name} returned one number for each {self.inputs.singular}. Pass outputs='probability' if it is the probability of the second "
                    "of two labels. Other numbers, such as those of a regressor, cannot be explained: turn them into probabilities of labels, "
                    "such as of being above a limit"
                )
            values = np.stack([1 - values, values], axis=1)
        if values.ndim != 2 or len(values) != count:
            raise ModelError(
                f"{name} returned an array of shape {values.shape} for {counted(count, self.inputs.singular)}; expected one row of "
                "probabilities for each, (N, labels)"
            )
        if not certain:
            return values.astype(np.float32)
        total = values.sum(axis=1)
        bad = ~(np.abs(total - 1) <= _TOLERANCE) | ~(values >= -_TOLERANCE).all(axis=1)  # also NaN
        if bad.any():
            k = int(bad.argmax())
            raise ModelError(
                f"the probabilities that {name} returned for {self.inputs.singular} {k} of a batch sum to {total[k]:.4g}, the least is "
                f"{values[k].min():.4g}; they must be at least 0 and sum to 1. Pass a function that returns probabilities, such as a "
                "softmax of what the model returns; outputs='sigmoid-probabilities' if each label is right or not on its own"
            )
        return values.clip(0, 1).astype(np.float32)

    def content(self) -> list[object]:
        """What identifies the model: a function itself; of other models the class and, if they are of scikit-learn, what was fitted."""
        is_function = not is_probability_model(self.model)
        return [self.model] if is_function else [type(self.model), _fitted(self.model)]

    def __getstate__(self) -> dict[str, object]:
        return {"model": self.model, "inputs": self.inputs, "declared": self.declared}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def _advice(self, rows: Tensor) -> str:
        if isinstance(self.inputs, TextInputs) and not all(self.inputs.decode(rows)):
            return " One of them is empty, as when all words are deleted: make it return probabilities for an empty string too"
        if self.columns is None:
            return ""
        if not bool(rows.isnan().any()):
            given = ", ".join(self.columns.names[:_SHOWN]) + (
                ", ..." if len(self.columns.names) > _SHOWN else ""
            )
            return f" It was given the columns {given}: leave out those that it does not take"
        column = self.columns.names[int(rows.isnan().any(dim=0).nonzero()[0])]
        return (
            f" The column {column!r} has missing values. If the model takes none, fit it in a pipeline after an imputer "
            "(sklearn.impute.SimpleImputer), or leave these rows out"
        )


def check_rounding(model: Any, data: Any, inputs: Rows) -> None:
    """Refuse a model whose outputs change if the rows of ``data`` are rounded to float32, the precision in which ``inputs`` stores rows.

    This matters if a column has more digits than float32 can hold and the model needs them, such as seconds since 1970. Up to 32
    rows are tried. An output may change by .01; for outputs above 1, such as logits, the change is relative to the output. Models
    that fail on these rows, or whose outputs differ from call to call, are refused by other checks.
    """
    table = inputs.table
    if isinstance(data, Columns) or table is None:
        return
    rows = data[:: max(1, len(data) // _TRIED)][:_TRIED]
    call = _call_of(model)
    try:
        given = table.decode(table.encode(rows))
        own, again = (np.asarray(call(copy.deepcopy(rows)), dtype=np.float64) for _ in range(2))
        found = np.asarray(call(given), dtype=np.float64)
    except Exception:
        return
    if (
        own.shape == found.shape
        and np.array_equal(own, again)
        and (moved := (np.abs(own - found) / np.maximum(1, np.abs(own))).max()) > _MOVES
    ):
        long = max(table.columns, key=lambda c: max(abs(c.low), abs(c.high)) / c.spread)
        raise ModelError(
            f"rows are kept in float32, and the output of {_name_of(model)} changes by up to {moved:.2g} if they are rounded to it. Give columns "
            f"of many digits fewer, such as {long.name!r}: subtract a constant, or use another unit"
        )


def takes_texts(model: Any) -> bool:
    """Whether a fitted model takes a list of strings, as a pipeline of scikit-learn that begins with a vectorizer does."""
    if any(hasattr(model, name) for name in ("n_features_in_", "feature_names_in_")):
        return False
    try:
        return bool(np.shape(model.predict_proba(["a text", "and another one"]))[:1] == (2,))
    except Exception:
        return False


def is_probability_model(net: object) -> bool:
    """Whether an object is a model, but neither a torch net nor a function."""
    if isinstance(net, nn.Module):
        return False
    return hasattr(net, "predict_proba") or _is_other_model(net)


def as_function(net: Any, inputs: Inputs, outputs: Outputs | None, *, from_data: bool) -> Any:
    """The net in the form that the classifier calls, from tensors to tensors. Models that are not torch nets are wrapped. With
    ``from_data`` or for texts, functions are wrapped too. Other nets are returned unchanged.
    """
    if isinstance(net, ProbabilityModel):  # of another classifier
        return ProbabilityModel(net.model, inputs, net.declared if outputs is None else outputs)
    readable = from_data or isinstance(inputs, Text)
    function_of_table = readable and callable(net) and not isinstance(net, nn.Module)
    if not is_probability_model(net) and not function_of_table:
        return net
    if isinstance(inputs, Rows) and inputs.table is None:
        raise InputError(
            f"a classifier of {_name_of(net)} needs data=, rows like those that it was fitted on: "
            "pm.Classifier(model, data=frame). They say which columns there are"
        )
    return ProbabilityModel(net, inputs, outputs)


def has_gradient(net: Any, x: Tensor) -> bool:
    """Whether the outputs of a function have a gradient with respect to its input. The function is called once with ``x`` to find out.

    The result is False if the function refuses an input that requires a gradient, as a function that calls NumPy does.
    """
    if isinstance(net, ProbabilityModel):
        return False
    with torch.enable_grad(), torch.inference_mode(False):
        try:
            return bool(getattr(net(x.requires_grad_(True).clone()), "requires_grad", False))
        except RuntimeError as error:
            if "requires grad" not in str(error):
                raise
            return False


def _fitted(value: Any) -> Any:
    """The public attributes of an estimator of scikit-learn, also of the estimators inside it, as plain data. Of other objects only the
    class's name."""
    if hasattr(value, "get_params") and not isinstance(value, type):
        value = {key: each for key, each in sorted(vars(value).items()) if not key.startswith("_")}
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        value = value.tolist()
    if isinstance(value, dict):
        return {key: _fitted(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_fitted(each) for each in value]
    plain = isinstance(value, (type(None), bool, int, float, str, np.ndarray, np.generic))
    return value if plain else type(value).__name__


def _is_other_model(net: object) -> bool:
    return is_session(net) or isinstance(net, OnnxModel) or _is_booster(net) or _is_keras(net)


def _is_booster(net: object) -> bool:
    kind = type(net)
    return kind.__name__ == "Booster" and kind.__module__.partition(".")[0] in ("xgboost", "lightgbm")


def _is_keras(net: object) -> bool:
    homes = {kind.__module__.partition(".")[0] for kind in type(net).__mro__}
    return bool(homes & {*_KERAS}) and hasattr(net, "predict")


def _name_of(model: object) -> str:
    """The model's name in messages and records. For a pipeline, the name of its last step."""
    steps = getattr(model, "steps", None)
    if isinstance(steps, Sequence) and steps:
        model = steps[-1][-1]
    return str(getattr(model, "__qualname__", type(model).__name__))


def _call_of(model: Any) -> Callable[[Any], Any]:
    """The function of ``model`` that returns the probabilities."""
    if hasattr(model, "predict_proba"):
        return model.predict_proba  # type: ignore[no-any-return]
    if isinstance(model, OnnxModel):
        return model
    if is_session(model):
        return OnnxModel(model)
    if _is_booster(model):
        if type(model).__module__.startswith("lightgbm"):
            return model.predict  # type: ignore[no-any-return]

        def predict(table: Any) -> Any:
            import xgboost

            return model.predict(xgboost.DMatrix(table, enable_categorical=True))

        return predict
    if _is_keras(model):
        return lambda table: model.predict(table, verbose=0)
    return model  # type: ignore[no-any-return]
