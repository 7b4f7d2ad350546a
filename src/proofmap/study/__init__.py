"""Studies: judge saliency methods on thousands of images. A study can be resumed and reproduced, on one machine or many."""

from typing import TYPE_CHECKING

from proofmap.core.deferred import lazy_names

if TYPE_CHECKING:
    from proofmap.study.executor import Executor, LocalExecutor, RayExecutor
    from proofmap.study.manifest import Selection
    from proofmap.study.run import Outcome, run_study
    from proofmap.study.store import RunBusy, StoreError
    from proofmap.study.stored_run import Failure, Run, verify_run
    from proofmap.study.study import Study
    from proofmap.study.watchers import Status, Watcher

# Imported when first used: reading a run needs no torch.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "executor": "Executor LocalExecutor RayExecutor",
        "manifest": "Selection",
        "run": "Outcome run_study",
        "store": "RunBusy StoreError",
        "stored_run": "Failure Run verify_run",
        "study": "Study",
        "watchers": "Status Watcher",
    },
)

__all__ = [
    "Executor",
    "Failure",
    "LocalExecutor",
    "Outcome",
    "RayExecutor",
    "Run",
    "RunBusy",
    "Selection",
    "Status",
    "StoreError",
    "Study",
    "Watcher",
    "run_study",
    "verify_run",
]
