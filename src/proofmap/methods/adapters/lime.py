"""LIME's own explainer of tables as a method: ``lime-tabular``."""

from __future__ import annotations

import math
from importlib.metadata import version
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from proofmap.core import streams
from proofmap.core.errors import InputError, require
from proofmap.core.inputs import Rows
from proofmap.core.tensors import exact
from proofmap.fills import Fill, Images
from proofmap.methods.adapters.library import in_library
from proofmap.methods.method import METHODS, Cost, Method
from proofmap.plugins.settings import setting
from proofmap.session import Session

_MOST_VALUES = 4096
"""The largest number of values of an input, because LIME fits one coefficient for each value."""


@METHODS.register
class LimeTabular(Method):
    """The coefficients of ``LimeTabularExplainer`` of the package lime, for every label.

    LIME draws rows near the one that is explained and fits a weighted ridge regression to the net's probabilities. In this
    regression, a number is replaced by whether it is in the same quartile (or decile) as in the explained row, and a category by
    whether it is the same. With ``discretizer=none``, numbers stay numbers. The package's own choice of columns is switched off, so
    every column has a coefficient. Columns are drawn from their distribution in ``rows``, not hidden behind a fill. All labels share the drawn rows. A small picture or a short series is treated as a row of its values.
    """

    name = "lime-tabular"
    family = "adapter"
    reference = "Ribeiro et al. 2016"
    description = "the explainer of tables in the package lime"
    signed = True
    stochastic = True

    samples: int = setting(
        5000, "number of rows drawn for each explained row; all labels share them", least=2
    )
    discretizer: Literal["quartile", "decile", "none"] = setting(
        "quartile", "how numbers are cut into ranges; none: numbers stay numbers"
    )
    rows: Fill = setting(Images(), "pool of rows from which LIME computes ranges and frequencies")

    def cost(self, labels: int, session: Session | None = None) -> Cost:
        return Cost(forward=self.samples)

    def prepare(self, session: Session) -> None:
        super().prepare(session)
        inputs = session.inputs
        if math.prod(inputs.shape) > _MOST_VALUES:
            raise InputError(
                f"{self.name} is for rows of up to {_MOST_VALUES} columns, and the net takes {inputs.noun} of "
                f"{math.prod(inputs.shape)} values; use captum:Lime"
            )
        if not isinstance(self.rows, Images):
            raise InputError(
                f"rows of {self.name} are a pool of rows, such as images; not {self.rows.title()}"
            )
        if bool(self._pool(session).isnan().any()):
            raise InputError(f"{self.name} takes no missing values, and the rows have some; use kernel-shap")

    def _pool(self, session: Session) -> Tensor:
        """The rows ``(M, *shape)`` from which LIME computes ranges and frequencies."""
        assert isinstance(self.rows, Images)
        values = self.rows.drawn_from(session).values
        return values.cpu().double() / (255 if values.dtype == torch.uint8 else 1)

    def record(self, session: Session) -> dict[str, object]:
        require("lime", extra="lime", purpose=f"the method {self.title()}")
        return {**super().record(session), "library": f"lime {version('lime')}"}

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        require("lime", extra="lime", purpose=f"the method {self.title()}")
        from lime.lime_tabular import LimeTabularExplainer

        net, inputs = session.net, session.inputs
        if bool(images.isnan().any()):
            raise InputError(f"{self.name} takes no missing values, and the rows have some; use kernel-shap")
        rows = images.flatten(1).cpu().double().numpy()
        pool = self._pool(session).flatten(1).numpy()
        maps = torch.zeros(*labels.shape, rows.shape[1], dtype=torch.float64)
        table = inputs.table if isinstance(inputs, Rows) else None
        named = [k for k, c in enumerate(table.columns) if c.kind != "number"] if table is not None else []
        keys = streams.image_keys(images, session.seed, self.name)

        def predict(drawn: np.ndarray) -> np.ndarray:
            given = torch.from_numpy(np.asarray(drawn, dtype=np.float32)).view(-1, *inputs.shape).to(images)
            return net.probabilities(given).cpu().double().numpy()

        with session.progress.task(self.title(), len(images)) as task:
            for k, row in enumerate(rows):
                key = int(streams.random_words(keys[k : k + 1], 1)[0, 0])
                with in_library(self.title(), key, images.device):
                    explainer = LimeTabularExplainer(
                        pool,
                        categorical_features=named,
                        discretize_continuous=self.discretizer != "none",
                        discretizer=self.discretizer,
                        feature_selection="none",
                        random_state=key,
                    )
                    asked = sorted(set(labels[k].clamp_min(0).tolist()))
                    found = explainer.explain_instance(
                        row,
                        predict,
                        labels=asked,
                        num_features=len(row),
                        num_samples=self.samples,
                    )
                for j, label in enumerate(labels[k].clamp_min(0).tolist()):
                    for column, weight in found.local_exp[label]:
                        maps[k, j, column] = float(weight)
                task.advance(1)
        return inputs.merged_channels(exact(maps.view(*labels.shape, *inputs.shape), images.device))
