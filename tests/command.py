"""The command line, run in this process."""

from __future__ import annotations

import sys

import pytest
from typer.testing import CliRunner

from proofmap import cli


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run ``proofmap`` with these arguments; its exit code."""
    monkeypatch.setattr(sys, "argv", ["proofmap", *arguments])
    try:
        cli.main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def invoke(*words: str) -> tuple[int, str]:
    """The exit code of ``proofmap`` with these words, and what it prints."""
    result = CliRunner().invoke(cli.make_app(), list(words))
    return result.exit_code, result.output
