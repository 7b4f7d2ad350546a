"""A person at a command line, in a folder of their own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from proofmap import cli


@dataclass(frozen=True)
class Answer:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    def refuses(self, *words: str) -> None:
        """Bad input: exit code 2, a message with these words, no traceback."""
        assert self.code == 2, (self.code, self.err)
        assert self.err.count("error: ") == 1 and "Traceback" not in self.err
        for word in words:
            assert word in self.err, f"{word!r} is not in: {self.err}"

    def works(self) -> None:
        assert self.code == 0, self.err


Proofmap = Callable[..., Answer]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the person works in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def proofmap(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Proofmap:
    """Runs a command line, in this process."""

    def run(*words: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["proofmap", *words])
        capsys.readouterr()
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        printed = capsys.readouterr()
        return Answer(code, printed.out, printed.err)

    return run
