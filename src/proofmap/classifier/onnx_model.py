"""Models in the ONNX format, run by onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proofmap.core.errors import ModelError, require

_TYPES: Mapping[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
    "tensor(string)": np.object_,
}


class OnnxModel:
    """An ONNX model as a function from an array, or a data frame, to its output of probabilities or logits ``(N, A)``.

    A model with one input takes all columns as one array. A model with several inputs, as skl2onnx makes them from a pipeline of a data
    frame, takes each column by its name. If the model has several outputs, the one called probabilities is read, otherwise the last one
    that holds numbers.
    """

    def __init__(self, source: Any, name: str = "the file") -> None:
        """``source`` is a session of onnxruntime, or the content of the model file ``name``."""
        self.content: bytes | None = source if isinstance(source, bytes) else _content_of(source)
        if isinstance(source, bytes):
            runtime = require("onnxruntime", extra="onnx", purpose="a model in the ONNX format")
            try:
                source = runtime.InferenceSession(source, providers=["CPUExecutionProvider"])
            except Exception as error:
                raise ModelError(f"{name} is not an ONNX model that onnxruntime can run: {error}") from error
        self.session = source
        self.inputs = self.session.get_inputs()
        outputs = self.session.get_outputs()
        named = [one for one in outputs if "prob" in one.name.lower()]
        numbers = [one for one in outputs if one.type in ("tensor(float)", "tensor(double)")]
        if not named and not numbers:
            listed = ", ".join(f"{one.name} ({one.type})" for one in outputs)
            raise ModelError(f"the ONNX model has no output of numbers; it has {listed}")
        chosen = (named or numbers)[-1]
        self.output = chosen.name
        self.maps_labels = chosen.type.startswith("seq(map(")
        self.__qualname__ = "onnx"

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape of the model's first input, with names or None for dimensions that are not fixed."""
        return tuple(self.inputs[0].shape)

    @cached_property
    def classes_(self) -> tuple[str, ...] | None:
        """The labels of a model that gives a map from labels to probabilities (an operator ZipMap), in the order of its columns.

        onnxruntime gives them only with an output, so the model runs on one row of zeros. None if the model gives an array, or does not
        take this row.
        """
        if not self.maps_labels:
            return None
        try:
            blank = {
                one.name: np.zeros([k if isinstance(k, int) else 1 for k in one.shape], _type_of(one))
                for one in self.inputs
            }
            (found,) = self.session.run([self.output], blank)
        except Exception:
            return None
        return tuple(map(str, found[0]))

    def __call__(self, table: Any) -> Any:
        found = self.session.run([self.output], self._fed(table))[0]
        # onnxruntime sorts the map of each row by label
        return np.array([list(one.values()) for one in found]) if self.maps_labels else found

    def _fed(self, table: Any) -> dict[str, NDArray[Any]]:
        if len(self.inputs) == 1:
            (only,) = self.inputs
            return {only.name: np.asarray(table).astype(_type_of(only))}
        return {
            one.name: np.asarray(table[one.name]).astype(_type_of(one)).reshape(-1, 1) for one in self.inputs
        }

    def __getstate__(self) -> dict[str, object]:
        if self.content is None:
            raise TypeError("a session of onnxruntime without its file cannot be copied")
        return {"content": self.content}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["content"])  # type: ignore[misc]


def _type_of(given: Any) -> Any:
    if given.type not in _TYPES:
        raise ModelError(f"the ONNX model's input {given.name!r} is {given.type}, which is not supported")
    return _TYPES[given.type]


def _content_of(session: Any) -> bytes | None:
    """The content of a session's model file; None if it is not known. The content identifies the weights in records of results."""
    kept = getattr(session, "_model_bytes", None)
    path = getattr(session, "_model_path", None)
    if kept is None and path and Path(path).is_file():
        kept = Path(path).read_bytes()
    return None if kept is None else bytes(kept)
