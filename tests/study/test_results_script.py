"""The script that runs the studies behind docs/results: its order, what it keeps, and what a time limit does."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

STUDIES = Path(__file__).parents[2] / "benchmarks" / "studies"
NOTE = """
import pathlib, sys, time
out, name, seconds = pathlib.Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
with open(out / "order", "a") as order:
    order.write(f"{name} begins\\n")
time.sleep(seconds)
with open(out / "order", "a") as order:
    order.write(f"{name} ends\\n")
sys.exit(name == "bad")
"""


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script, with a folder of its own to look for studies in."""
    monkeypatch.syspath_prepend(str(STUDIES))
    found = __import__("results")
    monkeypatch.delitem(sys.modules, "results")
    (tmp_path / "note.py").write_text(NOTE)
    monkeypatch.setattr(found, "HERE", tmp_path)
    return found


def order(out: Path) -> list[str]:
    return (out / "order").read_text().splitlines()


def test_masks_come_first_times_are_taken_alone_and_what_is_done_is_left(
    results: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    studies = [
        results.Study("masks", "-", "note.py {out} masks .4"),
        results.Study("table", "-", "note.py {out} table 0", after="masks"),
        results.Study("bad", "-", "note.py {out} bad 0"),
        results.Study("timed", "-", "note.py {out} timed .3", alone=True),
    ]
    assert results.run_all(studies, tmp_path, out, seconds=60, at_once=2) == 1
    seen = order(out)
    assert seen.index("table begins") > seen.index("masks ends")
    assert seen.index("bad begins") < seen.index("masks ends"), "two at a time"
    assert seen[seen.index("timed begins") + 1] == "timed ends" and seen[-1] == "timed ends"
    assert "bad: ended with 1" in capsys.readouterr().out
    assert results.run_all(studies, tmp_path, out, seconds=60, at_once=2) == 1
    assert order(out)[len(seen) :] == ["bad begins", "bad ends"]


def test_a_time_limit_interrupts_and_says_what_is_left(
    results: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, began = tmp_path / "out", time.monotonic()
    studies = [
        results.Study("long", "-", "note.py {out} long 600"),
        results.Study("later", "-", "note.py {out} later 0"),
    ]
    assert results.run_all(studies, tmp_path, out, seconds=1.5, at_once=1) == 2
    assert time.monotonic() - began < 20 and order(out) == ["long begins"]
    told = capsys.readouterr().out
    assert "long: stopped" in told and "later: not begun" in told and not list(out.glob("*.done"))


def test_every_recipe_and_script_that_it_names_is_there(results: ModuleType, tmp_path: Path) -> None:
    recipes = {file.stem for file in (STUDIES.parents[1] / "src/proofmap/reproduce/recipes").glob("*.toml")}
    for study in results.STUDIES:
        first = study.command.split()[0]
        assert first in {*recipes, "evaluate"} or (STUDIES / first).is_file(), study.name
        assert (STUDIES.parents[1] / "docs/results" / study.page).is_file(), study.name
        assert str(tmp_path / "data") in " ".join(study.argv(tmp_path / "data", tmp_path / "out"))
    names = [study.name for study in results.STUDIES]
    assert len(set(names)) == len(names)
    assert all(
        study.after is None or study.after in names[: names.index(study.name)] for study in results.STUDIES
    )
