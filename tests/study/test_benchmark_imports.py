"""Scripts beside the package (benchmarks, studies, what makes the documentation) import only what the package has."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted([*(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "docs").glob("*.py")])


def missing(source: str) -> list[str]:
    """What a script imports from the package that is not there; nothing of the script is run."""
    imported = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    return [
        f"{node.module}.{alias.name}"
        for node in imported
        for alias in node.names
        if str(node.module).split(".")[0] == "proofmap" and not has(str(node.module), alias.name)
    ]


def has(module: str, name: str) -> bool:
    """Whether the package has this name; a module that needs a package which is not installed is one that it has."""
    try:
        if hasattr(importlib.import_module(module), name):
            return True
        importlib.import_module(f"{module}.{name}")
    except ModuleNotFoundError as error:
        return not str(error.name).startswith("proofmap")
    return True


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_scripts_import_is_there(script: Path) -> None:
    assert missing(script.read_text()) == []


def test_what_has_moved_is_found() -> None:
    source = "from proofmap.metrics import make_game, moved\ndef later():\n    from proofmap.elsewhere import thing\n"
    assert missing(source) == ["proofmap.metrics.moved", "proofmap.elsewhere.thing"]
