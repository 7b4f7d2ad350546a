"""Counts what a running study has done so far: units, passes and scores. It may be called from any thread."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from dataclasses import replace

from proofmap.study.store import Store
from proofmap.study.unit import Unit, UnitResult
from proofmap.study.watchers.status import Clock, State, Status, UnitProgress


class Tally:
    """Counts finished units, passes and running scores. :meth:`status` returns a snapshot of the counts for watchers."""

    def __init__(self, device: str, clock: Clock = time.monotonic) -> None:
        self.clock, self.began = clock, clock()
        self.progress = UnitProgress()
        self.last = ""
        self._counted = Status(state="surveying", device=device)
        self._remote_passes = 0
        self._seen: deque[tuple[float, int]] = deque([(0.0, 0)])
        self._sums: dict[str, dict[str, tuple[float, int]]] = {}
        self._images: Counter[str] = Counter()
        self._lock = threading.Lock()

    def start(
        self,
        store: Store,
        units: int,
        waiting: int,
        passes: int | None,
        seconds: float | None = None,
    ) -> None:
        """Start counting from the results that earlier runs have stored.

        ``units`` is the number of all units and ``waiting`` the number of remaining ones. ``passes`` and ``seconds`` are the expected cost
        and time of the remaining work, None if unknown.
        """
        self._sums, self._images = store.means()
        with self._lock:
            self.last = ""
            self._counted = replace(
                self._counted,
                units_total=units,
                units_before=units - waiting,
                units_done=units - waiting,
                passes_total=passes,
                seconds_expected=None if seconds is None else self.clock() - self.began + seconds,
            )

    def unit(self, unit: Unit, result: UnitResult, *, remote: bool) -> None:
        """Count a unit that has ended. ``remote`` says that it was computed in another process."""
        with self._lock:
            now, is_done = self._counted, bool(result.parts)
            done, failed = now.units_done + is_done, now.units_failed + (not is_done)
            self._counted = replace(now, units_done=done, units_failed=failed)
            self._remote_passes += result.passes if remote else 0
            self.last = str(unit)
            if unit.curves:  # otherwise only metrics were added
                self._images[unit.method] += sum(len(part.places) for part in result.parts)
            sums = self._sums.setdefault(unit.method, {})
            for metric in unit.metrics:
                total, count = sums.get(metric, (0.0, 0))
                found = [value for part in result.parts for value in part.values[metric].tolist()]
                known = [value for value in found if not math.isnan(value)]
                sums[metric] = (total + math.fsum(known), count + len(known))

    @property
    def computed(self) -> int:
        """Units that this run finished without failure."""
        return self._counted.units_done - self._counted.units_before

    def status(self, state: State) -> Status:
        with self._lock:
            passes = self.progress.passes_done + self._remote_passes
            seconds = self.clock() - self.began
            return replace(
                self._counted,
                state=state,
                passes_done=passes,
                seconds=seconds,
                recent_rate=self._recent_rate(seconds, passes),
                scores={
                    method: {metric: total / count for metric, (total, count) in sums.items() if count}
                    for method, sums in self._sums.items()
                },
                images=dict(self._images),
                last=self.last,
            )

    def _recent_rate(self, seconds: float, passes: int) -> float | None:
        """Passes per second over about the last third of the run."""
        self._seen.append((seconds, passes))
        while len(self._seen) > 2 and self._seen[1][0] <= seconds * 2 / 3:
            self._seen.popleft()
        then, before = self._seen[0]
        return (passes - before) / (seconds - then) if seconds > then and passes > before else None
