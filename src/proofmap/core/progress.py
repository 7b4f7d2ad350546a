"""Reports the progress of long jobs, in passes of the net. One image through the net is one pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self


class ProgressTask:
    """One running job; a context manager. After each step it calls ``advanced``, if that is given, with the number of passes."""

    def __init__(self, advanced: Callable[[int], None] | None = None) -> None:
        self.advanced = advanced

    def advance(self, passes: int, note: str = "") -> None:
        """Report that ``passes`` more passes are done. ``note`` is a value to show, such as the loss."""
        if self.advanced is not None:
            self.advanced(passes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass


class Progress:
    """Receives the progress of jobs; this base class, the default in the library, reports nothing. ``passes`` counts images through the
    net, so rates of different methods can be compared."""

    def task(self, what: str, passes: int) -> ProgressTask:
        return ProgressTask()
