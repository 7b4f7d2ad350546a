"""Tables say the same numbers as the records."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import torch

import proofmap as pm
from proofmap.report import figures, tables
from proofmap.report.files import evaluation_json


@pytest.fixture(scope="module")
def evaluation() -> pm.Evaluation:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 36, 3))
    f = pm.Classifier(net, size=6, names=["a", "b", "c"])
    images = torch.rand(4, 3, 6, 6, generator=torch.Generator().manual_seed(1))
    return pm.evaluate(
        f, images, methods=["gradient-x-input", "random"], labels="all", names=["x", "y", "x", "z"]
    )


def test_the_table_has_a_line_per_method_and_marks_label_free_ones(evaluation: pm.Evaluation) -> None:
    lines = evaluation.table().splitlines()
    assert lines[0].split()[0] == "method" and "completeness ↑" in lines[0] and "deletion ↓" in lines[0]
    assert lines[1].startswith("gradient-x-input ") and lines[2].startswith("random*")
    assert "e1 = 0.01, e2 = 0.001" in evaluation.table()


def test_csv_json_and_record_agree(evaluation: pm.Evaluation) -> None:
    rows = list(csv.DictReader(tables.scores_csv(evaluation).splitlines()))
    record = json.loads(evaluation_json(evaluation))
    for row in rows:
        score = evaluation[row["method"]].score(row["score"])
        stored = next(m for m in record["methods"] if m["name"] == row["method"])
        in_json = next(s for s in stored["scores"] if s["score"] == row["score"])
        assert float(row["value"]) == score.value == in_json["value"]
        assert score.low <= score.value <= score.high
    pairs = list(csv.DictReader(tables.pairs_csv(evaluation).splitlines()))
    assert len(pairs) == 2 * 4 * 3
    assert {p["image"] for p in pairs} == {"x", "y", "x-2", "z"}  # equal names are told apart


def test_markdown_has_as_many_columns_in_every_line(evaluation: pm.Evaluation) -> None:
    lines = tables.markdown(*tables.score_cells(evaluation)).splitlines()
    assert len({line.count("|") for line in lines}) == 1


def test_numbers_are_printed_as_papers_print_them() -> None:
    assert [tables.number(v) for v in (0.844, 1.0, 0.0, 0.00123, -0.35, float("nan"))] == [
        ".84",
        "1.00",
        ".00",
        "1e-3",
        "-0.35",
        "-",
    ]


def test_the_drawn_lines_are_the_curves_means(evaluation: pm.Evaluation) -> None:
    line = figures.insertion_lines(evaluation, 0)[0]
    curves = evaluation.results[0].insertion
    assert line.probabilities == pytest.approx(curves.probabilities[:, 0].mean(dim=0).tolist())
    assert line.probabilities[-1] == pytest.approx(line.believed, abs=1e-6)  # all pixels shown: f itself


def test_charts_are_drawn(evaluation: pm.Evaluation, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    written = evaluation.save(tmp_path)
    assert {"curves.png", "completeness-soundness.png", "x.png", "x-2.png"} <= {p.name for p in written}
    assert not list(tmp_path.glob(".*"))  # no partial files
