"""ProofBench: fixed tasks on which any method is judged by the same code, and a leaderboard that anyone can enter.

    proofmap bench list                          the tasks, and what each needs
    proofmap bench run TASK --method METHOD      judge a method on a task; writes a record
    proofmap bench submit RECORD                 check a record by computing a part of it again, and add it to the leaderboard
    proofmap bench table                         the leaderboard, as text and as one HTML file

A task never changes. What would change its numbers makes a new version of the benchmark (:data:`~proofmap.bench.task.VERSION`).
"""
