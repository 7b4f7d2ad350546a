"""The label x label matrix, against a plain loop over images and labels."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch

import proofmap as pm
from proofmap.results.label_matrix import LabelMatrices, label_matrices
from tests.toys import conv_classifier, pixels

METRICS = ["soundness:points=2", "insertion:points=2"]


@pytest.fixture(scope="module")
def found() -> pm.Evaluation:
    net = conv_classifier(8, 4)
    return pm.evaluate(net, pixels(3, 8), methods=["gradient", "random"], labels="all", metrics=METRICS)


def test_cells_are_the_means_of_a_loop(found: pm.Evaluation) -> None:
    result, labels = label_matrices(found), found.labels.tolist()
    assert list(result.areas) == ["gradient", "random"] and result.names == tuple(found.label_names)
    for method, a, b in product(result.areas, range(4), range(4)):
        matrix = found[method].insertion.matrix
        assert matrix is not None
        own = [float(matrix[i, row.index(a), row.index(b)]) for i, row in enumerate(labels)]
        assert float(result.areas[method][a, b]) == pytest.approx(sum(own) / 3, abs=1e-6)
        f = sum(float(found.f[i, row.index(b)]) for i, row in enumerate(labels)) / 3
        assert float(result.f[b]) == pytest.approx(f, abs=1e-6)


def test_the_question_is_answered_by_the_worst_cell(found: pm.Evaluation) -> None:
    def with_matrices(*matrices: list[list[float]]) -> LabelMatrices:
        first, count = found.results[0], [0] * len(matrices)
        labels = torch.tensor([[0, 1]]).expand(len(matrices), -1)
        curves = replace(first.insertion.select_images(count), matrix=torch.tensor(matrices), labels=labels)
        results = (replace(first, insertion=curves),)
        return label_matrices(replace(found.select_images(count), results=results, labels=labels))

    a, b = found.label_names[:2]
    low, high = [[0.5, 0.1], [0.2, 0.3]], [[0.5, 0.1], [0.45, 0.05]]
    yes = "Yes: on average every map raises its own label most."
    assert with_matrices(low).answers() == {"gradient": yes}
    said = f"No: the map of {b} raises {a} to .37 and its own label to .13; {a} is higher on 2 of 3 images."
    assert with_matrices(low, high, high).answers() == {"gradient": said}
    wrong = replace(with_matrices(high), f=torch.tensor([0.5, 0.001]))  # its map should prove nothing
    assert wrong.answers() == {
        "gradient": yes.replace("map raises", "map of a label that the net believes raises")
    }
    assert replace(wrong, f=torch.tensor([0.001, 0.001])).answers() == {}


def test_labels_of_each_image_go_by_place_and_a_matrix_may_be_missing() -> None:
    labels = [[0, 1], [2, 3], [1, 2]]
    found = pm.evaluate(
        conv_classifier(8, 4), pixels(3, 8), methods=["gradient"], labels=labels, metrics=METRICS
    )
    result, matrix = label_matrices(found), found.results[0].insertion.matrix
    assert result.names == ("label 1", "label 2") and not result.shared
    assert matrix is not None and torch.allclose(result.areas["gradient"], matrix.mean(dim=0))
    bare = replace(found.results[0], insertion=replace(found.results[0].insertion, matrix=None))
    assert not label_matrices(replace(found, results=(bare,))).areas
