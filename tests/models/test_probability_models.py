"""Models that are no torch nets as classifiers: their probabilities, their names, what they refuse, and how they are loaded."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import proofmap as pm
from proofmap.classifier.onnx_model import OnnxModel
from proofmap.core.errors import InputError, ModelError
from proofmap.core.inputs import Rows
from tests.command import run
from tests.lazily import Lazily

pd = Lazily("pandas")
RANDOM = np.random.default_rng(0)


def frame(n: int = 40) -> Any:
    """Rows with numbers, a category, a boolean and missing values."""
    age, income = RANDOM.integers(20, 70, n), RANDOM.normal(30, 10, n)
    income[::7] = np.nan
    city = pd.Series(RANDOM.choice(["Bonn", "Ulm", "Kiel"], n), dtype="category")
    return pd.DataFrame({"age": age, "income": income, "city": city, "member": RANDOM.random(n) < 0.5})


def by_formula(table: Any) -> NDArray[np.float64]:
    """Probabilities of two labels, from the columns of a data frame as they were given."""
    score = 0.05 * (table["age"] - 45) + 0.03 * (table["income"].fillna(30) - 30)
    score = (
        score
        + table["city"].map({"Bonn": -0.5, "Ulm": 0.0, "Kiel": 1.0}).astype(float)
        + 0.8 * table["member"]
    )
    yes = 1 / (1 + np.exp(-score.to_numpy(dtype=np.float64)))
    return np.stack([1 - yes, yes], axis=1)


class Model:
    """What scikit-learn's classifiers promise."""

    classes_ = np.array(["stays", "leaves"])

    def __init__(self, change: Any = None) -> None:
        self.change = change

    def predict_proba(self, table: Any) -> Any:
        found = by_formula(table)
        return found if self.change is None else self.change(found)


def test_a_model_gets_the_data_frame_that_it_knows_and_names_its_labels() -> None:
    data = frame()
    net = pm.Classifier(Model(), data=data)
    assert net.names == ("stays", "leaves") and net.outputs == "probabilities" and not net.differentiable
    rows = net.inputs.encode(data)
    assert np.allclose(net.probabilities(torch.as_tensor(rows)).numpy(), by_formula(data), atol=1e-5)


def test_a_function_of_a_data_frame_may_give_the_second_label_alone() -> None:
    data = frame()

    def leaves(table: Any) -> Any:
        return by_formula(table)[:, 1]

    net = pm.Classifier(leaves, data=data, outputs="probability", names=["stays", "leaves"])
    rows = torch.as_tensor(net.inputs.encode(data))
    for f in (net, net.with_net(net.net), copy.deepcopy(net)):
        assert f.outputs == "probabilities"
        assert np.allclose(f.probabilities(rows).numpy(), by_formula(data), atol=1e-5)


def price(table: Any) -> Any:
    """Prices of a regressor, divided by the highest price, passed as the probability of a label."""
    return by_formula(table)[:, 1]


def shared(p: NDArray[np.float64]) -> NDArray[np.float64]:
    share = 0.1 + 0.8 * p[:, 1] / p[:, 1].sum()
    return np.stack([1 - share, share], axis=1)


def inputs() -> Rows:
    return pm.Classifier(Model(), data=frame()).inputs  # type: ignore[return-value]


UNDECLARED = r"returned one number for each row. Pass outputs='probability' if .*its labels are ranges"
ALL_EQUAL = r"every map would score 1\. Give more rows"


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: pm.Classifier(price, data=frame()), f"price {UNDECLARED}"),
        (lambda: pm.Classifier(lambda table: price(table).reshape(-1, 1), data=frame()), UNDECLARED),
        (
            lambda: pm.Classifier(torch.nn.Linear(4, 1), inputs=inputs(), outputs="probability"),
            r"is for a function of tables or texts.*'sigmoid-probabilities' if it ends in a sigmoid",
        ),
        (
            lambda: pm.Classifier(Model(lambda p: p * 1.5), data=frame()),
            r"Model returned for row 0 of a batch sum to 1\.5",
        ),
        (  # as a multi-label model of scikit-learn
            lambda: pm.Classifier(Model(lambda p: p / 2), data=frame()),
            "outputs='sigmoid-probabilities' if each label is right or not",
        ),
        (lambda: pm.Classifier(Model(shared), data=frame()), "depends on the other rows of its batch"),
        (lambda: pm.Classifier(Model()), r"Model needs data=.*pm\.Classifier\(model, data=frame\)"),
        (
            lambda: pm.Classifier(3, size=4),
            "a torch module, a function, a model with predict_proba, or a regressor, not int",
        ),
        (
            lambda: pm.Classifier(Model(), data=frame(), inputs=inputs()),
            r"data= .* or inputs=, not both",
        ),
        (
            lambda: pm.Classifier(Model(lambda p: [p, p]), data=frame()),
            r"returned an array of shape \(2, 2, 2\) for 2 rows",
        ),
        (
            lambda: pm.Classifier(Model(lambda p: p[:1]), data=frame()),
            r"returned an array of shape \(1, 2\) for 2 rows",
        ),
        # hidden columns would show the row itself
        (lambda: pm.Classifier(Model(), data=frame()[1:2]), ALL_EQUAL),
        (lambda: pm.Classifier(Model(), data=pd.concat([frame()[1:2]] * 3)), ALL_EQUAL),
    ],
)
def test_a_model_that_gives_no_probabilities_of_rows_is_refused(make: Any, message: str) -> None:
    with pytest.raises((InputError, ModelError), match=message):
        make()


def test_it_is_explained_and_judged_by_the_default_method_without_gradients() -> None:
    data = frame()
    net = pm.Classifier(Model(), data=data)
    proof = pm.explain(net, data.iloc[:2], labels="all")
    assert list(proof.methods) == ["belief-order"]
    assert proof.maps.shape == (2, 2, 4)
    found = pm.evaluate(net, data.iloc[:3], methods=["belief-order", "random"], labels="all")
    assert "belief-order" in str(found) and "the model's own probabilities" in str(found)


def test_a_function_of_tensors_has_gradients_if_it_lets_them_through() -> None:
    inputs = pm.Classifier(Model(), data=frame()).inputs
    through = pm.Classifier(lambda x: torch.stack([x.sum(1), -x.sum(1)], 1), inputs=inputs)
    blocked = pm.Classifier(lambda x: torch.stack([x.sum(1), -x.sum(1)], 1).detach(), inputs=inputs)
    assert through.differentiable and not blocked.differentiable


def test_a_function_of_photos_may_call_numpy() -> None:
    """``x.numpy()`` fails on a tensor that requires a gradient, as Proofmap gives it to find out whether there is one."""

    def by_numpy(x: torch.Tensor) -> NDArray[np.float32]:
        share = x.numpy().mean(axis=(1, 2, 3))
        return np.stack([1 - share, share], axis=1)

    x = torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    for function in (by_numpy, lambda x: torch.from_numpy(by_numpy(x))):
        net = pm.Classifier(function, size=4, mean=(0.0,) * 3, std=(1.0,) * 3, outputs="probabilities")
        found = pm.evaluate(net, x, methods=["occlusion"], labels=[1])
        assert not net.differentiable
        torch.testing.assert_close(found.f[:, 0], x.mean(dim=(1, 2, 3)))


def test_probabilities_that_do_not_sum_to_one_are_refused_in_any_batch() -> None:
    data = frame()

    def late(p: Any) -> Any:
        return p if len(p) < 5 else p * np.linspace(1, 1.1, len(p))[:, None]

    net = pm.Classifier(Model(late), data=data)
    with pytest.raises(ModelError, match=r"sum to 1\.\d+.*must be at least 0 and sum to 1"):
        net.probabilities(torch.as_tensor(net.inputs.encode(data)))


def test_a_model_that_cannot_take_missing_values_says_so_with_the_column() -> None:
    class Strict(Model):
        def predict_proba(self, table: Any) -> Any:
            if table["income"].isna().any():
                raise ValueError("Input X contains NaN.")
            return super().predict_proba(table)

    data = frame()
    net = pm.Classifier(Strict(), data=data)
    with pytest.raises(
        ModelError, match=r"Strict fails on 40 rows: .*Input X contains NaN.*column 'income'.*imputer"
    ):
        net.probabilities(torch.as_tensor(net.inputs.encode(data)))


def test_a_note_says_that_a_model_ignores_its_input() -> None:
    note = "whatever is shown, f changes by less than 0.01: every map, noise too, is complete and sound"
    for share, expected in ((0.0, True), (1.0, False)):
        net = pm.Classifier(Model(lambda p, share=share: 0.5 + share * (p - 0.5)), data=frame())
        found = pm.evaluate(net, frame()[1:4], methods=["random"], labels="all")
        assert (note in str(found)) == expected
        assert expected == bool((found["random"].values["soundness"] == 1).all())


def test_a_column_that_the_model_was_not_fitted_on_is_refused() -> None:
    """A pipeline that picks its columns by name takes it without a word, and it would be a position."""
    fitted = Model()
    fitted.feature_names_in_ = np.array(["age", "income", "city", "member"])
    assert pm.Classifier(fitted, data=frame()[["city", "age", "income", "member"]]).inputs.count == 4
    with pytest.raises(
        InputError, match=r"the column 'id', which the model was not fitted on\. Leave it out: frame"
    ):
        pm.Classifier(fitted, data=frame().assign(id="x"))


def test_a_model_that_needs_more_digits_than_float32_has_is_refused() -> None:
    """In float32, seconds since 1970 are known to 128 s."""
    seconds = 1_795_000_000.25 + 10 * np.arange(40)
    rows = pd.DataFrame({"age": np.arange(40), "seconds": seconds})

    def recent(table: Any) -> Any:
        table["late"] = table["seconds"] > 1_795_000_200  # a model may write into the frame that it is given
        return np.where(table["late"], 0.9, 0.1)

    with pytest.raises(
        ModelError, match=r"changes by up to 0\.8 if they are rounded.*'seconds': subtract a constant"
    ):
        pm.Classifier(recent, data=rows)
    assert list(rows) == ["age", "seconds"]
    rows["seconds"] -= 1_795_000_000
    pm.Classifier(lambda table: np.where(table["seconds"] > 200, 0.9, 0.1), data=rows, outputs="probability")
    thirds = pd.DataFrame(
        {"a": np.arange(1, 41) / 3}
    )  # logits of millions change by more than .01, f does not
    pm.Classifier(lambda table: 1e6 * table["a"].to_numpy()[:, None] * [-1, 1], data=thirds, outputs="logits")


def test_a_model_that_was_fitted_again_is_another_net(tmp_path: Path) -> None:
    import joblib
    from sklearn.ensemble import RandomForestClassifier

    x = np.random.default_rng(0).normal(size=(60, 3))
    first, second = (RandomForestClassifier(12, random_state=k).fit(x, x[:, 0] > 0) for k in (0, 1))
    joblib.dump(first, tmp_path / "model.joblib")
    one, other, loaded = (
        pm.Classifier(model, data=x) for model in (first, second, joblib.load(tmp_path / "model.joblib"))
    )
    assert one.settings() == other.settings()
    assert one.fingerprint() == loaded.fingerprint() != other.fingerprint()


# ---- files ------------------------------------------------------------------------------------------------------


def test_a_pickle_is_loaded_only_with_the_flag(tmp_path: Path) -> None:
    import joblib
    from sklearn.linear_model import LogisticRegression

    x = pd.DataFrame(RANDOM.normal(size=(40, 2)), columns=["a", "b"])
    model = LogisticRegression().fit(x, x["a"] > 0)
    file, table = tmp_path / "model.joblib", tmp_path / "rows.csv"
    joblib.dump(model, file)
    x.assign(target=0).to_csv(table, index=False)
    with pytest.raises(InputError, match=r"is a pickle, and loading a pickle runs any code.*pickle=true"):
        pm.load_classifier(f"sklearn:{file}?data={table}")
    net = pm.load_classifier(f"sklearn:{file}?data={table}&target=target&pickle=true")
    assert net.name == "sklearn:model.joblib"
    rows = torch.tensor(x.to_numpy(), dtype=torch.float32)
    assert np.allclose(net.probabilities(rows).numpy(), model.predict_proba(x), atol=1e-5)
    with pytest.raises(InputError, match="has no column 'churned'; it has a, b, target"):
        pm.load_classifier(f"sklearn:{file}?data={table}&target=churned&pickle=true")
    with pytest.raises(ModelError, match="there is no file"):
        pm.load_classifier(f"onnx:{tmp_path / 'none.onnx'}")


def test_columns_of_a_data_file_that_the_model_was_not_fitted_on_are_left_out(tmp_path: Path) -> None:
    import joblib
    from sklearn.linear_model import LogisticRegression

    x = pd.DataFrame(RANDOM.normal(size=(40, 2)), columns=["a", "b"])
    file, table = tmp_path / "model.joblib", tmp_path / "rows.csv"
    joblib.dump(LogisticRegression().fit(x, x["a"] > 0), file)
    x.assign(target=0).assign(ID=range(40), note="x")[["ID", "a", "note", "b", "target"]].to_csv(
        table, index=False
    )
    spec = f"sklearn:{file}?pickle=true&data={table}"
    with pytest.warns(
        UserWarning, match=r"^rows\.csv: 2 columns left out, on which the model was not fitted: 'ID', 'note'$"
    ):
        assert pm.load_classifier(f"{spec}&target=target").inputs.position_names == ("a", "b")
    x[["a"]].assign(ID=1).to_csv(table, index=False)
    with pytest.raises(InputError, match="the column 'ID', which the model was not fitted on"):
        pm.load_classifier(spec)


def test_an_onnx_model_of_tables_gives_its_own_probabilities(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    file = Path(__file__).parent / "logistic.onnx"
    x = RANDOM.normal(size=(30, 3)).astype(np.float32)
    session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    expected = session.run(None, {"rows": x})[0]
    table = tmp_path / "rows.csv"
    pd.DataFrame(x, columns=list("abc")).assign(y=1).to_csv(table, index=False)
    named = pm.load_classifier(f"onnx:{file}?data={table}&target=y")
    for net in (named, pm.Classifier(session, data=x), pm.load_classifier(f"onnx:{file}", data=x)):
        assert np.allclose(net.probabilities(torch.from_numpy(x)).numpy(), expected, atol=1e-6)
    assert named.inputs.position_names == ("a", "b", "c")
    with pytest.raises(InputError, match=r"is a model of tables and needs rows.*data=FILE\.csv"):
        pm.load_classifier(f"onnx:{file}")
    with pytest.raises(InputError, match=r"write onnx:.*\?names=a,b&data=FILE\.csv&target=COLUMN"):
        pm.load_classifier(f"onnx:{file}?names=a,b")
    table.write_text("a,b,c,y\n1,2,3,0,\n3,4,5,1,\n")  # pandas would take the first column for names of rows
    ended = pm.load_classifier(f"onnx:{file}?data={table}&target=y")
    assert isinstance(ended.inputs, Rows) and ended.inputs.mean == (2, 3, 4)
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    with pytest.raises(ModelError, match="not an ONNX model that onnxruntime can run"):
        pm.load_classifier(f"onnx:{broken}", data=x)


@pytest.mark.parametrize(
    "file, names",
    [
        ("numbered-labels.onnx", ("1", "2", "3")),  # ZipMap: a map from labels to probabilities
        ("named-labels.onnx", ("0", "1", "2")),  # of scikit-learn, by skl2onnx: an array of probabilities
        ("logistic.onnx", ("0", "1")),
    ],
)
def test_an_onnx_model_has_the_labels_that_onnxruntime_gives(file: str, names: tuple[str, ...]) -> None:
    runtime = pytest.importorskip("onnxruntime")
    path = Path(__file__).parent / file
    x = 3 * RANDOM.normal(size=(40, 3)).astype(np.float32)
    net = pm.load_classifier(f"onnx:{path}", data=x)
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert net.names == pm.Classifier(session, data=x).names == names
    predicted = session.run(None, {session.get_inputs()[0].name: x})[0]
    if file == "numbered-labels.onnx":  # it returns its own prediction, too
        top = net.probabilities(torch.from_numpy(x)).argmax(dim=1).tolist()
        assert [names[k] for k in top] == list(map(str, predicted)) and len(set(top)) == 3
    assert pm.load_classifier(f"onnx:{path}?names={','.join('xyz'[: len(names)])}", data=x).names[0] == "x"


def test_the_map_of_an_onnx_model_is_read_in_the_order_of_its_labels() -> None:
    """onnxruntime sorts the map of a ZipMap by its labels; the file may list them in another order."""
    pytest.importorskip("onnxruntime")
    content = (Path(__file__).parent / "numbered-labels.onnx").read_bytes()
    listed, other = (b"".join(bytes([0x40, k]) for k in order) for order in ((1, 2, 3), (3, 1, 2)))
    model, moved = OnnxModel(content), OnnxModel(content.replace(listed, other))
    assert model.classes_ == moved.classes_ == ("1", "2", "3")
    x = RANDOM.normal(size=(5, 3)).astype(np.float32)
    assert np.array_equal(model(x), moved(x)[:, [2, 0, 1]])  # the first output of ``moved`` is the label 3


def test_an_onnx_model_of_pictures_is_explained_by_superpixels() -> None:
    pytest.importorskip("onnxruntime")
    net = pm.load_classifier(
        f"onnx:{Path(__file__).parent / 'picture.onnx'}?mean=0.5:0.5:0.5&std=0.5:0.5:0.5"
    )
    assert net.size == (8, 8) and net.outputs == "logits" and not net.differentiable
    x = torch.rand(1, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    expected = ((x - 0.5) / 0.5).mean(dim=(2, 3)).softmax(dim=1)  # the net is the mean of each colour
    assert torch.allclose(net.probabilities(x), expected, atol=1e-6)
    proof = pm.explain(net, x, labels="all", method="belief-order:regions=4")
    assert proof.maps.shape == (1, 3, 8, 8)


@pytest.mark.parametrize("package", ["xgboost", "lightgbm"])
def test_boosters_give_their_probabilities_as_estimators_as_objects_and_from_files(
    package: str, tmp_path: Path
) -> None:
    library = pytest.importorskip(package)
    x = pd.DataFrame(RANDOM.normal(size=(60, 3)).astype(np.float32), columns=["a", "b", "c"])
    y, file = (x["a"] > 0).astype(int), tmp_path / "model.json"
    if package == "xgboost":
        model = library.XGBClassifier(n_estimators=3).fit(x, y)
        model.save_model(file)
        booster = model.get_booster()
    else:
        model = library.LGBMClassifier(n_estimators=3, verbose=-1).fit(x, y)
        booster = model.booster_
        booster.save_model(file)
    for given in (model, booster):
        net = pm.Classifier(given, data=x)
        assert np.allclose(net.probabilities(torch.tensor(x.to_numpy())), model.predict_proba(x), atol=1e-6)
    loaded = pm.load_classifier(f"{package}:{file}", data=x)
    assert np.allclose(loaded.probabilities(torch.tensor(x.to_numpy())), model.predict_proba(x), atol=1e-6)


def test_the_command_line_chooses_methods_without_gradients_and_refuses_others_with_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    rows = pd.DataFrame(RANDOM.normal(size=(4, 3)), columns=["age", "income", "visits"])
    rows.assign(churned=[0, 1, 0, 1]).to_csv("rows.csv", index=False)
    given = (
        "--model",
        f"onnx:{Path(__file__).parent / 'logistic.onnx'}",
        "--data",
        "rows.csv",
        "--target",
        "churned",
    )
    assert run(monkeypatch, "evaluate", *given, "--dry-run") == 0
    planned = capsys.readouterr().out
    assert "belief-order" in planned and "kernel-shap" in planned and "grad-cam" not in planned
    assert run(monkeypatch, "evaluate", *given, "--methods", "gradient", "--quiet") == 2
    assert "the method gradient needs gradients, and onnx:logistic.onnx has none" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"], "nothing is written"
