"""ProofBench: fixed tasks on which any method is judged by the same code, and a leaderboard that anyone can enter.

    proofmap bench list                          the tasks, and what each needs
    proofmap bench run TASK --method METHOD      judge a method on a task; writes a record
    proofmap bench submit RECORD                 check a record by computing a part of it again, and add it to the leaderboard
    proofmap bench table                         the leaderboard, as text and as one HTML file

A task never changes. What would change its numbers makes a new version of the benchmark (:data:`~proofmap.bench.task.VERSION`).
"""

from proofmap.bench.leaderboard import Leaderboard
from proofmap.bench.record import Record
from proofmap.bench.running import run_task
from proofmap.bench.submission import check_record, submit
from proofmap.bench.task import VERSION, Task, task_names

__all__ = ["VERSION", "Leaderboard", "Record", "Task", "check_record", "run_task", "submit", "task_names"]
