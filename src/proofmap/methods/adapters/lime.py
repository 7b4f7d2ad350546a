"""LIME's own explainer of tables as a method: ``lime-tabular``."""

from __future__ import annotations

import math
from importlib.metadata import version
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.errors import InputError, require
from proofmap.core.inputs import Rows
from proofmap.core.progress import Progress
from proofmap.fills import Fill, Images
from proofmap.methods.adapters.library import library_errors, own_generators, quietly
from proofmap.methods.method import METHODS, Cost, Method, ReadyMethod
from proofmap.plugins.settings import setting

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

    def cost(self, labels: int) -> Cost:
        return Cost(forward=self.samples)

    def state_for(self, classifier: Classifier) -> Any:
        inputs = classifier.inputs
        if math.prod(inputs.shape) > _MOST_VALUES:
            raise InputError(
                f"{self.name} is for rows of up to {_MOST_VALUES} columns, and the net takes {inputs.noun} of "
                f"{math.prod(inputs.shape)} values; use captum:Lime"
            )
        if not isinstance(self.rows, Images):
            raise InputError(
                f"rows of {self.name} are a pool of rows, such as images; not {self.rows.title()}"
            )
        ready = self.rows.prepare(classifier)
        if bool(ready.pool.isnan().any()):
            raise InputError(f"{self.name} takes no missing values, and the rows have some; use kernel-shap")
        return ready

    def record(self, ready: ReadyMethod) -> dict[str, object]:
        require("lime", extra="lime", purpose=f"the method {self.title()}")
        return {**self.settings(), "rows": ready.state.record(), "library": f"lime {version('lime')}"}

    def make_maps(
        self, ready: ReadyMethod, images: Tensor, labels: Tensor, *, seed: int, progress: Progress
    ) -> Tensor:
        require("lime", extra="lime", purpose=f"the method {self.title()}")
        from lime.lime_tabular import LimeTabularExplainer

        classifier, inputs = ready.classifier, ready.classifier.inputs
        if bool(images.isnan().any()):
            raise InputError(f"{self.name} takes no missing values, and the rows have some; use kernel-shap")
        rows = images.flatten(1).cpu().double().numpy()
        pool = ready.state.pool.flatten(1).cpu().double().numpy() / (
            255 if ready.state.pool.dtype == torch.uint8 else 1
        )
        maps = torch.zeros(*labels.shape, rows.shape[1], dtype=torch.float64)
        table = inputs.table if isinstance(inputs, Rows) else None
        named = [k for k, c in enumerate(table.columns) if c.kind != "number"] if table is not None else []
        keys = streams.image_keys(images, seed, self.name)

        def predict(drawn: np.ndarray) -> np.ndarray:
            given = torch.from_numpy(np.asarray(drawn, dtype=np.float32)).view(-1, *inputs.shape).to(images)
            return classifier.probabilities(given).cpu().double().numpy()

        with progress.task(self.title(), len(images)) as task, library_errors(self.title()):
            for k, row in enumerate(rows):
                key = int(streams.random_words(keys[k : k + 1], 1)[0, 0])
                with own_generators(key, images.device), quietly():
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
        return inputs.merged_channels(maps.view(*labels.shape, *inputs.shape).to(images.device))
