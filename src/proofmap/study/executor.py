"""Executors compute the units of a study (one method on one block of images). :class:`LocalExecutor` computes in this process.

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

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, Protocol, TypeVar

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
