"""Jobs, and the one thread that works on nets.

A job computes the maps of up to three methods for some labels of a photo. Jobs wait in a queue and run one after the other. Questions are
short functions, such as one that computes the net's probabilities for a photo. They do not wait for a job to end: a job calls
:meth:`NetWorker.between` after each of its steps, which answers the questions. A net is therefore never used by two threads at once.

A job keeps numbered events. Readers ask for the events after the last number they have, so that a page can be reloaded and many pages
can follow one job. Only the newest event of each unfinished map and of the progress is kept, so that late readers get few.

If a job for an equal request waits, runs or is done, no new job is made: the result would be the same.
"""

from __future__ import annotations

import atexit
import secrets
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from proofmap.app.items import LIMITS, Item, NotFound
from proofmap.core.errors import InputError, ProofmapError
from proofmap.fills import Fill
from proofmap.methods import Method
from proofmap.plugins.failures import reason_of
from proofmap.results.evaluation import Evaluation
from proofmap.results.sharing import without_folders

T = TypeVar("T")
State = Literal["waiting", "running", "done", "failed", "cancelled"]
MOST_WAITING = 32
MOST_KEPT = 32
"""Largest number of finished jobs that are kept with their maps."""
MOST_QUESTIONS = 256
"""Largest number of questions that may wait at the same time."""
_AT_EXIT = 300.0
"""Seconds to wait, when the program ends, for the running step. Python aborts (exit code 134) if it ends while a thread is inside torch."""

PhotoId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Spec = Annotated[str, Field(min_length=1, max_length=300)]
"""The name of a method or fill with its settings."""
Name = Annotated[str, Field(min_length=1, max_length=200)]
LabelIndex = Annotated[int, Field(ge=0, le=10_000_000)]


class StrictRequest(BaseModel):
    """A request; unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", strict=True)


class JobAsked(StrictRequest):
    """A request for the maps of a photo, row, series or text."""

    photo: PhotoId
    net: Name
    labels: list[LabelIndex] = Field(min_length=1, max_length=LIMITS["labels"])
    methods: list[Spec] = Field(min_length=1, max_length=LIMITS["methods"])
    fill: Spec = "gray"
    seed: int = Field(default=0, ge=0, le=2**31 - 1)


class Cancelled(Exception):
    """Raised inside a job, between two steps, to stop it."""


class Busy(InputError):
    """Too many requests are waiting."""


class NetWorker:
    """A thread that runs jobs one by one, and answers short questions between two steps of a job."""

    def __init__(self) -> None:
        self._jobs: deque[Callable[[], None]] = deque()
        self._questions: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._wake = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="proofmap-nets", daemon=True)
        self._thread.start()
        atexit.register(self.close, _AT_EXIT)

    def ask(self, question: Callable[[], T]) -> Future[T]:
        """Queue a short function, which runs before the next step of a job. The returned future gets its result or its error."""
        answer: Future[T] = Future()
        with self._wake:
            if self._closed:
                raise Busy("the server is stopping")
            if len(self._questions) >= MOST_QUESTIONS:
                raise Busy("the net is busy with other questions; ask again in a moment")
            self._questions.append((question, answer))
            self._wake.notify()
        return answer

    def add(self, job: Callable[[], None]) -> None:
        """Add a job to the end of the queue. The job must not raise."""
        with self._wake:
            self._jobs.append(job)
            self._wake.notify()

    def between(self) -> None:
        """Answer the waiting questions. A running job calls this between two steps. Raises :class:`Cancelled` if the worker is closed."""
        self._answer_waiting()
        if self._closed:
            raise Cancelled

    def close(self, seconds: float = 2.0) -> None:
        """Stop after the current step, and wait for it at most this number of seconds. Waiting jobs and questions are dropped."""
        with self._wake:
            self._closed = True
            questions, self._questions = self._questions, deque()
            self._jobs.clear()
            self._wake.notify()
        for _, answer in questions:
            answer.cancel()
        self._thread.join(seconds)
        if not self._thread.is_alive():
            atexit.unregister(self.close)

    def _answer_waiting(self) -> None:
        """Answer the questions that are waiting now. Questions that arrive in the meantime wait for the next step, so that they cannot hold up
        a job.
        """
        with self._wake:
            waiting, self._questions = self._questions, deque()
        for question, answer in waiting:
            if self._closed:
                answer.cancel()
            else:
                _answer(question, answer)

    def _work(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._closed or self._questions or self._jobs)
                if self._closed:
                    return
            self._answer_waiting()
            with self._wake:
                job = self._jobs.popleft() if self._jobs else None
            if job is not None:
                job()


def _answer(question: Callable[[], Any], answer: Future[Any]) -> None:
    if not answer.set_running_or_notify_cancel():  # the caller no longer waits
        return
    try:
        answer.set_result(question())
    except BaseException as error:  # also SystemExit, which a net may raise, must not end the thread
        answer.set_exception(error)


@dataclass(eq=False)
class MapJob:
    """One job: the request, its state, and its results."""

    asked: JobAsked
    photo: Item
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
    maps: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)
    """The answer for each finished map, by the index of its method and its label."""
    evaluation: Evaluation | None = None
    files: dict[str, bytes] = field(default_factory=dict)
    _events: OrderedDict[tuple[object, ...], dict[str, Any]] = field(default_factory=OrderedDict)
    _last: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_over(self) -> bool:
        return self.state not in ("waiting", "running")

    def check(self) -> None:
        """Raise :class:`Cancelled` if the job was cancelled."""
        if self.stop:
            raise Cancelled

    def add(self, kind: str, *key: object, **fields: Any) -> None:
        """Add an event in place of an earlier one of the same kind and key. Kinds are ``progress``, ``map`` (a mask that is being learned),
        ``scored`` (a finished map) and ``state``."""
        with self._lock:
            self._last += 1
            self._events.pop((kind, *key), None)
            self._events[kind, *key] = {"number": self._last, "kind": kind, **fields}

    def forget(self, kind: str, *key: object) -> None:
        """Remove an event that is out of date."""
        with self._lock:
            self._events.pop((kind, *key), None)

    def become(self, state: State, message: str = "") -> None:
        self.state, self.message = state, message
        self.add("state", state, state=state)

    def events(self, after: int) -> tuple[list[dict[str, Any]], int]:
        """The events with a number above ``after``, and the number of the last event."""
        with self._lock:
            return [event for event in self._events.values() if event["number"] > after], self._last


class JobQueue:
    """All jobs of a server, in the order of their requests."""

    def __init__(self, worker: NetWorker, run: Callable[[MapJob], None]) -> None:
        self.worker, self._run = worker, run
        self._all: OrderedDict[str, MapJob] = OrderedDict()
        self._over: deque[str] = deque()
        """The ids of finished jobs, in the order in which they ended."""
        self._start = secrets.token_hex(4)
        """The first digits of all ids, by which an id of an earlier start of the server is known."""
        self._lock = threading.Lock()

    def __getitem__(self, job: str) -> MapJob:
        found = self.find(job)
        if found is None:
            if job.startswith(self._start):
                raise NotFound(
                    f"this job is no longer kept, because {MOST_KEPT} newer ones are; run it again"
                )
            raise NotFound(
                "the server was restarted and no longer has this job, or its address is incomplete; run it again"
            )
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
            job.id = self._start + secrets.token_hex(12)
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
            if job.is_over or (leave and job.asked_by > 0):
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

    def summary(self, job: MapJob) -> dict[str, Any]:
        """The state of a job, and its place in the queue if it waits, where 1 is next."""
        with self._lock:
            waiting = [other.id for other in self._all.values() if other.state == "waiting"]
        return {
            "job": job.id,
            "state": job.state,
            "place": waiting.index(job.id) + 1 if job.id in waiting else None,
            "message": job.message,
            "photo_name": job.photo.name,
            "request": job.asked.model_dump(),
        }

    def _work(self, job: MapJob) -> None:
        """Run a job, in the worker's thread."""
        with self._lock:
            if job.state != "waiting":
                return
            job.become("running")
        state, message = _outcome(lambda: self._run(job))
        with self._lock:
            self._end(job, state, message)


def _outcome(work: Callable[[], None]) -> tuple[State, str]:
    """Do the work of a job. Returns the final state, and the error message, which is empty if there was no error."""
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
