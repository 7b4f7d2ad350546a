"""SHAP's and LIME's explainers as methods: against formulas, the packages themselves, and their refusals."""

from __future__ import annotations

import math
import sys
from itertools import permutations
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor

import proofmap as pm
from proofmap.core.errors import InputError, MissingExtra
from proofmap.methods import make_method
from tests.methods.test_belief_order import table
from tests.toys import linear_classifier

pytestmark = pytest.mark.usefixtures("shap")


def shapley(f: pm.Classifier, row: Tensor, label: int) -> list[float]:
    """Shapley values by their definition: means over all orders, hidden columns show the mean row."""
    columns = len(row)
    phi = [0.0] * columns
    for order in permutations(range(columns)):
        shown = f.blank(1)[0]
        before = float(f.probabilities(shown[None])[0, label])
        for column in order:
            shown[column] = row[column]
            after = float(f.probabilities(shown[None])[0, label])
            phi[column] += (after - before) / math.factorial(columns)
            before = after
    return phi


@pytest.mark.parametrize(
    "explainer",
    [
        "KernelExplainer",
        pytest.param("PermutationExplainer(max_evals=2000)", marks=pytest.mark.slow),  # compiled for a minute
    ],
)
def test_values_of_all_labels_are_those_of_shapley_s_formula(explainer: str) -> None:
    f, x = table(4)
    maps = make_method(f"shap:{explainer}")(f, x[:1], torch.tensor([[0, 2]]))
    for k, label in enumerate((0, 2)):
        expected = shapley(f, x[0], label)
        assert maps[0, k].tolist() == pytest.approx(expected, abs=0.02 if "Perm" in explainer else 1e-4)


@pytest.mark.slow  # compiled for a minute
def test_permutations_follow_the_seed_and_not_the_machine() -> None:
    f, x = table(6)
    method = make_method("shap:PermutationExplainer(max_evals=13)")
    labels = torch.tensor([[0, 2], [0, 2]])
    maps = method(f, x[:2], labels)
    assert torch.equal(method(f, x[:2], labels), maps)
    assert torch.equal(method(f, x[1:2], labels[1:]), maps[1:])


def forest() -> tuple[pm.Classifier, object, np.ndarray]:
    from sklearn.ensemble import RandomForestClassifier

    x = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32).astype(np.float64)
    model = RandomForestClassifier(5, random_state=0).fit(x, (x[:, 0] > 0) + (x[:, 1] > 0.5))
    return pm.Classifier(model, data=x), model, x


def test_tree_explainer_gives_what_the_package_gives_for_every_label(shap: ModuleType) -> None:
    net, model, x = forest()
    maps = make_method("shap:TreeExplainer")(net, torch.tensor(x[:3], dtype=torch.float32), "all")
    labels = net.choose_labels(torch.tensor(x[:3], dtype=torch.float32), "all")
    expected = shap.TreeExplainer(model)(x[:3]).values
    for i in range(3):
        for j, label in enumerate(labels[i].tolist()):
            assert np.allclose(maps[i, j].numpy(), expected[i, :, label], atol=1e-6)


def test_of_boosted_trees_the_two_labels_have_opposite_values() -> None:
    from sklearn.ensemble import HistGradientBoostingClassifier

    x = np.random.default_rng(0).normal(size=(80, 3))
    net = pm.Classifier(HistGradientBoostingClassifier(max_iter=3).fit(x, x[:, 0] > 0), data=x)
    maps = make_method("shap:TreeExplainer")(
        net, torch.tensor(x[:2], dtype=torch.float32), torch.tensor([[0, 1]] * 2)
    )
    assert torch.equal(maps[:, 0], -maps[:, 1]) and bool((maps != 0).any())


@pytest.mark.parametrize(
    "spec, told",
    [
        ("shap:KernelExplainr", r"shap:KernelExplainr is not known.*Did you mean 'KernelExplainer'"),
        ("shap", "shap needs a class of the library, such as shap:KernelExplainer"),
        ("shap:TreeExplainer", r"needs a model of trees itself.*use shap:KernelExplainer"),
    ],
)
def test_what_shap_refuses(spec: str, told: str) -> None:
    f, x = table(4)
    with pytest.raises(InputError, match=told):
        make_method(spec)(f, x, torch.zeros(len(x), 1, dtype=torch.long))


def test_without_the_package_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shap", None)
    f, x = table(4)
    with pytest.raises(MissingExtra, match=r"pip install 'proofmap\[shap\]'"):
        pm.explain(f, x[:1], labels="all", method="shap:PermutationExplainer")


def test_what_is_no_explainer_is_answered_with_what_to_write() -> None:
    import shap

    _, _, x = forest()
    with pytest.raises(InputError, match=r"Independent, is no method; give an explainer, or values in maps="):
        make_method(shap.maskers.Independent(x))


# ---- LIME ----------------------------------------------------------------------------------------------------


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


def test_what_lime_refuses(lime: ModuleType) -> None:
    labels = torch.zeros(1, 1, dtype=torch.long)
    with pytest.raises(
        InputError, match=r"up to 4096 columns, and the net takes images of 12288 values; use captum:Lime"
    ):
        make_method("lime-tabular")(linear_classifier(size=64), torch.rand(1, 3, 64, 64), labels)
    holes = np.where(np.eye(60, 3) > 0, np.nan, DATA[:60])
    net = pm.Classifier(lambda table: np.full(len(table), 0.5), data=holes)
    with pytest.raises(InputError, match="takes no missing values"):
        make_method("lime-tabular")(net, net.inputs.encode(holes[:1]), labels)
