"""Labels that the fill gives by itself: said on the terminal, the sheet, the page and in JSON, and marked in tables."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import proofmap as pm
from proofmap.core.inputs import Text
from proofmap.report import sheets
from proofmap.results import score_tables
from proofmap.results.notes import f_of_fill, fill_notes, given_by_fill

SIZE = 6


class Brightness(nn.Module):
    """Label 0 is the dark one: what is not bright has it, gray too, the more so the larger ``pull`` is."""

    def __init__(self, pull: float) -> None:
        super().__init__()
        self.pull = pull

    def forward(self, x: Tensor) -> Tensor:
        bright = 20 * (x.mean(dim=(1, 2, 3)) - 0.7)
        return torch.stack([torch.full_like(bright, self.pull), bright, torch.zeros_like(bright)], dim=1)


LAMP = torch.ones(1, 3, SIZE, SIZE)


def net(pull: float) -> pm.Classifier:
    names = ["dark", "light", "else"]
    return pm.Classifier(Brightness(pull).eval(), size=SIZE, mean=(0.5,) * 3, std=(0.5,) * 3, names=names)


def explained(pull: float, **options: object) -> pm.Proof:
    return pm.explain(net(pull), LAMP, labels=["light", "dark"], method="random", names=["lamp"], **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def gray_is_dark() -> pm.Proof:
    """A bright image whose label "dark" has f = .05; gray alone has .88 of it."""
    return explained(3.0)


def test_the_case_is_what_it_says(gray_is_dark: pm.Proof) -> None:
    result = gray_is_dark.result
    f, alone = result.insertion.f[0], f_of_fill(result.insertion)[0]
    assert f[1] < 0.05 and alone[1] > 0.9 and alone[0] < 0.01
    assert result.pairs_of_kind("soundness")[0, 1] < 0.2  # type: ignore[index]
    assert given_by_fill(result).tolist() == [[False, True]]


def test_a_trace_of_a_label_is_not_given_by_the_fill(gray_is_dark: pm.Proof) -> None:
    result = gray_is_dark.result
    for alone, given in ((0.02, True), (0.005, False)):
        curves = result.insertion
        probabilities, auc, f = (x.clone() for x in (curves.probabilities, curves.auc, curves.f))
        probabilities[:, :, 0], auc[:], f[:] = alone, 1.5 * alone, 1e-6
        changed = replace(result, insertion=replace(curves, probabilities=probabilities, auc=auc, f=f))
        assert given_by_fill(changed).tolist() == [[given, given]]


def test_the_terminal_says_it_with_the_fill_that_may_help(gray_is_dark: pm.Proof) -> None:
    told = str(gray_is_dark)
    note = " ".join(told.split())
    assert "† gray alone gives 'dark' f = .95 (1 image), with nothing shown" in note and "--fill blur" in note
    dark = next(line for line in told.splitlines() if line.startswith("dark"))
    light = next(line for line in told.splitlines() if line.startswith("light"))
    assert dark.count("†") == 1 and "†" not in light
    dark = next(line for line in gray_is_dark.table(scores=True).splitlines() if "dark (0)" in line)
    assert dark.count("†") == 2  # completeness and soundness


def test_the_sheet_says_it_below_the_label(gray_is_dark: pm.Proof, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    sheet = sheets.sheet

    def read(title: str, sections: list[sheets.SheetSection], notes: list[str], *how: int | None) -> object:
        drawn.extend(text.text for part in sections for cell in part.cells for text in cell.lines)
        drawn.extend(notes)
        return sheet(title, sections, notes, *how)

    monkeypatch.setattr(sheets, "sheet", read)
    several = replace(gray_is_dark.evaluation, results=gray_is_dark.evaluation.results * 2)
    for evaluation in (gray_is_dark.evaluation, several):
        drawn.clear()
        sheets.explained_sheet(evaluation, 0)
        assert drawn.count("nothing shown 95 %") == len(evaluation.results)
        assert any(
            line.startswith("Gray alone gives 'dark'") and line.endswith("--fill blur") for line in drawn
        )


def test_the_page_and_json_say_it(gray_is_dark: pm.Proof, tmp_path: Path) -> None:
    evaluation, result = gray_is_dark.evaluation, gray_is_dark.result
    page = pm.write_report(evaluation, tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count('"empty_words":"nothing shown 95 %"') == 1
    gray_is_dark.save(tmp_path)
    record = json.loads((tmp_path / "evaluation.json").read_text(encoding="utf-8"))
    (given,) = record["methods"][0]["given_by_fill"]
    assert (given["image"], given["name"], given["fill"]) == ("lamp", "dark", "gray")
    assert given["f_of_fill"] == pytest.approx(float(f_of_fill(result.insertion)[0, 1]))


def test_scores_that_rest_on_it_carry_a_mark_in_tables(gray_is_dark: pm.Proof) -> None:
    evaluation = gray_is_dark.evaluation
    header, _ = score_tables.score_cells(evaluation)
    assert {cell for cell in header if cell.endswith("†")} == {
        "completeness ↑†",
        "soundness ↑†",
        "best effort ↑†",
    }
    assert any(note.startswith("† gray alone gives 'dark'") for note in score_tables._score_notes(evaluation))
    assert r"soundness $\uparrow$$^{\dagger}$" in score_tables.score_table(evaluation).to_latex()


def test_a_note_about_the_mark_stands_only_where_a_mark_does(tmp_path: Path) -> None:
    judged = partial(pm.evaluate, net(3.0), LAMP, methods=["random"], labels=["light", "dark"])
    assert "†" not in judged(metrics=["insertion"]).table()
    table = judged(metrics=["completeness", "soundness"], fills=["gray", "blur"]).table()
    assert (
        "completeness (gray) ↑†" in table
        and "completeness (blur) ↑†" not in table
        and "\n† gray alone gives 'dark'" in table
    )
    page = pm.write_report(judged(), tmp_path / "report.html").read_text(encoding="utf-8")
    assert '<span aria-hidden="true">↑</span>†' in page and "<li>† gray alone gives" in page


def test_a_fill_that_gives_nothing_is_not_mentioned() -> None:
    proof = explained(-9.0)
    assert "†" not in str(proof) + proof.evaluation.table() and fill_notes(proof.evaluation) == []


def test_curves_that_do_not_begin_with_nothing_shown_say_nothing() -> None:
    assert "†" not in str(explained(3.0, curve="restricted"))


@pytest.mark.parametrize("fill", ["gray", "delete"])
def test_the_other_fill_of_texts_is_not_the_same_one_by_another_name(fill: str) -> None:
    """``gray`` deletes words, so it is no other fill than ``delete``."""

    def sure_of_nothing(texts: list[str]) -> list[list[float]]:
        return [[0.95 if not text else 0.5 + 0.01 * len(text.split()), 0.0] for text in texts]

    def model(texts: list[str]) -> list[list[float]]:
        return [[first, 1 - first] for first, _ in sure_of_nothing(texts)]

    f = pm.Classifier(model, inputs=Text(length=8))
    found = pm.evaluate(
        f, ["one two three", "four five"], methods=["random"], metrics=["completeness"], fills=[fill]
    )
    assert "--fill mask (explain)" in " ".join(fill_notes(found))
