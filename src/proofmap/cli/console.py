"""Prints results to stdout, and messages and progress to stderr. Terminal escapes in names and texts are removed."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Self

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.progress import Task as RichTask
from rich.text import Text

from proofmap.core.progress import Progress, ProgressTask
from proofmap.core.text import one_line, terminal_text


class SafeConsole(Console):
    """A console that prints text literally: escape sequences, emoji codes and markup have no effect."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(highlight=False, soft_wrap=True, emoji=False, markup=False, **settings)

    def print(self, *objects: Any, **settings: Any) -> None:
        super().print(*(terminal_text(o) if isinstance(o, str) else o for o in objects), **settings)


stderr = SafeConsole(stderr=True)


def print_result(*texts: object, end: str = "\n") -> None:
    """Print a result on stdout, without terminal escapes."""
    print(*(terminal_text(str(text)) for text in texts), end=end)


def table_width() -> int | None:
    """The width of the terminal in columns; None if stdout is not a terminal, so that tables are not wrapped."""
    return shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else None


def print_as(result: Any, format: str) -> None:
    """Print a result on stdout in one of the formats that the result supports: table, md, csv, json or latex."""
    text = (
        result.table(table_width())
        if format == "table"
        else getattr(result, {"md": "markdown", "latex": "to_latex"}.get(format, format))()
    )
    print_result(text.rstrip("\n"))


def shown_path(path: Path) -> str:
    """A path as messages show it: relative if it is inside the current folder."""
    try:
        here = Path.cwd()
    except FileNotFoundError:  # it was deleted
        return str(path)
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def print_written(paths: Sequence[Path]) -> None:
    stderr.print(f"\nwritten to {shown_path(paths[0].parent)}/: {', '.join(path.name for path in paths)}")


def progress_for(console: Console, quiet: bool) -> Progress:
    """The progress display for a console: a live bar on a terminal, otherwise lines of text; one that shows nothing if ``quiet``."""
    if quiet:
        return Progress()
    return Bars(console) if console.is_terminal else Lines(console.file)


class _Rate(ProgressColumn):
    def render(self, task: RichTask) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} passes/s")


class Bars(Progress):
    """A live progress bar for one task at a time: share done, passes per second, time left, latest note."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def task(self, what: str, passes: int) -> ProgressTask:
        return _Bar(self.console, what, passes)


class _Bar(ProgressTask):
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

    def __exit__(self, *error: object) -> None:
        self.bar.stop()


class Lines(Progress):
    """Prints progress as plain lines, at most one in ``every`` seconds, for logs and pipes.

    >>> with Lines(sys.stdout, every=0).task("gradient", 4) as task:
    ...     task.advance(4)  # doctest: +ELLIPSIS
    gradient: 4/4 passes, ...
    """

    def __init__(self, stream: IO[str] | None = None, every: float = 10.0) -> None:
        self.stream, self.every = stream, every

    def task(self, what: str, passes: int) -> ProgressTask:
        return _LinesTask(what, passes, self.stream or sys.stderr, self.every)


class _LinesTask(ProgressTask):
    def __init__(self, what: str, total: int, stream: IO[str], every: float) -> None:
        self.what, self.total, self.stream, self.every = what, total, stream, every
        self.done, self.began = 0, time.monotonic()
        self.printed_at = self.began

    def advance(self, passes: int, note: str = "") -> None:
        self.done += passes
        now = time.monotonic()
        if now - self.printed_at >= self.every:
            self.printed_at = now
            rate = self.done / max(now - self.began, 1e-9)
            left = (self.total - self.done) / max(rate, 1e-9)
            tail = f", {note}" if note else ""
            line = f"{self.what}: {self.done}/{self.total} passes, {rate:.0f}/s, {left:.0f} s left{tail}"
            self.stream.write(f"{one_line(line)}\n")
            self.stream.flush()
