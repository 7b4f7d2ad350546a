"""Progress: lines at intervals with rate and time left, a bar on a terminal, silence when asked."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from proofmap.cli.console import Bars, progress_for
from proofmap.core import progress
from proofmap.core.progress import Lines, Progress


class Clock:
    """A clock that the test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress.time, "monotonic", clock)
    return clock


def test_a_line_tells_what_is_done_the_rate_and_the_time_left(clock: Clock) -> None:
    stream = io.StringIO()
    with Lines(stream).task("learned-mask", 1000) as task:
        clock.now += 20
        task.advance(400, "loss 0.123")
    assert stream.getvalue() == "learned-mask: 400/1000 passes, 20/s, 30 s left, loss 0.123\n"


def test_lines_come_only_every_few_seconds(clock: Clock) -> None:
    stream = io.StringIO()
    with Lines(stream, every=10).task("gradient", 100) as task:
        for _ in range(25):
            clock.now += 1
            task.advance(4)
    done = [line.split()[1] for line in stream.getvalue().splitlines()]
    assert done == ["40/100", "80/100"]


def test_lines_go_to_the_error_stream_unless_told_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    with Lines(every=0).task("gradient", 4) as task:
        task.advance(4)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("gradient: 4/4 passes")


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=100)


def test_a_bar_shows_the_name_and_the_latest_note() -> None:
    console = terminal()
    with Bars(console).task("learned-mask", 10) as task:
        task.advance(5, "loss 0.5")
        task.advance(5)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "learned-mask" in shown
    assert "100%" in shown
    assert "loss 0.5" in shown  # an advance without a note keeps the last one


@pytest.mark.parametrize("every", [Progress(), Lines(io.StringIO()), Bars(terminal())])
def test_an_error_passes_through_every_kind_of_progress(every: Progress) -> None:
    def fail() -> None:
        with every.task("gradient", 4):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail()


def test_a_bar_is_for_terminals_and_lines_are_for_logs() -> None:
    stream = io.StringIO()
    assert isinstance(progress_for(terminal(), quiet=False), Bars)
    assert isinstance(progress_for(terminal(), quiet=True), Progress)
    lines = progress_for(Console(file=stream), quiet=False)
    assert isinstance(lines, Lines)
    assert lines.stream is stream
