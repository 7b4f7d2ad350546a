"""Scores of labels against labels, and worst cases over some of them, by hand and by plain loops."""

from __future__ import annotations

import itertools

import pytest
import torch

from proofmap.core.errors import InputError
from proofmap.metrics import Judged, insertion
from proofmap.metrics.proof_scores import ClassSensitivity, Completeness, SecondSoundness, Soundness
from proofmap.session import Session
from tests.toys import conv_classifier, normal, pixels


def judged(labels: int = 4, *, shared: bool = False) -> Judged:
    f, x = conv_classifier(), pixels(3, 8)
    heat = normal(3, labels, 8, 8)
    return Judged(Session(f), x, f.top(x, labels), heat[:, :1].expand_as(heat) if shared else heat)


def test_class_sensitivity_is_that_of_a_plain_loop() -> None:
    j = judged(3)
    found = ClassSensitivity(points=8).pairs(j)
    for i in range(3):
        for a in range(3):
            areas = []
            for b in range(3):  # label a under the map of b
                one = insertion(
                    j.classifier,
                    j.images[i : i + 1],
                    j.maps[i : i + 1, b : b + 1],
                    j.labels[i : i + 1, a : a + 1],
                    points=8,
                )
                areas.append(float(one.auc))
            others = [area for b, area in enumerate(areas) if b != a]
            assert float(found[i, a]) == pytest.approx(areas[a] - sum(others) / 2, abs=1e-5)


def test_one_map_for_all_labels_is_not_sensitive_to_them_and_one_label_says_nothing() -> None:
    assert float(ClassSensitivity(points=8)(judged(shared=True)).abs().max()) < 1e-6
    assert bool(ClassSensitivity(points=8)(judged(1)).isnan().all())


def test_too_many_labels_for_the_matrix_are_refused() -> None:
    f, x = conv_classifier(8, 70), pixels(1, 8)
    j = Judged(Session(f), x, f.top(x, 70), normal(1, 70, 8, 8))
    with pytest.raises(InputError, match="judge fewer labels"):
        ClassSensitivity(points=2)(j)


def test_second_soundness_is_that_of_the_nets_second_label() -> None:
    j = judged(4)
    turned = Judged(Session(j.classifier), j.images, j.labels.flip(1), j.maps.flip(1))
    expected = Soundness(points=8).pairs(j)[:, 1]  # labels go by their probability
    assert torch.equal(SecondSoundness(points=8)(j), expected)
    torch.testing.assert_close(SecondSoundness(points=8)(turned), expected)
    alone = Judged(Session(j.classifier), j.images, j.labels[:, :1], j.maps[:, :1])
    assert bool(SecondSoundness(points=8)(alone).isnan().all())


@pytest.mark.parametrize("kind", [Completeness, Soundness])
def test_more_labels_never_raise_a_worst_case(kind: type[Completeness] | type[Soundness]) -> None:
    j = judged(4)
    values = [kind(points=8, top=k)(j) for k in (1, 2, 3, 4)] + [kind(points=8)(j)]
    for few, more in itertools.pairwise(values):
        assert bool((more <= few).all())
    assert torch.equal(values[3], values[4])
    pairs = kind(points=8).pairs(j)
    assert torch.equal(values[1], pairs[:, :2].amin(dim=1)), "the first two labels are the most probable ones"


# ---- the list of metrics -----------------------------------------------------------------------------------------
