"""The one thread: jobs in their order, questions between a job's steps, nothing left behind when it stops."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import CancelledError

import pytest

from proofmap.app import jobs as workers
from proofmap.app.jobs import Busy, Cancelled, NetWorker


def test_questions_are_answered_before_a_running_job_goes_on() -> None:
    worker, begun, go, done = NetWorker(), threading.Event(), threading.Event(), list[str]()
    threads = set()

    def job() -> None:
        threads.add(threading.current_thread())
        begun.set()
        assert go.wait(600)
        worker.between()
        done.append("job")

    def question() -> int:
        threads.add(threading.current_thread())
        done.append("question")
        return 7

    worker.add(job)
    assert begun.wait(600)
    answer = worker.ask(question)
    go.set()
    assert answer.result(600) == 7
    last = threading.Event()
    worker.add(last.set)
    assert last.wait(600) and done == ["question", "job"] and len(threads) == 1
    worker.close()


def test_jobs_run_in_the_order_they_came() -> None:
    worker, done, over = NetWorker(), list[int](), threading.Event()
    for k in range(5):
        worker.add(lambda k=k: done.append(k))  # type: ignore[misc]
    worker.add(over.set)
    assert over.wait(600) and done == [0, 1, 2, 3, 4]
    worker.close()


def test_a_flood_of_questions_does_not_keep_a_job_from_its_next_step() -> None:
    worker, begun, go, over = NetWorker(), threading.Event(), threading.Event(), threading.Event()

    def job() -> None:
        begun.set()
        assert go.wait(600)
        worker.between()
        over.set()

    def again() -> None:
        if not over.is_set():
            worker.ask(again)

    worker.add(job)
    assert begun.wait(600)
    worker.ask(again)
    go.set()
    assert over.wait(600)
    worker.close()


def test_an_error_belongs_to_whoever_asked() -> None:
    worker = NetWorker()
    with pytest.raises(ZeroDivisionError):
        worker.ask(lambda: 1 // 0).result(600)
    assert worker.ask(lambda: 2).result(600) == 2
    worker.close()


def test_closing_stops_a_job_between_its_steps_and_answers_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, begun, go, stopped = NetWorker(), threading.Event(), threading.Event(), threading.Event()

    def job() -> None:
        begun.set()
        assert go.wait(600)
        try:
            worker.between()
        except Cancelled:
            stopped.set()

    worker.add(job)
    assert begun.wait(600)
    answer = worker.ask(lambda: 1)
    worker.close(seconds=0)
    go.set()
    assert stopped.wait(600)
    with pytest.raises(CancelledError):
        answer.result(600)
    with pytest.raises(Busy, match="stopping"):
        worker.ask(lambda: 1)


def test_there_is_a_most_of_waiting_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MOST_QUESTIONS", 2)
    worker, begun, go = NetWorker(), threading.Event(), threading.Event()
    worker.add(lambda: (begun.set(), go.wait(600), None)[2])
    assert begun.wait(600)
    answers = [worker.ask(lambda: 1), worker.ask(lambda: 1)]
    with pytest.raises(Busy, match="busy"):
        worker.ask(lambda: 1)
    go.set()
    assert [answer.result(600) for answer in answers] == [1, 1]
    worker.close()


LEFT_OPEN = """
import threading
from proofmap.app.jobs import Cancelled, NetWorker

worker, begun = NetWorker(), threading.Event()

def job():
    try:
        while True:
            begun.set()
            worker.between()
    except Cancelled:
        print("stopped between two steps")

worker.add(job)
begun.wait()
"""


def test_a_program_that_ends_waits_for_the_step_that_is_running() -> None:
    """Python ends threads wherever they are; inside torch that is an abort."""
    done = subprocess.run([sys.executable, "-c", LEFT_OPEN], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "stopped between two steps\n"), done.stderr
