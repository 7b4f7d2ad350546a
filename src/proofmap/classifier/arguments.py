"""Reads the arguments of a classifier: the net as a function, its inputs, its outputs, and the names of its labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from proofmap.classifier.outputs import Outputs, check_outputs
from proofmap.classifier.probability_models import (
    ProbabilityModel,
    as_function,
    check_rounding,
    is_probability_model,
    takes_texts,
)
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs, Pictures, Rows, Text
from proofmap.core.text import counted


def described_net(
    net: Any, inputs: Inputs, outputs: Outputs | None, names: Sequence[str] | None, *, from_data: bool
) -> tuple[Any, Outputs, Sequence[str] | None]:
    """The net in the form that the classifier calls, its kind of outputs, and the names of its labels. If outputs or names are not given,
    they are taken from the model if it states them."""
    function = as_function(net, inputs, outputs, from_data=from_data)
    if isinstance(function, ProbabilityModel):
        return function, check_outputs(function.outputs), function.names if names is None else names
    if outputs == "probability":
        raise InputError(
            "outputs='probability' is for a function of tables or texts. For a net with one output, pass outputs='sigmoid-probabilities' if it "
            "ends in a sigmoid, and outputs='sigmoid' if it does not"
        )
    return function, check_outputs(outputs or "logits"), names


def described_inputs(
    net: object, data: Any, inputs: Inputs | None, size: int | tuple[int, int] | None, **pictures: Any
) -> Inputs:
    """The kind of input that a net takes: ``inputs`` if given, otherwise the kind that ``data`` describe, otherwise pictures of the size
    ``size`` with the settings in ``pictures``.
    """
    if not callable(net) and not is_probability_model(net):
        raise InputError(
            f"net must be a torch module, a function, or a model with predict_proba, not {type(net).__name__}"
        )
    if data is not None:
        if inputs is not None:
            raise InputError("give data= (rows like those that the model was fitted on) or inputs=, not both")
        is_texts = not isinstance(data, (str, bytes)) and Text().takes(data)
        inputs = Text.of(data) if is_texts else _rows(net, data)
    elif inputs is None and size is None and takes_texts(net):
        inputs = Text()
    if inputs is not None:
        if size is not None:
            raise InputError("give either the size of pictures or inputs=, not both")
        return inputs
    if size is None and hasattr(net, "predict_proba"):
        raise InputError(
            f"a classifier of {type(net).__name__} needs data=, rows like those that it was fitted on: pm.Classifier(model, data=frame)"
        )
    if size is None:
        raise InputError(
            "a classifier needs size (of its pictures), data= (of its tables), or inputs= for other kinds of input"
        )
    mean, std = tuple(pictures.pop("mean")), tuple(pictures.pop("std"))
    return Pictures(size=size, mean=mean, std=std, **pictures)  # type: ignore[arg-type]


def _rows(net: object, data: Any) -> Rows:
    """The description of rows like those of ``data``. Refuses rows that are all equal. If the model knows its columns, other columns are
    refused too."""
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
        check_rounding(net, data, inputs)
    return inputs
