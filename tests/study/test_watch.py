"""Watching a study: what is told, how often, and that no watcher can stop it."""

from __future__ import annotations

import errno
import io
import json
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import torch
from rich.console import Console

from proofmap.core.errors import InputError
from proofmap.core.progress import EVERY
from proofmap.study import watchers as views
from proofmap.study.watchers import (
    LiveView,
    PlainLines,
    ProgressFile,
    Status,
    Tally,
    memory_of,
    watchers_for,
)

METRICS = ("completeness", "soundness", "best-effort", "insertion", "deletion", "area", "entropy")
METHODS = ("learned-mask", "grad-cam", "learned-mask:preset=paper,grid=28,objective=printed [red]")
RUNNING = Status(
    state="running",
    units_total=70,
    units_done=12,
    units_failed=3,
    units_before=5,
    passes_done=5310,
    passes_total=106_200,
    seconds=9.0,
    scores={
        method: dict(zip(METRICS, (0.88, 0.54, 0.93, 0.45, 0.13, 2, 3), strict=True)) for method in METHODS
    },
    images=dict.fromkeys(METHODS, 64),
    last="grad-cam on images 32-63",
)


class Clock:
    """A clock that the test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now

    def date(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self.now)


class Diary:
    """A watcher that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def update(self, status: Status) -> None:
        self.told.append(status.state)

    def end(self, status: Status) -> None:
        self.told.append(f"end: {status.state}")


class Faulty(Diary):
    def __init__(self, moment: str) -> None:
        super().__init__()
        self.moment = moment

    def update(self, status: Status) -> None:
        super().update(status)
        self._fail("update")

    def end(self, status: Status) -> None:
        super().end(status)
        self._fail("end")

    def _fail(self, moment: str) -> None:
        if moment == self.moment:
            raise RuntimeError("no connection")


# A status and what follows from it.


@pytest.mark.parametrize(
    "status, left",
    [
        (RUNNING, (106_200 - 5310) / 590),
        (replace(RUNNING, passes_total=None), 55 * 9 / 10),  # 12 + 3 - 5 units took 9 s, and 55 are left
        (Status(state="surveying"), None),
        (Status(state="running", units_total=70, units_done=5, units_before=5, seconds=9.0), None),
        (replace(RUNNING, state="interrupted"), None),
    ],
)
def test_time_left_goes_by_passes_or_units_where_they_are_known(status: Status, left: float | None) -> None:
    assert status.seconds_left == (left if left is None else pytest.approx(left))


# Watchers together.


@pytest.mark.parametrize("moment", ["update", "end"])
def test_a_watcher_that_raises_is_named_and_dropped_and_the_others_go_on(moment: str) -> None:
    faulty, diary = Faulty(moment), Diary()
    tally = Tally("cpu", [faulty, diary])
    first, *others = ("surveying", "running", "finished")[0 if moment == "update" else 2 :]
    if moment == "end":
        tally.tell()
        tally.tell(state="running")
    with pytest.warns(
        RuntimeWarning, match="^Faulty no longer follows the study: RuntimeError: no connection$"
    ):
        tally.tell(state=first)
    for state in others:
        tally.tell(state=state)
    assert diary.told == ["surveying", "running", "end: finished"]
    assert faulty.told == (diary.told if moment == "end" else ["surveying"])


def test_all_watchers_hear_of_the_end_even_when_warnings_are_errors() -> None:
    diary = Diary()
    with pytest.raises(RuntimeWarning):  # pytest makes them errors here
        Tally("cpu", [Faulty("end"), diary]).tell(state="failed")
    assert diary.told == ["end: failed"]


def test_an_interrupt_inside_a_watcher_is_not_swallowed() -> None:
    class Interrupted(Diary):
        def update(self, status: Status) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Tally("cpu", [Interrupted()]).tell()


def test_watchers_are_told_one_thing_at_a_time_and_passes_of_all_threads_are_counted() -> None:
    inside, most = 0, 0
    together = threading.Barrier(4)

    class Counter(Diary):
        def update(self, status: Status) -> None:
            nonlocal inside, most
            inside += 1
            Path(".").stat()  # a system call lets another thread in, if it may come
            most = max(most, inside)
            inside -= 1

    tally = Tally("cpu", [Counter()], every=0)

    def job() -> None:
        together.wait()
        with tally.task("rise", 3000) as task:
            for _ in range(1000):
                task.advance(3, "note")

    in_threads(4, job)
    assert most == 1 and tally.passes_done == 12_000


def in_threads(number: int, job: Callable[[], object]) -> None:
    threads = [threading.Thread(target=job) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_passes_are_told_at_once_and_then_after_a_quarter_of_a_second() -> None:
    clock, told = Clock(), []

    class Noting(Diary):
        def update(self, status: Status) -> None:
            told.append(status.passes_done)

    with Tally("cpu", [Noting()], clock=clock).task("rise", 100) as task:
        for step in (0, 0.1, 0.1, 0.1, 0.1):
            clock.now += step
            task.advance(10)
    assert told == [10, 40]


def test_a_watcher_that_makes_passes_is_not_told_of_them_again() -> None:
    class Busy(Diary):
        def update(self, status: Status) -> None:
            super().update(status)
            tally.task("inner", 1).advance(1)

    busy = Busy()
    tally = Tally("cpu", [busy])
    tally.task("outer", 1).advance(1)
    assert (len(busy.told), tally.passes_done) == (1, 2)


# Lines.


def test_a_line_says_all_that_is_known() -> None:
    assert str(RUNNING) == (
        "12/70 units, 3 failed, 5 from before, 5,310 passes, 590/s, 3 min left, last: grad-cam on images 32-63"
    )


def test_lines_come_at_the_beginning_at_intervals_and_at_the_end() -> None:
    clock, stream = Clock(), io.StringIO()
    lines = PlainLines(stream, every=10, clock=clock)
    lines.update(Status(state="surveying"))
    for _ in range(5):
        clock.now += 5
        lines.update(RUNNING)
    lines.end(Status(state="finished", units_done=70, units_total=70, passes_done=8000, seconds=800))
    first, *middle, last = stream.getvalue().splitlines()
    assert first == "surveying: looking at the data"
    assert middle == [str(RUNNING)] * 2
    assert last == "finished: 70/70 units, 8,000 passes, 10/s, 13 min in all"


def test_the_watcher_suits_the_console(monkeypatch: pytest.MonkeyPatch) -> None:
    log, terminal = Console(file=io.StringIO()), Console(file=io.StringIO(), force_terminal=True)
    monkeypatch.setenv(EVERY, "2.5")
    (lines,) = watchers_for(log, quiet=False)
    assert isinstance(lines, PlainLines) and lines.every == 2.5 and lines.stream is log.file
    (view,) = watchers_for(terminal, quiet=False)
    assert isinstance(view, LiveView) and watchers_for(terminal, quiet=True) == []


def test_an_interval_that_is_no_number_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EVERY, "often")
    with pytest.raises(InputError, match=f"{EVERY} must be a number of seconds, not 'often'"):
        watchers_for(Console(file=io.StringIO()), quiet=False)


# The file.


def test_the_file_holds_where_the_study_stands(tmp_path: Path) -> None:
    clock = Clock()
    file = ProgressFile(tmp_path / "progress.json", clock=clock, now=clock.date)
    file.update(Status(state="surveying"))
    clock.now += 60
    broken = {**RUNNING.scores, "random": {"soundness": float("nan"), "insertion": 0.1}}
    file.end(replace(RUNNING, scores=broken))
    record = json.loads((tmp_path / "progress.json").read_text())
    assert record.pop("memory")["used"] > 0
    assert record == {
        "schema": 1,
        "state": "running",
        "pid": os.getpid(),
        "began": "2030-01-01T00:01:40+00:00",
        "updated": "2030-01-01T00:02:40+00:00",
        "units": {"done": 12, "failed": 3, "before": 5, "total": 70},
        "passes": {"done": 5310, "total": 106_200, "per_second": 590.0},
        "seconds": 9.0,
        "seconds_left": 171.0,
        "device": "cpu",
        "methods": {
            **{method: {"images": 64, "scores": dict(RUNNING.scores[method])} for method in METHODS},
            "random": {"images": 0, "scores": {"insertion": 0.1}},
        },
        "last": "grad-cam on images 32-63",
    }


def test_the_file_is_written_once_a_second_at_most_and_always_at_the_end(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "progress.json"
    file = ProgressFile(path, clock=clock)
    written = []
    file.update(RUNNING)
    for done in range(1, 11):
        clock.now += 0.25
        file.update(replace(RUNNING, units_done=done))
        written.append(json.loads(path.read_text())["units"]["done"])
    file.end(replace(RUNNING, units_done=70))
    assert written == [12, 12, 12, 4, 4, 4, 4, 8, 8, 8]
    assert json.loads(path.read_text())["units"]["done"] == 70
    assert [entry.name for entry in tmp_path.iterdir()] == ["progress.json"]


def test_a_full_disk_is_told_once_and_leaves_the_last_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "progress.json"
    file = ProgressFile(path, every=0)
    file.update(RUNNING)
    write = views.write_text

    def full(path: Path, text: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(views, "write_text", full)
    with pytest.warns(RuntimeWarning, match="progress.json cannot be written just now: .*No space left"):
        file.update(replace(RUNNING, units_done=13))
    file.update(replace(RUNNING, units_done=14))  # a second warning would be an error here
    assert json.loads(path.read_text())["units"]["done"] == 12
    monkeypatch.setattr(views, "write_text", write)  # there is room again
    file.end(replace(RUNNING, units_done=70))
    assert json.loads(path.read_text())["units"]["done"] == 70


# The live view.


def drawn(status: Status, width: int, height: int = 24, since: float = 0.0) -> list[str]:
    clock = Clock()
    console = Console(file=io.StringIO(), force_terminal=True, width=width, height=height, color_system=None)
    view = LiveView(console, clock=clock)
    view.status = status
    clock.now += since
    console.print(view.picture())
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 140])
@pytest.mark.parametrize(
    "status",
    [
        Status(state="surveying"),
        RUNNING,
        replace(RUNNING, passes_done=10**9, seconds=10**6, device="cuda:0"),
    ],
    ids=["surveying", "running", "large"],
)
def test_every_line_of_the_view_fits_the_terminal(width: int, status: Status) -> None:
    lines = drawn(status, width)
    assert max(map(len, lines)) <= width
    assert len(lines) == (5 + 1 + len(METHODS) if status.scores else 3)


def test_a_terminal_of_80_columns_shows_all_that_matters() -> None:
    text = "\n".join(drawn(RUNNING, 80))
    for part in (
        "12/70 units, 3 failed, 5 from before, 5,310 passes, 590/s, 3 min left",
        "of 106,200 passes",
    ):
        assert part in text
    for part in ("cpu, ", " GB", "last: grad-cam on images 32-63", "learned-mask:pres", "0.54"):
        assert part in text


def test_time_goes_on_inside_a_unit_that_reports_nothing() -> None:
    assert "108/s, 16 min left, 49 s so far" in drawn(RUNNING, 100, since=40)[1]


def test_a_low_terminal_shows_the_methods_that_began_last() -> None:
    many = {f"method-{i}": {"soundness": 0.5} for i in range(40)}
    lines = drawn(replace(RUNNING, scores=many), 80, height=20)
    assert len(lines) <= 20
    assert lines[-1].startswith("method-39")


def test_the_view_vanishes_at_the_end() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    view = LiveView(console)
    view.update(Status(state="surveying"))
    view.update(RUNNING)
    view.end(replace(RUNNING, state="interrupted"))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "12/70 units" in text
    assert text.endswith("\x1b[1A\x1b[2K") and text.count("\x1b[?25l") == text.count("\x1b[?25h")


# Memory.


def test_on_a_cpu_the_memory_of_this_process_is_told() -> None:
    if not Path("/proc/self/statm").exists():
        pytest.skip("no /proc here")
    memory = memory_of("cpu")
    assert memory is not None and 10e6 < memory[0] < 1e12


def test_a_gpu_that_this_process_does_not_use_is_left_asleep() -> None:
    if torch.cuda.is_initialized():
        pytest.skip("another test has woken it")
    assert memory_of("cuda:0") is None
    assert not torch.cuda.is_initialized()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu_its_memory_is_told_with_the_peak() -> None:
    before = torch.zeros(2**20, device="cuda").nbytes
    memory = memory_of("cuda")
    assert memory is not None and memory[1] is not None and memory[1] >= before
