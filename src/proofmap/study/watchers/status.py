"""The status of a running study, and the watchers that receive it.

A watcher is called when the study begins, when its status changes, and when the study has ended. ``views.py`` has the watchers for the
terminal, the log and the progress file. A watcher that fails never stops a study.
"""

from __future__ import annotations

import math
import os
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import torch

from proofmap.core.progress import CallbackTask, Progress, ProgressTask
from proofmap.core.text import counted
from proofmap.plugins.failures import exit_as_error

State = Literal["surveying", "running", "finished", "failed", "interrupted"]
Clock = Callable[[], float]
"""A function that returns the time in seconds, as ``time.monotonic`` does."""


@dataclass(frozen=True, kw_only=True)
class Status:
    """The progress of a study, as plain data. A unit is one method on one block of images; "this run" is the current call.

    >>> now = Status(state="running", units_total=10, units_done=4, units_before=2, seconds=60.0)
    >>> now.seconds_left  # 6 units are left, and 2 took a minute
    180.0
    """

    state: State
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
    recent_rate: float | None = None
    """Passes per second over the last third of the run."""
    seconds_expected: float | None = None
    """Expected duration of the run, estimated before the work began from the rates of passes with and without gradient."""
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Method -> metric -> mean over the images so far."""
    images: Mapping[str, int] = field(default_factory=dict)
    """Method -> images judged so far."""
    last: str = ""
    """The unit that finished last, in words."""
    device: str = "cpu"
    files: tuple[Path, ...] = ()
    """The files that the callback ``on_end`` wrote; empty until the end."""

    @property
    def units_ended(self) -> int:
        """Units that are done or failed."""
        return self.units_done + self.units_failed

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
        over = self.units_ended - self.units_before
        return (self.units_total - self.units_ended) * self.seconds / over if over > 0 else None

    @property
    def seconds_left_range(self) -> tuple[float, float] | None:
        """The shortest and the longest plausible number of seconds left; None while unknown.

        The rate so far and the rate over the last third of the run each give an estimate. Passes with gradient take longer and may come last.
        So the longest estimate is never less than the time expected before the run minus the time used so far.

        >>> Status(
        ...     state="running",
        ...     passes_done=100,
        ...     passes_total=300,
        ...     seconds=10.0,
        ...     recent_rate=5.0,
        ...     seconds_expected=70.0,
        ... ).seconds_left_range
        (20.0, 60.0)
        """
        left = self.seconds_left
        if left is None or self.state != "running":
            return None if left is None else (left, left)
        estimates = [left]
        if self.passes_total is not None and self.recent_rate:
            estimates.append(max(0, self.passes_total - self.passes_done) / self.recent_rate)
        before = 0.0 if self.seconds_expected is None else self.seconds_expected - self.seconds
        is_over = self.passes_total is not None and self.passes_done >= self.passes_total
        return min(estimates), max(*estimates, 0.0 if is_over else before)


class Watcher(Protocol):
    """Receives the progress of a study. Calls come one at a time, but from any thread."""

    def begin(self, study: Mapping[str, object], status: Status) -> None:
        """The study starts or resumes; ``study`` holds its settings."""

    def update(self, status: Status) -> None:
        """A unit has finished, or has made passes. Called several times a second at most."""

    def end(self, status: Status) -> None:
        """The last call. It comes even if the study failed or was interrupted."""


class Watchers:
    """Passes every call on to several watchers. A watcher that raises is removed, and a warning names it."""

    def __init__(self, *watchers: Watcher) -> None:
        self.watchers = list(watchers)
        self._lock = threading.RLock()

    def begin(self, study: Mapping[str, object], status: Status) -> None:
        self._notify(lambda watcher: watcher.begin(study, status), status)

    def update(self, status: Status) -> None:
        self._notify(lambda watcher: watcher.update(status), status)

    def end(self, status: Status) -> None:
        self._notify(lambda watcher: watcher.end(status), status, closing=True)

    def _notify(self, call: Callable[[Watcher], None], status: Status, closing: bool = False) -> None:
        problems = []
        with self._lock:
            for watcher in list(self.watchers):
                try:
                    with exit_as_error():
                        call(watcher)
                except Exception as error:
                    self.watchers.remove(watcher)
                    name = getattr(watcher, "name", type(watcher).__name__)
                    problems.append(f"{name} no longer follows the study: {type(error).__name__}: {error}")
                    if not closing:
                        with suppress(Exception):  # a last chance to close files and restore the terminal
                            watcher.end(status)
        for problem in problems:  # after all calls, since a warning may be turned into an error
            warnings.warn(problem, RuntimeWarning, stacklevel=3)


class UnitProgress(Progress):
    """Counts the passes of all running units, from any thread.

    The callback ``tick`` is called after passes, at most once in ``every`` seconds and never twice at the same time, by the thread that
    made the passes. So a view is updated during a unit of several minutes and needs no thread of its own.
    """

    def __init__(
        self, tick: Callable[[], None] | None = None, every: float = 0.25, clock: Clock = time.monotonic
    ) -> None:
        self.tick, self.every, self.clock = tick, every, clock
        self.passes_done = 0
        self._counting, self._ticking = threading.Lock(), threading.Lock()
        self._ticked = -math.inf

    def task(self, what: str, passes: int) -> ProgressTask:
        return CallbackTask(self._advance)

    def _advance(self, passes: int) -> None:
        with self._counting:
            self.passes_done += passes
        if self.tick and self._ticking.acquire(blocking=False):
            try:
                if self.clock() - self._ticked >= self.every:
                    self._ticked = self.clock()
                    self.tick()
            finally:
                self._ticking.release()


def status_line(status: Status) -> str:
    """The status as one line of text.

    >>> status_line(
    ...     Status(state="running", units_done=12, units_total=70, passes_done=5310, seconds=9, last="rise")
    ... )
    '12/70 units, 5,310 passes, 590/s, 44 s left, last: rise'
    >>> status_line(Status(state="failed", seconds=1))
    'failed while looking at the data'
    """
    left, rate, running = status.seconds_left_range, status.passes_per_second, status.state == "running"
    state = "" if running else f"{status.state}: "
    if status.state == "surveying":
        return f"surveying: {status.last or 'looking at the data'}"
    if status.state == "failed" and not status.units_total:
        return "failed while looking at the data"
    parts = [f"{state}{status.units_done}/{counted(status.units_total, 'unit')}"]
    if status.units_failed:
        parts.append(f"{status.units_failed} failed")
    if status.units_before:
        parts.append(f"{status.units_before} from before")
    if rate is not None:
        parts.append(f"{counted(status.passes_done, 'pass')}, {rate:,.0f}/s")
    if running and left is not None:
        parts.append(time_left(*left))
    if running and status.last:
        parts.append(f"last: {status.last}")
    if status.state in ("finished", "failed", "interrupted"):
        parts.append(f"{duration(status.seconds)} in all")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """A duration as text, in at most two units.

    >>> duration(44.1), duration(185), duration(7800), duration(100_000)
    ('44 s', '3 min', '2 h 10 min', '1 d 3 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"


def duration_range(low: float, high: float) -> str:
    """A range of two durations as text. If both have the same text, it is given once.

    >>> duration_range(125, 290), duration_range(50, 290), duration_range(44.1, 44.3)
    ('2 to 5 min', '50 s to 5 min', '44 s')
    """
    first, second = duration(low), duration(high)
    if first == second:
        return second
    number, _, unit = first.partition(" ")
    return f"{number} to {second}" if second.split(" ")[1:] == [unit] else f"{first} to {second}"


def time_left(low: float, high: float) -> str:
    """An estimate of the time left as text. Ends that are far apart are no range to plan with: then only the upper one is given.

    >>> time_left(125, 290), time_left(82, 7680)
    ('2 to 5 min left', 'up to 2 h 8 min left')
    """
    return f"up to {duration(high)} left" if high > 10 * low else f"{duration_range(low, high)} left"


@dataclass(frozen=True)
class Memory:
    """Bytes in use now (``used``) and at most so far (``peak``), on the device, or by this process on a CPU."""

    used: int
    peak: int | None = None

    def __str__(self) -> str:
        peak = "" if self.peak is None else f", peak {self.peak / 1e9:.1f}"
        return f"{self.used / 1e9:.1f} GB{peak}"


def memory_of(device: str) -> Memory | None:
    """The memory in use on a device; None if unknown, or if this process does not use CUDA, which is then not initialised."""
    kind = device.partition(":")[0]
    if kind == "cuda":
        if not torch.cuda.is_initialized():  # the units run in other processes
            return None
        return Memory(torch.cuda.memory_allocated(device), torch.cuda.max_memory_allocated(device))
    if kind == "mps":
        return Memory(torch.mps.current_allocated_memory())
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return Memory(pages * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError):
        return None


def finite(scores: Mapping[str, float]) -> dict[str, float]:
    """The scores that are finite: JSON cannot hold others."""
    return {metric: value for metric, value in scores.items() if math.isfinite(value)}
