"""Names, single values and functions where lists stood before; results as numbers, dictionaries, tensors and LaTeX."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import proofmap as pm
from proofmap.metrics import completeness, soundness
from tests.toys import TEXT, classifier_of, conv_classifier, normal, pixels, values

NET = conv_classifier(8, labels=4, names=["tabby", "dog", "cup", "car"])
X = pixels(6, 8)
Y = torch.tensor([0, 1, 2, 3, 0, 1])
NAMED = {"IG": normal(6, 8, 8), "ours": lambda net, x, labels: x.mean(1)[:, None], "cam": "grad-cam"}


@pytest.fixture(scope="module")
def named() -> pm.Evaluation:
    return pm.evaluate(NET, X, methods=NAMED, labels=Y)


@pytest.mark.parametrize(
    "short, usual",
    [
        ({"methods": "grad-cam"}, {"methods": ["grad-cam"]}),
        ({"methods": "gradient,random"}, {"methods": ["gradient", "random"]}),
        ({"methods": pm.make_method("grad-cam")}, {"methods": ["grad-cam"]}),
        (
            {"methods": "grad-cam", "metrics": "soundness"},
            {"methods": ["grad-cam"], "metrics": ["soundness"]},
        ),
        ({"methods": "grad-cam", "target": 1}, {"methods": ["grad-cam"], "labels": [1]}),
        ({"methods": "grad-cam", "target": Y}, {"methods": ["grad-cam"], "labels": Y}),
        ({"methods": "grad-cam", "labels": "tabby"}, {"methods": ["grad-cam"], "labels": [0]}),
    ],
    ids=str,
)
def test_one_thing_needs_no_list(short: dict[str, Any], usual: dict[str, Any]) -> None:
    assert str(pm.evaluate(NET, X, **short).to_dict()) == str(pm.evaluate(NET, X, **usual).to_dict())


def test_explain_takes_the_same() -> None:
    found = pm.explain(NET, X, target="dog", method={"a": "gradient", "b": "random"})
    assert found.methods == ("a", "b") and found.labels.unique().tolist() == [1]


def test_labels_and_target_are_one_thing() -> None:
    with pytest.raises(pm.InputError, match="labels and target are two names for one thing"):
        pm.evaluate(NET, X, methods="random", labels="all", target=1)


def test_names_of_a_dictionary_stand_everywhere(named: pm.Evaluation) -> None:
    assert [result.name for result in named.results] == [*NAMED]
    for text in (named.table(), named.to_latex(), pm.compare(named).table(), str(named.to_dict())):
        assert all(re.search(rf"\b{name}\b", text) for name in NAMED)
    assert {d.baseline for d in pm.compare(named, baseline="ours").differences} == {"ours"}


def test_metrics_are_functions_of_what_was_judged() -> None:
    def size(judged: pm.metrics.Judged) -> Tensor:
        return judged.maps.abs().flatten(2).mean(dim=2)

    size.higher_is_better = False  # type: ignore[attr-defined]
    metrics = [lambda judged: judged.maps.flatten(1).amax(dim=1), size]
    found = pm.evaluate(NET, X, methods="gradient", metrics=metrics, labels="top2")
    maps = found.results[0].maps
    assert torch.equal(found["gradient"].values["metric"], maps.flatten(1).amax(dim=1))
    assert torch.equal(found["gradient"].pairs["size"], maps.abs().flatten(2).mean(dim=2))
    assert found["gradient"]["metric"].higher_is_better and not found["gradient"]["size"].higher_is_better
    one = pm.evaluate(NET, X, methods="gradient", metrics={"largest": metrics[0]}, labels="top2")
    assert float(one["gradient"]["largest"]) == float(found["gradient"]["metric"])


def test_a_function_that_returns_another_shape_is_refused() -> None:
    with pytest.raises(
        pm.InputError,
        match=r"the metric metric: the function must return a torch\.Tensor of numbers of shape \(6,\)",
    ):
        pm.evaluate(NET, X, methods="gradient", metrics=[lambda judged: judged.maps])


def test_a_score_is_a_number(named: pm.Evaluation) -> None:
    assert float(named["cam"]["soundness"]) == named["cam"].score("soundness").value
    flat = named.to_dict()
    assert flat["cam/soundness"] == float(named["cam"]["soundness"])
    assert all(type(value) is float for value in flat.values())


def test_latex_of_scores_and_of_differences(named: pm.Evaluation) -> None:
    scores, differences = named.to_latex(caption="Ours."), pm.compare(named).to_latex()
    for text in (scores, differences):
        assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1
        rows = text.partition(r"\midrule")[2].partition(r"\bottomrule")[0].strip().splitlines()
        header = text.partition(r"\toprule")[2].strip().splitlines()[0]
        assert {row.count(" & ") for row in rows} == {header.count(" & ")}
    assert r"\caption{Ours.}" in scores and r"95 \%" in differences


# ---- values as tensors ---------------------------------------------------------------------------------------


FIVE, LABELS_OF_FIVE = pixels(5, 8), torch.tensor([0, 1, 2, 3, 0])
EACH = normal(5, 4, 8, 8)


def test_values_are_those_of_the_evaluation() -> None:
    found = pm.evaluate(NET, FIVE, maps={"mine": EACH}, labels="all")["mine"]
    for name, value in (
        ("soundness", pm.soundness),
        ("completeness", pm.completeness),
        ("insertion", pm.insertion_auc),
    ):
        assert torch.equal(value(NET, FIVE, EACH, "all"), found.pairs[name])
    assert torch.equal(pm.soundness(NET, FIVE, EACH, "all").amin(dim=1), found.values["soundness"])


def test_one_label_an_image_gives_one_value_an_image() -> None:
    maps = EACH[torch.arange(5), LABELS_OF_FIVE]
    sound = pm.soundness(NET, FIVE, maps, labels=LABELS_OF_FIVE)
    assert sound.shape == (5,) and torch.equal(
        sound, pm.soundness(NET, FIVE, maps.numpy(), target=LABELS_OF_FIVE.numpy())
    )
    assert torch.equal(pm.soundness(NET, FIVE, EACH, target="tabby"), pm.soundness(NET, FIVE, EACH, labels=0))
    auc, f = (
        pm.insertion_auc(NET, FIVE, maps, LABELS_OF_FIVE),
        NET.probabilities(FIVE)[torch.arange(5), LABELS_OF_FIVE],
    )
    assert torch.equal(sound, soundness(auc, f, 0.001)) and torch.allclose(
        pm.completeness(NET, FIVE, maps, LABELS_OF_FIVE), completeness(auc, f, 0.01)
    )


def test_options_are_those_of_the_curve() -> None:
    few = pm.insertion_auc(NET, FIVE, EACH, "all", fill="blur", points=4)
    assert torch.equal(
        few,
        pm.insertion(
            NET,
            FIVE,
            EACH[torch.arange(5)[:, None], NET.top(FIVE, 4)],
            NET.top(FIVE, 4),
            fill="blur",
            points=4,
        ).auc,
    )
    assert (pm.soundness(NET, FIVE, EACH, "all", e2=1.0) == 1).all()


def test_a_module_and_texts_of_several_lengths() -> None:
    with pytest.warns(UserWarning, match="as the net takes them"):
        assert pm.soundness(NET.as_module(), FIVE, EACH, "all").shape == (5, 4)
    net, x = classifier_of(TEXT), values(TEXT, 5)
    maps = np.random.default_rng(0).random((5, 4, TEXT.count))
    found = pm.evaluate(net, x, maps={"mine": maps}, labels="all")
    assert torch.equal(pm.soundness(net, x, maps, "all"), found["mine"].pairs["soundness"])


def test_labels_must_be_said() -> None:
    for labels in ({}, {"labels": LABELS_OF_FIVE, "target": LABELS_OF_FIVE}):
        with pytest.raises(
            pm.InputError, match="say which labels the maps are of: labels=y, or target=y; one of the two"
        ):
            pm.soundness(NET, FIVE, EACH[:, 0], **labels)


def test_many_images_are_played_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pm.soundness(NET, FIVE, EACH, "all")
    monkeypatch.setattr("proofmap.metrics.playing._AT_ONCE", 2)
    assert torch.equal(pm.soundness(NET, FIVE, EACH, "all"), whole)
