"""Rows of a table in pictures: columns in the order of the map with their curve, and the columns that carry proofs."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import proofmap as pm
from proofmap.core.inputs import Rows
from proofmap.report.proof_columns import proof_columns
from proofmap.report.sheets import explained_sheet, finding, ranked_columns
from proofmap.results.proof_shape import proof_names, shape_of
from tests.test_row_fills import classifier, people


@pytest.fixture(scope="module")
def proof() -> pm.Proof:
    frame = people()
    f = classifier(Rows.of(frame, groups={"money": ["income", "member"]}))
    return pm.explain(f, frame[:8], labels="all", method="occlusion")


def test_the_title_counts_the_columns_that_give_the_belief(proof: pm.Proof) -> None:
    evaluation, result = proof.evaluation, proof.evaluation.results[0]
    for i in range(8):
        first = int(evaluation.f[i].argmax())
        along = result.insertion.probabilities[i, first, 1:].tolist()  # 1, 2, 3 positions shown
        assert len(along) == 3
        expected = next(k for k, p in enumerate(along, 1) if p >= 0.9 * float(evaluation.f[i, first]))
        assert shape_of(evaluation, result, i, first).enough == expected
        label = evaluation.label_names[int(evaluation.labels[i, first])]
        alone = float(result.insertion.probabilities[i, first, 0])
        if alone >= 0.9 * float(evaluation.f[i, first]):
            unsure = "" if alone > 0.5 else r" \d+ % \(whole row \d+ %\)"
            assert re.search(
                f"gray alone gives {label}{unsure}, with nothing shown; ", finding(evaluation, result, i)
            )
            continue
        unsure = "" if along[expected - 1] > 0.5 else r" \d+ % \(whole row \d+ %\)"
        counted = f"{expected} of 3 columns give{'s' * (expected == 1)} {label}{unsure}; "
        assert re.search(counted, finding(evaluation, result, i))


def test_columns_with_which_the_model_says_another_label_do_not_give_it(proof: pm.Proof) -> None:
    evaluation, result = proof.evaluation, proof.evaluation.results[0]
    first = int(evaluation.f[0].argmax())
    label = evaluation.label_names[int(evaluation.labels[0, first])]

    def title(*along: float) -> str:
        probabilities, f = result.insertion.probabilities.clone(), evaluation.f.clone()
        probabilities[0, first], f[0, first], f[0, 1 - first] = torch.tensor(along), along[-1], 1 - along[-1]
        found = replace(result, insertion=replace(result.insertion, probabilities=probabilities, f=f))
        return finding(replace(evaluation, f=f, results=(found,)), found, 0)

    assert f"1 of 3 columns gives {label} 48 % (whole row 52 %); " in title(0.2, 0.484, 0.51, 0.52)
    assert f"gray alone gives {label} 49 % (whole row 53 %), with nothing shown" in title(
        0.49, 0.6, 0.51, 0.53
    )
    assert f"2 of 3 columns give {label}; " in title(0.2, 0.4, 0.55, 0.56)


def test_the_title_says_that_nothing_needs_to_be_shown_and_which_number_is_a_label(proof: pm.Proof) -> None:
    evaluation = proof.evaluation
    first = evaluation.results[0]
    along = first.insertion.probabilities
    flat = replace(first.insertion, probabilities=along[..., -1:].expand_as(along))
    numbered = replace(evaluation, results=(replace(first, insertion=flat),), label_names=("0", "1"))
    top = int(evaluation.labels[0, int(evaluation.f[0].argmax())])
    said = f"gray alone gives label {top}, with nothing shown; label {1 - top} gets "
    assert said in finding(numbered, numbered.results[0], 0)


def test_a_picture_of_a_map_has_a_line_for_each_column_and_one_for_nothing(proof: pm.Proof) -> None:
    evaluation = proof.evaluation
    drawn = [
        ranked_columns(evaluation, evaluation.results[0], 0, j, side=200, most=most)
        for j in (0, 1)
        for most in (2, 9)
    ]
    assert [picture.size for picture in drawn] == [(200, 19 * 4), (200, 19 * 5)] * 2
    assert not np.array_equal(np.asarray(drawn[1]), np.asarray(drawn[3]))
    sheet = explained_sheet(evaluation, 0)
    assert sheet.width == 18 + 2 * (360 + 18)  # two labels side by side


def test_the_pictures_of_a_row_list_names_and_unnamed_rows_do_not() -> None:
    inputs = Rows.of(people())
    assert inputs.shown_as == "columns"
    assert Rows(columns=4, mean=(0.0,) * 4, std=(1.0,) * 4).shown_as == "picture"
    assert inputs.picture_size() == (16 * 4, 260)
    assert torch.equal(inputs.pixel_positions()[:, 0], torch.arange(64) // 16)
    assert Rows(columns=4, mean=(0.0,) * 4, std=(1.0,) * 4).picture_size() == (96, 192)


def test_columns_that_carry_proofs_come_first_and_dots_are_ranks(proof: pm.Proof) -> None:
    evaluation, result = proof.evaluation, proof.evaluation.results[0]
    figure = proof_columns(evaluation)
    assert figure is not None
    for panel in figure["panels"]:
        label = evaluation.label_names.index(panel["label"])
        rows = [
            (i, j)
            for i in range(8)
            for j in range(2)
            if int(evaluation.labels[i, j]) == label and float(evaluation.f[i, j]) >= 0.01
        ]
        assert panel["rows"] == len(rows)
        shares = []
        for line in panel["columns"]:
            p = evaluation.inputs.position_names.index(line["name"])
            for (i, j), dot in zip(rows, line["dots"], strict=True):
                order = evaluation.map_of(result, i, j).argsort(descending=True, stable=True).tolist()
                assert dot["place"] == order.index(p)
                assert dot["proves"] == (dot["place"] < shape_of(evaluation, result, i, j).enough)
            shares.append(np.mean([dot["proves"] for dot in line["dots"]]))
            assert line["share"] == pytest.approx(shares[-1])
        assert shares == sorted(shares, reverse=True)


def test_the_report_shows_the_list(proof: pm.Proof, tmp_path: Path) -> None:
    page = pm.write_report(proof, tmp_path / "report.html").read_text(encoding="utf-8")
    columns = proof_columns(proof.evaluation)
    assert columns is not None
    dots = [dot for panel in columns["panels"] for line in panel["columns"] for dot in line["dots"]]
    assert page.count('<circle class="dot') == len(dots) > 0, "a dot for each row, label and column"
    assert page.count('class="dot hollow"') == sum(not dot["proves"] for dot in dots)
    record = json.loads(re.search(r'id="record">(.*?)</script>', page, re.S)[1])  # type: ignore[index]
    assert record["counts"] == [0, 1, 2, 3] and len(record["pictured"]) == 8
    evaluation, result = proof.evaluation, proof.evaluation.results[0]
    image = next(one for one in record["pictured"] if one["index"] == 0)
    assert [column["name"] for column in image["columns"]] == ["age", "money", "city"]
    for k, label in enumerate(image["labels"]):
        j = evaluation.labels[0].tolist().index(label["label"])
        own = {key: values[k] for key, values in image["methods"][0]["listed"].items()}
        assert own["curve"] == pytest.approx(result.insertion.probabilities[0, j].tolist())
        heat = evaluation.map_of(result, 0, j)
        assert sorted(own["order"]) == [0, 1, 2] and int(heat.argmax()) == own["order"].index(0)
        assert own["enough"] == shape_of(evaluation, result, 0, j).enough
    written = {path.name for path in proof.save(tmp_path / "out")}
    assert "row-0.occlusion.png" in written


def test_long_names_that_begin_alike_are_told_apart_on_page_and_figure(tmp_path: Path) -> None:
    frame = people()
    groups = {f"answer of this person to our question about {name}": [name] for name in frame}
    f = classifier(Rows.of(frame, groups=groups))
    found = pm.evaluate(f, frame[:2], methods=["occlusion"], labels="all", metrics=["insertion"])
    page = pm.write_report(found, tmp_path / "report.html").read_text(encoding="utf-8")
    record = json.loads(re.search(r'id="record">(.*?)</script>', page, re.S)[1])  # type: ignore[index]
    names = [column["short"] for column in record["pictured"][0]["columns"]]
    assert names == ["…age", "…income", "…city", "…member"]
    assert (columns := proof_columns(found)) is not None
    assert {line["short"] for panel in columns["panels"] for line in panel["columns"]} == {*names}


def test_tables_and_files_name_the_columns(proof: pm.Proof, tmp_path: Path) -> None:
    evaluation, result = proof.evaluation, proof.evaluation.results[0]
    text = str(proof)
    title, header, first = text.splitlines()[:3]
    assert title == f"maps by {result.name}"
    names = proof_names(evaluation, result, 0, 0)
    assert (
        "columns" in header.split() and names in first and set(names.split(", ")) <= {"age", "money", "city"}
    )
    proof.save(tmp_path / "out")
    with (tmp_path / "out" / "positions.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8 * 2 * 3
    own = [
        row
        for row in rows
        if row["row"] == "row-0" and row["label"] == evaluation.label_names[int(evaluation.labels[0, 0])]
    ]
    assert [row["place"] for row in own] == ["1", "2", "3"]
    assert ", ".join(row["position"] for row in own if row["proves"] == "True") == names
    assert float(own[2]["probability"]) == pytest.approx(float(evaluation.f[0, 0]), abs=1e-6)
    assert {row["value"] for row in own} == {
        evaluation.inputs.value_text(evaluation.image_of(0), p) for p in range(3)
    }


def test_the_page_lists_columns_and_the_slider_shows_them(
    proof: pm.Proof, browser: Any, tmp_path: Path
) -> None:
    page = browser.new_page(viewport={"width": 1200, "height": 4000})
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(pm.write_report(proof, tmp_path / "report.html").as_uri())
    page.locator("#share").evaluate("(s) => { s.value = 2; s.dispatchEvent(new Event('input')); }")
    cell = page.locator("#image-0 .cell").first
    cell.locator(".reading-off", has_text="2 columns").wait_for()
    lines = cell.locator("li")
    assert lines.count() == 4 and lines.first.inner_text() == "nothing shown"
    assert [lines.nth(k).get_attribute("class") or "" for k in range(4)][3].split()[-1] == "unshown"
    assert cell.locator(".unshown").count() == 1 and complaints == []
    page.close()
