"""The status of a running study, and the watchers that receive it: a live view, lines in a log, a file for other programs."""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Literal, Protocol

import torch
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from proofmap.core.files import write_text
from proofmap.core.progress import seconds_between_lines
from proofmap.core.text import counted, one_line
from proofmap.study.planning import duration
from proofmap.study.store import Store
from proofmap.study.unit import PassCounter, Unit, UnitResult

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
        state = "" if running else f"{self.state}: "
        parts = [f"{state}{self.units_done}/{counted(self.units_total, 'unit')}"]
        parts += [f"{self.units_failed} failed"] if self.units_failed else []
        parts += [f"{self.units_before} from before"] if self.units_before else []
        parts += [f"{counted(self.passes_done, 'pass')}, {rate:,.0f}/s"] if rate is not None else []
        parts += [f"{duration(left)} left"] if running and left is not None else []
        parts += [f"last: {self.last}"] if running and self.last else [f"{duration(self.seconds)} in all"]
        return ", ".join(parts)


# ---- watchers -------------------------------------------------------------------------------------------------


class Watcher(Protocol):
    """Receives the progress of a study. Calls come one at a time, but from any thread. One that raises is dropped, with a warning."""

    def update(self, status: Status) -> None:
        """The study begins, or a unit has finished or has made passes. Called several times a second at most."""

    def end(self, status: Status) -> None:
        """The last call. It comes even if the study failed or was interrupted."""


class PlainLines:
    """Prints one line every ``every`` seconds, and one at the beginning and at the end. For logs and pipes."""

    def __init__(
        self, stream: IO[str] | None = None, every: float = 10.0, clock: Clock = time.monotonic
    ) -> None:
        self.stream, self.every, self.clock = stream, every, clock
        self._printed_at = -math.inf

    def update(self, status: Status) -> None:
        if self.clock() - self._printed_at >= self.every:
            self.end(status)

    def end(self, status: Status) -> None:
        self._printed_at = self.clock()
        print(one_line(str(status)), file=self.stream or sys.stderr, flush=True)


class ProgressFile:
    """Writes the status to ``progress.json`` for other programs. The file is replaced atomically, at most once every ``every`` seconds.

    ========== =======================================================================================
    schema     1; raised when the meaning of a field changes
    state      surveying, running, finished, failed or interrupted
    pid        id of the process; if ``state`` is running and the process is gone, it was killed
    began      when this run began, ISO 8601 with time zone; ``updated``: when this file was written
    units      done (earlier runs included), failed, before (done by earlier runs), total
    passes     of this run: done, total (null: unknown), per_second (null: none yet)
    seconds    since this run began; ``seconds_left``: an estimate, or null
    device     such as cuda:0; ``memory``: bytes {used, peak} or null
    methods    name -> {images: judged so far, scores: {metric: mean over them}}
    last       the unit that finished last, in words
    ========== =======================================================================================
    """

    def __init__(
        self,
        path: Path,
        every: float = 1.0,
        clock: Clock = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.path, self.every, self.clock, self.now = path, every, clock, now
        self._written_at, self._warned = -math.inf, False
        self._began = now().isoformat(timespec="seconds")

    def update(self, status: Status) -> None:
        if self.clock() - self._written_at >= self.every:
            self.end(status)

    def end(self, status: Status) -> None:
        self._written_at = self.clock()
        try:
            write_text(self.path, json.dumps(self._record(status), indent=1, allow_nan=False) + "\n")
        except OSError as error:  # a full disk may have space again later
            if not self._warned:
                self._warned = True
                warnings.warn(
                    f"{self.path} cannot be written just now: {error}", RuntimeWarning, stacklevel=4
                )

    def _record(self, status: Status) -> dict[str, Any]:
        def rounded(value: float | None) -> float | None:
            return None if value is None else round(value, 1)

        memory = memory_of(status.device)
        units = {"done": status.units_done, "failed": status.units_failed, "before": status.units_before}
        return {
            "schema": 1,
            "state": status.state,
            "pid": os.getpid(),
            "began": self._began,
            "updated": self.now().isoformat(timespec="seconds"),
            "units": {**units, "total": status.units_total},
            "passes": {
                "done": status.passes_done,
                "total": status.passes_total,
                "per_second": rounded(status.passes_per_second),
            },
            "seconds": rounded(status.seconds),
            "seconds_left": rounded(status.seconds_left),
            "device": status.device,
            "memory": memory and {"used": memory[0], "peak": memory[1]},
            "methods": {
                method: {
                    "images": status.images.get(method, 0),
                    "scores": {name: value for name, value in scores.items() if math.isfinite(value)},
                }
                for method, scores in status.scores.items()
            },
            "last": status.last,
        }


class LiveView:
    """Shows the status in a few lines on a terminal, redrawn at most four times a second and cleared at the end."""

    widest = 100
    most_metrics = 5

    def __init__(self, console: Console, clock: Clock = time.monotonic) -> None:
        self.console, self.clock = console, clock
        self.status, self._updated_at = Status(state="surveying"), clock()
        self._live = Live(get_renderable=self.picture, console=console, refresh_per_second=4, transient=True)

    def update(self, status: Status) -> None:
        self.status, self._updated_at = status, self.clock()
        if not self._live.is_started:
            self._live.start()

    def end(self, status: Status) -> None:
        self.status, self._updated_at = status, self.clock()
        self._live.stop()

    def picture(self) -> RenderableType:
        """The text of the view: progress, time, speed and memory, then the scores so far."""
        since = self.clock() - self._updated_at  # time passes inside a unit that reports nothing
        now = replace(self.status, seconds=self.status.seconds + since)
        used, peak = memory_of(now.device) or (None, None)
        memory = "" if used is None else f", {used / 1e9:.1f} GB"
        memory += "" if peak is None else f", peak {peak / 1e9:.1f}"
        passes = "" if now.passes_total is None else f" of {counted(now.passes_total, 'pass')}"
        width, done = min(self.console.width, self.widest), now.units_done + now.units_failed
        bar = Table.grid()
        bar.add_row(ProgressBar(now.units_total or None, done, width=width, pulse=not now.units_total))
        parts: list[RenderableType] = [
            bar,
            _one_line(
                str(replace(now, last="")).replace(" in all", " so far") if now.units_total else str(now)
            ),
            _one_line(f"{now.device}{memory}{passes}"),
        ]
        parts += [_one_line(f"last: {now.last}")] if now.last else []
        if now.scores:
            parts += [Text(), self._scores(now)]
        return Group(*parts)

    def _scores(self, now: Status) -> Table:
        """A table of the scores so far: the first metrics, and the methods that started last."""
        metrics = list(dict.fromkeys(metric for scores in now.scores.values() for metric in scores))
        metrics = metrics[: self.most_metrics]
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        for name in ("method", "images", *metrics):
            justify: Any = "left" if name == "method" else "right"
            most = max(16, 3 * self.console.width // 10) if name == "method" else None
            table.add_column(_one_line(name), justify=justify, no_wrap=True, min_width=5, max_width=most)
        for method in list(now.scores)[-max(1, self.console.height - 8) :]:
            values = [now.scores[method].get(metric) for metric in metrics]
            numbers = ["-" if value is None else f"{value:.2f}" for value in values]
            table.add_row(_one_line(method), f"{now.images.get(method, 0):,}", *numbers)
        return table


def _one_line(text: str) -> Text:
    return Text(one_line(text), no_wrap=True, overflow="ellipsis")


def watchers_for(console: Console, quiet: bool) -> list[Watcher]:
    """The watcher for a console: a live view on a terminal, otherwise lines of text; none if ``quiet``."""
    if quiet:
        return []
    return [LiveView(console) if console.is_terminal else PlainLines(console.file, seconds_between_lines())]


def memory_of(device: str) -> tuple[int, int | None] | None:
    """The bytes in use now and at most so far, on the device, or by this process on a CPU; None if unknown.

    CUDA is not initialised for this: the units may run in other processes.
    """
    kind = device.partition(":")[0]
    if kind == "cuda":
        if not torch.cuda.is_initialized():
            return None
        return torch.cuda.memory_allocated(device), torch.cuda.max_memory_allocated(device)
    if kind == "mps":
        return torch.mps.current_allocated_memory(), None
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"), None
    except (OSError, ValueError):
        return None


# ---- counting -------------------------------------------------------------------------------------------------


class Tally(PassCounter):
    """Counts finished units, passes and running scores, and tells the watchers. It may be called from any thread.

    It receives the progress of the units of this process, and then tells the watchers at most every ``every`` seconds.
    """

    def __init__(
        self,
        device: str,
        watchers: Sequence[Watcher] = (),
        clock: Clock = time.monotonic,
        every: float = 0.25,
    ) -> None:
        super().__init__()
        self.watchers, self.clock, self.every = list(watchers), clock, every
        self._began, self._told_at, self._telling = clock(), -math.inf, threading.Lock()
        self._status = Status(state="surveying", device=device)
        self._sums: dict[str, dict[str, tuple[float, int]]] = {}
        self._images: Counter[str] = Counter()

    def start(self, store: Store, units: int, waiting: int, passes: int | None) -> None:
        """Start counting from the results that earlier runs have stored.

        ``units`` is the number of all units and ``waiting`` the number of remaining ones. ``passes`` is the expected cost
        of the remaining work, None if unknown.
        """
        self._sums, self._images = store.means()
        self._status = replace(
            self._status,
            state="running",
            last="",
            units_total=units,
            units_before=units - waiting,
            units_done=units - waiting,
            passes_total=passes,
        )
        self.tell()

    def unit(self, unit: Unit, result: UnitResult, *, remote: bool) -> None:
        """Count a unit that has ended, and tell the watchers. ``remote`` says that it was computed in another process."""
        with self.lock:
            now, is_done = self._status, bool(result.parts)
            done, failed = now.units_done + is_done, now.units_failed + (not is_done)
            self._status = replace(now, units_done=done, units_failed=failed, last=str(unit))
            self.passes_done += result.passes if remote else 0
            if unit.curves:  # otherwise only metrics were added
                self._images[unit.method] += sum(len(part.places) for part in result.parts)
            sums = self._sums.setdefault(unit.method, {})
            for metric in unit.metrics:
                total, count = sums.get(metric, (0.0, 0))
                found = [value for part in result.parts for value in part.values[metric].tolist()]
                known = [value for value in found if not math.isnan(value)]
                sums[metric] = (total + math.fsum(known), count + len(known))
        self.tell()

    def advance(self, passes: int) -> None:
        super().advance(passes)
        # a watcher that makes passes, or another thread that tells them now, is not told again
        if self.clock() - self._told_at >= self.every and self._telling.acquire(blocking=False):
            try:
                self.tell()
            finally:
                self._telling.release()

    @property
    def status(self) -> Status:
        with self.lock:
            return replace(
                self._status,
                passes_done=self.passes_done,
                seconds=self.clock() - self._began,
                scores={
                    method: {metric: total / count for metric, (total, count) in sums.items() if count}
                    for method, sums in self._sums.items()
                },
                images=dict(self._images),
            )

    def tell(self, **changes: Any) -> None:
        """Tell the watchers the status, with ``changes``. A watcher that raises is dropped, and a warning names it."""
        problems = []
        with self.lock:
            self._status, self._told_at = replace(self._status, **changes), self.clock()
            ended = self._status.state not in ("surveying", "running")
            for watcher in list(self.watchers):
                try:
                    (watcher.end if ended else watcher.update)(self.status)
                except Exception as error:
                    self.watchers.remove(watcher)
                    name = getattr(watcher, "name", type(watcher).__name__)
                    problems.append(f"{name} no longer follows the study: {type(error).__name__}: {error}")
        for problem in problems:  # after all calls, since a warning may be turned into an error
            warnings.warn(problem, RuntimeWarning, stacklevel=3)
