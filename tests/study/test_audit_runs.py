"""An audit of runs: against the run of another net, of what is not the present state."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import get_type_hints

import pytest
import torch
from torch import Tensor

import proofmap as pm
from proofmap.core.inputs.columns import Columns
from proofmap.metrics import Curves
from proofmap.results.records import MethodResult
from proofmap.study import Run, run_study
from tests.command import run
from tests.data.made_up import save
from tests.study.studies import net_file, toy_study

MINE = "import torch\nSCALE = 1\n\n\ndef mine(classifier, images, labels):\n    return SCALE * images[:, :1] * labels[:, :, None, None]\n"


def audit(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    return run(monkeypatch, "audit", *arguments)


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of yesterday's net and one of today's, which sees nothing: f is the same whatever is shown, but for a trace of it."""
    folder = tmp_path_factory.mktemp("nets")
    study = toy_study(folder, 4, methods=["gradient-x-input", "random"], maps="none")
    run_study(study, folder / "main")
    run_study(replace(study, model=net_file(folder, forward="self.layers(x) * 1e-3")), folder / "now")
    return folder


WITHOUT_TORCH = """
import json, sys
from proofmap.cli import main

imported = {}
for command in json.loads(sys.argv[1]):
    sys.argv = ["proofmap", *command]
    try:
        main()
    except SystemExit as ended:
        assert ended.code in (0, 1), (command, ended.code)
    imported[" ".join(command)] = "torch" in sys.modules
print(json.dumps(imported))
"""


def test_lists_audits_and_comparisons_do_not_import_torch(two_runs: Path) -> None:
    main, now = (str(two_runs / name) for name in ("main", "now"))
    commands = [
        ["--help"],
        ["audit", "--help"],
        ["list"],
        ["list", "recipes"],
        ["audit", main, "--min-soundness", ".5", "--bar", "insertion=.1"],
        ["audit", now, "--against", main, "--max-drop", ".05", "--interval", "--format", "json"],
        ["compare", main],
    ]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, json.dumps(commands)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) == len(commands) and not [command for command, torch in found.items() if torch]


def test_results_of_a_run_are_read_as_tensors_before_and_after_they_were_used_as_arrays(
    two_runs: Path,
) -> None:
    with Run(two_runs / "main") as run:
        evaluation, again = run.evaluation(), run.evaluation()
    result = evaluation["random"]
    arrays = result.numpy("values")["soundness"].copy(), result.numpy("insertion").auc.copy()
    read = pickle.loads(pickle.dumps(replace(again, settings={})))  # from tensors
    for each in (evaluation, pickle.loads(pickle.dumps(evaluation)), read):
        found = each["random"]
        assert isinstance(found.insertion, Curves) and isinstance(found.maps, Tensor)
        assert each.labels.dtype == torch.int64 and each.f.dtype == torch.float32
        assert found.values["soundness"].tolist() == arrays[0].tolist()
        assert found.insertion.auc.tolist() == arrays[1].tolist() == found.numpy("insertion").auc.tolist()
        assert (
            set(found.pairs) <= set(found.values) and type(found.values) is dict
        )  # pandas and safetensors take no other mapping
    result.values["soundness"][0] = 7.0
    assert result.numpy("values")["soundness"][0] == 7.0  # the memory is shared


def test_types_of_results_can_be_read() -> None:
    for typed in (pm.evaluate, pm.Judge.update, pm.Run.evaluation, Columns.decode):
        assert get_type_hints(typed)
    assert get_type_hints(pm.Evaluation)["f"] is Tensor
    assert get_type_hints(MethodResult)["insertion"] is Curves
    assert not [name for name, n in Counter(dir(pm)).items() if n > 1]


@pytest.fixture
def two_nets(two_runs: Path, tmp_path: Path) -> tuple[Path, Path]:
    """The two runs, in a copy."""
    shutil.copytree(two_runs, tmp_path, dirs_exist_ok=True)
    return tmp_path / "main", tmp_path / "now"


def test_a_worse_net_fails_against_yesterdays_and_the_same_net_passes(
    two_nets: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main, now = map(str, two_nets)
    assert audit(monkeypatch, main, "--against", main, "--max-drop", "0") == 0
    capsys.readouterr()
    assert audit(monkeypatch, now, "--against", main, "--max-drop", ".05") == 1
    told = capsys.readouterr()
    assert "fails: worse by" in told.out and "the nets differ" in told.out and "random" not in told.out
    assert audit(monkeypatch, now, "--against", main, "--max-drop", "2") == 0
    assert audit(monkeypatch, now, "--against", main, "--max-drop", "2", "--format", "csv") == 0
    assert "value_against" in capsys.readouterr().out


def test_an_audit_of_a_run_with_two_fills_checks_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = toy_study(
        tmp_path, 2, methods=["gradient-x-input"], fills=["gray", "blur"], metrics=["completeness:points=4"]
    )
    run_study(study, tmp_path / "run")
    asked = (str(tmp_path / "run"), "--min-completeness", "0", "--format", "json")
    assert audit(monkeypatch, *asked) == 0
    found = json.loads(capsys.readouterr().out)
    assert [line["metric"] for line in found["lines"]] == ["completeness (gray)", "completeness (blur)"]


def test_a_method_that_failed_on_every_image_does_not_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.py").write_text("def bad(classifier, images, labels):\n    raise ValueError('oh no')\n")
    bad, folder = f"{tmp_path / 'bad.py'}:bad", tmp_path / "run"
    study = toy_study(tmp_path, 2, methods=[bad], metrics=["insertion"], maps="none")
    run_study(study, folder)
    asked = (str(folder), "--bar", "insertion=0")
    assert audit(monkeypatch, *asked) == 2  # controls are no methods that pass in its place
    assert "has no results: bad failed on" in " ".join(capsys.readouterr().err.split())
    run_study(replace(study, methods=("gradient",)), folder)
    assert audit(monkeypatch, *asked) == 1
    assert "no image has a result of bad" in " ".join(capsys.readouterr().err.split())
    assert audit(monkeypatch, *asked, "--method", "gradient") == 0


@pytest.mark.parametrize(
    "arguments, told",
    [
        (("--max-drop", "0.1"), "--against and --max-drop must be given together"),
        (("--against", "main"), "--against and --max-drop must be given together"),
        (("--against", "main", "--max-drop", "1", "--method", "lime"), "no method 'lime'"),
        (("--against", "nowhere", "--max-drop", "1"), "there is no run directory nowhere"),
        ((), "--against RUN --max-drop 0.05"),
    ],
)
def test_what_cannot_be_answered_is_refused(
    two_nets: tuple[Path, Path],
    tmp_path: Path,
    arguments: tuple[str, ...],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert audit(monkeypatch, "now", *arguments) == 2
    printed = capsys.readouterr()
    assert told in " ".join(printed.err.split()) and not printed.out


def test_other_pictures_under_the_same_names_do_not_compare(
    two_nets: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    save(tmp_path / "photos", "02.png", 77)
    run_study(toy_study(tmp_path, 0, methods=["gradient-x-input"], maps="none"), tmp_path / "other")
    assert audit(monkeypatch, str(tmp_path / "other"), "--against", str(two_nets[0]), "--max-drop", "1") == 2
    assert "02.png is not the same in" in " ".join(capsys.readouterr().err.split())


def test_an_audit_reads_a_finished_run_without_its_net_and_its_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_study(toy_study(tmp_path, 2, methods=["gradient"], metrics=["insertion"]), tmp_path / "run")
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    shutil.rmtree(tmp_path / "photos")
    monkeypatch.setattr("proofmap.study.opened.load_classifier", None)
    assert audit(monkeypatch, str(tmp_path / "elsewhere"), "--bar", "insertion=0") == 0
    told = capsys.readouterr()
    assert "audit passed" in told.out and "no control was judged" in told.out and "judging" not in told.err
