"""Rows of a table on the page, in notebooks and in files: columns in the order of the map, with their curve."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import proofmap as pm
from proofmap.core.inputs import Rows
from proofmap.results.proof_shape import shape_of
from proofmap.results.score_tables import _proof_names
from tests.test_row_fills import classifier, people


@pytest.fixture(scope="module")
def proof() -> pm.Proof:
    frame = people()
    f = classifier(Rows.of(frame, groups={"money": ["income", "member"]}))
    return pm.explain(f, frame[:8], labels="all", method="occlusion")


def test_the_pictures_of_a_row_list_names_and_unnamed_rows_do_not() -> None:
    inputs = Rows.of(people())
    assert inputs.shown_as == "columns"
    assert Rows(columns=4, mean=(0.0,) * 4, std=(1.0,) * 4).shown_as == "picture"
    assert inputs.picture_size() == (16 * 4, 260)
    assert torch.equal(inputs.pixel_positions()[:, 0], torch.arange(64) // 16)
    assert Rows(columns=4, mean=(0.0,) * 4, std=(1.0,) * 4).picture_size() == (96, 192)


def test_the_report_shows_the_list(proof: pm.Proof, tmp_path: Path) -> None:
    page = pm.write_report(proof, tmp_path / "report.html").read_text(encoding="utf-8")
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
    shown = proof._repr_html_()
    assert proof._repr_png_() is None and shown.count("<td>nothing shown") == 2 * 3, (
        "two labels of three rows"
    )
    proof.save(tmp_path / "out")
    saved = (tmp_path / "out" / "proofs.html").read_text(encoding="utf-8")
    assert saved.count("<td>nothing shown") == 2 * 8
    order = [image["columns"][own["order"].index(k)]["name"] for k in range(3)]
    last = re.findall(r"<tr><td>(.*?)</td><td[^>]*>(.*?)</td>", shown)[5:8]
    assert [name for name, _ in last] == order
    assert [value for _, value in last] == [
        next(c["value"] for c in image["columns"] if c["name"] == n) for n in order
    ]


def test_long_names_that_begin_alike_are_told_apart(tmp_path: Path) -> None:
    frame = people()
    groups = {f"answer of this person to our question about {name}": [name] for name in frame}
    f = classifier(Rows.of(frame, groups=groups))
    found = pm.evaluate(f, frame[:2], methods=["occlusion"], labels="all", metrics=["insertion"])
    page = pm.write_report(found, tmp_path / "report.html").read_text(encoding="utf-8")
    record = json.loads(re.search(r'id="record">(.*?)</script>', page, re.S)[1])  # type: ignore[index]
    names = [column["short"] for column in record["pictured"][0]["columns"]]
    assert names == ["…age", "…income", "…city", "…member"]


def test_tables_and_files_name_the_columns(proof: pm.Proof, tmp_path: Path) -> None:
    evaluation, result = proof.evaluation, proof.evaluation.results[0]
    text = str(proof)
    title, header, first = text.splitlines()[:3]
    assert title == f"maps by {result.name}"
    names = _proof_names(evaluation, result, 0, 0)
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
