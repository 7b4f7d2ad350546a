"""The page that lists the paper's items names only code, tests, recipes and records that exist."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import pytest

from docs import build
from docs.build import coverage
from proofmap.reproduce.recipe import Recipe
from tests.docs.pages import ROOT
from tests.docs.recorded import RESULTS

PAGE = ROOT / "notes" / "coverage.md"
HEAD = "| # | item | code | test | recipe | record | status |"
STATES = ("done", "stated", "in part", "needs data", "left out", "missing")


@dataclass(frozen=True)
class Item:
    number: int
    text: str
    code: list[str]
    tests: list[str]
    recipes: list[str]
    records: list[str]
    state: str
    reason: str


def items() -> list[Item]:
    """The rows of all tables on the page."""
    found = []
    for table in PAGE.read_text(encoding="utf-8").split(HEAD)[1:]:
        for line in table.strip().splitlines()[1:]:
            if not line.startswith("|"):
                break
            number, text, code, tests, recipes, records, status = [
                c.strip() for c in line.strip("|").split("|")
            ]
            state, _, reason = status.partition(": ")
            code_of = re.compile(r"`([^`]+)`").findall
            links = re.findall(r"\]\(\.\./docs/results/(recorded/[^)]+)\)", records)
            found.append(
                Item(int(number), text, code_of(code), code_of(tests), code_of(recipes), links, state, reason)
            )
    return found


ITEMS = items()


def resolved(name: str) -> Any:
    """A dotted name below ``proofmap``: a module, or what a module defines."""
    try:
        return import_module(f"proofmap.{name}")
    except ModuleNotFoundError:
        module, _, member = name.rpartition(".")
        return getattr(import_module(f"proofmap.{module}"), member)


@cache
def content(record: str) -> dict[str, Any]:
    """The content of a record that the page links."""
    found: dict[str, Any] = json.loads((RESULTS / record).read_text(encoding="utf-8"))
    return found


def words_for(name: str) -> set[str]:
    """How a test can mention what a dotted name stands for: by its identifier, or by the name it is registered under."""
    registered = getattr(resolved(name), "name", None)
    return {name.rpartition(".")[2], *([registered] if isinstance(registered, str) else [])}


def test_the_items_are_numbered_and_those_of_the_audit_are_there() -> None:
    assert [item.number for item in ITEMS] == list(range(1, len(ITEMS) + 1))
    assert len(ITEMS) >= 117


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: f"item {item.number}")
def test_everything_that_an_item_names_exists(item: Item) -> None:
    for name in item.code:
        if "/" in name or name.endswith(".md"):
            assert (ROOT / name).is_file(), name
        else:
            resolved(name)
    for name in item.tests:
        file, _, function = name.partition("::")
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        if function:
            assert f"def {function}(" in text, name
        else:
            meant = [words_for(name) for name in item.code]
            assert any(any(re.search(rf"\b{re.escape(w)}\b", text) for w in words) for words in meant), name
    assert {*item.recipes} <= {*Recipe.names()}
    assert all((RESULTS / record).is_file() for record in item.records)


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: f"item {item.number}")
def test_a_status_says_no_more_than_the_row_shows(item: Item) -> None:
    assert item.state in STATES, item.state
    if item.state == "done":
        assert item.code and item.tests and not item.reason
        reproduced = any("recipe" in content(record) for record in item.records)
        assert reproduced or not item.recipes, "a recipe that is done has been run, with a record"
    elif item.state == "stated":
        assert item.code and not item.tests, "a sentence in the documentation, and where"
    else:
        assert item.reason, "what is lacking"
    if item.state == "needs data":
        assert item.code and item.tests and item.recipes and not item.records
    if item.state in ("left out", "missing"):
        assert not item.records


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: f"item {item.number}")
def test_a_record_is_that_of_a_recipe_of_its_item_or_of_a_study(item: Item) -> None:
    for record in item.records:
        found = content(record)
        if "recipe" in found:
            assert found["recipe"] in item.recipes, record
        else:
            studies = re.findall(r"benchmarks/studies/\w+\.\w+", str(found.get("command")))
            assert studies and all((ROOT / study).is_file() for study in studies), record


def test_every_recipe_and_every_record_of_a_recipe_belongs_to_an_item() -> None:
    named = {recipe for item in ITEMS for recipe in item.recipes}
    beyond = {"cifar100-range", "cifar100-artifacts"}  # the paper has these tables for CIFAR-10 only
    assert {*Recipe.names()} - named == beyond, "name each recipe in notes/coverage.md"
    linked = {record for item in ITEMS for record in item.records}
    records = {f"recorded/{path.name}" for path in (RESULTS / "recorded").glob("*.json")}
    reproduced = {record for record in records if "recipe" in content(record)}
    assert reproduced <= linked, "link each record of a recipe in notes/coverage.md"


def passes_of(record: str) -> set[bool]:
    """For each row of learned masks in a record of a recipe: whether a mask has the paper's 20,000 passes, or 2,000 on gray."""
    found = content(record)
    whole = r"steps=2000,(distractors=10.*=images|(distractors=1,)?.*fill=gray)"
    notes = re.findall(
        r"each mask of .*?: ([\d,]+) passes .* the paper: ([\d,]+) passes", str(found.get("notes"))
    )
    rows = [str(n.get("what", "")) for n in found.get("numbers", ())]
    return {here == there for here, there in notes} | {
        bool(re.search(whole, row)) for row in rows if "learned-mask" in row
    }


def test_passes_are_read_from_notes_and_from_rows() -> None:
    assert (
        passes_of("recorded/imagenette-full-s1.json") == passes_of("recorded/cifar10-curves.json") == {True}
    )
    assert passes_of("recorded/imagenette.json") == passes_of("recorded/imagenette-ties.json") == {False}
    assert passes_of("recorded/cifar10-tv.json") == {True, False}  # also has rows with 200
    assert passes_of("recorded/theory.json") == set()


@pytest.mark.parametrize(
    "item", [i for i in ITEMS if i.state == "done" and i.records], ids=lambda item: f"item {item.number}"
)
def test_what_is_done_by_a_recipe_was_done_with_the_papers_passes_on_thirty_images(item: Item) -> None:
    """Methods and metrics are done with any number of passes; statements, tables and figures are not."""
    if any(code.startswith(("reproduce.", "report.", "docs/")) for code in item.code):
        found = [passes_of(record) for record in item.records]
        assert any(True in each for each in found) or not any(found)
        if not item.text.startswith("figure") and any(found):
            whole = [r for r, each in zip(item.records, found, strict=True) if True in each]
            images = [n.get("n") or 0 for record in whole for n in content(record)["numbers"]]
            assert max(images) >= 30, "with all passes on fewer than 30 images it is in part"


def test_the_summary_counts_the_rows() -> None:
    text = PAGE.read_text(encoding="utf-8")
    counted = Counter(item.state for item in ITEMS)
    (summary,) = re.findall(r"^Of (\d+) items: (.*?)\.$", text, re.MULTILINE | re.DOTALL)
    assert int(summary[0]) == len(ITEMS)
    told = {state: int(n) for n, state in re.findall(r"(\d+) ([a-z ]+)", summary[1].replace("\n", " "))}
    assert told == {state: n for state, n in counted.items() if n}


def test_the_bar_on_the_page_of_findings_is_that_of_the_rows() -> None:
    shown = coverage()
    counted = Counter(item.state for item in ITEMS)
    assert f"Of {len(ITEMS)} items: " in shown and counted.keys() <= {*build.STATES}
    for state in build.STATES[2:]:
        part = shown.partition(f"<summary>{state}: {counted[state]}</summary>")[2].partition("</details>")[0]
        assert part.count("\n- ") == counted[state]
