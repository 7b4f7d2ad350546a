"""Texts on the command line: ``explain --text``, ``evaluate --text-column`` and resumed runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from proofmap.cli import make_app
from tests.command import invoke
from tests.review_net import NET


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net.py").write_text(NET, encoding="utf-8")
    (tmp_path / "reviews.csv").write_text(
        "review,mark\nA good film,good\nBad and long,bad\nGood songs but a bad plot and a bad end,bad\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_text_is_explained(folder: Path) -> None:
    code, text = invoke(
        "explain",
        "--text",
        "A good film",
        "--text",
        "Bad.",
        "--model",
        "net.py:make",
        "--labels",
        "all",
        "--quiet",
    )
    assert code == 0, text
    assert "text-0  good (1)" in text and "text-1  bad (0)" in text
    assert (folder / "proofs" / "report.html").is_file()


def test_texts_of_a_column_are_explained(folder: Path) -> None:
    code, text = invoke(
        *("explain", "reviews.csv", "--text-column", "review", "--rows", "1", "--model", "net.py:make"),
        *("--labels", "all", "--method", "occlusion", "--quiet"),
    )
    assert code == 0, text
    assert "text-1  bad (0)" in text


def test_a_run_on_a_column_of_texts_is_resumed(folder: Path) -> None:
    words = (
        *(
            "evaluate",
            "--data",
            "reviews.csv",
            "--text-column",
            "review",
            "--target",
            "mark",
            "--model",
            "net.py:make",
        ),
        *("--methods", "occlusion,random", "--metrics", "completeness,soundness", "--labels", "all"),
        *("--out", "run", "--no-pictures", "--quiet"),
    )
    code, text = invoke(*words)
    assert code == 0, text
    again = invoke(*words)
    assert again[0] == 0 and again[1].splitlines()[:4] == text.splitlines()[:4]


@pytest.mark.parametrize(
    "words, reason",
    [
        (
            ("explain", "--model", "net.py:make"),
            "name photos or a file to explain, or give a text with --text",
        ),
        (("explain", "reviews.csv", "--text", "a", "--model", "net.py:make"), "not both"),
        (("explain", "--text", " ", "--model", "net.py:make"), "is empty"),
        (
            ("explain", "--text", "a " * 13, "--model", "net.py:make"),
            "has 13 words, and at most 12 are taken",
        ),
        (("explain", "reviews.csv", "--text-column", "x", "--model", "net.py:make"), "has no column 'x'"),
        *(
            (
                (command, *place, option, "review", "--model", "net.py:make"),
                f"{option} ({key}=review) names a column of a table or of a file of texts; . is a folder of pictures and has no columns",
            )
            for command, place in (
                ("explain", (".",)),
                ("evaluate", ("--data", ".")),
                ("serve", ("--data", ".")),
            )
            for option, key in (("--text-column", "column"), ("--target", "target"))
        ),
    ],
)
def test_bad_input_is_refused_with_a_sentence(folder: Path, words: tuple[str, ...], reason: str) -> None:
    result = CliRunner().invoke(make_app(), list(words))
    assert reason in (result.output + str(result.exception))
    assert result.exit_code != 0
    assert not (folder / "proofs").exists()
