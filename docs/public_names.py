"""The public names with one line each: the tables of the page that lists them, made from each module's ``__all__``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
from plain_docstrings import as_markdown  # MkDocs finds modules next to a hook

ROOT = Path(__file__).parents[1]
PLACE = re.compile(r"<!-- public names:.*?-->")
MODULES = (
    "proofmap",
    *(f"proofmap.{name}" for name in ("methods", "metrics", "fills", "data", "models", "study", "testing")),
    "proofmap.plugins.settings",
    *(f"proofmap.core.{name}" for name in ("batching", "errors", "inputs", "labels", "ranking", "streams")),
)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the tables where a page has the comment."""
    return PLACE.sub(lambda _: tables(), markdown)


def tables() -> str:
    """A heading, a sentence and a table for each public module. Names that the reference explains are links."""
    package = griffe.load("proofmap", search_paths=[ROOT / "src"])
    explained = {target.canonical_path: path for path, target in _explained(package)}
    parts = []
    for path in MODULES:
        module = _find(package, path)
        rows = [_row(name, _find(package, f"{path}.{name}"), explained) for name in sorted(module.exports)]
        parts.append(
            "\n".join([f"## {path}", "", _summary(module), "", "| name | description |", "|---|---|", *rows])
        )
    return "\n\n".join(parts)


def _explained(package: Any) -> Iterator[tuple[str, Any]]:
    """What the reference pages describe: names, and the members of modules."""
    for page in (ROOT / "docs" / "reference").glob("*.md"):
        for path in re.findall(r"^::: (\S+)", page.read_text(encoding="utf-8"), re.MULTILINE):
            target = _find(package, path)
            if target.is_module:
                yield from ((f"{path}.{name}", target[name]) for name in target.exports)
            else:
                yield path, target


def _find(package: Any, path: str) -> Any:
    """The module, class, function or constant with this dotted path."""
    parts = path.split(".")[1:]
    found = package[parts] if parts else package
    return found.final_target if found.is_alias else found


def _row(name: str, target: Any, explained: dict[str, str]) -> str:
    if target.is_module:  # a function that has the name of its module
        target = target[name]
    link = explained.get(target.canonical_path)
    return f"| {f'[`{name}`][{link}]' if link else f'`{name}`'} | {_summary(target)} |"


def _summary(target: Any) -> str:
    """The first sentence of a docstring."""
    if target.docstring is None:
        raise ValueError(f"{target.canonical_path} is public and has no docstring")
    text = as_markdown(target.docstring.value).split("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<=\.) (?=[A-Z`])", text)[0].rstrip(":").replace("|", "\\|")
