"""Completeness, soundness and insertion of given maps as plain tensors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import proofmap as pm
from proofmap.metrics import completeness, soundness
from tests.toys import TEXT, classifier_of, conv_classifier, normal, pixels, values

NET = conv_classifier(8, labels=4, names=["tabby", "dog", "cup", "car"])
X, Y = pixels(5, 8), torch.tensor([0, 1, 2, 3, 0])
EACH = normal(5, 4, 8, 8)


def test_values_are_those_of_the_evaluation() -> None:
    found = pm.evaluate(NET, X, maps={"mine": EACH}, labels="all")["mine"]
    for name, value in (
        ("soundness", pm.soundness),
        ("completeness", pm.completeness),
        ("insertion", pm.insertion_auc),
    ):
        assert torch.equal(value(NET, X, EACH, "all"), found.pairs[name])
    assert torch.equal(pm.soundness(NET, X, EACH, "all").amin(dim=1), found.values["soundness"])


def test_one_label_an_image_gives_one_value_an_image() -> None:
    maps = EACH[torch.arange(5), Y]
    sound = pm.soundness(NET, X, maps, labels=Y)
    assert sound.shape == (5,) and torch.equal(sound, pm.soundness(NET, X, maps.numpy(), target=Y.numpy()))
    assert torch.equal(pm.soundness(NET, X, EACH, target="tabby"), pm.soundness(NET, X, EACH, labels=0))
    auc, f = pm.insertion_auc(NET, X, maps, Y), NET.probabilities(X)[torch.arange(5), Y]
    assert torch.equal(sound, soundness(auc, f, 0.001)) and torch.allclose(
        pm.completeness(NET, X, maps, Y), completeness(auc, f, 0.01)
    )


def test_options_are_those_of_the_curve() -> None:
    few = pm.insertion_auc(NET, X, EACH, "all", fill="blur", points=4)
    assert torch.equal(
        few,
        pm.insertion(
            NET, X, EACH[torch.arange(5)[:, None], NET.top(X, 4)], NET.top(X, 4), fill="blur", points=4
        ).auc,
    )
    assert (pm.soundness(NET, X, EACH, "all", e2=1.0) == 1).all()


def test_a_module_and_texts_of_several_lengths() -> None:
    with pytest.warns(UserWarning, match="as the net takes them"):
        assert pm.soundness(NET.as_module(), X, EACH, "all").shape == (5, 4)
    net, x = classifier_of(TEXT), values(TEXT, 5)
    maps = np.random.default_rng(0).random((5, 4, TEXT.count))
    found = pm.evaluate(net, x, maps={"mine": maps}, labels="all")
    assert torch.equal(pm.soundness(net, x, maps, "all"), found["mine"].pairs["soundness"])


def test_labels_must_be_said() -> None:
    for labels in ({}, {"labels": Y, "target": Y}):
        with pytest.raises(
            pm.InputError, match="say which labels the maps are of: labels=y, or target=y; one of the two"
        ):
            pm.soundness(NET, X, EACH[:, 0], **labels)


def test_many_images_are_played_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pm.soundness(NET, X, EACH, "all")
    monkeypatch.setattr("proofmap.metrics.playing._AT_ONCE", 2)
    assert torch.equal(pm.soundness(NET, X, EACH, "all"), whole)
