"""What a run must not do in silence: lose values, keep a refused wish, pass an audit half done, hide what is left."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proofmap import cli
from proofmap.core.errors import InputError
from proofmap.study import Run, RunBusy, Selection, run_study
from proofmap.study.manifest import Manifest
from proofmap.study.resume import _check_same
from proofmap.study.store import Store
from tests.study.studies import facts, photos, toy_study


def test_a_retry_touches_only_what_the_study_will_do_again(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("def picky(classifier, images, labels):\n    raise RuntimeError('too dark')\n")
    study = toy_study(tmp_path, 4, methods=[f"{mine}:picky", "random"], metrics=["insertion", "deletion"])
    assert run_study(study, tmp_path / "run").failed == 4
    before = facts(tmp_path / "run")
    run_study(replace(study, methods=("random",)), tmp_path / "run", retry=True)
    assert facts(tmp_path / "run") == before, "the failures of another method stay on record"
    with pytest.raises(InputError, match="every metric of the run; this study does not name deletion"):
        run_study(replace(study, metrics=("insertion",)), tmp_path / "run", retry=True)
    assert facts(tmp_path / "run") == before


def test_a_refused_study_leaves_the_run_as_it_was(tmp_path: Path) -> None:
    study = toy_study(tmp_path, 6, methods=["random"], metrics=["completeness"], images=Selection(number=2))
    run_study(study, tmp_path / "run")
    before = (tmp_path / "run" / "run.json").read_text(), facts(tmp_path / "run")
    larger = replace(study, images=Selection(number=6), metrics=("completeness:e1=0.3",))
    with pytest.raises(InputError, match=r"e1: 0\.01 there, 0\.3 now"):
        run_study(larger, tmp_path / "run")
    assert ((tmp_path / "run" / "run.json").read_text(), facts(tmp_path / "run")) == before
    assert Manifest.read(tmp_path / "run").selection.number == 2


def test_a_run_without_results_may_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = toy_study(tmp_path, 3, methods=["random"])
    with monkeypatch.context() as patch:
        patch.setattr("proofmap.study.run.units_left", stop)
        with pytest.raises(KeyboardInterrupt):
            run_study(replace(study, seed=5), tmp_path / "run")
    assert (tmp_path / "run" / "run.json").exists()
    assert (
        run_study(study, tmp_path / "run").complete and Manifest.read(tmp_path / "run").identity["seed"] == 0
    )


def stop(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_refused_study_leaves_no_folder_and_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = toy_study(tmp_path, 3, methods=["random"])
    before = sorted(path for path in tmp_path.rglob("*") if "__pycache__" not in path.parts)
    nothing_left = replace(study, images=Selection(min_second_probability=1.0))
    for out in ("run", "new/folders/run"):
        with pytest.raises(InputError, match="no image is left to study"):
            run_study(nothing_left, tmp_path / out)
    words = [
        "evaluate",
        "--model",
        study.model,
        "--data",
        str(study.data[0]),
        "--min-second-probability",
        "1",
    ]
    monkeypatch.setattr(
        sys, "argv", ["proofmap", *words, "--methods", "random", "--out", str(tmp_path / "run")]
    )
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2 and "no image is left" in " ".join(capsys.readouterr().err.split())
    assert sorted(path for path in tmp_path.rglob("*") if "__pycache__" not in path.parts) == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("precious")
    with pytest.raises(InputError):
        run_study(nothing_left, tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]


def test_a_lock_that_was_taken_away_is_not_held(tmp_path: Path) -> None:
    """One that waits for a run that is then refused must not hold the lock of a file that nobody else sees."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "lock").touch()
    with pytest.MonkeyPatch.context() as patch:
        connect = sqlite3.connect

        def removed_meanwhile(path: Path, **how: Any) -> sqlite3.Connection:
            patch.setattr(sqlite3, "connect", connect)
            opened = connect(path, **how)
            shutil.rmtree(tmp_path / "run")
            (tmp_path / "run").mkdir()
            (tmp_path / "run" / "lock").touch()
            return opened

        patch.setattr(sqlite3, "connect", removed_meanwhile)
        with Store.locked(tmp_path / "run"), pytest.raises(RunBusy), Store.locked(tmp_path / "run"):
            pass


def test_a_run_that_is_not_finished_says_so_and_passes_no_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = toy_study(tmp_path, 4, methods=["gradient-x-input", "gradient"])
    run_study(study, tmp_path / "run")
    photos(tmp_path / "photos", 2, first=4)
    run_study(replace(study, methods=("gradient-x-input",)), tmp_path / "run")
    with Run(tmp_path / "run") as run:
        assert run.unfinished() == {"gradient": 2}
        assert any("gradient lacks 2 of 6 images" in note for note in run.notes())

    def audit(*more: str) -> int:
        monkeypatch.setattr(
            sys, "argv", ["proofmap", "audit", str(tmp_path / "run"), "--min-soundness", "0", *more]
        )
        try:
            cli.main()
        except SystemExit as stop:
            return int(stop.code or 0)
        return 0

    assert audit() == 1 and "not finished" in capsys.readouterr().err
    assert audit("--unfinished") == 0
    run_study(study, tmp_path / "run")
    assert audit() == 0


def test_a_repaired_picture_is_looked_at_again_and_only_those_that_mattered_count(tmp_path: Path) -> None:
    study = toy_study(tmp_path, 3, methods=["random"])
    good = (tmp_path / "photos" / "01.png").read_bytes()
    (tmp_path / "photos" / "01.png").write_bytes(b"no picture")
    assert run_study(study, tmp_path / "run").unreadable == 1
    (tmp_path / "photos" / "01.png").write_bytes(good)
    assert run_study(study, tmp_path / "run").unreadable == 1, "not unless it is asked for"
    outcome = run_study(study, tmp_path / "run", retry=True)
    assert outcome.complete and outcome.plan.images == 3
    (tmp_path / "photos" / "zz.png").write_bytes(b"no picture")
    first = replace(study, images=Selection(names=("00.png",)))
    assert run_study(first, tmp_path / "one").complete, "a picture that nobody asked for does not count"


def test_another_python_is_named_where_a_digest_alone_differs(tmp_path: Path) -> None:
    study = toy_study(tmp_path, 2, methods=["random"])
    run_study(study, tmp_path / "run")
    manifest = Manifest.read(tmp_path / "run")
    new = {**manifest.identity, "fingerprint": "b"}
    with pytest.raises(InputError, match=r"the net's weights or code: .* there, b now\nChoose"):
        _check_same(tmp_path, manifest, new)
    elsewhere = replace(manifest, environments=({**manifest.environments[0], "python": "3.1.0"},))
    with pytest.raises(InputError, match=r"perhaps only because of the version of python: 3\.1\.0 there"):
        _check_same(tmp_path, elsewhere, new)
    with pytest.raises(InputError) as refused:  # the seed is reason enough
        _check_same(tmp_path, elsewhere, {**new, "seed": 1})
    assert "perhaps" not in str(refused.value)
