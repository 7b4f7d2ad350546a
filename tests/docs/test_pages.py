"""Pages: the table of methods has every method, the package that is shown is one, and links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from proofmap.methods import METHODS
from tests.docs.pages import DOCS, ROOT, blocks

PAGE = DOCS / "methods" / "index.md"


def test_the_page_has_a_row_for_every_method() -> None:
    from docs.build import PLACE, method_table

    assert PLACE.findall(PAGE.read_text(encoding="utf-8")) == ["methods"]
    header, _, *rows = method_table().splitlines()
    named = [row.split("`")[1] for row in rows if "`" in row]
    assert sorted(named) == sorted(METHODS)
    assert all(row.count("|") == header.count("|") for row in rows)
    (gradient,) = [row for row in rows if row.startswith("| `gradient-x-input` ")]
    assert gradient.endswith("| 1 per label | one per label ± | gradients | Shrikumar et al. 2017 |")


@pytest.mark.slow
def test_the_package_on_the_page_adds_its_method_where_it_is_installed(tmp_path: Path) -> None:
    shown = list(blocks(DOCS / "extend.md"))
    (project,) = [tomllib.loads(b.code)["project"] for b in shown if b.language == "toml"]
    (module,) = [b for b in shown if b.title == "bright_maps.py"]
    (tmp_path / module.title).write_text(module.code)
    about = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir()  # what pip writes
    name = f"Name: {project['name']}\nVersion: {project['version']}\n"
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\n{name}")
    groups = project["entry-points"].items()
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for group, points in groups]
    (about / "entry_points.txt").write_text("".join(lines))

    program = (
        "import sys\n"
        "from proofmap.methods import make_method\n"
        "from proofmap.testing import check_method\n"
        "check_method(make_method('bright-maps:power=2'))\n"
        "from proofmap.cli import make_app\n"
        "make_app()(['list', 'methods', 'bright-maps'])\n"
    )
    paths = os.pathsep.join([str(ROOT / "src"), str(tmp_path)])
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "bright pixels, from a package of its own" in done.stdout


# ---- Links between Markdown files lead somewhere. Links to pages that the build of the site makes are checked with the site ---


FILES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "notes").glob("*.md")),
    *sorted((ROOT / ".github").rglob("*.md")),
    *sorted(DOCS.rglob("*.md")),
]
MADE = (
    "leaderboard.html",
    "changelog.md",
    "security.md",
    "command-line.md",
    "../reference/command-line.md",
    "names/plug-ins.md",
    "../reference/names/plug-ins.md",
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


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_no_cell_of_a_table_holds_a_paragraph(page: Path) -> None:
    text = FENCED.sub("", re.sub(r"<details>.*?</details>|\]\([^)]*\)", "", page.read_text(encoding="utf-8")))
    cells = [cell for line in text.splitlines() if line.startswith("|") for cell in line.split(" | ")]
    assert [cell for cell in cells if len(cell) > 200] == []


def test_the_pages_are_few_and_short() -> None:
    pages = [*DOCS.rglob("*.md")]
    assert len(pages) <= 45 and sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= 60_000


def test_a_dead_file_and_a_dead_anchor_are_found(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("# What's new?\n\n```\n# code\n```\n")
    page = tmp_path / "a.md"
    page.write_text(
        "# Here\n[1](b.md) [2](b.md#whats-new) [3](#here) [4](https://example.org/#x)\n[5](c.md) [6](b.md#code) [7](#no)\n"
    )
    assert broken(page) == ["c.md", "b.md#code", "#no"]
