"""Models that predict a number: the ranges that are their labels, and the probabilities of these."""

from __future__ import annotations

import copy
from math import erf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import proofmap as pm
from proofmap.classifier.ranges import Ranges
from proofmap.core.errors import ModelError
from tests.command import run
from tests.toys import conv_net, normal, pixels

W = np.array([3.0, -2.0, 0.5, 1.0])
ROWS = normal(60, 4).numpy().astype(np.float64)
LIMITS, ERROR = (-2.0, 1.0), 1.5


class Linear:
    """What scikit-learn's regressors promise."""

    def predict(self, rows: Any) -> Any:
        return np.asarray(rows) @ W


def below(limit: float, p: float) -> float:
    return (1 + erf((limit - p) / ERROR / sqrt(2))) / 2


def by_formula(p: float) -> list[float]:
    low, high = (below(limit, p) for limit in LIMITS)
    return [low, high - low, 1 - high]


def test_f_is_the_probability_of_a_range() -> None:
    net = pm.Classifier(Linear(), data=ROWS, ranges=LIMITS, error=ERROR)
    assert net.names == ("< -2", "-2 to 1", ">= 1") and not net.differentiable and net.name == "Linear"
    expected = np.array([by_formula(p) for p in ROWS @ W])
    for f in (net, copy.deepcopy(net), net.with_net(net.net), net.restricted([0, 1, 2])):
        found = f.probabilities(net.inputs.encode(ROWS))
        assert np.allclose(found.numpy(), expected, atol=1e-5)
        assert f.settings()["ranges"] == list(LIMITS) and f.settings()["error"] == ERROR
    other = pm.Classifier(Linear(), data=ROWS, ranges=LIMITS, error=2 * ERROR)
    assert other.fingerprint() != net.fingerprint()


def test_scores_are_those_of_a_plain_loop() -> None:
    net = pm.Classifier(Linear(), data=ROWS, ranges=LIMITS, error=ERROR)
    x, maps = ROWS[:5], normal(5, 3, 4, seed=1).numpy()
    study = pm.evaluate(net, x, maps={"mine": maps}, labels="all", metrics=["completeness", "soundness"])
    labels, mean = study.labels.tolist(), net.gray.numpy()
    sound, complete = [], []
    for row, own, order in zip(x, labels, (-maps).argsort(axis=2, kind="stable"), strict=True):
        for label in own:
            shown, curve = np.array(mean, dtype=np.float64), []
            for place in order[label]:
                shown[place] = row[place]
                curve.append(by_formula(float(shown @ W))[label])
            auc, f = np.mean(curve), by_formula(float(row @ W))[label]
            sound.append(min(max(f, 0.001) / auc, 1))
            complete.append(min(max(auc, 0.01) / f, 1))
    worst = np.array(sound).reshape(5, 3).min(axis=1).mean()
    least = np.array(complete).reshape(5, 3).min(axis=1).mean()
    assert float(study["mine"]["soundness"]) == pytest.approx(worst, abs=1e-4)
    assert float(study["mine"]["completeness"]) == pytest.approx(least, abs=1e-4)


@pytest.mark.parametrize("p", [-300.0, -40.0, 0.0, 0.49, 60.0, 1e6])
def test_log_f_and_its_gradient_are_exact_far_away(p: float) -> None:
    norm = pytest.importorskip("scipy.stats").norm
    given = torch.tensor([p], dtype=torch.float64, requires_grad=True)
    found = Ranges([0.0, 1.0, 4.0], 0.7)(given)[0]
    z = (np.array([0.0, 1.0, 4.0]) - p) / 0.7
    low, high = (z[:-1], z[1:]) if p > 1 else (-z[1:], -z[:-1])
    middle = norm.logcdf(high) + np.log(-np.expm1(norm.logcdf(low) - norm.logcdf(high)))
    assert np.allclose(
        found.detach().numpy(), [norm.logcdf(z[0]), *middle, norm.logsf(z[-1])], rtol=1e-6, atol=1e-9
    )
    (slope,) = torch.autograd.grad(found[-1], given)
    assert float(slope) == pytest.approx(np.exp(norm.logpdf(z[-1]) - norm.logsf(z[-1])) / 0.7, rel=1e-6)
    low_precision = Ranges([0.0, 1.0, 4.0], 0.7)(torch.tensor([p]))
    assert torch.allclose(low_precision.double(), found.detach(), rtol=1e-3, atol=1e-4)


def test_ranges_are_thirds_of_the_predictions_and_the_error_is_measured() -> None:
    truth = ROWS @ W + normal(60, seed=3).numpy()
    net = pm.Classifier(Linear(), data=ROWS, truth=truth)
    assert len(net.names) == 3 and net.settings()["error"] == pytest.approx(
        sqrt(np.square(truth - ROWS @ W).mean())
    )
    places = np.searchsorted(net.settings()["ranges"], ROWS @ W, side="right")
    assert np.bincount(places).tolist() == [19, 21, 20]  # the limits are rounded
    assert len(pm.Classifier(Linear(), data=ROWS, ranges=5, truth=truth).names) == 5
    price = pm.Classifier(lambda rows: 1e5 * np.asarray(rows) @ W, data=ROWS, at_least=300_000, error=2e4)
    assert price.names == ("< 300 000", ">= 300 000")
    named = pm.Classifier(Linear(), data=ROWS, at_least=0, error=1, names=["loss", "gain"])
    assert named.names == ("loss", "gain")


def test_true_numbers_are_in_ranges() -> None:
    net = pm.Classifier(Linear(), data=ROWS, ranges=LIMITS, error=ERROR)
    found = pm.evaluate(net, ROWS[:3], methods="random", labels="true", truth=np.array([-7.5, -2.0, 1.5]))
    assert found.labels.tolist() == [[0], [1], [2]]
    with pytest.raises(pm.InputError, match=r"label -7 is out of range.* write it as a float, -7\.0"):
        pm.evaluate(net, ROWS[:3], methods="random", labels="true", truth=[-7, -2, 1])


@pytest.mark.parametrize("width", [(60,), (60, 1)])
def test_a_torch_net_has_gradients(width: tuple[int, ...]) -> None:
    layer = nn.Linear(4, 1)
    layer.weight.data, layer.bias.data = torch.tensor(W[None]).float(), torch.zeros(1)
    module = nn.Sequential(layer, *([nn.Flatten(0)] if len(width) == 1 else [])).train()
    net = pm.Classifier(module, data=ROWS, ranges=LIMITS, error=ERROR)
    assert np.allclose(
        net.frozen().probabilities(net.inputs.encode(ROWS)).numpy(),
        [by_formula(p) for p in ROWS @ W],
        atol=1e-5,
    )
    assert module.training and net.differentiable
    proof = pm.explain(net, ROWS[:4], labels="all", method="gradient")
    assert proof.maps.flatten(0, 1).argmax(dim=1).eq(0).all()  # the largest weight
    measured = pm.Classifier(module, data=ROWS, truth=ROWS @ W + 1)
    assert measured.settings()["error"] == pytest.approx(1, abs=1e-5)
    layer.weight.data *= 0  # trained further
    layer.weight.data.copy_(torch.zeros(1, 4))
    with torch.no_grad():
        layer.weight.add_(0)
    assert np.allclose(net.probabilities(net.inputs.encode(ROWS))[0].numpy(), by_formula(0), atol=1e-5)


def test_pictures_and_series_too() -> None:
    x = pixels(6, 8)
    age = pm.Classifier(conv_net(1), size=8, data=x, ranges=2, error=0.1)
    assert len(age.names) == 2 and pm.explain(age, x[:2], labels="all", method="gradient").labels.shape == (
        2,
        2,
    )

    def forecast(series: Tensor) -> Tensor:  # the next value of a series, by its last two
        return 2 * series[:, 0, -1] - series[:, 0, -2]

    inputs = pm.Series(length=5, mean=(0.0,), std=(1.0,))
    net = pm.Classifier(forecast, inputs=inputs, at_least=1.0, error=0.5)
    series = normal(3, 1, 5)
    assert torch.allclose(
        net.probabilities(series)[:, 1], torch.special.ndtr((forecast(series) - 1) / 0.5), atol=1e-5
    )
    best = pm.explain(net, series, labels=[1], method="gradient-x-input:").maps[:, 0].abs() > 0
    assert net.differentiable and best[:, -2:].all() and not best[:, :-2].any()


def test_shaps_trees_read_the_number_and_labels_take_its_direction() -> None:
    trees, shap = pytest.importorskip("sklearn.ensemble"), pytest.importorskip("shap")
    forest = trees.RandomForestRegressor(10, random_state=0).fit(ROWS, ROWS @ W)
    net = pm.Classifier(forest, data=ROWS, ranges=LIMITS, error=ERROR)
    found = pm.explain(net, ROWS[:9], labels=[0, 1, 2], method="shap:TreeExplainer").maps.numpy()
    values = shap.TreeExplainer(forest).shap_values(ROWS[:9])
    up = np.where(forest.predict(ROWS[:9]) < -0.5, 1, -1)
    assert np.allclose(found[:, 2], values, atol=1e-4) and np.allclose(found[:, 0], -values, atol=1e-4)
    assert np.allclose(found[:, 1], up[:, None] * values, atol=1e-4) and len(set(up)) == 2


def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pd, joblib = pytest.importorskip("pandas"), pytest.importorskip("joblib")
    frame = pd.DataFrame(ROWS, columns=list("abcd"))
    sklearn = pytest.importorskip("sklearn.linear_model")
    joblib.dump(sklearn.LinearRegression().fit(frame, ROWS @ W), tmp_path / "m.joblib")
    frame.assign(price=ROWS @ W + normal(60, seed=3).numpy()).to_csv(tmp_path / "p.csv", index=False)
    monkeypatch.chdir(tmp_path)
    own = (
        "--data",
        "p.csv",
        "--target",
        "price",
        "--methods",
        "random",
        "--no-pictures",
        "-q",
        "--rows",
        "0-4",
    )
    for options in (
        "data=p.csv&target=price",
        "ranges=-2:1&error=1.5",
        "at_least=0&error=1",
        "ranges=4&error=1",
    ):
        model = f"sklearn:m.joblib?pickle=true&{options}"
        words = ("evaluate", *own[:-2], "--model", model, "--labels", "true", "--out", options[-9:])
        assert run(monkeypatch, *words) == 0, capsys.readouterr().err
    assert pm.load_classifier("sklearn:m.joblib?pickle=true&data=p.csv&target=price&at_least=1").names == (
        "< 1",
        ">= 1",
    )
    for options, message in (
        ("ranges=a:b&error=1", "ranges, at_least and error are numbers"),
        ("at_least=1", "give error="),
    ):
        assert (
            run(monkeypatch, "evaluate", *own[:-2], "--model", f"sklearn:m.joblib?pickle=true&{options}") == 2
        )
        assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "given, message",
    [
        ({}, r"Linear predicts a number, so its labels are ranges.*data=frame, truth=y"),
        ({"error": 1, "truth": ROWS @ W}, "the true numbers of the rows of data, not both"),
        ({"error": 0, "at_least": 1}, "error of a prediction must be a number above 0"),
        ({"error": 1, "at_least": 1, "ranges": 2}, "give ranges= or at_least=, not both"),
        ({"error": 1, "ranges": 300_000}, r"ranges=300000: give 2 to 20 ranges .*\[300000\]"),
        ({"error": 1, "ranges": [2, 1]}, r"ascending numbers, the limits between labels, not \[2, 1\]"),
        ({"error": 1, "ranges": [1, float("nan")]}, "ascending numbers"),
        ({"truth": ROWS[:9, 0]}, "truth has 9 numbers for 60 rows of data"),
        ({"truth": ROWS @ W}, "predicts truth exactly; give rows that it was not fitted on"),
        ({"truth": ["a"] * 60}, "truth must be numbers"),
        ({"truth": np.full(60, np.nan)}, "or missing values"),
        ({"error": 1, "outputs": "logits"}, "outputs='logits' is for nets of labels"),
    ],
)
def test_what_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(pm.InputError, match=message):
        pm.Classifier(Linear(), data=ROWS, **given)


def test_models_that_do_not_predict_one_number_are_refused() -> None:
    with pytest.raises(ModelError, match=r"returned \(2, 3\) for 2 inputs; with ranges of a number"):
        pm.Classifier(conv_net(3), size=8, at_least=1, error=1)
    with pytest.raises(pm.InputError, match="many predictions are equal; give other limits"):
        pm.Classifier(lambda rows: np.ones(len(rows)), data=ROWS, error=1, ranges=3)
    with pytest.raises(pm.InputError, match="needs data=, rows like those"):
        pm.Classifier(Linear(), at_least=1, error=1)
    with pytest.raises(pm.InputError, match=r"predicts a number; give data=, a sample of its inputs"):
        pm.Classifier(conv_net(1), size=8, error=1, ranges=3)
    with pytest.raises(pm.InputError, match=r"Linear predicts a number.*truth=y"):
        pm.explain(Linear(), ROWS)
    with pytest.warns(
        UserWarning, match=r"If the one output is a number, such as a price, write pm\.Classifier"
    ):
        pm.explain(conv_net(1), normal(2, 3, 8, 8), labels="all", method="gradient")
