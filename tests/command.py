"""The command line, run in this process."""

from __future__ import annotations

import sys

import pytest

from proofmap import cli


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run ``proofmap`` with these arguments; its exit code."""
    monkeypatch.setattr(sys, "argv", ["proofmap", *arguments])
    try:
        cli.main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0
