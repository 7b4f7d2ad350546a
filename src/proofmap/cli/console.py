"""Prints results to stdout, and messages and progress to stderr. Terminal escapes in names and texts are removed."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from rich.console import Console
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
    """The progress display for a console; one that shows nothing if ``quiet``."""
    return Progress() if quiet else Lines(console)


class Lines(Progress):
    """Progress as lines of text. A terminal shows one line, which is rewritten and vanishes at the end; logs and pipes get a line of at most one
    task in ``every`` seconds.

    >>> with Lines(Console(), every=0).task("gradient", 4) as task:
    ...     task.advance(4)  # doctest: +ELLIPSIS
    gradient: 4/4 passes, ...
    """

    def __init__(self, console: Console, every: float = 10.0) -> None:
        self.console, self.every = console, every

    def task(self, what: str, passes: int) -> ProgressTask:
        return _Line(self.console, what, passes, self.every)


class _Line(ProgressTask):
    def __init__(self, console: Console, what: str, total: int, every: float) -> None:
        self.console, self.what, self.total, self.every = console, what, total, every
        self.live = console.status(one_line(what)) if console.is_terminal else None
        self.done, self.note, self.began = 0, "", time.monotonic()
        self.printed_at = self.began

    def advance(self, passes: int, note: str = "") -> None:
        self.done, self.note, now = self.done + passes, note or self.note, time.monotonic()
        if self.live is None and now - self.printed_at < self.every:
            return
        self.printed_at = now
        rate = self.done / max(now - self.began, 1e-9)
        left = (self.total - self.done) / max(rate, 1e-9)
        tail = f", {self.note}" if self.note else ""
        line = one_line(
            f"{self.what}: {self.done}/{self.total} passes, {rate:.0f}/s, {left:.0f} s left{tail}"
        )
        if self.live is None:
            self.console.file.write(f"{line}\n")
            self.console.file.flush()
        else:
            self.live.update(Text(line[: max(10, self.console.width - 4)]))

    def __enter__(self) -> Self:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.live is not None:
            self.live.stop()
