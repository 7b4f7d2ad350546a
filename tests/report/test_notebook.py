"""In a notebook results show themselves as plain, escaped HTML of bounded size."""

from __future__ import annotations

import base64
import io
from html.parser import HTMLParser
from typing import Any

import pytest
from PIL import Image

import proofmap as pm
from proofmap.report import display
from proofmap.results import score_tables
from proofmap.results.audit import audit
from proofmap.results.compare import compare
from tests.report.test_compare import judged
from tests.toys import linear_classifier, pixels

NASTY = "<script>alert('&')</script>"
VOID = {"img", "br"}


class Page(HTMLParser):
    """Tags, text and pictures of a piece of HTML; complains about tags that do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.pictures: list[bytes] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        assert not self._open, f"left open: {self._open}"

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "img":
            source = dict(attributes)["src"] or ""
            self.pictures.append(base64.b64decode(source.removeprefix("data:image/png;base64,")))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.rows and {"td", "th"} & set(self._open):
            self.rows[-1][-1] += data


def nasty() -> pm.Evaluation:
    f = linear_classifier(4, 3, names=[NASTY, "b", "c"])
    names = [f"{NASTY}{i}" for i in range(5)]
    return pm.evaluate(f, pixels(5, 4), methods=["gradient-x-input", "random"], labels="all", names=names)


def test_an_evaluation_shows_its_scores_notes_and_first_pictures() -> None:
    found = nasty()
    page = Page(found._repr_html_())
    assert [row[0] for row in page.rows] == ["method", "gradient-x-input", "random*"]
    assert "5 images" in page.text and "3 of 5 images" in page.text
    assert len(page.pictures) == display.MOST_PICTURES
    assert all(Image.open(io.BytesIO(p)).width <= display.WIDEST for p in page.pictures)
    assert set(page.tags) <= {"table", "tr", "th", "td", "b", "div", "br", "img", "ul", "li"}


def test_a_proof_shows_its_sheets_and_rows_as_html_and_as_png() -> None:
    proof = pm.Proof(nasty())
    page = Page(proof._repr_html_())
    assert "script" not in page.tags and NASTY in page.text
    assert len(page.rows) == 1 + 2 * 5 * 3 and len(page.pictures) == 3, (
        "two methods, five images, three labels"
    )
    png = proof._repr_png_()
    assert png is not None and png == page.pictures[0]


def test_pictures_stop_where_they_grow_too_heavy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "MOST_BYTES", 1)
    assert len(Page(nasty()._repr_html_()).pictures) == 1


def test_long_tables_end_with_how_many_rows_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_tables, "MOST_ROWS", 4)
    page = Page(pm.Proof(nasty())._repr_html_())
    assert len(page.rows) == 5 and "26 more rows" in page.text


def test_without_kept_maps_the_numbers_still_show() -> None:
    found = judged(keep_maps=0)
    assert not Page(found._repr_html_()).pictures
    assert pm.Proof(found)._repr_png_() is None and Page(pm.Proof(found)._repr_html_()).rows


@pytest.mark.parametrize(
    "make", [lambda e: compare(e), lambda e: audit(e, min_soundness=0.5)], ids=["compare", "audit"]
)
def test_comparisons_and_audits_show_their_tables(make: Any) -> None:
    result = make(judged())
    ((header, rows),) = result.tables()
    assert Page(result._repr_html_()).rows == [header, *rows]


def test_ipython_prefers_our_html() -> None:
    formatters = pytest.importorskip("IPython.core.formatters")
    data, _ = formatters.DisplayFormatter().format(pm.Proof(nasty()))
    assert {"text/html", "image/png", "text/plain"} <= set(data)
