"""The arguments of a classifier that describe the net, and models that return probabilities and are not torch nets: scikit-learn, XGBoost,
LightGBM, CatBoost, ONNX, Keras, functions of a data frame.

These models have no gradients. Rows ``(N, columns)`` become a data frame or an array like the one that the model was fitted on; texts become
a list of strings (:meth:`~proofmap.core.inputs.Inputs.decode`). The model is called once for a whole batch, because most of the time of a
small call is overhead.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from proofmap.classifier.onnx_model import OnnxModel
from proofmap.classifier.outputs import Outputs
from proofmap.classifier.ranges import Ranges, chosen_ranges, predicts_number
from proofmap.classifier.view import place_of, view_of
from proofmap.core.errors import InputError, ModelError, ProofmapError
from proofmap.core.inputs import Columns, Inputs, Pictures, Rows, Text, TextInputs
from proofmap.core.inputs.frames import as_frame
from proofmap.core.text import counted
from proofmap.plugins.failures import reason_of

_TOLERANCE = 1e-3
_TRIED, _MOVES = 32, 0.01  # rows, and a change of an output that is not taken for rounding
_SHOWN = 8
_BATCH = 64  # inputs of a sample in one pass
_KERAS = ("keras", "tensorflow", "tf_keras")


class ProbabilityModel:
    """A model as a function from inputs ``(N, *shape)`` to probabilities ``(N, A)``, or to other ``declared`` outputs.

    A function that returns one number for each input needs a declaration: the number could be the output of a regressor.

    >>> model = ProbabilityModel(lambda table: [[0.25, 0.75]] * len(table), Rows.of(np.eye(2)))
    >>> model(torch.zeros(1, 2))
    tensor([[0.2500, 0.7500]])
    """

    def __init__(
        self, model: Any, inputs: Inputs, declared: Outputs | None = None, ranges: Ranges | None = None
    ) -> None:
        self.model, self.inputs, self.declared, self.ranges = model, inputs, declared, ranges
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
        found = self._found(x)
        if self.ranges is not None:
            return self.ranges.forward(torch.from_numpy(found)).to(x.device, torch.float32)
        return torch.from_numpy(self._checked(found, len(x))).to(x.device)

    def directions(self, x: Tensor) -> Tensor:
        """1 for each label whose f grows with the number that the model returns for inputs ``(N, *shape)``, otherwise -1, ``(N, A)``: of two labels,
        the second one."""
        return (
            torch.tensor([[-1.0, 1.0]])
            if self.ranges is None
            else self.ranges.directions(torch.from_numpy(self._found(x)))
        )

    def _found(self, x: Tensor) -> NDArray[np.float64]:
        """What the model returns for inputs ``(N, *shape)``."""
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
        return np.asarray(found.detach().cpu() if isinstance(found, Tensor) else found, dtype=np.float64)

    def _checked(self, values: NDArray[np.float64], count: int) -> NDArray[np.float32]:
        """The probabilities ``(N, A)`` in ``values``, checked. A model with two labels may return only the probabilities of the second label."""
        name = self.__qualname__
        certain = self.outputs == "probabilities"
        if certain and values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if certain and values.ndim == 1:
            if self.declared is None and not ProbabilityModel.wraps(self.model):
                raise ModelError(
                    f"{name} returned one number for each {self.inputs.singular}. Pass outputs='probability' if it is the probability of the second "
                    "of two labels. If it is another number, such as a price, its labels are ranges: at_least=300_000, error=20_000"
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

    def content(self) -> object:
        """What identifies the model beside its probabilities: a function itself, the class of other models."""
        return type(self.model) if ProbabilityModel.wraps(self.model) else self.model

    def __getstate__(self) -> dict[str, object]:
        return {"model": self.model, "inputs": self.inputs, "declared": self.declared, "ranges": self.ranges}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @staticmethod
    def wraps(net: object) -> bool:
        """Whether an object is a model, but neither a torch net nor a function."""
        return _own_call_of(net) is not None

    @staticmethod
    def ranges_of(net: Any) -> Ranges | None:
        """The ranges that are the labels of a net, if :func:`described` made them."""
        if isinstance(net, ProbabilityModel):
            return net.ranges
        last = (
            net[-1]
            if isinstance(net, nn.Sequential) and len(net)
            else net.args[-1]
            if isinstance(net, partial) and net.args
            else None
        )
        return last if isinstance(last, Ranges) else None

    @staticmethod
    def takes_texts(model: Any) -> bool:
        """Whether a fitted model takes a list of strings, as a pipeline of scikit-learn that begins with a vectorizer does."""
        if any(hasattr(model, name) for name in ("n_features_in_", "feature_names_in_")):
            return False
        try:
            return bool(np.shape(model.predict_proba(["a text", "and another one"]))[:1] == (2,))
        except Exception:
            return False

    def _advice(self, rows: Tensor) -> str:
        if isinstance(self.inputs, TextInputs) and not all(self.inputs.decode(rows)):
            return " One of them is empty, as when all words are deleted: make it return probabilities for an empty string too"
        if self.columns is None:
            return ""
        if not bool(rows.isnan().any()):
            return f" It was given the columns {', '.join(self.columns.names[:_SHOWN])}: leave out those that it does not take"
        column = self.columns.names[int(rows.isnan().any(dim=0).nonzero()[0])]
        return (
            f" The column {column!r} has missing values. If the model takes none, fit it in a pipeline after an imputer "
            "(sklearn.impute.SimpleImputer), or leave these rows out"
        )


def described(
    net: Any,
    data: Any,
    inputs: Inputs | None,
    outputs: Outputs | None,
    names: Sequence[str] | None,
    normalised: bool,
    number: Mapping[str, Any],
    **pictures: Any,
) -> tuple[Any, Inputs, Outputs, Sequence[str] | None]:
    """The net in the form that the classifier calls, from tensors to tensors, its kind of input, its kind of outputs, and the names of its labels.
    If outputs or names are not given, they are taken from the model if it states them. ``pictures`` are settings of pictures, which may be ``normalised`` already.

    Models that are not torch nets are wrapped. With ``data`` or for texts, functions are wrapped too. A model that predicts a number gets ranges as its
    labels; ``number`` has the arguments that describe them.
    """
    sample, of_number = data, predicts_number(net) or any(value is not None for value in number.values())
    if of_number and (inputs is not None or pictures.get("size") is not None):
        data = None  # predicted, but not described
    inputs = _inputs_of(net, data, inputs, normalised, **pictures)
    if outputs not in (None, *get_args(Outputs)):
        *others, last = map(repr, get_args(Outputs))
        raise InputError(f"outputs must be {', '.join(others)} or {last}, not {outputs!r}")
    takes_decoded = ProbabilityModel.wraps(net) or (
        (data is not None or isinstance(inputs, Text)) and not isinstance(net, nn.Module)
    )
    ranges = None
    if of_number:
        if outputs is not None:
            raise InputError(
                f"outputs={outputs!r} is for nets of labels; those of {_name_of(net)} are ranges of the number that it predicts"
            )
        predict = _call_of(net) if takes_decoded else partial(_predictions, net, inputs)
        ranges = chosen_ranges(predict, sample, _name_of(net), **number)
        outputs, names = "logits", ranges.names if names is None else names
        if not takes_decoded:
            net = in_ranges(net, ranges)
    if isinstance(net, ProbabilityModel):  # of another classifier
        net = ProbabilityModel(net.model, inputs, net.declared if outputs is None else outputs, net.ranges)
    elif takes_decoded:
        if isinstance(inputs, Rows) and inputs.table is None:
            raise InputError(
                f"a classifier of {_name_of(net)} needs data=, rows like those that it was fitted on: "
                "pm.Classifier(model, data=frame). They say which columns there are"
            )
        net = ProbabilityModel(net, inputs, outputs, ranges)
    if isinstance(net, ProbabilityModel):
        return net, inputs, net.outputs, net.names if names is None else names
    if outputs == "probability":
        raise InputError(
            "outputs='probability' is for a function of tables or texts. For a net with one output, pass outputs='sigmoid-probabilities' if it "
            "ends in a sigmoid, and outputs='sigmoid' if it does not"
        )
    return net, inputs, outputs or "logits", names


def in_ranges(net: Any, ranges: Ranges | None) -> Any:
    """A net of numbers, a module or a function of tensors, as a net of their ranges; the net itself without ranges."""
    if ranges is None:
        return net
    return nn.Sequential(net, ranges) if isinstance(net, nn.Module) else partial(_in_ranges, net, ranges)


def _in_ranges(predict: Callable[[Tensor], Any], ranges: Ranges, x: Tensor) -> Tensor:
    return ranges.forward(torch.as_tensor(predict(x)))


@torch.no_grad()
def _predictions(net: Any, inputs: Inputs, data: Any) -> Tensor:
    """What a module or a function of tensors predicts for a sample of inputs."""
    x = inputs.check(
        inputs.encode(data) if inputs.takes(data) else torch.as_tensor(np.asarray(data, dtype=np.float32))
    )
    device, dtype = place_of(net)
    mean, std = inputs.scale(device)
    view = view_of(net, device) if isinstance(net, nn.Module) else net
    parts = [inputs.for_net(((part.to(device) - mean) / std).to(dtype)) for part in x.split(_BATCH)]
    return torch.cat([torch.as_tensor(view(part)).cpu() for part in parts])


def _inputs_of(
    net: object,
    data: Any,
    inputs: Inputs | None,
    normalised: bool,
    *,
    size: int | tuple[int, int] | None = None,
    **pictures: Any,
) -> Inputs:
    """The kind of input that a net takes: ``inputs`` if given, otherwise the kind that ``data`` describe, otherwise pictures of the size
    ``size`` with the settings in ``pictures``.
    """
    if not callable(net) and not ProbabilityModel.wraps(net):
        raise InputError(
            f"net must be a torch module, a function, a model with predict_proba, or a regressor, not {type(net).__name__}"
        )
    if sum(each is not None for each in (data, inputs, size)) > 1:
        raise InputError(
            "give one of size= (of pictures), data= (rows like those that the model was fitted on) or inputs=, not both"
        )
    if data is not None:
        is_texts = not isinstance(data, (str, bytes)) and Text().takes(data)
        return Text.of(data) if is_texts else _rows(net, data)
    if inputs is not None:
        return inputs
    if size is not None:
        if normalised:
            mean, std = tuple(pictures.pop("mean", (0.0,) * 3)), tuple(pictures.pop("std", (1.0,) * 3))
            pictures |= {"unlimited": True, "colours": (mean, std)}
            pictures |= {"mean": (0.0,) * len(mean), "std": (1.0,) * len(std)}
        return Pictures(size=size, **pictures)  # type: ignore[arg-type]
    if ProbabilityModel.takes_texts(net):
        return Text()
    if ProbabilityModel.wraps(net):
        raise InputError(
            f"a classifier of {type(net).__name__} needs data=, rows like those that it was fitted on: pm.Classifier(model, data=frame)"
        )
    raise InputError(
        "a classifier needs size (of its pictures), data= (of its tables), or inputs= for other kinds of input"
    )


def _rows(net: object, data: Any) -> Rows:
    """The description of rows like those of ``data``. Refuses rows that are all equal. If the model knows its columns, other columns are
    refused too."""
    data = as_frame(data)
    inputs = Rows.of(data)
    rows = inputs.examples
    if rows is not None and bool((rows == rows[0]).all()):
        raise InputError(
            f"data has {counted(len(rows), 'row')}, {'all' if len(rows) > 1 else 'and'} equal to the mean that hidden columns show, so every map would "
            "score 1. Give more rows like those that the model was fitted on: data=frame, or MODEL?data=FILE.csv&target=COLUMN in a model string"
        )
    fitted = getattr(net, "feature_names_in_", None)
    extra = [] if fitted is None else [name for name in inputs.names if name not in set(map(str, fitted))]
    if extra and inputs.table is not None and inputs.table.library is not None:
        raise InputError(
            f"the table has the column {extra[0]!r}, which the model was not fitted on. Leave it out: frame.drop(columns={extra[:6]!r})"
        )
    if not isinstance(net, nn.Module):
        _check_rounding(net, data, inputs)
    return inputs


def _check_rounding(model: Any, data: Any, inputs: Rows) -> None:
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


def _name_of(model: object) -> str:
    """The model's name in messages and records. For a pipeline, the name of its last step."""
    steps = getattr(model, "steps", None)
    if isinstance(steps, Sequence) and steps:
        model = steps[-1][-1]
    return str(getattr(model, "__qualname__", type(model).__name__))


def _call_of(model: Any) -> Callable[[Any], Any]:
    """The function of ``model`` that returns the probabilities; of a function, itself."""
    return _own_call_of(model) or model


def _own_call_of(model: Any) -> Callable[[Any], Any] | None:
    """The function of a model of another library that returns the probabilities, or numbers; None for a torch net or a function."""
    if isinstance(model, nn.Module):
        return None
    if hasattr(model, "predict_proba"):
        return model.predict_proba  # type: ignore[no-any-return]
    if isinstance(model, OnnxModel):
        return model
    homes = {kind.__module__.partition(".")[0] for kind in type(model).__mro__}
    kind = type(model).__name__
    if kind == "InferenceSession" and "onnxruntime" in homes:
        return OnnxModel(model)
    if kind == "Booster" and "lightgbm" in homes:
        return model.predict  # type: ignore[no-any-return]
    if kind == "Booster" and "xgboost" in homes:

        def predict(table: Any) -> Any:
            import xgboost

            return model.predict(xgboost.DMatrix(table, enable_categorical=True))

        return predict
    if homes & {*_KERAS} and hasattr(model, "predict"):
        return lambda table: model.predict(table, verbose=0)
    return model.predict if predicts_number(model) else None
