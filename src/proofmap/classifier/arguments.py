"""The inputs of a classifier, from its arguments: a size of pictures, a sample of the data, or a description."""

from __future__ import annotations

from typing import Any

from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs, Pictures, Rows, Text


def described_inputs(
    net: object, data: Any, inputs: Inputs | None, size: int | tuple[int, int] | None, **pictures: Any
) -> Inputs:
    """The inputs of a net: ``inputs`` if given, else those that ``data`` describes, else pictures with this size and the settings in
    ``pictures``.
    """
    if data is not None:
        if inputs is not None:
            raise InputError("give data= (rows like those that the model was fitted on) or inputs=, not both")
        is_texts = not isinstance(data, (str, bytes)) and Text().takes(data)
        inputs = Text.of(data) if is_texts else Rows.of(data)
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
