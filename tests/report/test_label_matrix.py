"""The label x label matrix as a table, against a plain loop over images and labels."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from itertools import product

import pytest
import torch

import proofmap as pm
from proofmap.results.label_matrix import LabelMatrices
from tests.toys import conv_classifier, pixels

METRICS = ["soundness:points=2", "insertion:points=2"]


@pytest.fixture(scope="module")
def net() -> pm.Classifier:
    return conv_classifier(8, 4)


@pytest.fixture(scope="module")
def found(net: pm.Classifier) -> pm.Evaluation:
    return pm.evaluate(net, pixels(3, 8), methods=["gradient", "random"], labels="all", metrics=METRICS)


def area_in_a_loop(found: pm.Evaluation, method: str, a: int, b: int) -> float:
    matrix = found[method].insertion.matrix
    assert matrix is not None
    places = [(row.index(a), row.index(b)) for row in found.labels.tolist()]
    return sum(float(matrix[i, j, k]) for i, (j, k) in enumerate(places)) / len(places)


def test_every_form_has_the_means_of_a_loop(found: pm.Evaluation) -> None:
    result = pm.label_matrices(found)
    names = found.label_names
    lines = list(csv.DictReader(io.StringIO(result.csv())))
    record = json.loads(result.json())
    assert list(result.areas) == ["gradient", "random"] and result.names == tuple(names)
    assert len(lines) == 2 * len(names) ** 2
    for line, (method, a, b) in zip(lines, product(result.areas, range(4), range(4)), strict=True):
        expected = area_in_a_loop(found, method, a, b)
        assert (line["method"], line["map_of"], line["probability_of"]) == (method, names[a], names[b])
        assert float(line["auc"]) == pytest.approx(expected, abs=1e-6)
        assert record["methods"][method][a][b] == pytest.approx(expected, abs=1e-6)
        f = sum(float(found.f[i, row.index(b)]) for i, row in enumerate(found.labels.tolist())) / 3
        assert float(line["f"]) == pytest.approx(f, abs=1e-6) == pytest.approx(record["f"][b], abs=1e-6)


def test_the_question_is_answered_by_the_worst_cell(found: pm.Evaluation) -> None:
    def with_matrices(*matrices: list[list[float]]) -> LabelMatrices:
        first = found.results[0]
        labels = torch.tensor([[0, 1]]).expand(len(matrices), -1)
        curves = replace(
            first.insertion.select_images([0] * len(matrices)), matrix=torch.tensor(matrices), labels=labels
        )
        return pm.label_matrices(
            replace(
                found.select_images([0] * len(matrices)),
                results=(replace(first, insertion=curves),),
                labels=labels,
            )
        )

    a, b = found.label_names[:2]
    low, high = [[0.5, 0.1], [0.2, 0.3]], [[0.5, 0.1], [0.45, 0.05]]
    assert with_matrices(low).answers() == {
        "gradient": "Yes: on average every map raises its own label most."
    }
    said = f"No: the map of {b} raises {a} to .37 and its own label to .13; {a} is higher on 2 of 3 images."
    assert with_matrices(low, high, high).answers() == {"gradient": said}
    assert with_matrices(low, high, high).record()["own_label_only"] == {"gradient": said}
    wrong = replace(with_matrices(high), f=torch.tensor([0.5, 0.001]))  # its map should prove nothing
    assert wrong.answers() == {
        "gradient": "Yes: on average every map of a label that the net believes raises its own label most."
    }
    assert replace(wrong, f=torch.tensor([0.001, 0.001])).answers() == {}


def test_a_table_per_method_ends_with_f(found: pm.Evaluation) -> None:
    result = pm.label_matrices(found, methods=["random"])
    ((header, rows),) = result.tables()
    assert header == ["random: map of", *found.label_names]
    assert [row[0] for row in rows] == [*found.label_names, "f"]
    assert str(result).splitlines()[-2].endswith("last row: f; means over 3 images")
    assert (
        str(result)
        .splitlines()[-1]
        .startswith("does a map of random prove its own label only? No: the map of ")
    )
    with pytest.raises(pm.InputError, match="no method 'grdient' was judged; there are gradient, random"):
        pm.label_matrices(found, methods=["grdient"])


def test_labels_of_each_image_go_by_place(net: pm.Classifier) -> None:
    labels = [[0, 1], [2, 3], [1, 2]]
    found = pm.evaluate(net, pixels(3, 8), methods=["gradient"], labels=labels, metrics=METRICS)
    result = pm.label_matrices(found)
    assert result.names == ("label 1", "label 2") and result.labels is None
    assert "label 1 is the first label of each image" in str(result)
    matrix = found.results[0].insertion.matrix
    assert matrix is not None and torch.allclose(result.areas["gradient"], matrix.mean(dim=0))


def test_a_matrix_that_was_not_kept_is_named(found: pm.Evaluation) -> None:
    first, second = found.results
    bare = replace(second, insertion=replace(second.insertion, matrix=None))
    some = pm.label_matrices(replace(found, results=(first, bare)))
    assert some.notes[-1] == "no matrix was kept for random" and list(some.areas) == ["gradient"]
    with pytest.raises(
        pm.InputError, match="the label x label matrix was not kept; it is kept for up to 64 labels"
    ):
        str(pm.label_matrices(replace(found, results=(bare,))))
