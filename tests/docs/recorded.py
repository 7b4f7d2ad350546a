"""Reads records (docs/results/recorded) and the tables of the pages of results."""

from __future__ import annotations

import json
from typing import Any

from proofmap.results.tables import number
from tests.docs.pages import DOCS

RESULTS = DOCS / "results"


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / "recorded" / f"{name}.json").read_text(encoding="utf-8"))
    return found


def text_of(page: str) -> str:
    """A page with plain spaces and without the marks of bold text."""
    return (RESULTS / page).read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ").replace("**", "")


def table_of(page: str, head: str) -> list[list[str]]:
    """The rows of the first table whose head begins so."""
    lines = text_of(page).splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith(head))
    rows: list[list[str]] = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def cell_of(score: dict[str, Any]) -> str:
    """A score as pages show it: the mean with its interval."""
    return f"{number(score['value'])} [{number(score['low'])}, {number(score['high'])}]"
