"""Watching a study: what is reported, how often, and that no watcher can stop it."""

from __future__ import annotations

import io
import json
import os
import threading
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from proofmap.study import watchers as views
from proofmap.study.watchers import Status, Tally, progress_file, watchers_for

RUNNING = Status(
    state="running",
    units_total=70,
    units_done=12,
    units_failed=3,
    units_before=5,
    passes_done=5310,
    passes_total=106_200,
    seconds=9.0,
    last="grad-cam on images 32-63",
)


class Clock:
    """A clock that the test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


# A status and what follows from it.


@pytest.mark.parametrize(
    "status, left",
    [
        (RUNNING, (106_200 - 5310) / 590),
        (replace(RUNNING, passes_total=None), 55 * 9 / 10),  # 12 + 3 - 5 units took 9 s, and 55 are left
        (Status(), None),
        (Status(state="running", units_total=70, units_done=5, units_before=5, seconds=9.0), None),
        (replace(RUNNING, state="interrupted"), None),
    ],
)
def test_time_left_goes_by_passes_or_units_where_they_are_known(status: Status, left: float | None) -> None:
    assert status.seconds_left == (left if left is None else pytest.approx(left))


def test_a_line_says_all_that_is_known() -> None:
    assert str(RUNNING) == (
        "12/70 units, 3 failed, 5 from before, 5,310 passes, 590/s, 3 min left, last: grad-cam on images 32-63"
    )


# Watchers together.


@pytest.mark.parametrize("moment", [0, 2])
def test_a_watcher_that_raises_is_dropped_and_the_others_go_on(moment: int) -> None:
    told, faulty = list[str](), list[str]()

    def raising(status: Status) -> None:
        faulty.append(status.state)
        if len(faulty) > moment:
            raise RuntimeError("no connection")

    tally = Tally([raising, lambda status: told.append(status.state)])
    for place, state in enumerate(("surveying", "running", "finished")):
        with pytest.warns(RuntimeWarning, match="no connection") if place == moment else nullcontext():
            tally.tell(state=state)
    assert told == ["surveying", "running", "finished"] and len(faulty) == moment + 1


def test_an_interrupt_inside_a_watcher_is_not_swallowed() -> None:
    def interrupted(status: Status) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Tally([interrupted]).tell()


def test_watchers_are_told_one_thing_at_a_time_and_passes_of_all_threads_are_counted() -> None:
    inside, most = 0, 0
    together = threading.Barrier(4)

    def watch(status: Status) -> None:
        nonlocal inside, most
        inside += 1
        Path(".").stat()  # a system call lets another thread in, if it may come
        most = max(most, inside)
        inside -= 1

    tally = Tally([watch], every=0)

    def job() -> None:
        together.wait()
        with tally.task("rise", 3000) as task:
            for _ in range(1000):
                task.advance(3, "note")

    threads = [threading.Thread(target=job) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1 and tally.passes_done == 12_000


def test_passes_are_told_at_once_and_then_after_a_quarter_of_a_second() -> None:
    clock, told = Clock(), list[int]()
    tally = Tally([lambda status: told.append(status.passes_done)], clock=clock)
    with tally.task("rise", 100) as task:
        for step in (0, 0.1, 0.1, 0.1, 0.1):
            clock.now += step
            task.advance(10)
    assert told == [10, 40]


# What a console shows.


def test_lines_come_at_the_beginning_at_intervals_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, console = Clock(), Console(file=io.StringIO())
    show = views._lines(console, 10, clock)
    show(Status())
    for _ in range(5):
        clock.now += 5
        show(RUNNING)
    show(Status(state="finished", units_done=70, units_total=70, passes_done=8000, seconds=800))
    first, *middle, last = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert first == "surveying: looking at the data"
    assert middle == [str(RUNNING)] * 2
    assert last == "finished: 70/70 units, 8,000 passes, 10/s, 13 min in all"
    assert watchers_for(console, quiet=True) == []


@pytest.mark.parametrize("width", [20, 80])
def test_the_line_on_a_terminal_fits_it_and_vanishes_at_the_end(width: int) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
    (show,) = watchers_for(console, quiet=False)
    show(Status())
    show(RUNNING)
    show(replace(RUNNING, state="interrupted"))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert (
        "12/70 units"[: width - 4] in text
        and max(map(len, text.replace("\r", "\n").splitlines())) < 2 * width
    )
    assert text.endswith("\x1b[2K") and text.count("\x1b[?25l") == text.count("\x1b[?25h")


# The file for other programs.


def test_the_file_says_what_the_status_says(tmp_path: Path) -> None:
    progress_file(tmp_path / "progress.json")(RUNNING)
    record = json.loads((tmp_path / "progress.json").read_text())
    assert record.pop("began") <= record.pop("updated")
    assert record == {
        "schema": 2,
        "state": "running",
        "pid": os.getpid(),
        "units": {"done": 12, "failed": 3, "before": 5, "total": 70},
        "passes": {"done": 5310, "total": 106_200, "per_second": 590.0},
        "seconds": 9.0,
        "seconds_left": 171.0,
        "last": "grad-cam on images 32-63",
    }


def test_the_file_is_written_once_a_second_at_most_and_always_at_the_end(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "progress.json"
    file = progress_file(path, clock=clock)
    written = []
    file(RUNNING)
    for done in range(1, 11):
        clock.now += 0.25
        file(replace(RUNNING, units_done=done))
        written.append(json.loads(path.read_text())["units"]["done"])
    file(replace(RUNNING, state="finished", units_done=70))
    assert written == [12, 12, 12, 4, 4, 4, 4, 8, 8, 8]
    assert json.loads(path.read_text())["units"]["done"] == 70
    assert [entry.name for entry in tmp_path.iterdir()] == ["progress.json"]


def test_a_full_disk_leaves_the_last_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "progress.json"
    file = progress_file(path, every=0)
    file(RUNNING)

    def full(path: Path, text: str) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(views, "write_text", full)
        file(replace(RUNNING, units_done=13))
    assert json.loads(path.read_text())["units"]["done"] == 12
    file(replace(RUNNING, units_done=70))  # there is room again
    assert json.loads(path.read_text())["units"]["done"] == 70
