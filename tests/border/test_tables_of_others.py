"""Values of a table's columns from other jobs and libraries: names of columns and classes, one-hot columns, EBMs, SHAP's explainers."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import proofmap as pm
from proofmap.methods.given import GivenMaps
from tests.command import run
from tests.lazily import Lazily
from tests.toys import normal

pd = Lazily("pandas")


@pytest.fixture(scope="module")
def shap() -> ModuleType:
    return pytest.importorskip("shap")


@pytest.fixture(scope="module")
def people() -> Any:
    drawn = np.random.default_rng(0)
    age = drawn.normal(50, 10, 60).astype(np.float32).astype(float)
    city = drawn.choice(["Ulm", "Bonn", "Kiel"], 60)
    return pd.DataFrame({"age": age, "city": city, "income": drawn.integers(1, 9, 60)})


@pytest.fixture(scope="module")
def pipeline(people: Any) -> Any:
    pytest.importorskip("sklearn")
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    left = np.where(people["age"] > 50, "stays", np.where(people["city"] == "Ulm", "leaves", "asks"))
    steps = [("num", StandardScaler(), ["age", "income"]), ("cat", OneHotEncoder(), ["city"])]
    return make_pipeline(ColumnTransformer(steps), RandomForestClassifier(5, random_state=0)).fit(
        people, left
    )


def maps_of(net: Any, rows: Any, maps: Any, **how: Any) -> torch.Tensor:
    found = pm.evaluate(net, rows, maps={"mine": maps}, **{"labels": "all", "metrics": "soundness", **how})
    return found.results[0].maps


def test_values_of_a_pipeline_of_trees_are_summed_into_the_columns(
    shap: ModuleType, people: Any, pipeline: Any, tmp_path: Path
) -> None:
    net, rows = pm.Classifier(pipeline, data=people), people[:6]
    own = pm.explain(net, rows, labels=[0, 1, 2], method="shap:TreeExplainer").maps
    values = shap.TreeExplainer(pipeline[-1])(pipeline[:-1].transform(rows)).values  # (N, 5, L)
    by_hand = np.stack([values[:, 0], values[:, 2:].sum(axis=1), values[:, 1]], axis=2)
    np.testing.assert_allclose(own.numpy(), by_hand, atol=1e-6)
    names, turned = pipeline[:-1].get_feature_names_out().astype(str), [2, 0, 1]
    file = tmp_path / "values.npz"
    np.savez(file, values=values[:, :, turned], columns=names, classes=pipeline.classes_[turned].astype(str))
    (given,) = GivenMaps.in_files(f"tree-shap={file}")
    assert given.title() == "tree-shap" and torch.equal(
        maps_of(net, rows, given.load(), labels=[0, 1, 2]), own
    )
    explained = shap.Explanation(values, feature_names=list(names), output_names=list(pipeline.classes_))
    assert torch.equal(maps_of(net, rows, explained, labels=[0, 1, 2]), own)
    frame = pd.DataFrame(values[:, :, 1], columns=names)
    assert torch.equal(maps_of(net, rows, frame, labels=np.ones(6, dtype=int)), own[:, [1]])


def test_the_command_line_checks_the_names(
    people: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    people[:6].to_csv("rows.csv", index=False)
    (tmp_path / "nets.py").write_text(
        "def risky(frame):\n    return [[0.2, 0.8] if a > 50 else [0.6, 0.4] for a in frame['age']]\n"
    )
    words = (
        "--data",
        "rows.csv",
        "--model",
        "nets.py:risky?data=rows.csv",
        "--labels",
        "all",
        "--no-pictures",
        "-q",
    )
    values, names = normal(6, 3, 2).numpy(), ["income", "age", "city"]
    for wrong, said in (
        (
            {"columns": ["income", "age", "town"]},
            "have the column 'town', which comes from no column of the model",
        ),
        ({"columns": ["age", "age_low", "income"]}, "have no values of the column 'city'"),
        ({"columns": ["age", "city"]}, "have the shape (6, 3, 2), but 2 columns are named"),
        (
            {"columns": names, "classes": ["yes", "no"]},
            "have the classes yes, no, but the labels of the model are 0, 1",
        ),
    ):
        np.savez("values.npz", values=values, **wrong)
        if len(wrong["columns"]) == 2:
            np.savez("values.npz", values=values[:, :, :1], **wrong)
            said = said.replace("(6, 3, 2)", "(6, 3, 1)")
        assert run(monkeypatch, "evaluate", *words, "--maps", "tree-shap=values.npz", "--out", "wrong") == 2
        assert said in " ".join(capsys.readouterr().err.split())
    np.savez("values.npz", values=values, columns=names, classes=["1", "0"], base_values=np.zeros((6, 2)))
    assert run(monkeypatch, "evaluate", *words, "--maps", "tree-shap=values.npz", "--out", "right") == 0
    with pm.Run("right") as opened:
        found = opened.evaluation()["tree-shap"]
    assert "columns in the model's order; classes in the model's order" in str(found.settings)


def test_local_scores_of_an_ebm(people: Any) -> None:
    def risky(frame: Any) -> Any:
        high = 1 / (1 + np.exp(-(frame["age"].to_numpy() - 50) / 5))
        return np.stack([1 - high, high], axis=1)

    net, rows = pm.Classifier(risky, data=people), people[:5]
    scores = normal(5, 4).numpy()
    names = ["age", "city", "income", "age & city"]
    given = [{"names": names, "scores": list(row), "type": "univariate"} for row in scores]
    by_hand = np.stack(
        [scores[:, 0] + scores[:, 3] / 2, scores[:, 1] + scores[:, 3] / 2, scores[:, 2]], axis=1
    )
    found = maps_of(net, rows, given, labels=[0, 1])
    np.testing.assert_allclose(found.numpy(), np.stack([-by_hand, by_hand], axis=1), atol=1e-6)

    class Explained:
        def data(self, k: int) -> Any:
            return given[k]

    assert torch.equal(maps_of(net, rows, Explained(), labels=[0, 1]), found)
    with pytest.raises(pm.InputError, match="not the local scores of an EBM, which have names and scores"):
        maps_of(net, rows, [{"names": names}] * 5)


def test_explainers_of_shap_are_methods(shap: ModuleType, people: Any) -> None:
    pytest.importorskip("sklearn")
    from sklearn.ensemble import RandomForestClassifier

    rows = people[["age", "income"]]
    forest = RandomForestClassifier(5, random_state=0).fit(
        rows, (rows["age"] > 50).astype(int) + (rows["income"] > 4)
    )
    net = pm.Classifier(forest, data=rows)
    methods = [
        shap.TreeExplainer(forest),
        shap.KernelExplainer(forest.predict_proba, rows[:5]),
        "shap:TreeExplainer",
    ]
    tree, kernel, named = pm.evaluate(
        net, rows[:3], methods=methods, labels="all", metrics="soundness"
    ).results
    assert (tree.name, kernel.name) == ("TreeExplainer", "KernelExplainer")
    assert torch.equal(tree.maps, named.maps)
    assert torch.allclose(kernel.maps.sum(dim=1), torch.zeros(3, 2), atol=1e-4) and bool(kernel.maps.any())
    alone = pm.evaluate(net, rows[2:3], methods=[methods[1]], labels="all", metrics="soundness").results[0]
    assert torch.equal(alone.maps[0], kernel.maps[2])


@pytest.mark.filterwarnings("ignore:.*as the net takes them", "ignore::DeprecationWarning:shap")
def test_explainers_of_a_torch_net(shap: ModuleType) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(36, 4)).train()
    x = normal(5, 3, 8, 8)
    explainer, other = shap.DeepExplainer(net, x), shap.GradientExplainer(net, x)
    net.train()
    found = pm.evaluate(net, x[:2], methods=[explainer, other], labels="top2")
    assert net.training and not any(m._forward_hooks for m in net.modules())
    net.eval()
    values = torch.from_numpy(explainer.shap_values(x[:2], check_additivity=False)).sum(dim=1)  # (N, H, W, L)
    by_hand = torch.stack([values[k][..., found.labels[k]].movedim(-1, 0) for k in range(2)])
    torch.testing.assert_close(found["DeepExplainer"].maps, by_hand.float(), atol=1e-5, rtol=1e-4)
