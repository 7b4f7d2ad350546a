"""Scripts beside the package (benchmarks, studies, what makes the documentation) name only what the package has."""

from __future__ import annotations

import ast
import importlib
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OPTIONAL = ("playwright", "quantus", "ray", "scipy", "torchcam", "torchvision")
"""Packages that a script may ask for, and that need not be here."""
SCRIPTS = sorted([*(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "docs").glob("*.py")])


def missing(source: str) -> list[str]:
    """What a script imports from the package, or reads off it, that is not there; nothing of it is run."""
    tree, found = ast.parse(source), []
    for node in ast.walk(tree):
        for module, names in named(node):
            if not is_there(module):
                found.append(module)
            else:
                found += [f"{module}.{name}" for name in names if not has(module, name)]
    modules = {
        alias.asname: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.asname and alias.name.split(".")[0] == "proofmap"
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            module = modules[node.value.id]
            if not has(module, node.attr):
                found.append(f"{module}.{node.attr}")
    return found


def named(node: ast.AST) -> Iterator[tuple[str, list[str]]]:
    """The modules of the package that a statement imports, and the names that it takes from each."""
    if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "proofmap":
        yield str(node.module), [alias.name for alias in node.names]
    elif isinstance(node, ast.Import):
        yield from ((alias.name, []) for alias in node.names if alias.name.split(".")[0] == "proofmap")


def is_there(module: str) -> bool:
    """Whether the package has this module; one that needs a package which is not installed is one that it has."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        return not str(error.name).startswith("proofmap")
    return True


def has(module: str, name: str) -> bool:
    there = sys.modules.get(module)  # None where it needs a package which is not installed
    return there is None or hasattr(there, name) or is_there(f"{module}.{name}")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_scripts_name_is_there(script: Path) -> None:
    assert missing(script.read_text()) == []


@pytest.mark.parametrize(
    "script",
    [path for path in SCRIPTS if "ArgumentParser(" in path.read_text() and "__main__" in path.read_text()],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_scripts_say_how_they_are_called(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.syspath_prepend(str(script.parent))
    monkeypatch.setattr(sys, "argv", [script.name, "--help"])
    try:
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(script), run_name="__main__")
    except ModuleNotFoundError as error:
        if error.name not in OPTIONAL:
            raise
        pytest.skip(f"{error.name} is not installed")
    finally:  # scripts beside it, which others may name alike
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(script.parent)):
                del sys.modules[name]
    assert not ended.value.code and "usage:" in capsys.readouterr().out


def test_what_has_moved_is_found() -> None:
    source = """
import proofmap as pm
import proofmap.moved
from proofmap.metrics import make_game, moved
from proofmap.core import files
def later():
    from proofmap.elsewhere import thing
    return pm.insertion, pm.inserted
"""
    assert sorted(missing(source)) == [
        "proofmap.elsewhere",
        "proofmap.inserted",
        "proofmap.metrics.moved",
        "proofmap.moved",
    ]
