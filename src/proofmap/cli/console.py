"""Progress on a terminal with Rich; plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.progress import Task as RichTask
from rich.text import Text

from proofmap.core.progress import Lines, Progress, Silent, Task, seconds_between_lines


def progress_for(console: Console, quiet: bool) -> Progress:
    """A live bar on a terminal, lines in a log, nothing when quiet."""
    if quiet:
        return Silent()
    return Bars(console) if console.is_terminal else Lines(console.file, seconds_between_lines())


class _Rate(ProgressColumn):
    def render(self, task: RichTask) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} passes/s")


class Bars:
    """One live bar at a time: done, passes per second, time left, latest note."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def task(self, what: str, passes: int) -> Task:
        return _Bar(self.console, what, passes)


class _Bar:
    def __init__(self, console: Console, what: str, passes: int) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.percentage:>3.0f}%"),
            _Rate(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        self.bar = RichProgress(*columns, console=console, transient=True)
        self.note = ""
        self.id = self.bar.add_task(what, total=passes, note="")

    def advance(self, passes: int, note: str = "") -> None:
        self.note = note or self.note
        self.bar.update(self.id, advance=passes, note=self.note)

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()
