"""A plug-in of each kind is short, and its test is two lines: the page that shows it, which tests/docs runs."""

from __future__ import annotations

import pytest

from proofmap import testing
from tests.docs.pages import DOCS, blocks

SHOWN = list(blocks(DOCS / "how-to" / "test-plugins.md"))


@pytest.mark.parametrize("kind", ["method", "metric", "fill", "game"])
def test_a_plugin_has_less_than_30_lines_and_its_test_two(kind: str) -> None:
    at = next(k for k, block in enumerate(SHOWN) if block.title == f"{kind}s.py")
    file, check = SHOWN[at], SHOWN[at + 1]
    assert len(file.code.splitlines()) < 30
    lines = [line for line in check.code.splitlines() if "import" not in line and line.strip()]
    assert len(lines) == 1 and lines[0].startswith(f"check_{kind}(") and f'"{kind}s.py:' in lines[0]
    assert check.runs


def test_every_contract_is_on_the_page() -> None:
    text = (DOCS / "how-to" / "test-plugins.md").read_text(encoding="utf-8")
    contracts = [name for name in testing.__all__ if name.startswith("check_")]
    assert len(contracts) == 7 and all(f"`{name}`" in text for name in contracts)


def test_a_kind_of_input_is_shown_on_less_than_60_lines() -> None:
    page = DOCS / "how-to" / "own-inputs.md"
    assert len(page.read_text(encoding="utf-8").splitlines()) < 60
    assert any("check_inputs(" in block.code and block.runs for block in blocks(page))
