"""Counts what a running study has done so far, as units come in, from any thread."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence

from proofmap.study.store.database import Store
from proofmap.study.watchers.status import Clock, State, Status, UnitProgress


class Tally:
    """Counts units, passes and running scores; :meth:`status` is a snapshot of them for watchers."""

    def __init__(self, device: str, clock: Clock = time.monotonic) -> None:
        self.device, self.clock = device, clock
        self.began = clock()
        self.progress = UnitProgress()
        self.passes_total: int | None = None
        self.seconds_expected: float | None = None
        self.last = ""
        self._seen: deque[tuple[float, int]] = deque([(0.0, 0)])
        self._remote_passes = 0
        self._units = Counter({"total": 0, "before": 0, "done": 0, "failed": 0})
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
        """Start from what earlier runs have stored; ``seconds`` is the expected time of the work."""
        query = "SELECT method, metric, sum(value), count(value) FROM per_image GROUP BY method, metric"
        means = store.rows(query)
        query = (
            "SELECT methods.name, count(DISTINCT image) FROM image_scores "
            "JOIN methods ON methods.id = method GROUP BY method"
        )
        images = dict(store.rows(query))
        with self._lock:
            for method, metric, total, count in means:
                self._sums.setdefault(method, {})[metric] = (total or 0.0, count)
            self._images.update(images)
            self._units.update(total=units, before=units - waiting, done=units - waiting)
            self.passes_total, self.last = passes, ""
            taken = self.clock() - self.began
            self.seconds_expected = None if seconds is None else taken + seconds

    def unit(
        self,
        name: str,
        method: str,
        values: Mapping[str, Sequence[float]],
        *,
        failed: bool,
        images: int,
        remote_passes: int = 0,
    ) -> None:
        """Count a unit that has ended. ``images`` have values for the first time; ``remote_passes`` were made in another process."""
        with self._lock:
            self._units["failed" if failed else "done"] += 1
            self._images[method] += images
            self._remote_passes += remote_passes
            self.last = name
            sums = self._sums.setdefault(method, {})
            for metric, some in values.items():
                total, count = sums.get(metric, (0.0, 0))
                counted = [value for value in some if not math.isnan(value)]
                sums[metric] = (total + math.fsum(counted), count + len(counted))

    @property
    def computed(self) -> int:
        """Units that this run finished without failure."""
        return self._units["done"] - self._units["before"]

    def status(self, state: State) -> Status:
        with self._lock:
            passes = self.progress.passes_done + self._remote_passes
            seconds = self.clock() - self.began
            return Status(
                state=state,
                units_done=self._units["done"],
                units_total=self._units["total"],
                units_failed=self._units["failed"],
                units_before=self._units["before"],
                passes_done=passes,
                passes_total=self.passes_total,
                seconds=seconds,
                recent_rate=self._recent_rate(seconds, passes),
                seconds_expected=self.seconds_expected,
                scores={
                    method: {metric: total / count for metric, (total, count) in sums.items() if count}
                    for method, sums in self._sums.items()
                },
                images=dict(self._images),
                last=self.last,
                device=self.device,
            )

    def _recent_rate(self, seconds: float, passes: int) -> float | None:
        """Passes per second over about the last third of the run."""
        self._seen.append((seconds, passes))
        while len(self._seen) > 2 and self._seen[1][0] <= seconds * 2 / 3:
            self._seen.popleft()
        then, before = self._seen[0]
        return (passes - before) / (seconds - then) if seconds > then and passes > before else None
