"""The script that runs the studies behind docs/results: its order, what it keeps, and what a time limit does."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.main import get_command

from proofmap import cli
from proofmap.reproduce import Recipe

STUDIES = Path(__file__).parents[2] / "benchmarks" / "studies"
NOTE = """
import pathlib, sys, time
out, name, *awaited = sys.argv[1:]
out = pathlib.Path(out)
def note(what):
    with open(out / "order", "a") as order:
        order.write(f"{name} {what}\\n")
note("begins")
while awaited and not all((out / f"{other}.seen").exists() for other in awaited):
    time.sleep(0.02)
(out / f"{name}.seen").touch()
note("ends")
sys.exit(name == "bad")
"""
"""A study that waits until others were there; without any it ends at once."""


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script, with a folder of its own to look for studies in."""
    monkeypatch.syspath_prepend(str(STUDIES))
    found = __import__("results")
    monkeypatch.delitem(sys.modules, "results")
    (tmp_path / "note.py").write_text(NOTE)
    monkeypatch.setattr(found, "HERE", tmp_path)
    monkeypatch.setattr(found, "PATIENCE", 5.0)
    return found


def order(out: Path) -> list[str]:
    return (out / "order").read_text().splitlines()


def test_masks_come_first_times_are_taken_alone_and_what_is_done_is_left(
    results: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    studies = [
        results.Study(
            "masks", "-", "note.py {out} masks bad"
        ),  # it cannot end unless the other runs beside it
        results.Study("table", "-", "note.py {out} table", after="masks"),
        results.Study("bad", "-", "note.py {out} bad"),
        results.Study("without", "-", "note.py {out} without", after="bad"),
        results.Study("timed", "-", "note.py {out} timed", alone=True),
    ]
    (out / "timed").mkdir(parents=True)  # half of it, from an earlier try
    assert results.run_all(studies, tmp_path, out, seconds=600, at_once=2) == 2
    seen = order(out)
    assert seen.index("table begins") > seen.index("masks ends")
    assert seen[-2:] == ["timed begins", "timed ends"] and not (out / "timed").exists()
    told = capsys.readouterr().out
    assert "bad: ended with 1: see bad.log" in told and "without: left out: bad is not done" in told
    assert results.run_all(studies, tmp_path, out, seconds=600, at_once=2) == 2
    assert order(out)[len(seen) :] == ["bad begins", "bad ends"]


def test_a_time_limit_interrupts_and_says_what_is_left(
    results: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    studies = [
        results.Study("long", "-", "note.py {out} long never"),
        results.Study("later", "-", "note.py {out} later"),
    ]
    assert results.run_all(studies, tmp_path, tmp_path / "out", seconds=1, at_once=1) == 2
    told = capsys.readouterr().out
    assert "long: ended with" in told and "later: not begun" in told
    assert not list((tmp_path / "out").glob("*.done"))


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


def test_every_option_and_variant_that_it_names_is_known(results: ModuleType) -> None:
    commands: Any = get_command(cli.make_app())
    options = {
        name: {
            option
            for parameter in commands.commands[name].params
            for option in (*parameter.opts, *parameter.secondary_opts)
        }
        for name in ("evaluate", "reproduce")
    }
    for study in results.STUDIES:
        first, *words = shlex.split(study.command)
        if first.endswith(".py"):
            continue
        known = options["evaluate" if first == "evaluate" else "reproduce"]
        assert {word for word in words if word.startswith("--")} <= known, study.name
        if "--variant" in words:
            variants = [variant.name for variant in Recipe.named(first).variants]
            assert words[words.index("--variant") + 1] in variants, study.name
