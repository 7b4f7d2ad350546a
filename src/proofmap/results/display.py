"""The interface through which results show and save themselves. It keeps :mod:`proofmap.results` from importing :mod:`proofmap.report`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from proofmap.results.tables import Tables


class _Display(Protocol):
    """The functions that results call to print, draw and save themselves; :mod:`proofmap.report.display` implements them."""

    def score_table(self, evaluation: Any) -> Tables: ...

    def shared_table(self, evaluation: Any) -> Tables: ...

    def proof_table(self, evaluation: Any, width: int | None) -> str: ...

    def dataframe(self, evaluation: Any, table: str) -> Any: ...

    def evaluation_html(self, evaluation: Any) -> str: ...

    def proof_html(self, evaluation: Any) -> str: ...

    def proof_png(self, evaluation: Any) -> bytes | None: ...

    def save_evaluation(self, evaluation: Any, folder: str | Path, *, pictures: bool) -> list[Path]: ...

    def save_proof(self, evaluation: Any, folder: str | Path) -> list[Path]: ...


_loaders: list[Callable[[], Any]] = []


def set_display(load: Callable[[], Any]) -> None:
    """Set the function that returns the implementation. ``load`` is called whenever a result is shown or saved."""
    _loaders[:] = [load]


def display() -> _Display:
    """The implementation, which ``import proofmap`` has set."""
    found: _Display = _loaders[0]()
    return found
