"""A cluster of one machine whose actors are forked from this process: what the Ray executor asks of Ray, and no more.

An actor of Ray takes seconds to start, because its process imports everything anew. A forked one is there at once, dies as a
process dies, and answers its calls in order, so all that the executor decides can be tried in a moment. What depends on Ray
itself is tried on Ray.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from types import SimpleNamespace
from typing import Any, NoReturn

from tests.forked import fork


class ActorDied(Exception):
    """The process of an actor is gone."""


@dataclass(eq=False)
class Answer:
    """What a call will give."""

    actor: Actor
    there: bool = False
    value: Any = None
    error: Exception | None = None


class Actor:
    """A process with an object, and the calls it has not answered yet, oldest first."""

    def __init__(self, kind: Callable[[], Any]) -> None:
        self.pipe, far = Pipe()
        self.waiting: deque[Answer] = deque()
        self.process = fork()
        if self.process == 0:
            self.pipe.close()
            _serve(kind, far)
        far.close()

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=lambda *given: self._call(name, given))

    def _call(self, name: str, given: Sequence[Any]) -> Answer:
        answer = Answer(self)
        try:
            self.pipe.send((name, given))
        except OSError:
            answer.there, answer.error = True, ActorDied("Worker exit detail: it was gone")
        else:
            self.waiting.append(answer)
        return answer

    def listen(self) -> None:
        """Take the next answer; none comes from a process that has died."""
        try:
            value, error = self.pipe.recv(), None
        except (EOFError, OSError):
            value, error = None, ActorDied("Worker exit detail: it was killed. Some common causes: none")
        for answer in [self.waiting.popleft()] if error is None else list(self.waiting):
            answer.there, answer.value, answer.error = True, value, error
        if error is not None:
            self.waiting.clear()


def _serve(kind: Callable[[], Any], pipe: Connection) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    made = kind()
    while True:
        try:
            name, given = pipe.recv()
        except EOFError:
            os._exit(0)
        pipe.send(None if name == "__ray_ready__" else getattr(made, name)(*given))


@dataclass
class ForkedRay:
    """The part of the module ``ray`` that the executor uses, with a cluster of so many cores."""

    cloudpickle: Any
    cores: int = 2
    exceptions: Any = field(default_factory=lambda: SimpleNamespace(RayError=ActorDied))

    def is_initialized(self) -> bool:
        return True

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": self.cores}}]

    def put(self, value: Any) -> Any:
        return value

    def remote(self, **_: Any) -> Callable[[Callable[[], Any]], Any]:
        return lambda kind: SimpleNamespace(remote=lambda: Actor(kind))

    def wait(
        self, answers: list[Answer], *, num_returns: int, timeout: float | None = None
    ) -> tuple[list[Answer], list[Answer]]:
        while True:
            for actor in _readable(answers, 0):
                actor.listen()
            ready = [answer for answer in answers if answer.there][:num_returns]
            if len(ready) == num_returns or not _readable(answers, timeout):
                return ready, [answer for answer in answers if answer not in ready]

    def get(self, answer: Answer) -> Any:
        if answer.error is not None:
            raise answer.error
        return answer.value

    def kill(self, actor: Actor, *, no_restart: bool) -> None:
        os.kill(actor.process, signal.SIGKILL)
        os.waitpid(actor.process, 0)
        actor.pipe.close()


def _readable(answers: Sequence[Answer], timeout: float | None) -> list[Actor]:
    """The actors that have something to say to those who wait for these."""
    pipes = {answer.actor.pipe: answer.actor for answer in answers if not answer.there}
    return [pipes[pipe] for pipe in wait(list(pipes), timeout)]  # type: ignore[index]
