"""Texts on pages, in notebooks and terminals: every one shows the words that were judged, in the order that was judged."""

from __future__ import annotations

import csv
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import proofmap as pm
from proofmap.cli.console import SafeConsole
from proofmap.cli.explain import print_words, shown_words
from proofmap.core.inputs import Rows, Text
from proofmap.metrics.proof_scores import Peak, ProofReach
from proofmap.report import display
from proofmap.report.html import write_report
from proofmap.report.listed import ListedProof
from proofmap.results.proof_shape import shape_of
from proofmap.results.score_tables import _proof_names
from tests.test_row_fills import classifier, people

TEXTS = [
    "bad <b>songs</b> but a good, good end",
    "Good.",
    "one two three four good six seven bad nine ten eleven twelve",
]


def critic(texts: list[str]) -> list[list[float]]:
    """Good and bad words, counted."""
    found = []
    for text in texts:
        p = 1 / (1 + np.exp(-1.5 * len(re.findall("good", text, re.I)) + 1.2 * text.count("bad")))
        found.append([1 - p, p])
    return found


@pytest.fixture(scope="module")
def evaluation() -> pm.Evaluation:
    net = pm.Classifier(critic, inputs=Text(length=40), names=["bad", "good"], batch_size=64)
    return pm.evaluate(net, TEXTS, methods=["belief-order", "occlusion"], labels="all", keep_maps=3)


def proof_of(evaluation: pm.Evaluation, method: str, index: int, label: str) -> ListedProof:
    place = evaluation.labels[index].tolist().index(evaluation.label_names.index(label))
    return ListedProof.of(evaluation, evaluation[method], index, place)


@pytest.mark.parametrize("method", ["belief-order", "occlusion"])
@pytest.mark.parametrize("index", range(3))
@pytest.mark.parametrize("label", ["bad", "good"])
def test_the_belief_beside_the_words_is_that_of_the_model(
    evaluation: pm.Evaluation, method: str, index: int, label: str
) -> None:
    proof = proof_of(evaluation, method, index, label)
    assert "".join(proof.names) == TEXTS[index] and sorted(proof.order) == list(range(len(proof.names)))
    shown = [
        "".join(word for p, word in enumerate(proof.names) if p in proof.order[:k])
        for k in range(len(proof.names) + 1)
    ]
    expected = [row[label == "good"] for row in critic(shown)]
    assert proof.along == pytest.approx(expected, abs=1e-6)
    belief = expected[-1]
    enough = next(k for k, p in enumerate(expected) if p >= 0.9 * belief)  # 0: with nothing shown
    assert proof.shape.enough == enough and proof.shape.is_given == (enough == 0)
    first = next(k for k, p in enumerate(expected) if k and p >= 0.9 * belief)
    assert proof.shape.reach == pytest.approx(first / len(proof.names))


def test_words_against_the_label_come_last_and_padding_never(evaluation: pm.Evaluation) -> None:
    proof = proof_of(
        evaluation, "occlusion", 0, "good"
    )  # "bad" counts against it: below the zeros of padding
    assert proof.order[-1] == 0 and proof.heat[0] < 0.5 < proof.heat[5]
    assert [proof.order[place] for place in proof.places] == list(range(len(proof.names)))


def test_only_the_words_of_the_proof_are_coloured(evaluation: pm.Evaluation) -> None:
    for method in ("belief-order", "occlusion"):
        for index, label in itertools.product(range(len(TEXTS)), ("good", "bad")):
            proof = proof_of(evaluation, method, index, label)
            cut = round(proof.shape.cut * len(proof.names))
            assert proof.proving == frozenset(proof.order[:cut])
            assert all(proof.shade(k) is None for k in proof.order[cut:])
            assert {proof.painted[k] for k in proof.order[cut:]} <= {128 if proof.signed else 0}


def test_what_the_first_word_changes_is_said_where_the_fill_gives_much(evaluation: pm.Evaluation) -> None:
    proof = proof_of(evaluation, "belief-order", 0, "good")
    given = replace(proof, shape=replace(proof.shape, empty=0.36), along=(0.36, 0.11, *proof.along[2:]))
    first = proof.names[proof.order[0]].strip()
    assert given.empty_words == f'nothing shown 36 %; "{first}" lowers it to 11 %'
    assert replace(given, along=(0.36, 0.362, 1.0)).empty_words.endswith("leaves it at 36 %")
    assert replace(given, shape=replace(proof.shape, empty=0.01)).empty_words == ""


LONG = " ".join(["bad", "money, ", *["and"] * 34, "good", "good"])


@pytest.mark.parametrize("curve", [{}, {"within": (0.2, 1.0)}, {"rule": "right", "points": 5}])
def test_numbers_of_a_text_do_not_depend_on_the_padding(curve: dict[str, Any]) -> None:
    def numbers(length: int, keep_maps: int = 4) -> list[Any]:
        net = pm.Classifier(critic, inputs=Text(length=length), names=["bad", "good"], batch_size=64)
        texts = [*TEXTS, LONG, " ".join(["word"] * 64)]  # the last one makes all other texts padded
        metrics = [Peak(**curve), ProofReach(**curve)]
        found = pm.evaluate(
            net, texts, methods=["occlusion"], metrics=metrics, labels="all", keep_maps=keep_maps
        )
        found = found.select_images(range(4))
        (result,) = found.results
        shapes = [shape_of(found, result, i, j) for i in range(4) for j in range(2)]
        assert [max(own.overshoot for own in shapes[2 * i :][:2]) for i in range(4)] == pytest.approx(
            next(iter(result.values.values())).tolist()
        )
        if not keep_maps:
            return [own.peak for own in shapes]
        assert [max(own.reach or 0 for own in shapes[2 * i :][:2]) for i in range(4)] == pytest.approx(
            list(result.values.values())[1].tolist()
        )
        shown = [ListedProof.of(found, result, i, j) for i in range(4) for j in range(2)]
        return [(own.along, own.shape) for own in shown]

    near = numbers(64)
    assert numbers(512) == near
    assert numbers(80, 0) == [shape.peak for *_, shape in near]


def test_tables_and_files_name_the_words(evaluation: pm.Evaluation, tmp_path: Path) -> None:
    alone = pm.Proof(evaluation)
    block = str(alone).split("text-1, maps by belief-order\n")[1]
    line = next(row for row in block.splitlines() if row.startswith("good"))
    assert line.endswith("Good")
    assert "proofs.html" in {path.name for path in alone.save(tmp_path)}
    lines = (tmp_path / "positions.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * 2 * sum(len(text.split()) for text in TEXTS)  # no line for padding


# ---- terminals, notebooks -----------------------------------------------------------------------------------------


def test_a_terminal_colours_words_and_a_file_has_brackets(
    evaluation: pm.Evaluation, capsys: pytest.CaptureFixture[str]
) -> None:
    proof = proof_of(evaluation, "belief-order", 1, "good")
    assert shown_words(proof, has_colours=False).plain == "[Good.]"
    (span,) = shown_words(proof, has_colours=True).spans
    assert span.style.underline  # type: ignore[union-attr]
    print_words(evaluation)
    assert "[Good.]\n" in (out := capsys.readouterr().out) and "in brackets: the first words" in out
    print_words(evaluation, SafeConsole(force_terminal=True, color_system="truecolor"))
    assert "\x1b[" in (out := capsys.readouterr().out) and "[Good.]" not in out


def test_a_notebook_shows_text_as_text(evaluation: pm.Evaluation) -> None:
    shown = display._proof_html(evaluation, 0, proof_of(evaluation, "belief-order", 0, "good"))
    assert "&lt;b&gt;songs&lt;/b&gt;" in shown and "<b>songs" not in shown and 'dir="auto"' in shown
    assert shown.count("border-bottom") == len(proof_of(evaluation, "belief-order", 0, "good").proving)
    assert shown in pm.Proof(evaluation)._repr_html_() and pm.Proof(evaluation)._repr_png_() is None


# ---- the page -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page_file(evaluation: pm.Evaluation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(evaluation, tmp_path_factory.mktemp("words") / "report.html")


def test_a_page_carries_the_words_and_their_order(evaluation: pm.Evaluation, page_file: Path) -> None:
    page = page_file.read_text()
    record = json.loads(re.search(r'id="record">(.*?)</script>', page, re.S)[1])  # type: ignore[index]
    assert record["counts"] == list(range(13)) and 'class="photo' not in page
    image = next(one for one in record["pictured"] if one["index"] == 0)
    assert "".join(image["text"]) == TEXTS[0]
    for k, label in enumerate(image["labels"]):
        proof = proof_of(evaluation, "occlusion", 0, label["name"])
        assert image["methods"][1]["listed"]["order"][k] == list(proof.places)
        assert image["methods"][1]["listed"]["curve"][k] == pytest.approx(list(proof.along))


def test_the_slider_shows_words_one_by_one(browser: Any, page_file: Path, evaluation: pm.Evaluation) -> None:
    page = browser.new_page(viewport={"width": 1200, "height": 9000})
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{page_file.as_uri()}#image-0")
    for step in (0, 2, 12):
        page.locator("#share").evaluate(
            "(s, k) => { s.value = k; s.dispatchEvent(new Event('input')); }", step
        )
        page.wait_for_function(
            "(k) => [...document.querySelectorAll('#image-0 .reading-off')].every((p) => p.textContent.startsWith(`${k} `))",
            arg=min(step, 7),
        )
        cell = page.locator("#image-0 .cell").first
        proof = proof_of(evaluation, "belief-order", 0, evaluation.label_name(0, 0))
        shown = cell.locator(".kept .word:not(.unseen-word)").all_text_contents()
        assert shown == [proof.names[p].strip() for p in sorted(proof.order[:step])]
    assert complaints == []
    page.close()


# ---- Rows of a table on the page, in notebooks and in files: columns in the order of the map, with their curve --------


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
        proof_of_label = ListedProof.of(evaluation, result, 0, j)
        assert own["enough"] == len(proof_of_label.proving)
        others = {own["heat"][k] for k in range(3)} if not proof_of_label.proving else set()
        assert others <= {0, 128}, "without a proof nothing is coloured"
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
    assert title == f"row-0, maps by {result.name}"
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
    page.goto(f"{pm.write_report(proof, tmp_path / 'report.html').as_uri()}#image-0")
    page.locator("#share").evaluate("(s) => { s.value = 2; s.dispatchEvent(new Event('input')); }")
    cell = page.locator("#image-0 .cell").first
    cell.locator(".reading-off", has_text="2 of 3 columns").wait_for()
    lines = cell.locator("li")
    assert lines.count() == 4 and lines.first.inner_text() == "nothing shown"
    assert [lines.nth(k).get_attribute("class") or "" for k in range(4)][3].split()[-1] == "unshown"
    assert cell.locator(".unshown").count() == 1 and complaints == []
    page.close()
