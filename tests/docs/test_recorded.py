"""What runs recorded (docs/results/recorded) is what the pages of results say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from proofmap.reproduce import recipe_names
from proofmap.results.tables import number
from tests.docs.pages import DOCS

RESULTS = DOCS / "results"
RECORDED = sorted((RESULTS / "recorded").glob("*.json"))
WHOLE = {
    "cifar10-curves-short": "cifar10-table.md",
    "cifar10-metrics-short": "cifar10-table.md",
    "cifar10-range-short": "cifar10-table.md",
    "cifar10-tv-short": "cifar10-table.md",
    "imagenette": "imagenette-table.md",
}
"""Records whose tables of scores stand in a page as a whole."""
LEFT_OUT = {"imagenette": re.compile("(completeness|best-effort), (between|released)")}
"""Scores that a page leaves out of its tables."""


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def text_of(page: str) -> str:
    """A page with plain spaces and without the marks of bold text."""
    return (RESULTS / page).read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ").replace("**", "")


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_record_is_of_a_whole_run_and_some_page_links_to_it(path: Path) -> None:
    told = read(path)
    assert told["recipe"] in recipe_names() and not told["quick"] and told["numbers"]
    assert told["command"].startswith(f"proofmap reproduce {told['recipe']} ")
    assert any(f"(recorded/{path.name})" in text_of(page.name) for page in RESULTS.glob("*.md"))
    assert not re.search(r'"/|: /|=/', path.read_text(encoding="utf-8"))  # folders of the machine it ran on


@pytest.mark.parametrize("name", WHOLE)
def test_every_score_of_a_record_stands_in_its_page(name: str) -> None:
    told, page = read(RESULTS / "recorded" / f"{name}.json"), text_of(WHOLE[name])
    left_out = LEFT_OUT.get(name, re.compile("$^"))
    scores = [n for n in told["numbers"] if {"score", "low", "n"} <= {*n} and "than" not in n]
    shown = [n for n in scores if not left_out.fullmatch(n["score"])]
    assert len(shown) >= 16
    for n in shown:
        cell = f"{number(n['value'])} [{number(n['low'])}, {number(n['high'])}]"
        assert cell in page, (n["method"], n["score"], cell)


def test_cells_of_a_page_stand_in_a_record() -> None:
    """The other way around, for Table 1: a cell that was changed by hand would be found."""
    numbers = read(RESULTS / "recorded" / "imagenette.json")["numbers"]
    recorded = {
        (n["method"], f"{number(n['value'])} [{number(n['low'])}, {number(n['high'])}]")
        for n in numbers
        if {"score", "low", "n"} <= {*n} and "than" not in n
    }
    first_section = text_of("imagenette-table.md").split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in first_section.splitlines() if line.startswith("| ")]
    methods = {method for method, _ in recorded}
    checked = 0
    for name, *cells in rows:
        method = name.strip().removesuffix("\\*")
        if method not in methods:
            continue
        for cell in cells:
            own = re.sub(r" \([-.\d]+\)$", "", cell.strip())
            assert (method, own) in recorded, (method, own)
            checked += 1
    assert checked == 13 * 8
