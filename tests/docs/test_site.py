"""The documentation builds without a warning, and the site can be read from disk without the network."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from proofmap.core.version import __version__
from proofmap.reproduce import recipe_names
from tests.docs.pages import DOCS, PAGES, ROOT, blocks

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None, reason="the extra docs is not installed"
)

LOADED = {
    ("script", "src"),
    ("img", "src"),
    ("link", "href"),
    ("iframe", "src"),
    ("source", "src"),
    ("form", "action"),
}


class Page(HTMLParser):
    """A page's anchors, what it links to, and what a browser fetches to show it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if value is None:
                continue
            if key == "id":
                self.anchors.add(value)
            elif tag == "a" and key == "href":
                self.links.append(value)
            elif (tag, key) in LOADED and dict(attrs).get("rel") not in ("canonical", "next", "prev"):
                self.loaded.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quick = {"DOCS_SEARCH": "false", "DOCS_LINE_LENGTH": "100000"}
    environment = {**os.environ, **quick, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def test_nothing_is_fetched_from_the_network(site: Path, pages: dict[Path, Page]) -> None:
    outside = [(p.path.name, url) for p in pages.values() for url in p.loaded if urlsplit(url).netloc]
    assert outside == []
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert not re.search(r"@import|url\(\s*['\"]?(https?:)?//", text), style


def test_every_link_within_the_site_leads_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    broken = []
    for page in pages.values():
        if page.path.name == "404.html":  # its links are made for the root of a server
            continue
        for url in [*page.links, *page.loaded]:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
            there = target.exists() and (
                not parts.fragment
                or target not in pages
                or parts.fragment.startswith("__")
                or unquote(parts.fragment) in pages[target].anchors
            )
            if not there:
                broken.append((str(page.path.relative_to(site)), url))
    assert broken == []


def test_every_page_is_two_clicks_from_the_front_page(site: Path, pages: dict[Path, Page]) -> None:
    front = site / "index.html"
    first = _linked(pages[front])
    second = {page for path in first if path in pages for page in _linked(pages[path])}
    assert [p for p in pages if p not in first | second | {front} and p.name != "404.html"] == []
    assert site / "notebooks" / "first-steps.html" in first and site / "gallery.html" in first


def _linked(page: Page) -> set[Path]:
    """The files that a page links to."""
    places = [urlsplit(url) for url in page.links]
    return {(page.path.parent / unquote(at.path)).resolve() for at in places if at.path and not at.netloc}


def test_every_page_says_which_version_it_describes(pages: dict[Path, Page]) -> None:
    for page in pages.values():
        if page.path.name not in ("404.html", "leaderboard.html"):
            assert f"Proofmap {__version__}</title>" in page.path.read_text(encoding="utf-8"), page.path


def test_the_command_line_page_has_every_command(site: Path) -> None:
    from proofmap.cli import make_app

    text = (site / "reference" / "command-line.html").read_text(encoding="utf-8")
    for command in make_app("").registered_commands:
        assert (f'id="proofmap-{command.name}"' in text) != command.hidden


def test_the_page_of_the_public_api_has_every_public_name_with_a_line(site: Path) -> None:
    found = public_names(site)
    assert {"proofmap", "proofmap.methods", "proofmap.testing", "proofmap.core.streams"} <= found.keys()
    for module, names in found.items():
        assert sorted(names) == sorted(importlib.import_module(module).__all__), module
        assert all(len(line) > 3 for line in names.values()), module


def test_examples_import_public_names_only(site: Path) -> None:
    public = public_names(site)
    others = set()
    for page in PAGES:
        for block in (b for b in blocks(page) if b.language == "python"):
            for node in ast.walk(ast.parse(block.code)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "proofmap":
                    assert node.module is not None
                    names = {f"{node.module}.{name.name}" for name in node.names}
                    if not names <= public.keys():  # a module itself may be imported, too
                        names = {name.name for name in node.names} - public.get(node.module, {}).keys()
                        others |= {f"{node.module}.{name}" for name in names}
    unpromised = ("proofmap.theory.", "proofmap.methods.maskers.file.")
    assert [name for name in sorted(others) if not name.startswith(unpromised)] == []


def public_names(site: Path) -> dict[str, dict[str, str]]:
    """The page's tables: names and their lines, by module."""
    text = (site / "reference" / "public-api.html").read_text(encoding="utf-8")
    text = text[: text.index("</article>")]
    sections = re.split(r'<h2 id="[^"]*">(proofmap[\w.]*)<', text)[1:]
    row = re.compile(r"<tr>\s*<td>.*?<code>(\w+)</code>.*?</td>\s*<td>(.*?)</td>", re.DOTALL)
    return {
        module: dict(row.findall(part)) for module, part in zip(sections[::2], sections[1::2], strict=True)
    }


def test_docstrings_arrive_as_text(pages: dict[Path, Page]) -> None:
    for page in pages.values():
        if page.path.parent.name == "reference":
            text = page.path.read_text(encoding="utf-8")
            assert not re.search(r":(func|class|meth|mod):", text), page.path.name
            assert "&gt;&gt;&gt;" not in re.sub(r"<pre.*?</pre>", "", text, flags=re.DOTALL), page.path.name


def test_pictures_are_small_made_here_and_used() -> None:
    text = "".join(p.read_text(encoding="utf-8") for p in [*DOCS.rglob("*.md"), ROOT / "README.md"])
    makers = "".join(p.read_text(encoding="utf-8") for p in DOCS.glob("*.py"))
    for picture in (DOCS / "pictures").iterdir():
        assert picture.stat().st_size < 200_000, picture.name
        assert picture.name in text, f"no page shows {picture.name}"
        made = picture.name in makers or picture.stem.startswith(tuple(recipe_names()))
        assert made, f"nothing here makes {picture.name}"
