"""The executor for several processes and machines: Ray actors, each with its own worker.

The driver runs in the consumer's thread. It sends groups of units to actors and receives their results. A group is one unit at first,
and grows if units are so short that the calls would cost more than the work. An actor works on a group for a limited time and returns
the units that remain, so a group that is too large costs nothing.

An actor answers its calls in order. So when an actor dies, the oldest unanswered group is the likely cause: the group was being
computed, or its results were being sent. Each unit of this group runs again alone, on an actor without other work, and only a
death there counts against the unit. All other groups are queued again unchanged, and a new actor is started.
"""

from __future__ import annotations

import os
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Generic

import torch

from proofmap.core.allocator import keep_memory
from proofmap.core.errors import InputError, ProofmapError, require
from proofmap.plugins.failures import exit_as_error
from proofmap.plugins.settings import check_settings, setting
from proofmap.study.executors.executor import Lost, Result, Unit, Worker
from proofmap.study.executors.ray_cluster import capacity, connected, describe_resources, import_folders

SLICE = 0.1  # seconds an actor works before it answers; a call costs about one hundredth of that
LARGEST_GROUP = 256  # units in a call
FAILED_STARTS = 3  # in a row; then no further actor is tried
PLACEMENT_TIMEOUT = 120.0  # seconds to wait until a busy cluster has room for the first actor


@dataclass(frozen=True)
class RayExecutor:
    """Computes units in the actors of a Ray cluster.

    This is the cluster that this process is connected to, or else the one at ``address``, or else a new one on this machine.
    The ``prefetch`` method of a worker is not called: two actors that share a GPU load and compute in turn.
    """

    workers: int | None = setting(
        None,
        "maximum number of actors; none: as many as the cluster has room for",
        least=1,
    )
    address: str | None = setting(
        None,
        "address of a running cluster: auto, or host:port; it must have the driver's packages, and is left running",
    )
    cpus_per_worker: int = setting(
        1, "number of cores that an actor asks for, and of threads that it computes with", least=1
    )
    gpus_per_worker: float = setting(
        0, "number of GPUs that an actor asks for; .5 lets two actors share one", least=0
    )
    retries: int = setting(
        3, "how often a unit whose process died is tried again, alone, before it counts as Lost", least=1
    )
    ahead: int = setting(
        2,
        "number of groups of units that wait at each actor, so that it does not wait for the driver",
        least=0,
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
        if not first:
            return
        ray = require("ray", extra="ray", purpose="the Ray executor")
        with connected(ray, self.address):
            pool: _Pool[Unit, Result] = _Pool(ray, self, make_worker, chain(first, rest))
            try:
                yield from pool.results()
            finally:
                pool.close()


# ---- in the actor's process ------------------------------------------------------------------------------------


class _Actor(Generic[Unit, Result]):
    """A Ray actor: a process that holds one worker.

    Arguments and results are pickled by this class, not by Ray. So arrays arrive writable and owned by the driver, as from a local
    worker, and exceptions arrive unchanged.
    """

    def start(self, make_worker: bytes, threads: int) -> bytes:
        return _answer(lambda: self._start(make_worker, threads))

    def work(self, units: bytes) -> bytes:
        return _answer(lambda: self._work(units))

    def _start(self, make_worker: bytes, threads: int) -> None:
        from ray import cloudpickle

        torch.set_num_threads(threads)
        keep_memory()
        self._worker: Worker[Unit, Result] = cloudpickle.loads(make_worker)()

    def _work(self, units: bytes) -> tuple[list[Result], float]:
        from ray import cloudpickle

        began = time.perf_counter()
        results: list[Result] = []
        for unit in cloudpickle.loads(units):
            if time.perf_counter() - began > SLICE and not _goes_together(unit):
                break
            results.append(self._worker(unit))
        return results, time.perf_counter() - began


@dataclass(frozen=True)
class _Raised:
    error: Exception


def _answer(call: Callable[[], object]) -> bytes:
    from ray import cloudpickle

    try:
        with exit_as_error():
            answer: bytes = cloudpickle.dumps(call())
    except Exception as error:
        where = f"In a Ray worker:\n{traceback.format_exc()}"
        if not isinstance(error, ProofmapError):  # its message is complete
            error.add_note(where)
        try:
            answer = cloudpickle.dumps(_Raised(error))
            cloudpickle.loads(answer)
        except Exception:  # not every exception can be unpickled; then one with the same message
            substitute = RuntimeError(f"{type(error).__name__}: {error}")
            substitute.add_note(where)
            answer = cloudpickle.dumps(_Raised(substitute))
    return answer


# ---- in the driver ---------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Job(Generic[Unit]):
    """A unit to compute. ``alone`` says whether it must run alone; ``deaths`` counts how often its process died while it did."""

    unit: Unit
    alone: bool = False
    deaths: int = 0


def _goes_together(unit: object) -> bool:
    """Whether a unit should be computed by the worker that computed the unit before it."""
    return bool(getattr(unit, "together", False))


class _Jobs(Generic[Unit]):
    """The queue of jobs to send to actors, filled from the iterator of units. Jobs that were given back come first."""

    def __init__(self, units: Iterator[Unit]) -> None:
        self._units = units
        self._queue: deque[_Job[Unit]] = deque()

    def fill(self, size: int) -> int:
        """Fill the queue from the units up to ``size`` jobs; returns the number of jobs in the queue."""
        self._queue.extend(_Job(unit) for unit in islice(self._units, max(0, size - len(self._queue))))
        return len(self._queue)

    def next_goes_alone(self) -> bool:
        return self._queue[0].alone

    def take(self, size: int) -> list[_Job[Unit]]:
        """Take the next group of jobs from the queue: a single job that must run alone, or ``size`` others.

        A group may be larger than ``size``: jobs that must be computed by the same worker as the job before them are included.
        """
        group = [self._queue.popleft()]
        while self._queue and not (group[0].alone or self._queue[0].alone):
            if len(group) >= size and not _goes_together(self._queue[0].unit):
                break
            group.append(self._queue.popleft())
        return group

    def give_back(self, jobs: list[_Job[Unit]]) -> None:
        self._queue.extendleft(reversed(jobs))


@dataclass(eq=False)
class _Host(Generic[Unit]):
    """The driver's view of an actor: its unanswered calls, oldest first. The call that starts the actor has no jobs."""

    actor: Any
    placed: Any
    calls: deque[tuple[Any, list[_Job[Unit]]]] = field(default_factory=deque)
    started: bool = False


class _Pool(Generic[Unit, Result]):
    """The actors of one run and the jobs that each has been sent. Yields results, and replaces actors that die."""

    def __init__(
        self,
        ray: Any,
        wanted: RayExecutor,
        make_worker: Callable[[], Worker[Unit, Result]],
        units: Iterator[Unit],
    ) -> None:
        self._ray, self._wanted, self._jobs = ray, wanted, _Jobs(units)
        self._hosts: list[_Host[Unit]] = []
        self._size, self._failed_starts = 1, 0
        self._make_worker = ray.put(ray.cloudpickle.dumps(make_worker))
        self._required = {"CPU": wanted.cpus_per_worker, "GPU": wanted.gpus_per_worker}
        most = capacity(ray, self._required)
        threads = str(wanted.cpus_per_worker)
        self._new_actor = ray.remote(
            num_cpus=wanted.cpus_per_worker,
            num_gpus=wanted.gpus_per_worker,
            max_restarts=0,
            max_task_retries=0,
            runtime_env={
                "env_vars": {
                    "OMP_NUM_THREADS": threads,
                    "MKL_NUM_THREADS": threads,
                    "PYTHONPATH": os.pathsep.join([*import_folders(), "${PYTHONPATH}"]),
                }
            },
        )(_Actor).remote
        for _ in range(min(wanted.workers or most, most)):
            self._add_host()

    def results(self) -> Iterator[tuple[Unit, Result | Lost]]:
        self._wait_for_room()
        finished: deque[tuple[Unit, Result | Lost]] = deque()
        while True:
            self._hand_out()
            while finished:
                yield finished.popleft()
            if not any(host.calls for host in self._hosts if host.started) and not self._jobs.fill(1):
                return
            for host in self._hosts_with_answers():
                finished.extend(self._take(host))

    def close(self) -> None:
        for host in self._hosts:
            self._kill(host)
        self._hosts.clear()

    def _add_host(self) -> None:
        actor = self._new_actor()
        host: _Host[Unit] = _Host(actor, actor.__ray_ready__.remote())
        host.calls.append((actor.start.remote(self._make_worker, self._wanted.cpus_per_worker), []))
        self._hosts.append(host)

    def _kill(self, host: _Host[Unit]) -> None:
        with suppress(Exception):  # it is dead already, or the cluster is
            self._ray.kill(host.actor, no_restart=True)

    def _wait_for_room(self) -> None:
        placed, _ = self._ray.wait(
            [host.placed for host in self._hosts], num_returns=1, timeout=PLACEMENT_TIMEOUT
        )
        if not placed:
            raise ProofmapError(
                f"the Ray cluster made no room for a worker ({describe_resources(self._required)}) within "
                f"{PLACEMENT_TIMEOUT:.0f} s; free are {describe_resources(self._ray.available_resources())}. "
                "Wait until other jobs are done, or ask for less"
            )

    def _hand_out(self) -> None:
        """Send groups of jobs to the actors in turn. Near the end, send smaller groups, and only to idle actors, so that all end together."""
        plenty = len(self._hosts) * (1 + self._wanted.ahead) * self._size
        for waiting in range(1 + self._wanted.ahead):
            for host in self._hosts:
                if not host.started or len(host.calls) > waiting:
                    continue
                queued = self._jobs.fill(plenty)
                if not queued or (waiting and queued < plenty):
                    return
                if host.calls and (self._jobs.next_goes_alone() or host.calls[-1][1][0].alone):
                    continue
                size = self._size if queued >= plenty else min(self._size, -(-queued // len(self._hosts)))
                group = self._jobs.take(size)
                units = self._ray.cloudpickle.dumps([job.unit for job in group])
                host.calls.append((host.actor.work.remote(units), group))

    def _hosts_with_answers(self) -> list[_Host[Unit]]:
        """All actors that have answered their oldest call. Waits until there is at least one."""
        oldest = {host.calls[0][0]: host for host in self._hosts if host.calls}
        calls = list(oldest)
        ready, _ = self._ray.wait(calls, num_returns=len(calls), timeout=0)
        if not ready:
            ready, _ = self._ray.wait(calls, num_returns=1)
        return [oldest[call] for call in ready]

    def _take(self, host: _Host[Unit]) -> Sequence[tuple[Unit, Result | Lost]]:
        call, group = host.calls.popleft()
        try:
            answer = self._ray.cloudpickle.loads(self._ray.get(call))
        except self._ray.exceptions.RayError as error:
            return self._replace_dead(host, group, _reason(error))
        if isinstance(answer, _Raised):
            raise answer.error
        if not host.started:
            host.started, self._failed_starts = True, 0
            return []
        results, seconds = answer
        self._jobs.give_back(group[len(results) :])
        self._adapt(len(group), len(results), seconds)
        return [(job.unit, result) for job, result in zip(group, results, strict=False)]

    def _adapt(self, given: int, done: int, seconds: float) -> None:
        if done < given:
            self._size = done
        elif given >= self._size and seconds < SLICE / 2:
            self._size = min(2 * self._size, LARGEST_GROUP)

    def _replace_dead(
        self, host: _Host[Unit], group: list[_Job[Unit]], reason: str
    ) -> list[tuple[Unit, Lost]]:
        """Replace a dead actor and queue its jobs again. Returns as :class:`Lost` the units whose processes died too often."""
        self._kill(host)
        self._hosts.remove(host)
        self._failed_starts = 0 if host.started else self._failed_starts + 1
        for job in group:
            job.alone, job.deaths = True, job.deaths + job.alone
        lost = [job for job in group if job.deaths >= self._wanted.retries]
        unaffected = [job for _, jobs in host.calls for job in jobs]
        self._jobs.give_back([job for job in group if job not in lost] + unaffected)
        if self._failed_starts < FAILED_STARTS:
            self._add_host()
        elif self._hosts:
            warnings.warn(
                f"Ray workers die while they start; continuing with {len(self._hosts)}. {reason}",
                RuntimeWarning,
                stacklevel=1,
            )
        else:
            raise ProofmapError(
                f"Ray workers die while they start, {self._failed_starts} in a row: {reason} "
                "If memory is short, ask for fewer workers"
            )
        return [
            (job.unit, Lost(f"its process died each time it ran alone ({job.deaths}): {reason}"))
            for job in lost
        ]


def _reason(error: Exception) -> str:
    """Ray's explanation of why an actor died, without the preamble and the list of common causes."""
    text = " ".join(str(error).split())
    return text.rpartition("Worker exit detail: ")[2].partition(" Some common causes")[0]
