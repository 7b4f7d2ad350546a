"""What the command line prints, as text that a terminal only shows; progress with Rich there, plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.progress import Task as RichTask
from rich.text import Text

from proofmap.core.progress import Lines, Progress, Silent, Task, seconds_between_lines
from proofmap.core.text import one_line, terminal_text


class SafeConsole(Console):
    """A console that prints texts as they are read: no escapes of others, no emoji codes, no markup unless asked for."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(highlight=False, soft_wrap=True, emoji=False, markup=False, **settings)

    def print(self, *objects: Any, **settings: Any) -> None:
        super().print(*(terminal_text(o) if isinstance(o, str) else o for o in objects), **settings)


stderr = SafeConsole(stderr=True)


def print_result(*texts: object, end: str = "\n") -> None:
    """Print a result on stdout, as text that a terminal only shows."""
    print(*(terminal_text(str(text)) for text in texts), end=end)


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
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            TextColumn("{task.percentage:>3.0f}%"),
            _Rate(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", markup=False),
        )
        self.bar = RichProgress(*columns, console=console, transient=True)
        self.note = ""
        self.id = self.bar.add_task(one_line(what), total=passes, note="")

    def advance(self, passes: int, note: str = "") -> None:
        self.note = one_line(note) or self.note
        self.bar.update(self.id, advance=passes, note=self.note)

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()
