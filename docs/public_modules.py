"""Lists the public modules by reading ``__all__`` from their source, and describes their names for the reference."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MODULES = (
    "proofmap",
    *(f"proofmap.{name}" for name in ("methods", "metrics", "fills", "data", "models", "study", "testing")),
    "proofmap.session",
    "proofmap.plugins.settings",
    *(f"proofmap.core.{name}" for name in ("batching", "errors", "inputs", "labels", "ranking", "streams")),
)


@cache
def package() -> Any:
    """The package, read without importing it."""
    import griffe  # here: what only lists the modules does without it

    return griffe.load("proofmap", search_paths=[ROOT / "src"])


def find(path: str) -> Any:
    """The module, class, function or constant with this dotted path."""
    parts = path.split(".")[1:]
    found = package()[parts] if parts else package()
    found = found.final_target if found.is_alias else found
    if found.is_module and path not in MODULES:  # a function that has the name of a module of its package
        return package()[found.parent.imports[parts[-1]].split(".")[1:]]
    return found


@cache
def explained() -> dict[str, str]:
    """What the reference pages describe, by canonical path: names, and the members of modules."""
    return {target.canonical_path: path for path, target in _explained()}


def _explained() -> Iterator[tuple[str, Any]]:
    for page in (ROOT / "docs" / "reference").glob("*.md"):
        for path in re.findall(r"^::: (\S+)", page.read_text(encoding="utf-8"), re.MULTILINE):
            parts = path.split(".")[1:]
            target = package()[parts]
            target = target.final_target if target.is_alias else target
            if target.is_module:
                yield from ((f"{path}.{name}", target[name]) for name in target.exports)
            else:
                yield path, target
