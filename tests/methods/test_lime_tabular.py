"""LIME's own explainer of tables: on a model that is linear, its coefficients are known."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
import torch

import proofmap as pm
from proofmap.core.errors import InputError
from proofmap.methods import make_method
from tests.toys import linear_classifier

DATA = np.random.default_rng(0).normal(size=(200, 3)) * (1.0, 2.0, 1.0)


def slopes(table: np.ndarray) -> np.ndarray:
    """The probability of the second label: a slope of .05 in the first column, -.02 in the second, none in the third."""
    return 0.5 + 0.05 * table[:, 0] - 0.02 * table[:, 1]


def test_the_coefficients_of_a_linear_model_are_its_slopes_in_standard_deviations(lime: ModuleType) -> None:
    net = pm.Classifier(slopes, data=DATA)
    x = torch.tensor(DATA[:2], dtype=torch.float32)
    maps = make_method("lime-tabular:samples=400,discretizer=none")(net, x, torch.tensor([[1, 0]] * 2))
    expected = torch.tensor([0.05, -0.02, 0.0]) * torch.tensor(DATA.std(axis=0))
    # LIME takes deviations from half of the rows: methods learn on one half, metrics judge on the other
    assert torch.allclose(maps[:, 0].double(), expected.expand(2, -1), atol=4e-3)
    assert torch.allclose(maps[:, 1], -maps[:, 0], atol=1e-6), "all labels share the drawn rows"


def test_a_category_counts_by_whether_it_is_the_same(lime: ModuleType) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"city": ["Ulm", "Bonn"] * 50, "age": np.arange(100.0)})
    net = pm.Classifier(lambda table: np.where(table["city"] == "Ulm", 0.8, 0.3), data=frame)
    maps = make_method("lime-tabular:samples=300")(net, net.inputs.encode(frame[:2]), torch.tensor([[1]] * 2))
    assert maps[:, 0, 0].tolist() == pytest.approx([0.5, -0.5], abs=0.02)
    assert maps[:, 0, 1].abs().max() < 0.02


def test_refusals(lime: ModuleType) -> None:
    labels = torch.zeros(1, 1, dtype=torch.long)
    with pytest.raises(
        InputError, match=r"up to 4096 columns, and the net takes images of 12288 values; use captum:Lime"
    ):
        make_method("lime-tabular")(linear_classifier(size=64), torch.rand(1, 3, 64, 64), labels)
    holes = np.where(np.eye(60, 3) > 0, np.nan, DATA[:60])
    net = pm.Classifier(lambda table: np.full(len(table), 0.5), data=holes)
    with pytest.raises(InputError, match="takes no missing values"):
        make_method("lime-tabular")(net, net.inputs.encode(holes[:1]), labels)
