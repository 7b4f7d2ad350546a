"""The action for GitHub: its steps, run by bash as there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import write_photos

ROOT = Path(__file__).parents[2]
NET = """
from torch import nn
net = nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(48, 4))
"""


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("bash") and shutil.which("xargs")), reason="needs bash and xargs")
@pytest.mark.parametrize("bar, code", [("0", 0), ("0.9", 1)], ids=["reached", "missed"])
def test_the_steps_write_the_summary_and_keep_the_exit_code(bar: str, code: int, tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    action: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
    assert action["runs"]["using"] == "composite"
    install, *steps = action["runs"]["steps"]
    assert install["run"] == 'python -m pip install --quiet "$PACKAGE"'
    write_photos(tmp_path)
    (tmp_path / "my net.py").write_text(NET)
    inputs = {
        "evaluate": "--data photos --model 'my net.py:net?size=16' --labels top2 --methods gradient --no-pictures",
        "audit": f"--bar insertion={bar}",
        "run": "runs/a b",
    }
    assert {*inputs, "package"} == {*action["inputs"]}
    found = 0
    for step in steps:
        given = {name: inputs[text.split("inputs.")[1].split(" ")[0]] for name, text in step["env"].items()}
        summary = {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        ran = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=tmp_path,
            env={**os.environ, **given, **summary, "PATH": path},
            check=False,
        )
        found = ran.returncode
    assert found == code
    text = (tmp_path / "summary.md").read_text()
    assert "| method" in text and f"audit {'failed' if code else 'passed'}" in text
