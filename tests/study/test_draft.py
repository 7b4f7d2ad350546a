"""``proofmap evaluate --write-study`` writes a study file for the data that is there, and wrong study files are refused."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import proofmap as pm
from proofmap.core.inputs import Series, Text
from proofmap.study import Study
from proofmap.study.draft import draft
from tests.command import run
from tests.docs.pages import PAGES, ROOT, blocks

CUSTOMERS = "age,city,churned\n31,Bonn,yes\n52,Ulm,no\n"
SERIES = "@problemName beats\n@classLabel true a b\n@data\n1,2,3,4:a\n2,3,4,5:b\n"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Photos with a folder per label, a table and a file of series."""
    for k, label in enumerate(("cat", "dog", "dog")):
        (tmp_path / "photos" / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((6, 6, 3), 60 * k, np.uint8)).save(tmp_path / "photos" / label / f"{k}.png")
    (tmp_path / "customers.csv").write_text(CUSTOMERS)
    (tmp_path / "beats.ts").write_text(SERIES)
    (tmp_path / "notes.txt").write_text("a good end\nbad\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ---- what is written ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, data",
    [
        (("photos",), "photos"),
        (("customers.csv", "--target", "city"), "customers.csv?target=city"),
        (("beats.ts",), "series:beats.ts"),
        (("notes.txt",), "notes.txt"),
        (
            ("customers.csv", "--text-column", "city", "--target", "churned"),
            "customers.csv?column=city&target=churned",
        ),
    ],
)
def test_it_writes_a_study_file_for_the_data(
    world: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    data: str,
) -> None:
    assert run(monkeypatch, "evaluate", "--data", *arguments, "--write-study", "study.toml") == 0
    assert "proofmap evaluate study.toml --dry-run" in capsys.readouterr().err
    assert tomllib.loads((world / "study.toml").read_text())["data"] == data
    assert Study.from_toml("study.toml").named_methods()


def test_options_are_written_into_the_study(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (world / "net.py").write_text("def make():\n    return 1\n")
    options = [
        "--model",
        "net.py:make",
        "--methods",
        "random,grad-cam:layer=a\\1",
        "--metrics",
        "soundness:e2=0.1",
    ]
    options += ["--labels", "cat,dog", "--fills", "blur:sigma=2", "--controls", "--number", "2", "--correct", "--seed", "3", "--thresholds", "released"]  # fmt: skip
    assert run(monkeypatch, "evaluate", "--data", "photos", *options, "--write-study", "study.toml") == 0
    study = Study.from_toml("study.toml")
    assert (study.model, study.labels, study.seed) == (str(Path("net.py:make")), "cat,dog", 3)
    assert study.methods == ("random", "grad-cam:layer=a\\1") and study.metrics == ("soundness:e2=0.1",)
    assert study.controls and study.fills == ("blur:sigma=2",) and study.thresholds == "released"
    assert study.images.number == 2 and study.images.correct
    for mistake in (["--methods", "gradcam"], ["--maps", "maps.npz"]):
        assert run(monkeypatch, "evaluate", "--data", "photos", *mistake, "--write-study", "more.toml") == 2
        assert not (world / "more.toml").exists()


def test_every_setting_that_is_commented_out_is_one(world: Path) -> None:
    for place in ("photos", "customers.csv", "beats.ts"):
        lines = draft(place, Path("study.toml")).splitlines()
        settings = [line.removeprefix("# ") for line in lines if line[:2] != "# " or " = " in line[:30]]
        table = tomllib.loads("\n".join(line for line in settings if not line.startswith("#")))
        assert {"metrics", "fills", "controls"} <= table.keys() and {"number"} <= table["images"].keys()
        study = Study.from_table(table)
        assert study.named_methods() and study.named_metrics()


def test_the_study_of_photos_of_series_and_of_texts_runs_as_written(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    picture = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
    )
    nets = {
        "photos": pm.Classifier(
            torch.nn.Sequential(picture, torch.nn.Linear(4, 2)), size=6, names=["cat", "dog"]
        ),
        "beats.ts": pm.Classifier(
            torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2)),
            inputs=Series(length=4, mean=(0.0,), std=(1.0,)),
            names=["a", "b"],
        ),
        "notes.txt": pm.Classifier(
            lambda texts: [0.2 + 0.6 * ("bad" in text) for text in texts],
            inputs=Text(length=4),
            outputs="probability",
        ),
    }
    for place, net in nets.items():
        assert run(monkeypatch, "evaluate", "--data", place, "--write-study", f"{place}.toml") == 0
        study = Study.from_toml(f"{place}.toml")
        outcome = pm.run_study(study, f"run-{place}", classifier=net, threads=1)
        with pm.Run(f"run-{place}") as opened:
            assert outcome.failed == 0 and len(opened.methods) == len(study.methods)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("gone",), "there is no file or folder gone"),
        (("empty",), "has no photos"),
        (("photos", "--target", "age"), "--target names a column of a table"),
        (
            ("customers.csv", "--target", "name"),
            "customers.csv has no column 'name'. It has age, city, churned",
        ),
        (("blank.csv",), "blank.csv cannot be read as a table"),
        (("customers.csv", "--text-column", "note"), "has no column 'note'"),
        (("photos", "--write-study", "customers.csv"), "customers.csv exists"),
        (("photos", "--write-study", "photos"), "exists"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_written(
    world: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    words: str,
) -> None:
    (world / "empty").mkdir()
    (world / "blank.csv").touch()
    before = sorted(world.rglob("*"))
    if "--write-study" not in arguments:
        arguments = (*arguments, "--write-study", "study.toml")
    assert run(monkeypatch, "evaluate", "--data", *arguments) == 2
    assert words in capsys.readouterr().err and sorted(world.rglob("*")) == before


# ---- study files -----------------------------------------------------------------------------------------------

SHOWN = [b for page in PAGES for b in blocks(page) if b.language == "toml" and b.title]


def test_every_study_file_of_the_repository_names_known_settings() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks" / "studies").glob("*.toml")]
    texts += [block.code for block in SHOWN]
    assert len(texts) > 4
    for text in texts:
        assert Study.from_table(tomllib.loads(text))
