"""Modules, functions and fitted models as they are, without a classifier around them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import proofmap as pm
from proofmap.classifier.raw import as_classifier
from proofmap.core.inputs import Pictures, Rows, Series
from tests.toys import PICTURES, SERIES, conv_net, normal, pixels, values

X = normal(5, 3, 8, 10)
NET = conv_net()


def quiet(call: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()


def test_a_module_is_judged_like_its_classifier_in_the_units_of_the_net() -> None:
    with pytest.warns(
        UserWarning, match=r"inputs \(3 x 8 x 10\) as the net takes them; hidden pixels show 0"
    ) as said:
        found = pm.evaluate(NET, X, methods="gradient,grad-cam", labels="top2")
    assert len(said) == 1 and "outputs are logits" in str(said[0].message)
    assert str(said[0].message) in str(found)  # the table says it too
    own = pm.Classifier(NET, inputs=Pictures(size=(8, 10), unlimited=True))
    assert str(pm.evaluate(own, X, methods="gradient,grad-cam", labels="top2").to_dict()) == str(
        found.to_dict()
    )


def test_gray_is_zero() -> None:
    net = quiet(lambda: as_classifier(NET, X))
    assert net.gray.tolist() == [0, 0, 0] and net.names == ("0", "1", "2", "3")
    low = net.probabilities(-5 * torch.ones(1, 3, 8, 10))
    assert torch.allclose(low, NET(-5 * torch.ones(1, 3, 8, 10)).softmax(1))


@pytest.mark.parametrize(
    "method",
    [
        "belief-mask:passes=4,grid=4",
        "learned-mask:steps=2,fill=noise",
        "occlusion:window=4,stride=4,fill=images",
    ],
)
@pytest.mark.parametrize("n", [1, 5])
def test_methods_with_random_fills_get_images_in_the_units_of_the_net(method: str, n: int) -> None:
    assert quiet(lambda: pm.explain(NET, X[:n], labels="top1", method=method)).maps.isfinite().all()


def test_pictures_of_any_values_are_drawn() -> None:
    drawn = Pictures(size=(8, 10), unlimited=True).picture(X[0])
    assert drawn.min() == 0 and drawn.max() == 255
    record = Pictures(size=(8, 10), unlimited=True).record()
    assert Pictures.from_record(record) == Pictures(size=(8, 10), unlimited=True)
    assert "unlimited" not in PICTURES.record()


@pytest.mark.parametrize(
    "last, outputs",
    [
        (nn.Identity(), "logits"),
        (nn.Softmax(dim=1), "probabilities"),
        (nn.Sigmoid(), "sigmoid-probabilities"),
    ],
)
@pytest.mark.parametrize("labels", [4, 1])
def test_the_kind_of_outputs_is_found(last: nn.Module, outputs: str, labels: int) -> None:
    if labels == 1 and outputs == "probabilities":
        return
    expected = "sigmoid" if labels == 1 and outputs == "logits" else outputs
    for net in (nn.Sequential(conv_net(labels), last), lambda x: last(conv_net(labels)(x))):
        assert quiet(lambda net=net: as_classifier(net, X)).outputs == expected


@pytest.mark.parametrize(
    "x, kind",
    [
        (X, Pictures),
        (X.numpy(), Pictures),
        (np.random.default_rng(0).random((4, 8, 10, 3), dtype=np.float32), Pictures),
        (values(SERIES, 4), Series),
        (normal(4, 7), Rows),
        ([(X, torch.zeros(5).long())], Pictures),
        (
            torch.utils.data.DataLoader(
                torch.utils.data.TensorDataset(X, torch.zeros(5).long()), batch_size=2
            ),
            Pictures,
        ),
        (torch.utils.data.TensorDataset(X, torch.zeros(5).long()), Pictures),
    ],
    ids=["tensor", "array", "channels last", "series", "rows", "batches", "loader", "dataset"],
)
def test_the_kind_of_input_is_that_of_the_images(x: Any, kind: type) -> None:
    flat = nn.Sequential(nn.Flatten(), nn.LazyLinear(3))
    shapes = {Pictures: (1, 3, 8, 10), Series: (1, 2, 12), Rows: (1, 7)}
    flat(torch.zeros(shapes[kind]))
    found = quiet(lambda: pm.evaluate(flat, x, methods="gradient", labels="top1", metrics="insertion"))
    assert isinstance(found.inputs, kind)


def test_a_function_without_gradients() -> None:
    def net(x: Tensor) -> Tensor:
        return NET(x.detach())

    assert quiet(
        lambda: pm.explain(net, X, labels="top1", method="occlusion:window=4,stride=4")
    ).maps.shape == (5, 1, 8, 10)


def test_a_fitted_model_and_a_function_of_rows_learn_their_columns_from_the_rows() -> None:
    sklearn = pytest.importorskip("sklearn.linear_model")
    rows = normal(40, 3).numpy()
    model = sklearn.LogisticRegression().fit(rows, (rows[:, 0] > 0).astype(int))
    expected = pm.explain(pm.Classifier(model, data=rows), rows[:4])
    assert pm.explain(model, rows).labels[:4].tolist() == expected.labels.tolist()
    assert pm.explain(model.predict_proba, rows).labels[:4].tolist() == expected.labels.tolist()


def test_images_between_0_and_1_are_doubted() -> None:
    with pytest.warns(
        UserWarning,
        match=r"The images lie between 0\.\d+ and [01]\.?\d*: if the net was trained on normalised ones",
    ):
        as_classifier(NET, 0.01 + 0.9 * pixels(3, (8, 10)))


def test_normalised_images_are_refused_where_pixels_are_declared() -> None:
    with pytest.raises(
        pm.InputError,
        match=r"images must lie in \[0, 1\] \(the classifier normalises them itself\), got \[-\d",
    ):
        pm.explain(pm.Classifier(NET, size=(8, 10)), X)


@pytest.mark.parametrize(
    "net, x, message",
    [
        ("resnet18", X, r"write pm\.load_classifier\('resnet18'\)"),
        (3, X, "the first argument must be a Classifier, a module, a function or a fitted model, not int"),
        (
            NET,
            ["cat.jpg"],
            r"how str reaches the net is not known.*pm\.Classifier\(net, size=224.*transforms=weights",
        ),
        (
            NET,
            torch.zeros(2, 5, dtype=torch.long),
            r"whole numbers, such as tokens, need pm\.Classifier\(net, inputs=\.\.\.\)",
        ),
        (NET, torch.zeros(2, 1, 4, 4, 4), r"inputs of this shape need pm\.Classifier"),
    ],
)
def test_what_cannot_be_taken_as_it_is(net: Any, x: Any, message: str) -> None:
    with pytest.raises(pm.InputError, match=message):
        pm.explain(net, x)


def test_a_judge_of_a_module_follows_its_training() -> None:
    net = conv_net()
    judge = pm.Judge(net, methods=["gradient"], labels="top1")
    with pytest.raises(pm.InputError, match="call update with some first"):
        judge.compute()
    y = torch.zeros(5, dtype=torch.long)
    with pytest.warns(UserWarning, match="as the net takes them"):
        judge.update(X, y)
    first = judge.compute().to_dict()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    net.train()
    nn.functional.cross_entropy(net(X), y).backward()
    optimiser.step()
    judge.reset()
    judge.update(X, y)  # the same classifier: nothing is said again
    second = judge.compute().to_dict()
    assert net.training and first != second
    assert all(type(value) is float for value in second.values())
