"""Every contract is named on the page about plug-ins, whose examples tests/docs runs."""

from __future__ import annotations

from proofmap import testing
from tests.docs.pages import DOCS


def test_every_contract_is_on_the_page() -> None:
    text = (DOCS / "extend.md").read_text(encoding="utf-8")
    contracts = [name for name in testing.__all__ if name.startswith("check_")]
    assert len(contracts) == 7 and all(f"{name}(" in text or f"`{name}`" in text for name in contracts)
