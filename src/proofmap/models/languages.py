"""``py3langid``: a model that identifies the language of a text. It is linear in the logarithms of n-gram counts:

    logit_a(x) = log prior_a + sum over n-grams i of log(1 + count of i in x) * log p(i | a)      (language a, text x)

The model takes strings and has no gradients. Proofs of a linear model can be checked by hand.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from proofmap.core.errors import require
from proofmap.core.inputs import Text

NAME = "py3langid"


def identifier(purpose: str) -> tuple[Any, Any]:
    """The model as the package py3langid has it, and its function that counts n-grams. ``purpose`` says who needs the package."""
    module = require("py3langid.langid", extra="theory", purpose=purpose)
    return _read(module), module.visit_counts


@cache
def _read(module: Any) -> Any:
    """The model, read once: to unpack its file takes a second."""
    return module.LanguageIdentifier.from_model_file(module.MODEL_FILE)


class Languages:
    """The model as a function from a list of N strings to logits ``(N, languages)``."""

    def __init__(self) -> None:
        self._model, self._visits = identifier(f"the model {NAME}")
        self.names = tuple(map(str, self._model.nb_classes))
        self.__qualname__ = NAME

    def state_dict(self) -> dict[str, Tensor]:
        """The tables that the logits are computed from, as the weights of a net."""
        tables = ("nb_pc", "nb_ptc", "tk_nextmove", "tk_output")
        return {name: torch.from_numpy(np.asarray(getattr(self._model, name))) for name in tables}

    def __call__(self, texts: list[str]) -> NDArray[np.float64]:
        model = self._model
        rows = np.tile(np.asarray(model.nb_pc, dtype=np.float64), (len(texts), 1))
        for row, text in zip(rows, texts, strict=True):
            counts = (
                self._visits(model.tk_nextmove, model._rowbase, model.tk_output, model._encode(text)) or {}
            )
            if counts:
                features = sorted(counts)
                x = np.log1p([counts[f] for f in features])
                row += x @ model.nb_ptc[features].astype(np.float64)
        return rows


def language_model() -> tuple[Languages, dict[str, Any]]:
    """The model, and the other arguments to make a Classifier from it."""
    found = Languages()
    return found, {"inputs": Text(), "names": found.names, "outputs": "logits"}
