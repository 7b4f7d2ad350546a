"""How large the package is: ``python -m tests.weight`` prints a line for each room.

Statements are counted by ast without docstrings, so that neither the length of lines nor prose changes them. Imported names are the public names that
one module of the package takes from another, by ``from ... import NAME`` or as ``MODULE.NAME``: what a contributor may have to know.
"""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "proofmap"


def modules(folder: Path = PACKAGE) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(folder.rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def _nodes(tree: ast.Module) -> list[ast.AST]:
    return list(ast.walk(tree))


def statements(tree: ast.Module) -> int:
    nodes = _nodes(tree)
    described = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = sum(
        isinstance(node, described) and ast.get_docstring(node, clean=False) is not None for node in nodes
    )
    return sum(isinstance(node, ast.stmt) for node in nodes) - docstrings


def classes(tree: ast.Module) -> int:
    return sum(isinstance(node, ast.ClassDef) for node in _nodes(tree))


def imported_names(tree: ast.Module, path: Path) -> set[str]:
    """The public names that a module takes from other modules of the package."""
    here = path.relative_to(PACKAGE.parent).with_suffix("").parts
    names, taken_modules = set[str](), set[str]()
    for node in _nodes(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        base = [*(here[: -node.level] if node.level else ()), *(node.module or "").split(".")]
        if base[0] != PACKAGE.name:
            continue
        for alias in node.names:
            target = PACKAGE.parent.joinpath(*base, alias.name)
            is_module = target.is_dir() or target.with_suffix(".py").exists()
            (taken_modules if is_module else names).add(
                alias.asname or alias.name if is_module else alias.name
            )
    names |= {
        node.attr
        for node in _nodes(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in taken_modules
    }
    return {name for name in names if not name.startswith("_")}


def weights() -> dict[str, int]:
    """What the test limits."""
    files = list(modules())
    return {
        "names that modules import from one another": len(
            set().union(*(imported_names(tree, path) for path, tree in files))
        ),
        "classes": sum(classes(tree) for _, tree in files),
        "statements": sum(statements(tree) for _, tree in files),
    }


def rooms() -> Counter[str]:
    """Statements in each folder of the package; files at the top are ``(top)``."""
    found = Counter[str]()
    for path, tree in modules():
        parts = path.relative_to(PACKAGE).parts
        found[parts[0] if len(parts) > 1 else "(top)"] += statements(tree)
    return found


if __name__ == "__main__":
    for room, count in sorted(rooms().items()):
        print(f"{room:44}{count:8,}")
    for what, count in weights().items():
        print(f"{what:44}{count:8,}")
