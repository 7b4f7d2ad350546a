"""How a call of :func:`~proofmap.study.run.run_study` ended, and what was kept if it was stopped."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from proofmap.core.text import counted
from proofmap.results.evaluation import Evaluation
from proofmap.study.planning import Plan, Work
from proofmap.study.stored_run import Run


@dataclass(frozen=True)
class Outcome:
    """The result of :func:`~proofmap.study.run.run_study`: the folder of the run, the plan, and the number of images that failed."""

    folder: Path
    plan: Plan
    units: int
    """Number of units that this call computed."""
    unreadable: int
    failed: int
    """Number of (method, image) pairs without a result."""
    given_up: Mapping[str, int] = field(default_factory=dict)
    """Methods that kept failing, each with the number of images on which it was not tried. These images count as failed."""
    files: tuple[Path, ...] = ()
    """The files that the callback ``on_end`` wrote."""
    units_before: int = 0
    """Number of units that were finished when this call began."""
    passes: int = 0
    """Number of images passed through the net in this call."""

    @property
    def complete(self) -> bool:
        return self.unreadable == 0 and self.failed == 0

    def evaluation(self) -> Evaluation:
        """Read the results from the folder. Comparisons, audits and reports also accept the outcome itself."""
        with Run(self.folder) as run:
            return run.evaluation()

    def __str__(self) -> str:
        done = f"{self.units} of {counted(self.plan.units, 'unit')} computed now"
        failed = f"{counted(self.failed, f'(method, {self.plan.item}) pair')} failed, {self.unreadable:,} not readable"
        return (
            f"{done}; {failed}; read it with pm.Run({str(self.folder)!r}), or: proofmap report {self.folder}"
        )


def describe_kept(work: Work, finished: Collection[tuple[str, int]], item: str = "image") -> str:
    """A phrase that says how many results a stopped run has kept, from its work and the (method, block) pairs finished in this call."""
    waiting = [unit for unit in work.waiting if (unit.method, unit.block) not in finished]
    images = sum(map(len, work.images.values()))
    methods = work.units // max(1, len(work.images))
    kept = images * methods - sum(len(unit.subjects) for unit in waiting)
    return (
        f"kept {kept:,} of {counted(images * methods, 'result')} ({counted(images, item)} x {counted(methods, 'method')}); "
        "run the same command to continue"
    )
