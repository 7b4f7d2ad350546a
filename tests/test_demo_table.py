"""``demo table`` and ``explain`` of a CSV file: a model of another library, rows by name, all files written."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from proofmap.cli import demo
from proofmap.core.errors import MissingExtra
from tests.command import invoke, run
from tests.lazily import Lazily

pd = Lazily("pandas")

MODEL = f"onnx:{Path(__file__).parent / 'models' / 'logistic.onnx'}"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    values = np.random.default_rng(0).normal(size=(12, 3)).round(3)
    frame = pd.DataFrame(values, columns=["age", "income", "visits"])
    frame.assign(id=[f"c{k}" for k in range(12)], left=[0, 1] * 6).to_csv(tmp_path / "rows.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_demo_judges_held_out_rows_of_a_forest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    monkeypatch.setattr(demo, "TREES", 3)
    monkeypatch.setattr(demo, "ROWS", 2)
    code, text = invoke("demo", "table", "--methods", "occlusion,random", "--out", str(tmp_path / "demo"))
    assert code == 0, text
    table = re.search(
        r"^method +rows fully proved +complete +sound +other labels\n(.*?)\n\n", text, re.M | re.S
    )
    assert table and {line.split()[0] for line in table[1].splitlines()} >= {"occlusion", "random*"}
    assert table[1].count(" of 2 ") == 2
    assert re.search(r"^On row-\d+, occlusion's map of (malignant|benign) proves", text, re.MULTILINE)
    assert "fully proves" in text and "open " in text
    assert (tmp_path / "demo" / "report.html").is_file()


def test_the_demo_says_which_package_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str, **about: str) -> object:
        raise MissingExtra(f"{about['purpose']} needs the package {name!r}")

    monkeypatch.setattr(demo, "require", missing)
    with pytest.raises(MissingExtra, match="demo table needs the package"):
        demo.trained_forest()


def test_explain_takes_rows_of_a_table_by_name_and_number(table: Path) -> None:
    pytest.importorskip("onnxruntime")
    words = (
        "explain",
        "rows.csv?name=id",
        "--target",
        "left",
        "--model",
        MODEL,
        "--method",
        "occlusion",
        "-q",
    )
    code, text = invoke(*words, "--rows", "c3,7", "--out", "proofs")
    assert code == 0, text
    page = (table / "proofs" / "proofs.html").read_text(encoding="utf-8")
    assert "<b>c3</b>" in page and "<b>c7</b>" in page


@pytest.mark.parametrize(
    "words, told",
    [
        (("--target", "lfet"), "rows.csv has no column 'lfet'. Did you mean 'left'"),
        (("--target", "left", "--rows", "99"), "--rows names '99', which rows.csv does not have"),
        (("--rows", "0"), "rows.csv has no column of files"),
    ],
)
def test_a_bad_table_ends_with_code_2_and_nothing_written(
    table: Path,
    words: tuple[str, ...],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("onnxruntime")
    assert run(monkeypatch, "explain", "rows.csv", "--model", MODEL, *words, "--out", "proofs") == 2
    assert told in " ".join(capsys.readouterr().err.split())
    assert not (table / "proofs").exists()
