"""Links between Markdown files lead somewhere. Links to pages that the build of the site makes are checked with the site."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT

FILES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "notes").glob("*.md")),
    *sorted((ROOT / ".github").rglob("*.md")),
    *sorted(DOCS.rglob("*.md")),
]
MADE = (
    "leaderboard.html",
    "notebooks/first-steps.md",
    "command-line.md",
    "../reference/command-line.md",
    "contributing.md",
    "../contributing.md",
    "../changelog.md",
)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def anchors(text: str) -> set[str]:
    """The anchors that hosts of repositories give to headings: ``whats-new`` for *What's new?*."""
    headings = HEADING.findall(FENCED.sub("", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(file: Path) -> list[str]:
    """The links of a Markdown file to files or headings that do not exist."""
    found = []
    for url in LINK.findall(FENCED.sub("", file.read_text(encoding="utf-8"))):
        path, _, anchor = url.partition("#")
        target = file.parent / path if path else file
        if re.match(r"[a-z]+:", url) or path in MADE:
            continue
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            found.append(url)
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_links_of_the_repository_lead_somewhere(file: Path) -> None:
    assert broken(file) == []


def test_a_dead_file_and_a_dead_anchor_are_found(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("# What's new?\n\n```\n# code\n```\n")
    page = tmp_path / "a.md"
    page.write_text(
        "# Here\n[1](b.md) [2](b.md#whats-new) [3](#here) [4](https://example.org/#x)\n[5](c.md) [6](b.md#code) [7](#no)\n"
    )
    assert broken(page) == ["c.md", "b.md#code", "#no"]
