"""Errors about a run directory, and their messages."""

from __future__ import annotations

from pathlib import Path

from proofmap.core.errors import ProofmapError


class StoreError(ProofmapError):
    """A run directory cannot be read or written."""


class Damaged(StoreError):
    """A file of a run has changed since it was written. ``what`` is the reason without the file name and the suggested command."""

    def __init__(self, message: str, what: str = "") -> None:
        super().__init__(message)
        self.what = what or message


def disk_full(path: Path, text: str) -> StoreError:
    return StoreError(
        f"{path} cannot be written: {text}. What is finished is safe: make room and run the same command again"
    )


def damaged(path: Path, text: str, folder: Path | None = None) -> Damaged:
    return Damaged(
        f"{path} is damaged: {text}. See what is lost with: proofmap verify {folder or path.parent}; "
        "with --repair it is set aside, to be computed again",
        text,
    )
