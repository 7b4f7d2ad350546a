"""The other pages in a real browser: the idea by hand, a page that is not there; the theme."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proofmap.results.proof_shape import percent
from tests.app.threaded import Served
from tests.browser import pixels_of, serious
from tests.toys import linear_classifier

DATA = json.loads((files("proofmap.app") / "page" / "idea.json").read_text("utf-8"))
PAGES = ("idea", "nothing", "")


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    found = Served(linear_classifier(8, 3))
    yield found
    found.stop()


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(600_000)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    page.close()
    assert complaints == []


def test_four_steps_teach_complete_and_sound(tab: Any, served: Served) -> None:
    tab.goto(f"{served.address}idea")
    tab.wait_for_selector("html[data-ready]", state="attached")
    tab.mouse.move(2, 2)  # what is pointed at shows what the net saw
    said = tab.locator("#cells-2 .says")
    (proof,) = [p for p in DATA["proofs"] if p["label"] == 0 and p["method"] == "belief-mask"]
    for step in (0, 20, 100):
        tab.locator("#share-2").fill(str(step))
        assert f"missile {percent(proof['curve'][step])}. " in said.inner_text()
        (shown,) = pixels_of(tab.locator("#cells-2 canvas"))
        coloured = (np.ptp(shown[..., :3].astype(int), axis=-1) > 0).mean()
        assert coloured == pytest.approx(step / 100, abs=0.08), "the photo is in colour where it is shown"
    tab.locator("#share-3").focus()
    tab.keyboard.press("End")
    whole = [percent(p["curve"][-1]) for p in DATA["proofs"] if p["label"] == 1]
    assert [
        text.split("mosque ")[1].split(".")[0] for text in tab.locator("#cells-3 .says").all_inner_texts()
    ] == whole
    assert "too much" in tab.inner_text("#unsound"), "a method fails on the wrong label"
    verdicts = tab.locator("#verdicts li").all_inner_texts()
    assert all(
        p["numbers"] in said and p["words"] in said for p, said in zip(DATA["proofs"], verdicts, strict=True)
    )
    assert "does not rank methods" in tab.inner_text("#step-4")


def test_the_documentation_has_the_same_steps_and_numbers() -> None:
    page = (Path(__file__).parents[2] / "docs" / "idea.md").read_text("utf-8")
    html = (files("proofmap.app") / "page" / "idea.html").read_text("utf-8")
    headings = re.findall(r"^\*\*(\d\. [^*]*)\.\*\*", page, re.MULTILINE)
    assert len(headings) == 4 and all(f">{heading}</h2>" in html for heading in headings)
    for proof in DATA["proofs"]:
        row = f"| {proof['method']} | {DATA['labels'][proof['label']]['name']} | {proof['numbers']} | {proof['words']} |"
        assert row in page


@pytest.mark.slow
def test_no_page_is_a_dead_end_and_every_page_has_the_theme(tab: Any, served: Served) -> None:
    for theme in ("dark", "light"):
        tab.goto(f"{served.address}idea")
        tab.locator("#theme").filter(has_text=f"{theme.capitalize()} theme").click()
        for path in PAGES:
            tab.goto(f"{served.address}{path}")
            if path != "nothing":
                tab.wait_for_selector("html[data-ready]", state="attached")
                assert tab.evaluate("() => getComputedStyle(document.documentElement).colorScheme") == theme
            assert tab.locator("a[href='./'], a[href='/']").count(), "every page leads to the first"
            for width in (390, 1440):
                tab.set_viewport_size({"width": width, "height": 900})
                assert tab.evaluate("() => document.documentElement.scrollWidth") <= width, path
            assert serious(tab) == [], path
    tab.goto(f"{served.address}nothing")
    assert tab.inner_text("h1") == "Not found" and "nothing at this address" in tab.inner_text("main")


@pytest.mark.slow
def test_the_first_sight_names_both_halves_and_what_one_photo_cannot_show(tab: Any, served: Served) -> None:
    tab.goto(served.address)
    tab.wait_for_selector("html[data-ready]", state="attached")
    lead = tab.inner_text("#intro")
    assert "complete if its first pixels alone" in lead and "sound if it fails for a label" in lead
    assert "not how good it is" in tab.inner_text("#caution")
    cells = tab.locator("#demo-cells .says")
    for share in (20, 100):
        tab.locator("#demo-share").fill(str(share))
        wrong = [p for p in DATA["proofs"] if p["label"] == 1]
        for proof, said in zip(wrong, cells.all_inner_texts(), strict=True):
            assert f"mosque {percent(proof['curve'][share])}." in said
    assert "it proves too much" in tab.inner_text("#demo-verdict")
    if len(tab.locator(".sample").all()) > 5:
        assert len(tab.locator(".sample:visible").all()) == 5, "the others are behind a fold"
        tab.locator("#more-part summary").press("Enter")
        assert len(tab.locator(".sample:visible").all()) > 5


def test_a_picture_that_cannot_be_made_shows_the_servers_own_reason(tab: Any, served: Served) -> None:
    tab.goto(f"{served.address}idea")
    tab.wait_for_selector("html[data-ready]", state="attached")
    said = tab.evaluate(
        """async () => {
          const { picture } = await import(new URL("static/api.js", document.baseURI));
          return picture("api/photos/00000000000000000000000000000000/fill", { net: "toy", fill: "near-rows" }).catch((error) => error.message);
        }"""
    )
    assert said == "this is no longer on the server; choose it, or upload it again"
