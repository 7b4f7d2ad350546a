"""Jobs: each computes the maps of up to three methods for some labels of a photo. Jobs run one after the other.

A job keeps numbered events. Readers ask for the events after the last number they have, so that a page can be reloaded and many pages
can follow one job. Only the newest event of each unfinished map and of the progress is kept, so that late readers get few.

If a job for an equal request waits, runs or is done, no new job is made: the result would be the same.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from proofmap.app.answers import State
from proofmap.app.items import NotFound
from proofmap.app.job_answers import Event, JobAnswer, JobAsked, JobSummary, MapAnswer, StateEvent
from proofmap.app.nets import Subject
from proofmap.app.worker import Busy, Cancelled, NetWorker
from proofmap.core.errors import ProofmapError
from proofmap.fills import Fill
from proofmap.methods import Method
from proofmap.plugins.failures import reason_of
from proofmap.results.evaluation import Evaluation
from proofmap.results.sharing import without_folders

MOST_WAITING = 32
MOST_KEPT = 32
"""Largest number of finished jobs that are kept with their maps."""
OVER: tuple[State, ...] = ("done", "failed", "cancelled")
_EVERY = 0.2
"""Least number of seconds between two events about the same map, or about the progress."""


class JobIds:
    """Ids of jobs: 8 digits that identify this start of the server, 16 random digits, and 8 check digits.

    If there is no job with an id, the id shows why: a mistyped id fails the check, and an id from an earlier start of the server
    has other first digits.
    """

    def __init__(self) -> None:
        self.start = secrets.token_hex(4)

    def new(self) -> str:
        text = self.start + secrets.token_hex(8)
        return text + _check_digits(text)

    def reason_missing(self, job: str) -> str:
        """An error message that explains why this server has no job with this id, and what to do."""
        if _check_digits(job[:24]) != job[24:]:
            return "there is no such job: its address was copied wrongly or in part"
        if not job.startswith(self.start):
            return "the server was restarted and no longer has this job; run it again"
        return f"this job is no longer kept, because {MOST_KEPT} newer ones are; run it again"


def _check_digits(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()


@dataclass(eq=False)
class MapJob:
    """One job: the request, its state, and its results."""

    asked: JobAsked
    photo: Subject
    methods: list[Method]
    fill: Fill
    command: str
    id: str = ""
    """The id, which the queue sets."""
    asked_by: int = 1
    """The number of equal requests that this job answers."""
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
        """Add an event. It replaces an earlier event of the same kind and key."""
        with self._lock:
            self._last += 1
            self._events.pop((kind, *key), None)
            self._events[kind, *key] = kind(number=self._last, **fields)

    def forget(self, kind: type[Any], *key: object) -> None:
        """Remove an event that is out of date."""
        with self._lock:
            self._events.pop((kind, *key), None)

    def become(self, state: State, message: str = "") -> None:
        self.state, self.message = state, message
        self.add(StateEvent, state, state=state)

    def events(self, after: int) -> tuple[list[Event], int]:
        """The events with a number above ``after``, and the number of the last event."""
        with self._lock:
            return [event for event in self._events.values() if event.number > after], self._last


class JobQueue:
    """All jobs of a server, in the order of their requests."""

    def __init__(self, worker: NetWorker, run: Callable[[MapJob], None]) -> None:
        self.worker, self._run = worker, run
        self._all: OrderedDict[str, MapJob] = OrderedDict()
        self._over: deque[str] = deque()
        """The ids of finished jobs, in the order in which they ended."""
        self._ids = JobIds()
        self._lock = threading.Lock()

    def __getitem__(self, job: str) -> MapJob:
        found = self.find(job)
        if found is None:
            raise NotFound(self._ids.reason_missing(job))
        return found

    def find(self, job: str) -> MapJob | None:
        """The job with this id; None if there is none or it is no longer kept."""
        with self._lock:
            return self._all.get(job)

    def add(self, job: MapJob) -> MapJob:
        """Put a job in the queue and return it. If another job answers an equal request, return that job instead."""
        with self._lock:
            for other in self._all.values():
                if other.asked == job.asked and other.state not in ("failed", "cancelled") and not other.stop:
                    other.asked_by += 1
                    return other
            job.id = self._ids.new()
            if sum(other.state == "waiting" for other in self._all.values()) >= MOST_WAITING:
                raise Busy(f"{MOST_WAITING} jobs are already waiting; try again later, or cancel one")
            self._all[job.id] = job
        job.become("waiting")
        self.worker.add(lambda: self._work(job))
        return job

    def cancel(self, job: MapJob, *, leave: bool = False) -> None:
        """Cancel a job: at once if it waits, otherwise after its current step. With ``leave``, only if no other request needs the job."""
        with self._lock:
            job.asked_by -= 1
            if job.state in OVER or (leave and job.asked_by > 0):
                return
            job.stop = True
            if job.state == "waiting":
                self._end(job, "cancelled")

    def _end(self, job: MapJob, state: State, message: str = "") -> None:
        """End a job. If too many finished jobs are kept, drop the one that ended first. The caller holds the lock."""
        job.become(state, message)
        self._over.append(job.id)
        while len(self._over) > MOST_KEPT:
            del self._all[self._over.popleft()]

    def summary(self, job: MapJob) -> JobSummary:
        with self._lock:
            waiting = [other.id for other in self._all.values() if other.state == "waiting"]
        return JobSummary(
            job=job.id,
            state=job.state,
            place=waiting.index(job.id) + 1 if job.id in waiting else None,
            message=job.message,
            photo_name=job.photo.name,
            request=job.asked,
        )

    def summaries(self) -> list[JobSummary]:
        """A summary of every job, newest first."""
        with self._lock:
            jobs = list(self._all.values())
        return [self.summary(job) for job in reversed(jobs)]

    def answer(self, job: MapJob, after: int) -> JobAnswer:
        events, last = job.events(after)
        return JobAnswer(**dict(self.summary(job)), command=job.command, events=events, last=last)

    def _work(self, job: MapJob) -> None:
        """Run a job, in the worker's thread."""
        with self._lock:
            if job.state != "waiting":
                return
            job.become("running")
        state, message = outcome(lambda: self._run(job))
        with self._lock:
            self._end(job, state, message)


def outcome(work: Callable[[], None]) -> tuple[State, str]:
    """Do the work of a job or batch. Returns the final state, and the error message, which is empty if there was no error."""
    try:
        work()
    except (Cancelled, KeyboardInterrupt):
        return "cancelled", ""
    except ProofmapError as error:
        return "failed", without_folders(str(error))
    except MemoryError:
        return "failed", "there is not enough memory for this job; ask for fewer labels, or a smaller net"
    except BaseException as error:  # foreign nets and methods may raise anything, even SystemExit
        return "failed", without_folders(reason_of(error))
    return "done", ""


class RateLimit:
    """Allows at most one event per ``every`` seconds for each key. :meth:`due` says whether an event is allowed now."""

    def __init__(self, every: float = _EVERY, clock: Callable[[], float] = time.monotonic) -> None:
        self.every, self.clock = every, clock
        self._last: dict[object, float] = {}

    def due(self, thing: object) -> bool:
        now = self.clock()
        if now - self._last.get(thing, float("-inf")) < self.every:
            return False
        self._last[thing] = now
        return True
