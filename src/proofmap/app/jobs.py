"""Jobs: maps of up to three methods for some labels of a photo, made one job after the other, watched with a cursor.

A job keeps events with rising numbers. Readers ask for those after the number they know, so a page may be reloaded, and fifty of them
may watch. Of maps on their way and of progress only the newest event is kept, so whoever comes late reads little.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from proofmap.app.answers import Event, JobAnswer, JobAsked, JobSummary, MapAnswer, State, StateEvent
from proofmap.app.photos import Photo, Unknown
from proofmap.app.worker import Busy, Cancelled, Worker
from proofmap.core.errors import ProofmapError
from proofmap.core.progress import SilentTask
from proofmap.fills import Fill
from proofmap.methods import Method
from proofmap.plugins.failures import reason_of
from proofmap.results.evaluation import Evaluation
from proofmap.results.sharing import without_folders

MOST_WAITING = 32
MOST_KEPT = 32
"""Jobs that are over and still kept, with their maps."""
OVER: tuple[State, ...] = ("done", "failed", "cancelled")
_EVERY = 0.2
"""Seconds between two events about the same thing."""


@dataclass(eq=False)
class Job:
    """One job: what was asked for, how far it is, and what was found."""

    asked: JobAsked
    photo: Photo
    methods: list[Method]
    fill: Fill
    command: str
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    state: State = "waiting"
    message: str = ""
    stop: bool = False
    maps: dict[tuple[int, int], MapAnswer] = field(default_factory=dict)
    evaluation: Evaluation | None = None
    files: dict[str, bytes] = field(default_factory=dict)
    _events: OrderedDict[tuple[object, ...], Any] = field(default_factory=OrderedDict)
    _last: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, kind: type[Any], *key: object, **fields: Any) -> None:
        """A new event; one of the same kind and key before it is forgotten."""
        with self._lock:
            self._last += 1
            self._events.pop((kind, *key), None)
            self._events[kind, *key] = kind(number=self._last, **fields)

    def forget(self, kind: type[Any], *key: object) -> None:
        """Drop an event that says nothing any more."""
        with self._lock:
            self._events.pop((kind, *key), None)

    def become(self, state: State, message: str = "") -> None:
        self.state, self.message = state, message
        self.add(StateEvent, state, state=state)

    def events(self, after: int) -> tuple[list[Event], int]:
        """The events after a number, and the number of the last one."""
        with self._lock:
            return [event for event in self._events.values() if event.number > after], self._last


class Jobs:
    """All jobs of a server, in the order they came."""

    def __init__(self, worker: Worker, run: Callable[[Job], None]) -> None:
        self.worker, self._run = worker, run
        self._all: OrderedDict[str, Job] = OrderedDict()
        self._over: deque[str] = deque()
        """Those that are over, in the order they ended."""
        self._lock = threading.Lock()

    def __getitem__(self, job: str) -> Job:
        found = self.find(job)
        if found is None:
            raise Unknown(
                "the job is not here any more: the server was started again, or newer jobs took its place; run it again"
            )
        return found

    def find(self, job: str) -> Job | None:
        """The job, if it is still remembered."""
        with self._lock:
            return self._all.get(job)

    def add(self, job: Job) -> Job:
        """Put a job in the line."""
        with self._lock:
            if sum(other.state == "waiting" for other in self._all.values()) >= MOST_WAITING:
                raise Busy(f"{MOST_WAITING} jobs wait already; try again later, or cancel one")
            self._all[job.id] = job
        job.become("waiting")
        self.worker.add(lambda: self._work(job))
        return job

    def cancel(self, job: Job) -> None:
        """Stop a job: at once if it waits, else after its present step."""
        job.stop = True
        with self._lock:
            if job.state == "waiting":
                self._end(job, "cancelled")

    def _end(self, job: Job, state: State, message: str = "") -> None:
        """A job is over; the one that ended first is forgotten where too many are kept. Called with the lock held."""
        job.become(state, message)
        self._over.append(job.id)
        while len(self._over) > MOST_KEPT:
            del self._all[self._over.popleft()]

    def summary(self, job: Job) -> JobSummary:
        return JobSummary(**self._facts(job))

    def summaries(self) -> list[JobSummary]:
        """Newest first."""
        with self._lock:
            jobs = list(self._all.values())
        return [self.summary(job) for job in reversed(jobs)]

    def answer(self, job: Job, after: int) -> JobAnswer:
        events, last = job.events(after)
        return JobAnswer(**self._facts(job), command=job.command, events=events, last=last)

    def _facts(self, job: Job) -> dict[str, Any]:
        with self._lock:
            waiting = [other.id for other in self._all.values() if other.state == "waiting"]
        place = waiting.index(job.id) + 1 if job.id in waiting else None
        return {
            "job": job.id,
            "state": job.state,
            "place": place,
            "message": job.message,
            "photo_name": job.photo.name,
            "request": job.asked,
        }

    def _work(self, job: Job) -> None:
        """In the worker's thread."""
        with self._lock:
            if job.state != "waiting":
                return
            job.become("running")
        state, message = self._outcome(job)
        with self._lock:
            self._end(job, state, message)

    def _outcome(self, job: Job) -> tuple[State, str]:
        """Run a job: the state that it ends in, and what went wrong."""
        try:
            self._run(job)
        except Cancelled:
            return "cancelled", ""
        except ProofmapError as error:
            return "failed", without_folders(str(error))
        except MemoryError:
            return "failed", "there is not enough memory for this; ask for fewer labels, or a smaller net"
        except BaseException as error:  # a net or a method of someone else's may raise anything, even exit
            return "failed", without_folders(reason_of(error))
        return "done", ""


class Paced:
    """Says whether it is time for another event about a thing; the first one always is."""

    def __init__(self, every: float = _EVERY, clock: Callable[[], float] = time.monotonic) -> None:
        self.every, self.clock = every, clock
        self._told: dict[object, float] = {}

    def due(self, thing: object) -> bool:
        now = self.clock()
        if now - self._told.get(thing, float("-inf")) < self.every:
            return False
        self._told[thing] = now
        return True


class Stepped(SilentTask):
    """A task that calls back after each of its steps, with the passes done."""

    def __init__(self, advanced: Callable[[int], None]) -> None:
        self.advanced = advanced

    def advance(self, passes: int, note: str = "") -> None:
        self.advanced(passes)
