"""The calls that a new user tries first: a file and a model, without the words that say how the file is read."""

from __future__ import annotations

from pathlib import Path

import pytest

import proofmap as pm
from proofmap.core.errors import ModelError
from proofmap.models import registry
from tests.command import run
from tests.docs.pages import tiny_model
from tests.study.studies import methods_of

NETS = """
import torch
import proofmap as pm
from proofmap.core.inputs import Series, Text

def beats():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, 2))
    return pm.Classifier(net, inputs=Series(length=6, mean=(0.0,), std=(1.0,)), names=["slow", "fast"])

def words():
    def good(texts):
        return [[0.1, 0.9] if "good" in text else [0.6, 0.4] for text in texts]
    return pm.Classifier(good, names=["bad", "good"], inputs=Text(length=8))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = [f"{('slow', 'fast')[k % 2]},{','.join(str(0.1 * k * t) for t in range(6))}" for k in range(4)]
    (tmp_path / "beats.csv").write_text("\n".join(["label,a,b,c,d,e,f", *rows]) + "\n")
    (tmp_path / "notes.txt").write_text("a good day\na long day\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "nets.py").write_text(NETS)
    (tmp_path / "churn.onnx").write_text("not a model")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_csv_file_is_read_as_series_for_a_net_of_series(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--model", "nets.py:beats", "--target", "label", "--labels", "all", "-q")
    assert run(monkeypatch, "explain", "beats.csv", *words, "--method", "occlusion", "--rows", "1") == 0
    assert "series-00001" in capsys.readouterr().out
    asked = ("--methods", "occlusion,random", "--no-pictures")
    for _ in range(2):  # the second call finds the run finished
        assert run(monkeypatch, "evaluate", "--data", "beats.csv", *words, *asked) == 0
    assert "4 series, labels all" in capsys.readouterr().out


def test_the_default_methods_are_those_that_a_net_of_texts_can_have(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--data", "notes.txt", "--model", "nets.py:words", "--labels", "all", "--no-pictures", "-q")
    assert run(monkeypatch, "evaluate", *words) == 0
    assert methods_of(folder / "evaluation") == ["belief-order", "greedy-insertion", "kernel-shap", "random"]


def test_the_default_methods_leave_out_what_has_no_meaning_for_series(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--data", "beats.csv", "--target", "label", "--model", "nets.py:beats", "--labels", "all")
    assert run(monkeypatch, "evaluate", *words, "--dry-run") == 0
    text = capsys.readouterr().out
    assert "top-label:belief-order" in text and "gradient" in text
    assert "grad-cam" not in text and "belief-mask" not in text


def test_explain_reads_the_lines_of_a_text_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "explain", "notes.txt", "--model", "nets.py:words", "--labels", "all", "-q") == 0
    assert "text-1" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words, told",
    [
        ("--data empty.csv", "empty.csv has no column of files: its first row must name one"),
        ("--data beats.csv --model nets.py:beats", "name a column of labels with --target COLUMN"),
        ("--data beats.csv", "series:FILE?target=COLUMN"),
        ("--data notes.txt", "name a model that takes text (--model)"),
        ("beats.csv", "beats.csv is a file of data, not a study file; write --data beats.csv"),
        ("sample:cat", "there is no study file sample:cat. For data write --data sample:cat."),
        ("--data sample:cat --model churn.onnx", "say who reads it: onnx:churn.onnx"),
        ("--data sample:cat --model net.pt", "write NAME@net.pt"),
        ("--data sample:cat --methods belief-mask:pull=inf", "pull must be a finite number, not inf"),
        ("--data sample:cat --methods belief-mask:pull=nan", "pull must be positive, not nan"),
    ],
)
def test_a_wrong_first_call_says_what_to_write_and_writes_nothing(
    folder: Path, words: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(folder.iterdir())
    monkeypatch.setitem(
        registry._OWN, registry.DEFAULT_MODEL, tiny_model()
    )  # as large as a net of photos need be
    assert run(monkeypatch, "evaluate", *words.split()) == 2
    assert told in " ".join(capsys.readouterr().err.split())
    assert [path for path in sorted(folder.iterdir()) if path.name != "__pycache__"] == before


def test_a_file_that_is_no_onnx_model_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    assert (
        run(monkeypatch, "evaluate", "--data", "beats.csv", "--target", "label", "--model", "onnx:churn.onnx")
        == 2
    )
    assert "churn.onnx is not an ONNX model" in " ".join(capsys.readouterr().err.split())


def test_a_model_that_fails_on_rows_names_the_columns_that_it_was_given() -> None:
    pandas = pytest.importorskip("pandas")

    def fails(rows: object) -> object:
        raise RuntimeError("bad model. Stack trace: 0x00 0x01")

    frame = pandas.DataFrame({"age": [1.0, 2.0], "plan": ["pro", "basic"]})
    with pytest.raises(
        ModelError, match=r"RuntimeError: bad model\..*given the columns age, plan: leave"
    ) as found:
        pm.Classifier(fails, data=frame, names=["no", "yes"])
    assert "0x00" not in str(found.value)


def test_a_bar_in_per_cent_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "audit", "evaluation", "--min-soundness", "80") == 2
    assert "80.0 is not in the range 0<=x<=1" in capsys.readouterr().err
