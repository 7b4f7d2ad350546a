"""What runs recorded (docs/results/recorded) is what the tables in the pages of results say, cell by cell."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from docs.recorded_numbers import pages, unrecorded
from proofmap.reproduce.recipe import Recipe
from proofmap.results.tables import number
from tests.docs.recorded import RESULTS, cell_of, read, table_of

RECORDED = sorted((RESULTS / "recorded").glob("*.json"))
FILLS = ("gray", "random image")
BOTH = [f"{score}, {fill}" for fill in FILLS for score in ("completeness", "soundness")]
EARLIER = ["deletion", "insertion, blur", "insertion, gray", "saliency-metric", *BOTH[:2]]


@dataclass(frozen=True)
class Shown:
    """A table of a page: of which record, the start of its head, and the scores in its columns."""

    record: str
    page: str
    head: str
    scores: Sequence[str]
    names: int = 1
    """Columns that say what a row is."""
    part: str = ""
    """Of the record's tables, the one whose title begins so."""
    beside: int = 0
    """Columns at the end that are no scores."""
    more: Sequence[str] = ()
    """Records of further runs with rows of the same table; then rows are found by name, in the order of the page."""


ALL_PASSES = ("imagenette-full-others", "imagenette-full-s1")
SHOWN = [
    Shown(
        "imagenette",
        "imagenette-table.md",
        "| method | completeness | soundness, e2 = .001 |",
        [
            "completeness, printed",
            "soundness, printed",
            "soundness, between",
            "soundness, released",
            "best-effort, printed",
        ],
    ),
    Shown(
        "imagenette",
        "imagenette-table.md",
        "| method | deletion ↓ | insertion ↑ | saliency metric ↓ |",
        ["deletion", "insertion", "saliency-metric"],
        part="efficientnet-lite0",
    ),
    Shown(
        "imagenette-best-effort",
        "imagenette-table.md",
        "| method, 80 photos |",
        [
            *("best-effort, printed", "best-effort, released", "soundness, released"),
        ],
        more=("imagenette-best-effort-igos",),
    ),
    Shown(
        "imagenette-full",
        "imagenette-table.md",
        "| method, all passes | completeness |",
        ["completeness, printed", "soundness, between", "soundness, released"],
        more=ALL_PASSES,
    ),
    Shown("imagenet-full", "imagenet-tables.md", "| masks, all passes | completeness, gray |", BOTH),
    Shown(
        "imagenet-metrics-full",
        "imagenet-tables.md",
        "| method, all passes | deletion ↓ | insertion, blur ↑ |",
        EARLIER,
        part="efficientnet-lite0",
    ),
    Shown("cifar10-tv-resnet164", "own-nets.md", "| masks, ResNet-164 |", BOTH),
    Shown(
        "imagenette-resnet50",
        "own-nets.md",
        "| method, ResNet-50 |",
        [
            *("deletion", "insertion", "saliency-metric", "completeness, printed"),
            *(f"soundness, {at}" for at in ("printed", "between", "released")),
        ],
        names=2,
        more=("imagenette-resnet50-search", "imagenette-resnet50-others"),
    ),
    Shown("cifar10-tv", "cifar10-table.md", "| masks | TV |", BOTH, names=2),
    Shown(
        "cifar10-curves",
        "cifar10-table.md",
        "| TV | top label, gray |",
        [f"{label} label, {fill}" for label in ("top", "second") for fill in FILLS],
    ),
    Shown(
        "cifar10-metrics",
        "cifar10-table.md",
        "| method | deletion ↓ | insertion, blur ↑ |",
        EARLIER,
        part="cifar10-resnet56",
    ),
    Shown(
        "cifar10-range",
        "cifar10-table.md",
        "| TV, all passes | completeness | soundness |",
        ["completeness", "soundness", "completeness, top two", "soundness, top two"],
    ),
]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_every_score_of_a_page_has_a_record_or_says_that_it_has_none(page: Path) -> None:
    assert unrecorded(page) == []


def test_scores_without_a_record_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    known = "[record](recorded/imagenette-corner.json): .24 [.21, .27], less by .30 [.26, .34].\n"
    for wrong in ("Now .25 [.21, .27].", "- Now .24\n  [.21, .28].", "| .24 [.22, .27] |", "Now 0.2468."):
        page.write_text(f"# Page\n\n{known}\n## Section\n\n{wrong}\n")
        (found,) = unrecorded(page)
        assert found.split("   in: ")[0] in " ".join(wrong.split())
        page.write_text(f"# Page\n\n{known}\n{wrong.rstrip('.')} (no record).\n")
        assert unrecorded(page) == []
        page.write_text(
            f"# Page\n\n{known}\n## Section\n\n**No record.** Printed.\n\n{wrong}\n\n## Next\n\n.77 [.70, .71]\n"
        )
        assert len(unrecorded(page)) == 1  # the mark ends with its section
        page.write_text(f"# Page\n\n**No record.** Printed.\n\n## Section\n\n{wrong}\n")
        assert unrecorded(page) == []


def scored(record: str, part: str = "") -> dict[str, dict[str, dict[str, Any]]]:
    """The scores of a record by row and score; not the differences between rows."""
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    for n in read(record)["numbers"]:
        if {"score", "low", "n"} <= {*n} and "than" not in n and n["table"].startswith(part):
            rows.setdefault(n["method"], {})[n["score"]] = n
    return rows


def shown_rows(shown: Shown) -> tuple[list[list[str]], dict[str, dict[str, dict[str, Any]]]]:
    """The rows of a table, and what is recorded of them, in the same order."""
    rows, recorded = table_of(shown.page, shown.head), scored(shown.record, shown.part)
    for record in shown.more:
        for method, scores in scored(record, shown.part).items():
            have = recorded.setdefault(method, scores)
            for score in shown.scores:  # a row that two runs have is the same
                assert have[score]["value"] == pytest.approx(scores[score]["value"], abs=1e-6), (
                    method,
                    score,
                )
    names = [re.sub(r"[\\*†]", "", cells[0]) for cells in rows]
    return rows, {name: recorded.pop(name) for name in names} | recorded if shown.more else recorded


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_record_is_of_no_quick_run_and_some_page_links_to_it(path: Path) -> None:
    told = read(path.stem)
    if "recipe" in told:
        assert told["recipe"] in Recipe.names()
        for run in told.get("runs", [told]):
            assert run["command"].startswith(f"proofmap reproduce {told['recipe']} ")
        assert not told["quick"] and told["numbers"]
    else:  # of a study of this project
        assert told["asked"] and told["rows"]
    assert any(f"recorded/{path.name})" in page.read_text(encoding="utf-8") for page in pages())
    assert not re.search(r'[":= ]/', path.read_text(encoding="utf-8"))  # folders of the machine it ran on


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: f"{shown.record}: {shown.head[2:24].strip()}")
def test_every_cell_of_a_table_is_that_of_its_record(shown: Shown) -> None:
    rows, recorded = shown_rows(shown)
    assert len(rows) == len(recorded) >= 3
    for cells, (method, scores) in zip(rows, recorded.items(), strict=True):
        assert len(cells) == shown.names + len(shown.scores) + shown.beside
        for cell, score in zip(cells[shown.names :], shown.scores, strict=not shown.beside):
            own, _, beside = cell.partition(" (")
            assert own == cell_of(scores[score]), (method, score, cell)
            if beside:
                assert beside.rstrip(")") == number(float(scores[score]["paper"])), (method, score, cell)


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: f"{shown.record}: {shown.head[2:24].strip()}")
def test_the_names_of_a_table_are_those_of_its_record(shown: Shown) -> None:
    """A page may call its rows otherwise, but the weight of TV, or what a name begins with, is in both."""
    for cells, method in zip(*shown_rows(shown), strict=True):
        named = re.sub(r"[`*\\↑↓]", "", " ".join(cells[: shown.names]))
        value = re.findall(r"(?:^|\s)(0|\.\d+)$", method)
        assert not value or value[0] in named.split(), (named, method)
        if not value:
            assert method.split(",")[0].lower() in named.lower(), (named, method)


def test_the_table_of_several_masks_is_that_of_its_record() -> None:
    recorded, rows = scored("ensembling"), table_of("imagenet-tables.md", "| masks | the weakest mask |")
    columns = ("weakest mask", "mean mask", "overlap")
    assert len(rows) == len(recorded) == 5
    for (name, *cells), (masks, scores) in zip(rows, recorded.items(), strict=True):
        assert name == masks.replace("image", "photo")
        for cell, score in zip(cells, columns, strict=True):
            if score in scores and scores[score]["n"]:
                assert cell == cell_of(scores[score]), (name, score)


def test_the_table_of_another_last_layer_is_that_of_its_record() -> None:
    record, head = "sanity-full", "| masks, all passes | trained |"
    recorded: dict[str, list[dict[str, Any]]] = {}
    for n in read(record)["numbers"]:
        if n["score"] == "roughness":
            recorded.setdefault(n["method"], []).append(n)
    rows = table_of("imagenet-tables.md", head)
    assert [name for name, *_ in rows] == [name for name in recorded if name != "Edges (control)"]
    for name, *cells in rows:
        before, after = recorded[name]
        assert cells[:2] == [f"{n['value']:.1f} [{n['low']:.1f}, {n['high']:.1f}]" for n in (before, after)]
        change = after["value"] - before["value"]
        assert float(cells[2].split()[0]) == pytest.approx(change, abs=0.05 + 1e-9), name


def test_the_means_over_shares_follow_from_the_scores_of_every_image() -> None:
    record = read("cifar10-range")
    assert len({*record["images"]}) == len(record["images"]) == 200
    for name, scores in scored("cifar10-range").items():
        judged = 104 if name == "TV .001" else 200
        for score, found in scores.items():
            values = record["values"][name][score]
            assert found["n"] == judged and values[judged:] == [None] * (200 - judged)
            assert found["value"] == pytest.approx(sum(values[:judged]) / judged, abs=1e-5)


def test_the_curves_that_are_drawn_have_the_areas_of_their_record() -> None:
    drawn = json.loads((RESULTS / "cifar10-tv-curves.json").read_text(encoding="utf-8"))
    recorded = scored("cifar10-curves")
    for fill, (label, name) in product(FILLS, product(("top label", "second label"), recorded)):
        p, shares = torch.tensor(drawn[fill][label][name]), torch.tensor(drawn[fill]["shares"])
        area = torch.trapezoid(p, shares) + (p[-1] - p[0]) / (2 * 1024)  # the mean over 1 to 1024 pixels
        assert float(area) == pytest.approx(recorded[name][f"{label}, {fill}"]["value"], abs=1e-4)
