"""Executors compute the units of a study (one method on one block of images): :class:`LocalExecutor` in this process, and
:class:`RayExecutor` in several processes and machines, as plain tasks of a Ray cluster.

A task of Ray computes one unit, and the units that use its maps. Ray starts the processes, and runs a task again if its process dies. Each
process makes its worker once, at its first task, and keeps it.

Every executor keeps the same contract, which :func:`proofmap.testing.check_executor` checks:

- ``make_worker`` is called once per process, and not at all if there are no units. The call may be slow and the worker large,
  because ``make_worker`` loads the net.
- Each unit is yielded exactly once, with its result or with :class:`Lost`.
- ``units`` may be any iterator. Units are drawn from it in the consumer's thread, only a few ahead of the results that the consumer has
  taken. So a slow consumer slows the workers down, and no queue grows.
- A worker reports the failure of a unit in the unit's result. An exception from a worker, or from ``make_worker``, is an error in
  the setup: it ends the run and is raised unchanged.
- When the generator ends or is closed, everything that the executor started has stopped. Close the generator if you may leave
  the loop early::

      with contextlib.closing(executor.run(make_worker, units)) as results:
          for unit, result in results:
              ...
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from typing import Any, Protocol, TypeVar
from uuid import uuid4

import torch

from proofmap.core.allocator import keep_memory
from proofmap.core.errors import InputError, ProofmapError, require
from proofmap.plugins.failures import reason_of
from proofmap.plugins.settings import check_settings, setting

Unit = TypeVar("Unit")
Result = TypeVar("Result")
Worker = Callable[[Unit], Result]
_END: Any = object()
"""Marks the end of the units: the item after the last unit."""


@dataclass(frozen=True)
class Lost:
    """A unit without a result: every process that worked on it died."""

    reason: str


class Executor(Protocol):
    """Computes units and yields each with its result, in order of completion."""

    def run(
        self, make_worker: Callable[[], Worker[Unit, Result]], units: Iterable[Unit]
    ) -> Generator[tuple[Unit, Result | Lost], None, None]:
        """Yield every unit with its result.

        ``make_worker`` takes no arguments and can be pickled; the worker it returns is a deterministic function of a
        unit. Units and results can be pickled too.
        """
        ...


@dataclass(frozen=True)
class LocalExecutor:
    """Computes units one by one in this process, in the consumer's thread.

    A separate thread would cost more than it saves: the C library gives it another memory pool, in which large tensors
    are paged in again at every use. If the worker has a method ``prefetch``, this method is called with the next unit
    before the current unit is run, so that the next images are read in the meantime.

    >>> [result for _, result in LocalExecutor().run(lambda: abs, [-1, 2, -3])]
    [1, 2, 3]
    """

    def run(
        self, make_worker: Callable[[], Worker[Unit, Result]], units: Iterable[Unit]
    ) -> Generator[tuple[Unit, Result | Lost], None, None]:
        worker: Worker[Unit, Result] | None = None
        for unit, following in pairwise(chain(units, [_END])):
            if worker is None:
                worker = make_worker()
            prefetch: Callable[[Unit], Any] | None = getattr(worker, "prefetch", None)
            if prefetch is not None and following is not _END:
                prefetch(following)
            yield unit, worker(unit)


# ---- several processes --------------------------------------------------------------------------------------

_OBJECT_STORE = 512 * 2**20  # bytes, on this machine; results only pass through


@dataclass(frozen=True)
class RayExecutor:
    """Computes units in tasks of a Ray cluster.

    This is the cluster that this process is connected to, or else the one at ``address``, or else a new one on this machine.
    The ``prefetch`` method of a worker is not called: two processes that share a GPU load and compute in turn.
    """

    workers: int | None = setting(
        None, "maximum number of processes; none: as many as the cluster has room for", least=1
    )
    address: str | None = setting(
        None,
        "address of a running cluster: auto, or host:port; it must have the driver's packages, and is left running",
    )
    cpus_per_worker: int = setting(
        1, "number of cores that a process asks for, and of threads that it computes with", least=1
    )
    gpus_per_worker: float = setting(
        0, "number of GPUs that a process asks for; .5 lets two processes share one", least=0
    )
    retries: int = setting(
        3, "how often a unit whose process died is tried again before it counts as Lost", least=1
    )

    def __post_init__(self) -> None:
        check_settings(self)
        if self.gpus_per_worker > 1 and self.gpus_per_worker % 1:
            raise InputError(
                f"gpus_per_worker must be a fraction of one GPU or whole GPUs, got {self.gpus_per_worker}"
            )

    def run(
        self, make_worker: Callable[[], Worker[Unit, Result]], units: Iterable[Unit]
    ) -> Generator[tuple[Unit, Result | Lost], None, None]:
        rest = iter(units)
        first = list(islice(rest, 1))
        if first:
            ray = require("ray", extra="ray", purpose="the Ray executor")
            with _connected(ray, self.address):
                yield from self._results(ray, make_worker, _groups(chain(first, rest)))

    def _results(
        self, ray: Any, make_worker: Callable[[], Worker[Unit, Result]], groups: Iterator[list[Unit]]
    ) -> Iterator[tuple[Unit, Result | Lost]]:
        room = _room(ray, {"CPU": self.cpus_per_worker, "GPU": self.gpus_per_worker})
        window = (
            self.workers if self.workers and self.workers < room else 2 * room
        )  # others wait in Ray's queue
        threads = str(self.cpus_per_worker)
        folders = os.pathsep.join([*_import_folders(), "${PYTHONPATH}"])
        task = ray.remote(
            num_cpus=self.cpus_per_worker,
            num_gpus=self.gpus_per_worker,
            max_calls=0,  # a process keeps its worker, also on a GPU
            max_retries=self.retries,
            runtime_env={
                "env_vars": {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "PYTHONPATH": folders}
            },
        )(_work)
        source = [ray.put(ray.cloudpickle.dumps((make_worker, self.cpus_per_worker)))]
        key, running = uuid4().hex, dict[Any, list[Unit]]()
        groups = chain([[]], groups)  # a task without units shows whether workers can be made
        finished: list[tuple[Unit, Result | Lost]] = []
        try:
            while True:
                for group in islice(groups, window - len(running)):
                    running[task.remote(key, source, ray.cloudpickle.dumps(group))] = group
                yield from finished
                finished = []
                if not running:
                    return
                (ready, *_), _ = ray.wait(list(running), num_returns=1)
                group = running.pop(ready)
                try:
                    results, error = ray.cloudpickle.loads(ray.get(ready))
                except ray.exceptions.RayError as dead:
                    if not group:
                        raise ProofmapError(
                            f"Ray workers die while they start: {_reason(dead)} If memory is short, ask for fewer workers"
                        ) from None
                    if len(group) > 1:  # perhaps only one of them kills its process
                        groups = chain([[unit] for unit in group], groups)
                        continue
                    results, error = (
                        [Lost(f"its process died {self.retries + 1} times: {_reason(dead)}")],
                        None,
                    )
                if error is not None:
                    raise error
                finished = list(zip(group, results, strict=True))
        finally:
            for ready in running:
                ray.cancel(ready, force=True)


def _groups(units: Iterable[Unit]) -> Iterator[list[Unit]]:
    """Each unit with those after it that use its maps, so that one process makes them once."""
    group: list[Unit] = []
    for unit in units:
        if group and not getattr(unit, "together", False):
            yield group
            group = []
        group.append(unit)
    if group:
        yield group


def _reason(error: Exception) -> str:
    """Ray's explanation of why a process died, without the preamble and the list of common causes."""
    text = " ".join(str(error).split())
    return text.rpartition("Worker exit detail: ")[2].partition(" Some common causes")[0]


# ---- in the process of a task -----------------------------------------------------------------------------------

_workers: dict[str, Any] = {}
"""The worker of this process, by the key of the run that it is for."""


def _work(key: str, source: list[Any], units: bytes) -> bytes:
    """The results of the units and None, or an empty list and the error that ends the run.

    They are pickled here, not by Ray: so arrays arrive writable and owned by the driver, and errors arrive unchanged.
    """
    import ray
    from ray import cloudpickle

    try:
        if key not in _workers:
            _workers.clear()
            make_worker, threads = cloudpickle.loads(ray.get(source[0]))
            torch.set_num_threads(threads)
            keep_memory()
            _workers[key] = make_worker()
        answer: bytes = cloudpickle.dumps(([_workers[key](unit) for unit in cloudpickle.loads(units)], None))
    except (Exception, SystemExit) as ended:
        where = f"In a Ray worker:\n{traceback.format_exc()}"
        error = ended if isinstance(ended, Exception) else RuntimeError(reason_of(ended))
        if not isinstance(error, ProofmapError):  # its message is complete
            error.add_note(where)
        try:
            answer = cloudpickle.dumps(([], error))
            cloudpickle.loads(answer)
        except Exception:  # not every exception can be unpickled; then one with the same message
            substitute = RuntimeError(f"{type(error).__name__}: {error}")
            substitute.add_note(where)
            answer = cloudpickle.dumps(([], substitute))
    return answer


# ---- the cluster ------------------------------------------------------------------------------------------------


@contextmanager
def _connected(ray: Any, address: str | None) -> Iterator[None]:
    """Connect to the Ray cluster at ``address``, or start one on this machine if ``address`` is None.

    An existing connection of this process is used and left open. A connection or cluster that this function opened is closed at the end.
    """
    if ray.is_initialized():
        yield
        return
    handler = signal.getsignal(signal.SIGTERM)  # Ray has one of its own
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray._private.worker._worker_logs_enabled = False  # there is no public switch
    try:
        try:
            host, _, port = (address or "").removeprefix("ray://").rpartition(":")
            if port.isdecimal():  # raise at once if nothing listens there; Ray would try for many minutes
                socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
            own = {} if address else {"include_dashboard": False, "object_store_memory": _OBJECT_STORE}
            ray.init(address or "local", log_to_driver=False, logging_level=logging.CRITICAL, **own)
        except Exception as error:
            where = f"connect to the Ray cluster at {address!r}" if address else "start Ray on this machine"
            raise ProofmapError(f"cannot {where}: {error}") from error
        yield
    finally:
        ray.shutdown()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def _room(ray: Any, required: dict[str, float]) -> int:
    """The number of processes with the ``required`` resources that fit on the cluster if nothing else runs there."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    fitting = [
        min(int(node.get(kind, 0) / amount + 1e-9) for kind, amount in required.items() if amount)
        for node in nodes
    ]
    if not any(fitting):
        asked, *there = (
            f"{each.get('CPU', 0):g} CPU, {each.get('GPU', 0):g} GPU" for each in (required, *nodes)
        )
        raise InputError(
            f"a Ray worker asks for {asked}, and no machine of the cluster has them: {'; '.join(there)}. Lower cpus_per_worker or "
            "gpus_per_worker"
        )
    return sum(fitting)


def _import_folders() -> list[str]:
    """Folders from which this process imports modules that are not installed. Ray itself passes only two of these folders to its workers."""
    return [
        os.path.abspath(folder)
        for folder in sys.path
        if os.path.isdir(folder or ".") and not folder.startswith((sys.prefix, sys.base_prefix))
    ]
