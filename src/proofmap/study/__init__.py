"""Studies: thousands of images, dozens of labels, any methods; resumable, reproducible, on one machine or many."""

from proofmap.study.executors.executor import Executor, LocalExecutor, Lost
from proofmap.study.executors.ray_executor import RayExecutor
from proofmap.study.export import export_run
from proofmap.study.outcome import Outcome
from proofmap.study.plan import Plan
from proofmap.study.results import Run
from proofmap.study.run import run_study
from proofmap.study.run_notes import Failure
from proofmap.study.store.checks import Problem
from proofmap.study.store.errors import StoreError
from proofmap.study.store.lock import RunBusy
from proofmap.study.study import Selection, Study
from proofmap.study.verify import verify_run
from proofmap.study.watchers.status import Status, Watcher

__all__ = [
    "Executor",
    "Failure",
    "LocalExecutor",
    "Lost",
    "Outcome",
    "Plan",
    "Problem",
    "RayExecutor",
    "Run",
    "RunBusy",
    "Selection",
    "Status",
    "StoreError",
    "Study",
    "Watcher",
    "export_run",
    "run_study",
    "verify_run",
]
