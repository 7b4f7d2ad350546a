"""Reports the progress of long jobs, in passes of the net. One image through the net is one pass."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import IO, Self

from proofmap.core.text import one_line


class ProgressTask:
    """One running job; a context manager. After each step it calls ``advanced``, if that is given, with the number of passes."""

    def __init__(self, advanced: Callable[[int], None] | None = None) -> None:
        self.advanced = advanced

    def advance(self, passes: int, note: str = "") -> None:
        """Report that ``passes`` more passes are done. ``note`` is a value to show, such as the loss."""
        if self.advanced is not None:
            self.advanced(passes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass


class Progress:
    """Receives the progress of jobs; this base class, the default in the library, reports nothing. ``passes`` counts images through the
    net, so rates of different methods can be compared."""

    def task(self, what: str, passes: int) -> ProgressTask:
        return ProgressTask()


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
            print(one_line(line), file=self.stream, flush=True)
