"""Views of a running study: live on a terminal, as lines in a log, as a file for other programs."""

from __future__ import annotations

import json
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from proofmap.core.files import write_text
from proofmap.core.progress import seconds_between_lines
from proofmap.core.text import counted, one_line
from proofmap.study.watchers.status import (
    Clock,
    Status,
    Watcher,
    Watchers,
    duration,
    finite,
    memory_of,
    status_line,
    time_left,
)


def watcher_for(console: Console, quiet: bool) -> Watcher:
    """The watcher for a console: a live view on a terminal, otherwise lines of text; one that shows nothing if ``quiet``."""
    if quiet:
        return Watchers()
    if console.is_terminal:
        return LiveView(console)
    return PlainLines(console.file, seconds_between_lines())


class PlainLines:
    """Prints one line every ``every`` seconds, and one at the beginning and at the end. For logs and pipes."""

    def __init__(
        self, stream: IO[str] | None = None, every: float = 10.0, clock: Clock = time.monotonic
    ) -> None:
        self.stream, self.every, self.clock = stream, every, clock
        self._printed_at = -math.inf

    def begin(self, study: Mapping[str, object], status: Status) -> None:
        self._print(status)

    def update(self, status: Status) -> None:
        if self.clock() - self._printed_at >= self.every:
            self._print(status)

    def end(self, status: Status) -> None:
        self._print(status)

    def _print(self, status: Status) -> None:
        self._printed_at = self.clock()
        print(one_line(status_line(status)), file=self.stream or sys.stderr, flush=True)


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

    schema = 1

    def __init__(
        self,
        path: Path,
        every: float = 1.0,
        clock: Clock = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.path, self.every, self.clock, self.now = path, every, clock, now
        self._written_at, self._warned, self._began = -math.inf, False, ""

    def begin(self, study: Mapping[str, object], status: Status) -> None:
        self._began = self.now().isoformat(timespec="seconds")
        self._write(status)

    def update(self, status: Status) -> None:
        if self.clock() - self._written_at >= self.every:
            self._write(status)

    def end(self, status: Status) -> None:
        self._write(status)

    def _write(self, status: Status) -> None:
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
        memory = memory_of(status.device)
        return {
            "schema": self.schema,
            "state": status.state,
            "pid": os.getpid(),
            "began": self._began,
            "updated": self.now().isoformat(timespec="seconds"),
            "units": {
                "done": status.units_done,
                "failed": status.units_failed,
                "before": status.units_before,
                "total": status.units_total,
            },
            "passes": {
                "done": status.passes_done,
                "total": status.passes_total,
                "per_second": _rounded(status.passes_per_second),
            },
            "seconds": _rounded(status.seconds),
            "seconds_left": _rounded(status.seconds_left),
            "device": status.device,
            "memory": memory and {"used": memory.used, "peak": memory.peak},
            "methods": {
                method: {"images": status.images.get(method, 0), "scores": finite(scores)}
                for method, scores in status.scores.items()
            },
            "last": status.last,
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


class LiveView:
    """Shows the status in a few lines on a terminal, redrawn at most four times a second and cleared at the end."""

    widest = 100
    most_metrics = 5

    def __init__(self, console: Console, clock: Clock = time.monotonic) -> None:
        self.console, self.clock = console, clock
        self.status, self._updated_at = Status(state="surveying"), clock()
        self._live = Live(get_renderable=self.picture, console=console, refresh_per_second=4, transient=True)

    def begin(self, study: Mapping[str, object], status: Status) -> None:
        self.update(status)
        self._live.start()

    def update(self, status: Status) -> None:
        self.status, self._updated_at = status, self.clock()

    def end(self, status: Status) -> None:
        self.update(status)
        self._live.stop()

    def picture(self) -> RenderableType:
        """The text of the view: progress, time, speed and memory, then the scores so far."""
        now, width = self.status, min(self.console.width, self.widest)
        memory = memory_of(now.device)
        total = "" if now.passes_total is None else f"/{now.passes_total:,}"
        rate = "" if now.passes_per_second is None else f", {now.passes_per_second:,.0f}/s"
        passes = f"{now.passes_done:,}{total} passes{rate}"
        device = now.device if memory is None else f"{now.device}, {memory}"
        room = width - len(passes) - 2
        parts: list[RenderableType] = [
            self._bar(now, width),
            _shortened(f"{passes}  {device:>{room}}" if len(device) <= room else passes, width),
        ]
        if now.last:
            parts.append(_shortened(f"last: {now.last}", width, style="dim"))
        if now.scores:
            parts += [Text(), self._scores(now, width)]
        return Group(*parts)

    def _bar(self, now: Status, width: int) -> Table:
        since = self.clock() - self._updated_at  # time passes inside a unit that reports nothing
        elapsed, left = duration(now.seconds + since), now.seconds_left_range
        if left is None:
            times = [f"  {elapsed}", ""]
        else:
            still = time_left(*(max(0.0, end - since) for end in left))
            times = [f"  {elapsed}, {still}", f"  {still}", ""]
        failed = f", {now.units_failed} failed" if now.units_failed else ""
        units = (
            f" {now.units_done}/{counted(now.units_total, 'unit')}{failed}"
            if now.units_total
            else f" {now.state}"
        )
        words = next((units + time for time in times if len(units + time) <= width - 10), units)
        bar = ProgressBar(
            total=now.units_total or None,
            completed=now.units_ended,
            width=max(1, width - len(words)),
            pulse=not now.units_total,
        )
        line = Table.grid()
        line.add_row(bar, Text(words, no_wrap=True))
        return line

    def _scores(self, now: Status, width: int) -> Table:
        """A table of the scores so far, with as many metrics and methods as fit: the first metrics, and the methods that started last."""
        methods = list(now.scores)[-max(1, self.console.height - 8) :]
        metrics = list(dict.fromkeys(metric for scores in now.scores.values() for metric in scores))
        metrics = metrics[: self.most_metrics]
        first = min(max(map(len, [*methods, "method"])), max(16, 3 * width // 10))
        room = width - first - len("  images")
        names = [max(len(metric), 5) for metric in metrics]
        if sum(names) + 2 * len(names) > room:
            names = [min(name, 9) for name in names]
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        table.add_column("method", no_wrap=True)
        table.add_column("images", justify="right", no_wrap=True)
        shown = []
        for metric, name in zip(metrics, names, strict=True):
            room -= name + 2
            if room >= 0:
                shown.append(metric)
                table.add_column(_shortened(metric, name), justify="right", no_wrap=True)
        for method in methods:
            scores = [now.scores[method].get(metric) for metric in shown]
            numbers = ["-" if score is None else f"{score:.2f}" for score in scores]
            table.add_row(_shortened(method, first), f"{now.images.get(method, 0):,}", *numbers)
        return table


def _shortened(text: str, width: int, style: str = "") -> Text:
    cut = Text(one_line(text), style=style, no_wrap=True)
    cut.truncate(width, overflow="ellipsis")
    return cut
