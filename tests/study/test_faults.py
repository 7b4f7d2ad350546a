"""What a run directory survives: killed processes, full disks, two writers, other versions, things that changed."""

from __future__ import annotations

import ctypes
import random
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proofmap.core.errors import InputError
from proofmap.study import Run, RunBusy, Selection, StoreError, Study, run_study, verify_run
from proofmap.study.store import Store
from tests.data.made_up import bomb, jpeg, save
from tests.study.processes import Processes
from tests.study.studies import facts, net_file, photos, toy_study

DATABASE = "scores.sqlite"


# ---- killed ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_many_times_a_run_ends_as_if_it_never_was(
    times: int, processes: Processes, tmp_path: Path
) -> None:
    study = toy_study(tmp_path, 40, labels="top1")
    began = time.monotonic()
    assert processes.run(study, tmp_path / "whole") == {"units": 60, "failed": 0}
    whole = time.monotonic() - began
    drawn = random.Random(20)
    kills, done = 0, 0
    while kills < times or done == 0:
        later = (
            1 if done else 1 + kills // 4
        )  # on a slow machine the first kills may all come before the first unit
        if kills % 3 == 2:  # from outside, at any moment
            # and by its own hand, should it be faster than the first one was
            child = processes.start(study, tmp_path / "run", kill_at=later * 45)
            child.ended(drawn.uniform(0, later * whole / 8))
            child.kill()
        else:  # at a chosen touch of the disk
            child = processes.start(study, tmp_path / "run", kill_at=drawn.randint(1, later * 45))
        assert child.result() is None, "the run was over before it could be killed"
        kills += 1
        with suppress(StoreError):  # killed before it had tables
            assert verify_run(tmp_path / "run") == []
            done = len(facts(tmp_path / "run")["units"])
    before = facts(tmp_path / "run")["units"]
    assert 0 < len(before) < 60, "the kills must leave something done and something to do"
    assert processes.run(study, tmp_path / "run") == {"units": 60 - len(before), "failed": 0}
    assert facts(tmp_path / "run") == facts(tmp_path / "whole")
    assert verify_run(tmp_path / "run") == []
    assert set(before) <= set(facts(tmp_path / "run")["units"]), "what was finished is not done again"


def test_a_file_of_maps_left_half_written_is_removed(
    study: Study,
    folder: Path,
) -> None:
    half = folder / "maps" / ".abc.safetensors.part999999999.safetensors"  # no such process
    half.write_bytes(b"half")
    assert run_study(study, folder).units == 0
    assert not half.exists() and verify_run(folder) == []


# ---- full disks -----------------------------------------------------------------------------------------------


def test_where_files_may_not_grow_the_error_is_clear_and_the_run_goes_on_later(
    processes: Processes, tmp_path: Path
) -> None:
    study = toy_study(tmp_path, 20, labels="top1", maps="float32")
    processes.run(study, tmp_path / "whole")
    told = set()
    for largest in (0, 100, 3_000, 30_000, 60_000, 120_000):
        answer = processes.run(study, tmp_path / "run", largest=largest)
        assert answer.get("error") == "StoreError", answer
        assert "cannot be written" in answer["text"] and "make room" in answer["text"]
        told.add(next(name for name in ("run.json", DATABASE, "maps") if name in answer["text"]))
        if (tmp_path / "run" / DATABASE).exists():
            with suppress(StoreError):  # it has no tables yet
                assert verify_run(tmp_path / "run") == []
    assert {"run.json", DATABASE} <= told
    left = processes.run(study, tmp_path / "run")
    assert 0 < left["units"] < 30, "something was finished before the disk was full, and something was not"
    assert facts(tmp_path / "run") == facts(tmp_path / "whole")


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True
    )
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_study_whose_maps_cannot_fit_is_refused_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = toy_study(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: type("Usage", (), {"free": 1000}))
    with pytest.raises(StoreError, match="--store-maps none"):
        run_study(study, tmp_path / "run")
    assert run_study(replace(study, maps="none"), tmp_path / "run").units == 9


# ---- two at once ----------------------------------------------------------------------------------------------


def test_a_second_process_is_refused_or_waits(processes: Processes, tmp_path: Path) -> None:
    study = toy_study(tmp_path)
    first = processes.start(study, tmp_path / "run", stop_at=60)  # holds the lock, in the middle of its work
    _until(lambda: _state(first.number) == "T")
    with pytest.raises(RunBusy, match=r"another process is working on .*--wait"):
        run_study(study, tmp_path / "run")
    second = processes.start(study, tmp_path / "run", wait=True)
    assert not second.ended(0.3), "the second does not wait"
    first.proceed()
    done = first.result()
    assert done == {"units": 9, "failed": 0}
    assert second.result() == {"units": 0, "failed": 0}, "the second finds nothing to do"
    assert verify_run(tmp_path / "run") == []


def test_a_lock_that_is_a_link_empties_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "mine").write_text("precious")
    (tmp_path / "run" / "lock").symlink_to(tmp_path / "mine")
    with pytest.raises(StoreError, match="lock cannot be written"), Store.locked(tmp_path / "run"):
        pass
    assert (tmp_path / "mine").read_text() == "precious"


def _state(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def _until(holds: Callable[[], bool]) -> None:
    poll = ctypes.CDLL(None).usleep
    for _ in range(30_000):
        if holds():
            return
        poll(1000)
    raise AssertionError("it never happened")


# ---- changed things -------------------------------------------------------------------------------------------


def test_somebody_elses_database_is_not_touched(tmp_path: Path) -> None:
    study = toy_study(tmp_path, 2)
    (tmp_path / "run").mkdir()
    path = tmp_path / "run" / DATABASE
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE mine (x)")
    content = path.read_bytes()
    with pytest.raises(StoreError, match="choose another --out"):
        run_study(study, tmp_path / "run")
    assert path.read_bytes() == content


# ---- changed things -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes, told",
    [
        ({"labels": "top2"}, "labels: top3 there, top2 now"),
        ({"labels": ["cat", "dog"]}, "labels: top3 there, 0,1 now"),
        ({"seed": 1}, "seed: 0 there, 1 now"),
        ({"images": Selection(number=6), "metrics": ("completeness:points=4,e1=0.3",)}, "e1: 0.01 there, 0.3 now"),
        ({"label_set": ["cat", "dog", "cup"]}, "label_set"),
        ({"label_set": ["cat", "dog", "cup"], "renormalise": False}, "label_set"),
        ({"images": Selection(min_second_probability=0.1)}, r"images\.min_second_probability: nothing there, 0\.1 now"),
        ({"images": Selection(seed=1)}, r"images\.seed"),
        ({"images": Selection(names=("01.png",))}, r"images\.names"),
        ({"thresholds": "released"}, "completeness.*e1: 0.01 there, 0.1 now"),
        ({"curve": "released"}, "rule: mean there, right now"),
        ({"methods": [{"method": "random", "name": "gradient"}]}, "'gradient'.*method: gradient there, random now"),
        (
            {"methods": [{"method": "gradient", "channels": "sum", "name": "gradient"}]},
            "channels: .* there, sum now",
        ),
        (
            {"metrics": [{"metric": "insertion", "points": 16}]},
            "metric 'insertion'.*points: .* there, 16 now",
        ),
    ],
)  # fmt: skip
def test_a_changed_setting_is_refused_with_what_differs(
    changes: dict[str, Any], told: str, study: Study, folder: Path
) -> None:
    before = (folder / "run.json").read_text(), facts(folder)
    with pytest.raises(InputError, match=f"(?s){told}.*--out"):
        run_study(replace(study, **changes), folder)
    assert ((folder / "run.json").read_text(), facts(folder)) == before


def test_a_changed_net_is_refused(study: Study, folder: Path, tmp_path: Path) -> None:
    for change in ({"seed": 1}, {"forward": "2 * self.layers(x)"}, {"forward": "self.layers(x.flip(3))"}):
        (tmp_path / "other").mkdir(exist_ok=True)
        other = replace(study, model=net_file(tmp_path / "other", **change))
        with pytest.raises(InputError, match=r"weights .* code.*: .* there, .* now"):
            run_study(other, folder)
        shutil.rmtree(tmp_path / "other")


def test_changed_distractors_are_refused(tmp_path: Path) -> None:
    distractors = photos(tmp_path / "distractors", 3, first=50)
    study = toy_study(tmp_path, 2, methods=[f"learned-mask:steps=2,fill=images:{distractors}"])
    assert run_study(study, tmp_path / "run").units == 1
    assert run_study(study, tmp_path / "run").units == 0
    save(distractors, "51.png", 99)
    with pytest.raises(InputError, match=r"(?s)learned-mask.*digest: .* there, .* now"):
        run_study(study, tmp_path / "run")


def test_a_function_that_does_something_else_is_refused(study: Study, folder: Path) -> None:

    def one(scale: float) -> Callable[..., Any]:
        def mine(classifier: Any, images: Any, labels: Any) -> Any:
            return images.mean(dim=1, keepdim=True).expand(-1, labels.shape[1], -1, -1)

        def other(classifier: Any, images: Any, labels: Any) -> Any:
            return -images.mean(dim=1, keepdim=True).expand(-1, labels.shape[1], -1, -1)

        return mine if scale > 0 else other

    run_study(replace(study, methods=({"method": one(1), "name": "mine"},)), folder)
    with pytest.raises(InputError, match=r"(?s)'mine'.*code: .* there, .* now"):
        run_study(replace(study, methods=({"method": one(-1), "name": "mine"},)), folder)


def with_own_pictures(study: Study, tmp_path: Path) -> tuple[Study, Path]:
    return replace(study, data=(str(photos(tmp_path / "photos", 6)),)), tmp_path / "photos"


def test_a_picture_that_changed_or_is_gone_is_refused_by_name(
    study: Study, folder: Path, tmp_path: Path
) -> None:
    study, pictures = with_own_pictures(study, tmp_path)
    run_study(study, folder)
    save(pictures, "03.png", 77)
    (pictures / "04.png").unlink()
    with pytest.raises(InputError, match=r"03\.png has changed; 04\.png is gone.*--out"):
        run_study(study, folder)
    for k in (3, 4):
        save(pictures, f"0{k}.png", k)
    assert run_study(study, folder).units == 0


def test_changed_boxes_are_refused_by_name(tmp_path: Path) -> None:
    """A score would be computed from old boxes, or from old and new ones."""
    table, out = tmp_path / "boxes.csv", tmp_path / "run"
    study = toy_study(
        tmp_path, data=str(table), methods=("gradient",), metrics=("pointing-game:tolerance=0",)
    )

    def write(*boxes: str) -> None:
        lines = [f'photos/{k:02d}.png,cat,"{box}"' for k, box in enumerate(boxes)]
        table.write_text("\n".join(["file,label,boxes_xyxy", *lines]))

    write("[[0, 0, 8, 8]]", "[[0, 0, 8, 8]]", "")
    run_study(study, out)
    for changed in ("[[0, 0, 1, 1]]", ""):
        write("[[0, 0, 8, 8]]", changed, "")
        with pytest.raises(InputError, match=r"the boxes of photos/01\.png have changed.*--out"):
            run_study(study, out)
    write("[[0, 0, 8, 8]]", "[[0, 0, 8, 8]]", "")
    assert run_study(study, out).units == 0


# ---- pictures that cannot be read -----------------------------------------------------------------------------


def test_a_study_counts_and_names_what_it_cannot_read(tmp_path: Path) -> None:
    study = toy_study(tmp_path, 4)
    pictures = tmp_path / "photos"
    (pictures / "aa.jpg").write_bytes(jpeg()[:-200])
    (pictures / "01b.png").write_bytes(bomb(60_000))
    (pictures / "zz.png").write_bytes(b"")
    outcome = run_study(study, tmp_path / "run")
    assert (outcome.unreadable, outcome.failed, outcome.units, outcome.complete) == (3, 0, 6, False)
    with Run(tmp_path / "run") as run:
        assert [image.name for image in run.images] == ["00.png", "01.png", "02.png", "03.png"]
        told = {failure.image: failure.reason for failure in run.failures()}
        assert set(told) == {"aa.jpg", "01b.png", "zz.png"} and all(told.values())
        assert "3 images could not be read" in run.table()
    assert run_study(study, tmp_path / "run").unreadable == 3, "they are remembered, not looked at again"

    save(pictures, "zz.png", 50)
    assert run_study(study, tmp_path / "run").unreadable == 3
    again = run_study(study, tmp_path / "run", retry=True)
    assert (again.unreadable, again.units) == (2, 3)
    with Run(tmp_path / "run") as run:
        assert [image.name for image in run.images][-1] == "zz.png"
    assert verify_run(tmp_path / "run") == []
    first = replace(study, images=Selection(names=("00.png",)))
    assert run_study(first, tmp_path / "one").complete, "a picture that nobody asked for does not count"


def test_a_folder_of_nothing_readable_is_told(tmp_path: Path) -> None:
    study = toy_study(tmp_path, 0)
    save(tmp_path / "photos", "x.png", 0)
    (tmp_path / "photos" / "x.png").write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"1 were looked at, 1 cannot be read.*x\.png"):
        run_study(study, tmp_path / "run")
