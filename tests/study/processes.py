"""Real processes that run a study and may die at any moment, forked from one that has torch loaded already.

``python -m tests.study.processes`` is that one: it reads a line of JSON, forks, and answers with the child's number.
The child opens the named pipe of the request and writes how it went; one that was killed leaves the pipe empty.
"""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import torch
from PIL import Image

from proofmap.core.errors import ProofmapError
from proofmap.study import Study, run_study
from proofmap.study.watchers import progress_file

_ROOT = Path(__file__).parents[2]


# ---- the side of the tests ------------------------------------------------------------------------------------


class Child:
    """A process that runs a study."""

    def __init__(self, number: int, pipe: Path) -> None:
        self.number, self._pipe = number, pipe
        self._answer = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with open(self._pipe) as pipe:  # ends when the child does, however it does
            self._answer = pipe.read()

    def kill(self) -> None:
        """kill -9."""
        with suppress(ProcessLookupError):
            os.kill(self.number, signal.SIGKILL)

    def proceed(self) -> None:
        """Let a child that stopped itself go on."""
        os.kill(self.number, signal.SIGCONT)

    def ended(self, within: float) -> bool:
        self._reader.join(within)
        return not self._reader.is_alive()

    def result(self, within: float = 600) -> dict[str, Any] | None:
        """What the child said at its end; None if it was killed."""
        assert self.ended(within), "the process does not end"
        return json.loads(self._answer) if self._answer else None


class Processes:
    """Starts children."""

    def __init__(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        path = os.pathsep.join([str(_ROOT / "src"), str(_ROOT)])
        self._pipes = tempfile.TemporaryDirectory()
        self._children: list[Child] = []
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.study.processes"],
            cwd=_ROOT,
            env={**environment, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._server.stdout.readline() == "ready\n"

    def start(self, study: Study, out: Path, **how: Any) -> Child:
        """Run a study; ``how``: see :func:`_behave`, and what else :func:`run_study` takes."""
        pipe = Path(self._pipes.name, str(len(self._children)))
        os.mkfifo(pipe)
        table = {**vars(study), "images": vars(study.images)}
        request = {"study": table, "out": str(out), "pipe": str(pipe), "how": how}
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        self._children.append(Child(int(self._server.stdout.readline()), pipe))
        return self._children[-1]

    def run(self, study: Study, out: Path, **how: Any) -> dict[str, Any] | None:
        return self.start(study, out, **how).result()

    def close(self) -> None:
        for child in self._children:
            if not child.ended(0):  # left by a test that failed
                child.kill()
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()
        self._pipes.cleanup()


# ---- the side of the children ---------------------------------------------------------------------------------


def _serve() -> None:
    Image.init()  # all that children need is loaded here, once
    torch.set_num_threads(1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children, so they leave no zombies
    print("ready", flush=True)
    for line in sys.stdin:
        number = os.fork()
        if number == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _child(json.loads(line))
            os._exit(0)
        print(number, flush=True)


def _child(request: Mapping[str, Any]) -> None:
    with open(request["pipe"], "w") as pipe:
        try:
            with _behave(dict(request["how"])) as options:
                outcome = run_study(Study.from_table(request["study"]), request["out"], **options)
            answer: dict[str, object] = {"units": outcome.units, "failed": outcome.failed}
        except ProofmapError as error:
            answer = {"error": type(error).__name__, "text": str(error)}
        except BaseException as error:
            answer = {"crash": f"{type(error).__name__}: {error}"}
        json.dump(answer, pipe)


@contextmanager
def _behave(how: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Do as the test wants: die or stop at the ``kill_at``-th or ``stop_at``-th touch of the disk, meet an error at one
    (``raise_at``: which, and the name of the error), have no file larger than ``largest`` bytes, or only ``memory`` bytes of
    addresses more than at the start. The rest are options of run_study."""
    for key, number in (("kill_at", signal.SIGKILL), ("stop_at", signal.SIGSTOP)):
        at = how.pop(key, None)
        if at is not None:
            _act_at(at, partial(os.kill, os.getpid(), number))
    at, name = how.pop("raise_at", (None, ""))
    if at is not None:
        _act_at(at, partial(_raise, name))
    largest, memory = how.pop("largest", None), how.pop("memory", None)
    if largest is None and memory is None:
        yield how
        return
    import resource

    if largest is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        kind, limit = resource.RLIMIT_FSIZE, largest
    else:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        kind, limit = resource.RLIMIT_AS, pages * resource.getpagesize() + memory
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (limit, before[1]))
    try:
        yield how
    finally:
        resource.setrlimit(kind, before)


def _raise(name: str) -> NoReturn:
    """Raise a MemoryError, or what the system says where a disk is full, read-only or broken."""
    if name == "MemoryError":
        raise MemoryError
    raise OSError(getattr(errno, name), os.strerror(getattr(errno, name)))


_SQLITE = {
    "ENOSPC": "database or disk is full",
    "EROFS": "attempt to write a readonly database",
    "EIO": "disk I/O error",
}


def _act_at(at: int, act: Callable[[], object]) -> None:
    """Do something at the ``at``-th statement of SQLite, write, syncing or renaming of a file."""
    import sqlite3

    # progress is written by the clock: only at its beginning and end, so that every run touches the disk as often
    progress_file.__defaults__ = (math.inf, time.monotonic)
    touches = 0

    def touch() -> None:
        nonlocal touches
        touches += 1
        if touches == at:
            act()

    def touch_database() -> None:
        try:
            touch()
        except OSError as error:  # as SQLite reports it
            raise sqlite3.OperationalError(_SQLITE[errno.errorcode[int(error.errno or 0)]]) from None

    class Connection(sqlite3.Connection):
        def execute(self, *arguments: Any) -> sqlite3.Cursor:
            touch_database()
            return super().execute(*arguments)

        def executemany(self, *arguments: Any) -> sqlite3.Cursor:
            touch_database()
            return super().executemany(*arguments)

    connect, replace, write, sync = sqlite3.connect, os.replace, Path.write_bytes, os.fsync

    def connect_counted(*arguments: Any, **options: Any) -> sqlite3.Connection:
        return connect(*arguments, factory=Connection, **options)

    def replace_counted(*arguments: Any) -> None:
        touch()
        replace(*arguments)
        touch()

    def write_counted(path: Path, content: bytes) -> int:
        write(path, content[: len(content) // 2])  # a file may be left half written
        touch()
        return write(path, content)

    def sync_counted(number: int) -> None:
        touch()
        sync(number)

    os.fsync = sync_counted
    sqlite3.connect = connect_counted  # type: ignore[assignment]
    os.replace = replace_counted  # type: ignore[assignment]
    Path.write_bytes = write_counted  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    _serve()
