"""The one thread that works on nets.

Jobs wait in a line and are run one after the other. Questions that are short, such as what the net believes or what a painted
proof shows, do not wait for a job to end: a job calls :meth:`Worker.between` after each of its steps, and there they are
answered. So nothing is ever done on a net by two threads at once.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from proofmap.core.errors import InputError

T = TypeVar("T")

MOST_QUESTIONS = 256
"""Short questions that may wait."""


class Cancelled(Exception):
    """Raised inside a job, between two steps, when it is to stop."""


class Busy(InputError):
    """Too much waits already."""


class Worker:
    """Runs jobs one after the other in a thread of its own, and answers short questions before a job's next step."""

    def __init__(self) -> None:
        self._jobs: deque[Callable[[], None]] = deque()
        self._questions: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._wake = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="proofmap-nets", daemon=True)
        self._thread.start()

    def ask(self, question: Callable[[], T]) -> Future[T]:
        """Answer a short question as soon as may be; the future has its answer, or the error it ended with."""
        answer: Future[T] = Future()
        with self._wake:
            if self._closed:
                raise Busy("the server is being stopped")
            if len(self._questions) >= MOST_QUESTIONS:
                raise Busy("the net is busy with other questions; ask again in a moment")
            self._questions.append((question, answer))
            self._wake.notify()
        return answer

    def add(self, job: Callable[[], None]) -> None:
        """Run a job when those before it are done; it must not raise."""
        with self._wake:
            self._jobs.append(job)
            self._wake.notify()

    def between(self) -> None:
        """Called by a running job between two steps: answers what was asked meanwhile."""
        self._answer_waiting()
        if self._closed:
            raise Cancelled

    def close(self, seconds: float = 2.0) -> None:
        """Stop after the step at hand; what waits is not done."""
        with self._wake:
            self._closed = True
            questions, self._questions = self._questions, deque()
            self._jobs.clear()
            self._wake.notify()
        for _, answer in questions:
            answer.cancel()
        self._thread.join(seconds)

    def _answer_waiting(self) -> None:
        """Answer what waits now; what is asked meanwhile comes after the next step, so that a flood does not stop a job."""
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
    if not answer.set_running_or_notify_cancel():  # whoever asked has gone
        return
    try:
        answer.set_result(question())
    except (
        BaseException
    ) as error:  # it belongs to whoever asked; also a net that exits does not end the thread
        answer.set_exception(error)
