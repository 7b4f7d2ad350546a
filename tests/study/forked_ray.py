"""A cluster of one machine whose processes are forked from this one: what the Ray executor asks of Ray, and no more.

A process of Ray takes seconds to start, because it imports everything anew. A forked one is there at once, and dies as a process dies, so
all that the executor decides can be tried in a moment. What depends on Ray itself is tried on Ray.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from types import SimpleNamespace
from typing import Any, NoReturn

from tests.forked import fork


class TaskDied(Exception):
    """The process of a task is gone, and it was tried often enough."""


@dataclass(eq=False)
class Task:
    """A call of a function, and what it gave."""

    call: tuple[Callable[..., Any], tuple[Any, ...]]
    tries: int
    process: Process | None = None
    there: bool = False
    value: Any = None
    error: Exception | None = None


class Process:
    """A forked process that runs one task after another."""

    def __init__(self) -> None:
        self.pipe, far = Pipe()
        self.number = fork()
        if self.number == 0:
            self.pipe.close()
            _serve(far)
        far.close()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.number, signal.SIGKILL)
        os.waitpid(self.number, 0)
        self.pipe.close()


def _serve(pipe: Connection) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            function, given = pipe.recv()
        except EOFError:
            os._exit(0)
        pipe.send(function(*given))


@dataclass
class ForkedRay:
    """The part of the module ``ray`` that the executor uses, with a cluster of so many cores."""

    cloudpickle: Any
    cores: int = 2
    exceptions: Any = field(default_factory=lambda: SimpleNamespace(RayError=TaskDied))
    idle: list[Process] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)

    def is_initialized(self) -> bool:
        return True

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": self.cores}}]

    def put(self, value: Any) -> Any:
        return value

    def remote(self, *, max_retries: int, **_: Any) -> Callable[[Callable[..., Any]], Any]:
        def submit(function: Callable[..., Any], *given: Any) -> Task:
            task = Task((function, given), 1 + max_retries)
            self.tasks.append(task)
            self._start()
            return task

        return lambda function: SimpleNamespace(remote=lambda *given: submit(function, *given))

    def wait(self, tasks: list[Task], *, num_returns: int) -> tuple[list[Task], list[Task]]:
        while not any(task.there for task in tasks):
            self._start()
            running = {task.process.pipe: task for task in self.tasks if task.process is not None}
            for pipe in wait(list(running)):
                self._finish(running[pipe])  # type: ignore[index]
        ready = [task for task in tasks if task.there][:num_returns]
        return ready, [task for task in tasks if task not in ready]

    def _start(self) -> None:
        for task in self.tasks:
            if task.process is None and sum(other.process is not None for other in self.tasks) < self.cores:
                task.process = self.idle.pop() if self.idle else Process()
                task.process.pipe.send(task.call)

    def _finish(self, task: Task) -> None:
        process, task.process = task.process, None
        assert process is not None
        try:
            task.value, task.there = process.pipe.recv(), True
            self.idle.append(process)
        except (EOFError, OSError):
            process.kill()
            task.tries -= 1
            if not task.tries:
                task.error = TaskDied("Worker exit detail: it was killed. Some common causes: none")
                task.there = True
        if task.there:
            self.tasks.remove(task)

    def get(self, task: Any) -> Any:
        if not isinstance(task, Task):
            return task
        if task.error is not None:
            raise task.error
        return task.value

    def cancel(self, task: Task, *, force: bool) -> None:
        if task in self.tasks:
            self.tasks.remove(task)
        if task.process is not None:
            task.process.kill()

    def shutdown(self) -> None:
        while self.idle:
            self.idle.pop().kill()
