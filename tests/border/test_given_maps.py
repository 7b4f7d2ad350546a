"""Maps that people have already: every shape in which they come, and what a wrong one is told."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import proofmap as pm
from proofmap.core.inputs import Inputs
from proofmap.methods import Method
from proofmap.methods.controls import Blurred
from proofmap.methods.given import Given, GivenMaps
from tests.toys import PICTURES, ROWS, SERIES, TEXT, classifier_of, conv_classifier, normal, pixels, values

N, LABELS = 6, 4
NET = conv_classifier(8, labels=LABELS, names=["tabby", "dog", "cup", "car"])
X = pixels(N, 8)
Y = torch.tensor([0, 1, 2, 3, 0, 1])
A = normal(N, 8, 8, seed=1)
EACH = normal(N, LABELS, 8, 8, seed=2)
ATTRIBUTIONS = normal(N, 3, 8, 8, seed=3)


def scores(maps: Any, **how: Any) -> dict[str, float]:
    found = pm.evaluate(NET, X, maps={"mine": maps}, **{"labels": Y, "metrics": "soundness", **how})
    return found.to_dict()


@pytest.mark.parametrize(
    "given",
    [
        A,
        A.numpy(),
        A.tolist(),
        list(A),
        list(A.numpy()),
        A.double(),
        A[:, None],
        A[:, None].numpy(),
        A[..., None],
    ],
    ids=["torch", "numpy", "lists", "tensors", "arrays", "double", "(N, L)", "(N, 1)", "channels last"],
)
def test_one_map_an_image_in_all_forms(given: Any) -> None:
    assert scores(given) == scores(A)


@pytest.mark.parametrize(
    "given",
    [
        ATTRIBUTIONS,
        ATTRIBUTIONS.movedim(1, -1).numpy(),
        ATTRIBUTIONS[:, None],
        ATTRIBUTIONS[..., None].numpy(),
    ],
    ids=["(N, C, H, W)", "(N, H, W, C)", "(N, L, C, H, W)", "(N, C, H, W, L)"],
)
def test_channels_of_attributions_are_summed(given: Any) -> None:
    assert scores(given) == scores(ATTRIBUTIONS.sum(dim=1))


def test_the_sum_of_channels_is_said() -> None:
    found = pm.evaluate(NET, X, maps={"mine": ATTRIBUTIONS}, labels=Y)
    assert f"mine: maps {tuple(ATTRIBUTIONS.shape)} read as attributions whose channels are summed" in str(
        found
    )


@pytest.mark.parametrize("labels", ["all", "top2", "top2+wrong", Y, [2, 0]], ids=str)
def test_maps_of_all_outputs_are_found_by_label(labels: Any) -> None:
    class Looked(Method):
        name = "looked"
        description = "maps by label"

        def maps(self, session: Any, images: Tensor, labels: Tensor) -> Tensor:
            return EACH[torch.arange(len(labels))[:, None], labels.clamp_min(0)]

    own = pm.evaluate(NET, X, methods={"mine": Looked()}, labels=labels)
    shap = normal(N, 8, 8, 3, LABELS, seed=4)
    for given, expected in ((EACH, own), (EACH.numpy(), own), (shap, None)):
        found = pm.evaluate(NET, X, maps={"mine": given}, labels=labels)
        expected = expected or pm.evaluate(
            NET, X, maps={"mine": shap.sum(dim=3).movedim(-1, 1)}, labels=labels
        )
        assert same(found, expected)


def same(found: pm.Evaluation, expected: pm.Evaluation) -> bool:
    """Whether values, pairs and maps are equal to the bit."""
    one, other = found.results[0], expected.results[0]
    tables = [(a[k], b[k]) for a, b in ((one.values, other.values), (one.pairs, other.pairs)) for k in b]
    return all(torch.equal(a.nan_to_num(-1), b.nan_to_num(-1)) for a, b in [*tables, (one.maps, other.maps)])


def test_there_may_be_more_outputs_than_positions_in_a_row() -> None:
    net, x = conv_classifier(8, labels=12), pixels(3, 8)
    each = normal(3, 12, 8, 8)
    found = pm.evaluate(net, x, maps=each, labels=[11, 9])
    assert torch.equal(found.results[0].maps, each[:, [11, 9]])


def test_listed_labels_have_their_maps_in_the_given_order() -> None:
    found = pm.evaluate(NET, X, maps=EACH[:, [2, 0]], labels=["cup", "tabby"])
    assert same(found, pm.evaluate(NET, X, maps=EACH, labels=["cup", "tabby"]))
    turned = pm.evaluate(
        NET, X, maps=EACH, labels=[3, 2, 1, 0]
    )  # as many as outputs: still maps[n, k] of labels[n, k]
    assert torch.equal(turned.results[0].maps, EACH)


def test_an_explanation_of_shap() -> None:
    shap = pytest.importorskip("shap")
    given = np.random.default_rng(0).standard_normal((N, 8, 8, 3, LABELS))
    found = pm.evaluate(NET, X, maps=shap.Explanation(given), labels="all")
    assert same(found, pm.evaluate(NET, X, maps=given, labels="all"))
    rows = classifier_of(ROWS, labels=ROWS.count)  # a square, which only SHAP's object explains
    square = normal(5, ROWS.count, ROWS.count, seed=5)
    x = values(ROWS, 5)
    one = pm.evaluate(rows, x, maps=shap.Explanation(square.numpy()), labels="all")
    assert same(one, pm.evaluate(rows, x, maps=square.mT, labels="all"))


def test_shap_values_of_a_table() -> None:
    net, x = classifier_of(ROWS), values(ROWS, 5)
    given = normal(5, ROWS.count, LABELS, seed=6)
    found = pm.evaluate(net, x, maps=given.numpy(), labels="all")
    assert same(found, pm.evaluate(net, x, maps=given.mT, labels="all"))
    assert "a map for each of 4 outputs" in str(found)


def test_coarser_maps_are_enlarged_as_those_of_a_function() -> None:
    coarse = normal(N, 1, 4, 4, seed=7)
    found = pm.evaluate(NET, X, maps={"mine": coarse[:, 0]}, labels=Y)
    assert same(found, pm.evaluate(NET, X, methods={"mine": lambda net, x, labels: coarse}, labels=Y))
    assert "maps enlarged from 4 x 4" in str(found)


@pytest.mark.parametrize("inputs", [PICTURES, SERIES, ROWS, TEXT], ids=lambda inputs: inputs.kind)
def test_numbers_are_those_of_the_method_that_made_the_maps(inputs: Inputs) -> None:
    net, x = classifier_of(inputs), values(inputs, 5)
    method = "occlusion" if inputs.has_neighbours else "random:per_label=true"
    made = pm.evaluate(net, x, methods={"mine": method}, labels="top2+wrong", keep_maps=None)
    labels, maps = made.labels, made.results[0].maps
    assert same(pm.evaluate(net, x, maps={"mine": maps}, labels=labels, keep_maps=None), made)
    batches = [(x[:2], maps[:2], labels[:2]), (x[2:], maps[2:], labels[2:])]
    judge = pm.Judge(net)
    for some, own, asked in batches:
        judge.update(some, maps={"mine": own}, labels=asked)
    assert str(judge.compute().to_dict()) == str(made.to_dict())


def test_of_a_loader_and_in_small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = pm.evaluate(NET, X, maps=EACH, labels=Y)
    monkeypatch.setattr("proofmap.judging._BLOCK", 2 * 64)
    assert same(pm.evaluate(NET, X, maps=EACH, labels=Y), usual)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), batch_size=4)
    assert same(pm.evaluate(NET, data, maps=EACH, labels="true"), usual)


def test_only_a_part_of_the_maps_is_read_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    read = Given.read
    monkeypatch.setattr("proofmap.judging._BLOCK", 2 * 64)
    monkeypatch.setattr(
        "proofmap.methods.given.Given.read",
        lambda self, images, labels: seen.append(len(images)) or read(self, images, labels),
    )
    pm.evaluate(NET, X, maps={"a": A, "b": A}, labels=Y)
    assert seen == [2] * 6


def test_beside_methods_and_under_controls() -> None:
    found = pm.evaluate(NET, X, maps={"mine": A}, methods=["grad-cam"], labels=Y, controls=True)
    names = [result.name for result in found.results]
    assert names[:2] == ["grad-cam", "mine"] and "blurred:mine" in names and "top-label:mine" not in names
    again = pm.evaluate(NET, X, maps={"mine": A}, labels=Y)
    assert torch.equal(found["mine"].values["soundness"], again["mine"].values["soundness"])


def test_the_table_says_that_one_label_was_judged() -> None:
    assert "soundness was tested on one label of each image alone" in str(
        pm.evaluate(NET, X, maps=A, labels=Y)
    )
    assert "on one label" not in str(pm.evaluate(NET, X, maps=EACH, labels="all"))


# ---- what wrong maps are told -----------------------------------------------------------------------------------


WRONG: dict[str, tuple[Callable[[], Any], dict[str, Any], str]] = {
    "another size": (
        lambda: normal(N, 9, 9),
        {},
        "maps['mine'] have the shape (6, 9, 9). These would do: (6, 8, 8), one map for each image; (6, 4, 8, 8), a map for each output of the net; "
        "(6, 3, 8, 8), attributions whose channels are summed; (6, 8, 8, 3, 4), as SHAP has them. The grid (8, 8) may be coarser.",
    ),
    "other images": (
        lambda: A[:5],
        {},
        "maps['mine'] have the shape (5, 8, 8), but there are 6 images; give one entry for each image, in their order",
    ),
    "a single number": (lambda: torch.tensor(1.0), {}, "the shape (), but there are 6 images"),
    "NaN": (
        lambda: A.clone().index_fill_(0, torch.tensor([4]), torch.nan),
        {},
        "maps['mine'] have NaN or infinity: 64 of 64 values of image 4, the first such; give finite numbers",
    ),
    "all equal": (
        lambda: torch.zeros_like(A),
        {},
        "maps['mine'] have one value everywhere, 0 for the last images",
    ),
    "labels that are not covered": (
        lambda: A,
        {"labels": "top5+wrong"},
        "The labels top5+wrong are several of each image: if there is one map for each image, say which label it is of, as in labels=y, a tensor or array (6,).",
    ),
    "fewer labels": (
        lambda: EACH[:, :2],
        {"labels": [0, 1, 2]},
        "These would do: (6, 3, 8, 8), a map for each label; (6, 4, 8, 8), a map for each output of the net",
    ),
    "texts": (lambda: [["a"] * 8] * N, {}, "must be given as a tensor or a NumPy array of numbers, not list"),
    "complex numbers": (lambda: A.to(torch.complex64), {}, "with one real number per position"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_maps_are_refused_with_what_would_do(case: str) -> None:
    make, how, message = WRONG[case]
    with pytest.raises(pm.InputError, match=re.escape(message)):
        scores(make(), **how)


def test_attributions_that_could_be_maps_of_outputs_are_refused() -> None:
    net = conv_classifier(8, labels=3)
    with pytest.raises(
        pm.InputError, match=r"3 is the number of channels and of the net's outputs; write maps\.sum\(1\)"
    ):
        pm.evaluate(net, X, maps=ATTRIBUTIONS, labels=torch.zeros(N, dtype=torch.long))


def test_a_few_equal_maps_are_noted() -> None:
    some = A.clone()
    some[:2] = 1
    found = pm.evaluate(NET, X, maps={"mine": some}, labels=Y)
    assert "mine: maps of 2 of 6 images have one value everywhere" in str(found)


def test_what_runs_the_method_again_is_refused() -> None:
    with pytest.raises(pm.InputError, match="only the maps of 'mine' are known"):
        scores(A, metrics=["soundness", "randomisation"])


def test_an_update_needs_the_maps_of_the_first() -> None:
    judge = pm.Judge(NET)
    judge.update(X, maps={"mine": A}, labels=Y)
    with pytest.raises(pm.InputError, match="maps has none, but the first images came with mine"):
        judge.update(X, labels=Y)
    with pytest.raises(pm.InputError, match="there are no methods to evaluate"):
        pm.Judge(NET).update(X)


def test_given_maps_are_named_by_themselves() -> None:
    mine = GivenMaps(array="mine")
    assert mine.title() == "mine" and Blurred(of=mine).title() == "blurred:mine"
