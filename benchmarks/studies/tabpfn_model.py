"""TabPFN as a classifier: a transformer that was trained on made-up tables, and reads the fitted rows with every call.

    pip install --no-deps tabpfn==0.1.11        the code
    TABPFN_WEIGHTS=FOLDER                       FOLDER/models_diff/prior_diff_real_checkpoint_n_0_epoch_42.cpkt, from the source archive of tabpfn 0.1

The code is of 2022: it needs a name that torch no longer exports, and the earlier name of an argument of scikit-learn. The weights are a pickle, which runs code: use an
environment that you can throw away.
"""

from __future__ import annotations

import os
import typing
import warnings
from typing import Any

import numpy as np
import torch
import torch.nn.modules.transformer as torch_transformer


class TabPFN:
    """One member of TabPFN's ensemble, with the interface of scikit-learn."""

    def fit(self, rows: Any, truth: Any) -> TabPFN:
        torch_transformer.Optional = typing.Optional  # type: ignore[attr-defined]
        import tabpfn.scripts.transformer_prediction_interface as interface

        for name in ("check_X_y", "check_array"):
            setattr(interface, name, _renamed(getattr(interface, name)))
        load = torch.load
        torch.load = lambda *args, **options: load(*args, **{**options, "weights_only": False})
        try:
            self.model = interface.TabPFNClassifier(
                device="cpu", base_path=os.environ["TABPFN_WEIGHTS"], N_ensemble_configurations=1, seed=0
            )
        finally:
            torch.load = load
        self.model.fit(np.asarray(rows), np.asarray(truth))
        self.classes_ = self.model.classes_
        return self

    def predict_proba(self, rows: Any) -> np.ndarray:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            parts = np.array_split(np.asarray(rows), max(1, len(rows) // 1000))
            return np.concatenate([self.model.predict_proba(part) for part in parts])

    def score(self, rows: Any, truth: Any) -> float:
        return float((self.classes_[self.predict_proba(rows).argmax(axis=1)] == np.asarray(truth)).mean())


def _renamed(check: Any) -> Any:
    return lambda *args, force_all_finite=True, **options: check(
        *args, ensure_all_finite=force_all_finite, **options
    )
