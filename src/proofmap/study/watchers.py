"""The progress of a running study, and what shows it: a line on a terminal or in a log, and a file for other programs."""

from __future__ import annotations

import json
import math
import os
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.text import Text

from proofmap.core.files import write_text
from proofmap.core.progress import Progress, ProgressTask
from proofmap.core.text import counted, one_line
from proofmap.study.planning import duration

Clock = Callable[[], float]
"""A function that returns the time in seconds, as ``time.monotonic`` does."""


@dataclass(frozen=True, kw_only=True)
class Status:
    """The progress of a study, as plain data. A unit is one method on one block of images; "this run" is the current call.

    >>> now = Status(state="running", units_total=10, units_done=4, units_before=2, seconds=60.0)
    >>> now.seconds_left  # 6 units are left, and 2 took a minute
    180.0
    """

    state: Literal["surveying", "running", "finished", "failed", "interrupted"] = "surveying"
    units_total: int = 0
    """Number of units of the whole study."""
    units_done: int = 0
    """Number of units finished without failure, including those of earlier runs."""
    units_failed: int = 0
    """Number of units that failed in this run. They are not counted in ``units_done``."""
    units_before: int = 0
    """Number of units that were done before this run began."""
    passes_done: int = 0
    """Number of images passed through the net in this run, including those of unfinished units."""
    passes_total: int | None = None
    """Number of passes that this run will need; None if a method does not report its passes."""
    seconds: float = 0.0
    """Seconds since this run began."""
    last: str = ""
    """The unit that finished last, in words."""

    @property
    def is_over(self) -> bool:
        return self.state not in ("surveying", "running")

    @property
    def passes_per_second(self) -> float | None:
        return self.passes_done / self.seconds if self.passes_done and self.seconds > 0 else None

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds left, from the number of passes if their total is known, else from the number of units. None while unknown."""
        if self.state != "running":
            return 0.0 if self.state == "finished" else None
        rate = self.passes_per_second
        if self.passes_total is not None and rate:
            return max(0, self.passes_total - self.passes_done) / rate
        ended = self.units_done + self.units_failed
        over = ended - self.units_before
        return (self.units_total - ended) * self.seconds / over if over > 0 else None

    def __str__(self) -> str:
        """The status as one line of text.

        >>> print(
        ...     Status(
        ...         state="running", units_done=12, units_total=70, passes_done=5310, seconds=9, last="rise"
        ...     )
        ... )
        12/70 units, 5,310 passes, 590/s, 44 s left, last: rise
        >>> print(Status(state="failed", seconds=1))
        failed while looking at the data
        """
        left, rate, running = self.seconds_left, self.passes_per_second, self.state == "running"
        if self.state == "surveying":
            return f"surveying: {self.last or 'looking at the data'}"
        if self.state == "failed" and not self.units_total:
            return "failed while looking at the data"
        parts = [
            f"{'' if running else f'{self.state}: '}{self.units_done}/{counted(self.units_total, 'unit')}",
            f"{self.units_failed} failed" if self.units_failed else "",
            f"{self.units_before} from before" if self.units_before else "",
            "" if rate is None else f"{counted(self.passes_done, 'pass')}, {rate:,.0f}/s",
            f"{duration(left)} left" if running and left is not None else "",
            f"last: {self.last}" if running and self.last else f"{duration(self.seconds)} in all",
        ]
        return ", ".join(filter(None, parts))


Watcher = Callable[[Status], None]
"""A function that receives the progress of a study: at the beginning, while units make passes (a few times a second at most), when a unit has
finished, and once at the end (``status.is_over``), also if the study failed or was interrupted."""


def watchers_for(console: Console, quiet: bool) -> list[Watcher]:
    """The watcher for a console: a line that is rewritten on a terminal, otherwise lines of text; none if ``quiet``."""
    if quiet:
        return []
    return [_live_line(console) if console.is_terminal else _lines(console)]


def _live_line(console: Console) -> Watcher:
    """Shows the status in one line, which vanishes at the end."""
    line = console.status("")

    def show(status: Status) -> None:
        if status.is_over:
            line.stop()
        else:
            line.update(Text(one_line(str(status))[: max(10, console.width - 4)]))
            line.start()

    return show


def _lines(console: Console, every: float = 10.0, clock: Clock = time.monotonic) -> Watcher:
    """Prints a line at the beginning, every ``every`` seconds, and at the end. For logs and pipes."""
    printed_at = -math.inf

    def show(status: Status) -> None:
        nonlocal printed_at
        if status.is_over or clock() - printed_at >= every:
            printed_at = clock()
            print(one_line(str(status)), file=console.file, flush=True)

    return show


def progress_file(path: Path, every: float = 1.0, clock: Clock = time.monotonic) -> Watcher:
    """A watcher that writes the status to a file for other programs. The file is replaced atomically, at most once every ``every`` seconds.

    ========== =======================================================================================
    schema     2; raised when the meaning of a field changes
    state      surveying, running, finished, failed or interrupted
    pid        id of the process; if ``state`` is running and the process is gone, it was killed
    began      when this run began, ISO 8601 with time zone; ``updated``: when this file was written
    units      done (earlier runs included), failed, before (done by earlier runs), total
    passes     of this run: done, total (null: unknown), per_second (null: none yet)
    seconds    since this run began; ``seconds_left``: an estimate, or null
    last       the unit that finished last, in words
    ========== =======================================================================================
    """

    written_at, began = -math.inf, _now()

    def write(status: Status) -> None:
        nonlocal written_at
        if not status.is_over and clock() - written_at < every:
            return
        written_at = clock()
        rate, left = status.passes_per_second, status.seconds_left
        record = {
            "schema": 2,
            "state": status.state,
            "pid": os.getpid(),
            "began": began,
            "updated": _now(),
            "units": {
                "done": status.units_done,
                "failed": status.units_failed,
                "before": status.units_before,
                "total": status.units_total,
            },
            "passes": {
                "done": status.passes_done,
                "total": status.passes_total,
                "per_second": None if rate is None else round(rate, 1),
            },
            "seconds": round(status.seconds, 1),
            "seconds_left": None if left is None else round(left, 1),
            "last": status.last,
        }
        with suppress(OSError):  # a full disk may have space again later
            write_text(path, json.dumps(record, indent=1) + "\n")

    return write


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class Tally(Progress):
    """Counts the passes and the finished units of a study, and reports to the watchers. It may be called from any thread.

    Passes are reported at most every ``every`` seconds.
    """

    def __init__(
        self, watchers: Sequence[Watcher] = (), clock: Clock = time.monotonic, every: float = 0.25
    ) -> None:
        self.passes_done, self.lock = 0, threading.RLock()
        self.watchers, self.clock, self.every = list(watchers), clock, every
        self._began, self._told_at = clock(), -math.inf
        self._status = Status()

    def task(self, what: str, passes: int) -> ProgressTask:
        return ProgressTask(self.advance)

    def advance(self, passes: int) -> None:
        with self.lock:
            self.passes_done += passes
            if self.clock() - self._told_at >= self.every:
                self.tell()

    def unit(self, name: str, *, failed: bool, passes: int) -> None:
        """Count a unit that has ended, and the passes that are not counted yet."""
        with self.lock:
            self.passes_done += passes
            done, failures = self._status.units_done, self._status.units_failed
            self.tell(units_done=done + (not failed), units_failed=failures + failed, last=name)

    @property
    def status(self) -> Status:
        return replace(self._status, passes_done=self.passes_done, seconds=self.clock() - self._began)

    def tell(self, **changes: Any) -> None:
        """Report the status to the watchers, with ``changes``."""
        with self.lock:
            self._status, self._told_at = replace(self._status, **changes), self.clock()
            for watcher in list(self.watchers):
                try:
                    watcher(self.status)
                except Exception as error:
                    self.watchers.remove(watcher)  # a view is lost, never a result
                    warnings.warn(
                        f"a watcher failed, and is told no more: {error}", RuntimeWarning, stacklevel=3
                    )
