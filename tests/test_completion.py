"""Shells complete commands, options and names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from proofmap.cli import app_for


@pytest.mark.parametrize(
    "words, offered",
    [
        ("proofmap ev", ["evaluate"]),
        ("proofmap me", []),  # earlier names of commands are not offered
        ("proofmap list me", ["methods", "metrics"]),
        ("proofmap evaluate --methods grad-cam,gradient-x", ["grad-cam,gradient-x-input"]),
        ("proofmap demo ta", ["table"]),
        ("proofmap bench ru", ["run"]),
        ("proofmap bench run sm", ["smoke"]),
        ("proofmap evaluate --store-maps f", ["float16", "float32"]),
        ("proofmap compare --allow", ["--allow-mismatch"]),
    ],
)
def test_names_are_completed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str, offered: list[str]
) -> None:
    monkeypatch.setenv("_PROOFMAP_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    with pytest.raises(SystemExit) as ended:
        app_for([])(prog_name="proofmap")
    assert not ended.value.code
    assert capsys.readouterr().out.split() == offered


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_after_the_line_that_the_documentation_shows(tmp_path: Path) -> None:
    command = tmp_path / "proofmap"
    command.write_text(
        f"#!{sys.executable}\nfrom proofmap_command import main\n\nmain()\n"
    )  # as pip writes it
    command.chmod(0o755)
    script = """
        eval "$(proofmap --show-completion)"
        COMP_WORDS=(proofmap ex); COMP_CWORD=1
        _proofmap_completion proofmap
        echo "${COMPREPLY[@]}"
    """
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    settings = {**os.environ, "PATH": path, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    done = subprocess.run(["bash", "-c", script], env=settings, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["explain", "export"]
