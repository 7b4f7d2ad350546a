"""The opening of the report: which image and labels it takes, and that its sentences say what the numbers say."""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import proofmap as pm
from proofmap.core.ranking import keep_top
from proofmap.report import opening as openings
from proofmap.report.html import write_report
from proofmap.results.proof_shape import ProofShape, shape_of
from proofmap.results.verdict import verdict
from tests.report.pages import PageParts
from tests.toys import linear_classifier, pixels


@pytest.fixture(scope="module")
def evaluation() -> pm.Evaluation:
    net = linear_classifier(8, 12, strength=0.5, names=[f"name {k}" for k in range(12)])
    return pm.evaluate(net, pixels(3, 8), methods=["random", "gradient"], labels="top1+wrong")


def test_the_method_has_a_map_for_each_label_and_the_wrong_label_is_the_one_it_proves_most(
    evaluation: pm.Evaluation,
) -> None:
    found = openings.opening(evaluation, verdict(evaluation).methods)
    assert found is not None and found["method"] == "gradient"
    index = evaluation.image_names.index(found["image"])
    result = evaluation["gradient"]
    proves = [shape_of(evaluation, result, i, 0).word == "match" for i in range(3)]
    assert index == (proves.index(True) if any(proves) else 0)
    worst = 1 + int(result.insertion.auc[index, 1:].argmax())
    assert found["wrong"]["label"] == evaluation.label_names[int(evaluation.labels[index, worst])]
    assert found["believed"]["label"] == evaluation.label_names[int(evaluation.labels[index, 0])]


def test_the_pixels_shown_are_those_that_reach_the_belief(evaluation: pm.Evaluation) -> None:
    found = openings.opening(evaluation, verdict(evaluation).methods)
    assert found is not None
    index, result = evaluation.image_names.index(found["image"]), evaluation["gradient"]
    reach = shape_of(evaluation, result, index, 0).reach
    assert reach is not None and reach < 1
    shown = np.asarray(
        Image.open(io.BytesIO(base64.b64decode(found["believed"]["picture"].partition(",")[2])))
    )
    kept = keep_top(evaluation.map_of(result, index, 0)[None], reach)[0].numpy()
    photo = (evaluation.image_of(index).permute(1, 2, 0).numpy() * 255).round()
    assert (shown[kept] == photo[kept]).all() and len({tuple(p) for p in shown[~kept]}) == 1


def test_a_label_that_the_fill_alone_gives_is_said_to_be_due_to_the_fill(evaluation: pm.Evaluation) -> None:
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 64, 4))
    with torch.no_grad():
        module[1].bias.copy_(torch.tensor([20.0, 0, 0, 0]))
    net = pm.Classifier(module, size=8, mean=(0.5,) * 3, std=(0.25,) * 3)
    found = pm.evaluate(net, pixels(1, 8), methods=["gradient"], labels="all")
    opened, usual = (openings.opening(e, verdict(e).methods) for e in (found, evaluation))
    assert opened is not None and usual is not None
    assert "(gray alone: f = 1.00): this is due to the fill" in opened["believed"]["words"]
    assert "due to the fill" not in usual["believed"]["words"]


def shape(peak: float, average: float, word: str) -> ProofShape:
    return ProofShape(0.002, average, peak, None, 1.0, 0.5 if word == "strong" else 1.0, peak / 0.002)


def test_the_sentence_on_a_wrong_label_says_whether_the_method_fails(evaluation: pm.Evaluation) -> None:
    said = [
        openings.wrong_words(found, "mosque", evaluation, 0.3)
        for found in (shape(0.6, 0.2, "strong"), shape(0.4, 0.002, "match"), shape(0.002, 0.001, "match"))
    ]
    assert said[0].startswith(
        "It does not fail: these pixels, 30 %, make the net say mosque with 60 %, and 20 % on"
    )
    assert said[1].startswith(
        "On average it fails (less than 1 %), but 30 % of the pixels make the net say mosque"
    )
    assert said[2] == "It fails, as it should: its pixels make the net say mosque with less than 1 %."


def test_without_a_wrong_label_or_a_map_for_each_label_there_is_no_opening(
    evaluation: pm.Evaluation, tmp_path: Path
) -> None:
    assert openings.opening(replace(evaluation, results=evaluation.results[:1]), ()) is None
    believed = replace(evaluation, f=torch.full_like(evaluation.f, 0.3))
    assert openings.opening(believed, ()) is None
    page = PageParts(write_report(believed, tmp_path / "r.html"))
    assert "should fail. Does it?" not in page.text
    page = PageParts(write_report(evaluation, tmp_path / "r.html"))
    assert "should fail. Does it?" in page.text
    order = [page.text.index(words) for words in ("Does it?", verdict(evaluation).headline, "All scores")]
    assert order == sorted(order), "one photo, then the verdict, then the numbers"
