"""The documentation builds without a warning, and the site can be read from disk without the network."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from docs import names
from docs.build import write
from proofmap.core.version import __version__
from tests.docs.pages import DOCS, ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="the extra docs is not installed"),
]

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
    few = tmp_path_factory.mktemp("leaderboard") / "series"
    few.mkdir()
    for record in sorted((ROOT / "leaderboard/series").glob("*.json"))[:3]:
        shutil.copyfile(record, few / record.name)
    pages = tmp_path_factory.mktemp("pages") / "docs"
    write(pages, leaderboard=few.parent)
    quick = {"DOCS_SEARCH": "false", "DOCS_DIR": str(pages), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, **quick},
        capture_output=True,
        text=True,
        check=False,
    )
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
    assert site / "notebooks" / "first-steps.ipynb" in first and site / "leaderboard.html" in second


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


def test_the_page_about_python_leads_to_every_public_name(site: Path, pages: dict[Path, Page]) -> None:
    found = {*pages[site / "reference" / "python.html"].links}
    for path, one in names.public().items():
        assert f"names/{one.page}.html#{one.path}" in found, path


def test_a_dead_link_or_an_orphan_fails_the_build(tmp_path: Path) -> None:
    """With the settings of the real site, and without what takes long."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    checks = text[text.index("validation:") : text.index("\nnav:\n") + 1]
    for name, page, nav, message in (
        ("whole", "# Home\n", "", ""),
        ("file", "# Home\n[gone](gone.md)\n", "", "gone.md"),
        ("anchor", "# Home\n[gone](#gone)\n", "", "#gone"),
        ("orphan", "# Home\n", "nav: [{Home: index.md}]\n", "other.md"),
    ):
        folder = tmp_path / name
        (folder / "docs").mkdir(parents=True)
        (folder / "docs" / "index.md").write_text(page)
        if name == "orphan":
            (folder / "docs" / "other.md").write_text("# Other\n")
        (folder / "mkdocs.yml").write_text(f"site_name: X\nplugins: []\n{checks}{nav}")
        done = subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "--strict"],
            cwd=folder,
            env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode == 0) == (not message) and message in done.stderr, done.stderr


def test_versions_stand_side_by_side_with_a_menu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.browser import NoBrowser, chromium

    monkeypatch.syspath_prepend(str(DOCS))
    publish = importlib.import_module("publish").publish
    (tmp_path / "site" / "deep").mkdir(parents=True)
    body = '<!doctype html><title>{0}</title><body><div class="md-header__topic">{0}</div></body>'
    for place in ("index.html", "deep/page.html"):
        (tmp_path / "site" / place).write_text(body.format(place))
    host = tmp_path / "host"
    host.mkdir()
    assert [publish(tmp_path / "site", host, version) for version in ("0.2.0", "0.10.0", "0.2.0")][-1] == [
        "0.10.0",
        "0.2.0",
    ]
    assert "0.10.0/index.html" in (host / "index.html").read_text()
    try:
        with chromium() as browser:
            page = browser.new_page()
            page.goto((host / "0.2.0" / "deep" / "page.html").as_uri())
            menu = page.locator("select.proofmap-versions")
            assert menu.input_value() == "0.2.0" and menu.locator("option").all_inner_texts() == [
                "0.10.0",
                "0.2.0",
            ]
            menu.select_option("0.10.0")
            page.wait_for_url("**/0.10.0/index.html")
    except NoBrowser as error:
        pytest.skip(str(error))


def test_docstrings_arrive_as_text(pages: dict[Path, Page]) -> None:
    for page in pages.values():
        if page.path.parent.name == "reference":
            text = page.path.read_text(encoding="utf-8")
            assert not re.search(r":(func|class|meth|mod):", text), page.path.name
            assert "&gt;&gt;&gt;" not in re.sub(r"<pre.*?</pre>", "", text, flags=re.DOTALL), page.path.name
