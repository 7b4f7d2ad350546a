"""The one thread that works on nets.

Jobs wait in a queue and run one after the other. Questions are short functions, such as one that computes the net's probabilities for a
photo. They do not wait for a job to end: a job calls :meth:`NetWorker.between` after each of its steps, which answers the questions.
A net is therefore never used by two threads at once.
"""

from __future__ import annotations

import atexit
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from proofmap.core.errors import InputError

T = TypeVar("T")

MOST_QUESTIONS = 256
"""Largest number of questions that may wait at the same time."""
AT_EXIT = 300.0
"""Seconds to wait, when the program ends, for the running step. Python aborts (exit code 134) if it ends while a thread is inside torch."""


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
        atexit.register(self.close, AT_EXIT)

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
