"""A child of this process. It dies as a process dies, and is there at once: a new one imports torch for seconds."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import IO

import pytest
import torch


def check_fork() -> None:
    """Skip the test where a child of this process could not work."""
    if not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    if torch.get_num_threads() > 1:
        pytest.skip("a forked process has none of torch's other threads, and a convolution waits for them")


def fork() -> int:
    """``os.fork`` without its warning of other threads, which the child does without."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


class Child:
    """A process that runs a function and ends with the code that the function returns. ``stderr`` is what it writes there."""

    def __init__(self, run: Callable[[], int]) -> None:
        check_fork()
        read, write = os.pipe()
        self.number = fork()
        if self.number == 0:
            _end_with(run, write)
        os.close(write)
        self.stderr: IO[str] = os.fdopen(read)

    def code(self) -> int:
        """How the process ended, when it has: its exit code, or the signal that killed it, as a negative number."""
        self.stderr.close()
        return os.waitstatus_to_exitcode(os.waitpid(self.number, 0)[1])


def command(arguments: Sequence[str]) -> Child:
    """The command ``proofmap`` with these arguments, from its first line."""
    import proofmap_command

    def run() -> int:
        sys.argv = ["proofmap", *arguments]
        try:
            proofmap_command.main()
        except SystemExit as stop:
            return int(stop.code or 0)
        return 0

    return Child(run)


def _end_with(run: Callable[[], int], write: int) -> None:
    code = 1
    try:
        os.dup2(write, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stdout, sys.stderr = os.fdopen(1, "w", 1), os.fdopen(2, "w", 1)
        code = run()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
