"""Errors about a run directory, and their messages."""

from __future__ import annotations

from pathlib import Path

from proofmap.core.errors import ProofmapError


class StoreError(ProofmapError):
    """A run directory cannot be read or written."""


def disk_full(path: Path, text: str) -> StoreError:
    return StoreError(
        f"{path} cannot be written: {text}. What is finished is safe: make room and run the same command again"
    )


def damaged(path: Path, text: str) -> StoreError:
    return StoreError(
        f"{path} is damaged: {text}. Put the file back if you have a copy; or remove it, and the command that made the run computes what "
        "it held again"
    )
