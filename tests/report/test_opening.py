"""The opening of the report: which image and labels it takes, and that its sentences say what the numbers say."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

import proofmap as pm
from proofmap.report.html import write_report
from proofmap.results.proof_shape import percent, shape_of
from proofmap.results.verdict import verdict
from tests.report.pages import PageParts
from tests.toys import linear_classifier, pixels


@pytest.fixture(scope="module")
def evaluation() -> pm.Evaluation:
    net = linear_classifier(8, 12, strength=0.5, names=[f"name {k}" for k in range(12)])
    return pm.evaluate(
        net, pixels(3, 8), methods=["random", "gradient", "gradient-x-input"], labels="top1+wrong"
    )


def opened(evaluation: pm.Evaluation, path: Path) -> dict[str, Any]:
    record = PageParts(write_report(evaluation, path)).record
    assert record["opening"] is not None
    return dict(record["opening"])


def test_the_map_that_exceeds_the_belief_most_is_shown_beside_the_best_method(
    evaluation: pm.Evaluation, tmp_path: Path
) -> None:
    """Against a plain loop over images, labels and methods with a map for each label, the best one left out."""
    found = opened(evaluation, tmp_path / "r.html")
    excess = {
        (i, j, k): float(r.insertion.auc[i, j] - evaluation.f[i, j])
        for k, r in enumerate(evaluation.results)
        for i, j in product(range(3), range(3))
        if not r.one_map and shape_of(evaluation, r, i, j).word == "strong"
    }
    best = evaluation.methods.index((verdict(evaluation).methods or ("gradient",))[0])
    others = {at: value for at, value in excess.items() if at[2] != best and value >= 0.05}
    (i, j, k) = max(others, key=others.__getitem__)
    assert (found["picture"], found["place"], found["methods"]) == (i, j, [k, best])
    name = evaluation.label_name(i, j)
    assert evaluation.methods[k] in found["title"] and name in found["title"]
    assert f"The net gives {name} {percent(float(evaluation.f[i, j]))}" in found["words"]
    assert f"{percent(float(evaluation.results[k].insertion.auc[i, j]))} on average" in found["words"]


def test_where_no_map_is_too_strong_the_weakest_is_shown(evaluation: pm.Evaluation, tmp_path: Path) -> None:
    weak = replace(evaluation, f=torch.full_like(evaluation.f, 0.95))
    weak = replace(weak, results=tuple(replace(r, pairs={}) for r in weak.results))
    found = opened(weak, tmp_path / "r.html")
    assert " does not prove " in found["title"] and "at the peak" not in found["words"].partition("With ")[0]


def test_without_a_map_for_each_label_there_is_no_opening_and_the_verdict_is_first(
    evaluation: pm.Evaluation, tmp_path: Path
) -> None:
    bare = PageParts(write_report(evaluation.select_images([0, 1]), tmp_path / "r.html"))
    order = [
        bare.text.index(words)
        for words in (
            verdict(evaluation.select_images([0, 1])).headline,
            "The most telling failure: ",
            "How sure",
        )
    ]
    assert order[0] < order[2] < order[1], "the verdict, how sure, then pictures"
    noise = replace(evaluation, results=evaluation.results[:1])
    assert PageParts(write_report(noise, tmp_path / "s.html")).record["opening"] is None
