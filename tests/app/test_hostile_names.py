"""Hostile names in the live page, from the first photo to the saved files: nothing of them runs, hides or moves other text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proofmap.methods import make_method
from tests.app.test_page import Tabs, png, wait_done
from tests.app.threaded import Served
from tests.toys import linear_classifier, pixels

SIZE = 12
MARKUP = "<img src=x onerror='window.ran = 1'>"
NAMES = (
    MARKUP,
    "</script><script>window.ran = 2</script>",
    "javascript:window.ran=3//",
    "{{7*7}}${window.ran=4}",
    "cat\u202egpj.tac",
    "\u2066dog\u2069\u200f",
    "a\x00b\x1b[2Jc\r\nd\te",
    '" onmouseover="window.ran=5" x="',
    "w" * 3000,
    "\u0635\u0642\u0631 hawk",
    "  ",
    "&lt;b&gt;&amp;",
)
FILE = f"{'n' * 120}\u202e{MARKUP}.png"
"""What a visitor's file is called."""
WIDE = """() => document.documentElement.scrollWidth <= window.innerWidth ? [] : [...document.querySelectorAll("body *")]
    .filter((e) => e.getBoundingClientRect().right > window.innerWidth + 1)
    .map((e) => `${e.tagName}#${e.id}.${e.className} ${Math.round(e.getBoundingClientRect().right)}`).slice(0, 20)"""
METHOD = f"{MARKUP}:a=b"
"""What a method is called that was named on the command line."""
OBEYED = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
"""Characters that control a terminal, or turn the direction of what follows."""


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    middle = {"mean": (0.5,) * 3, "std": (0.25,) * 3}
    found = Served(linear_classifier(SIZE, len(NAMES), strength=0.05, names=NAMES, **middle))
    choices = found.server.choices
    choices.own = {METHOD: make_method("gradient")}
    assert METHOD in [method["name"] for method in choices.methods_about]
    choices.usual_methods = (METHOD,)  # the page begins with it
    yield found
    found.stop()


def check(page: Any) -> None:
    """Nothing ran, nothing became an element, nothing is obeyed, and nothing has to be scrolled for sideways."""
    assert page.evaluate("() => window.ran") is None
    assert not page.evaluate(
        "() => [...document.scripts].some((s) => s.textContent.startsWith('window.ran'))"
    )
    assert page.locator("img[src=x], [onmouseover], [onerror]").count() == 0
    assert (
        page.evaluate(
            "(obeyed) => [...document.body.innerText.matchAll(new RegExp(obeyed, 'g'))].length", OBEYED
        )
        == 0
    )
    assert page.evaluate(WIDE) == []


@pytest.mark.slow
def test_hostile_names_are_shown_and_nothing_else_to_the_end(
    browser: Any, served: Served, tmp_path: Path
) -> None:
    tabs = Tabs(browser)
    page = tabs(served)
    photo = (pixels(1, SIZE)[0] * 255).round() / 255
    page.locator("#file").set_input_files({"name": FILE, "mimeType": "image/png", "buffer": png(photo)})
    wait_done(page)
    check(page)
    assert "onerror" in page.inner_text("#photo-words")  # as text
    shown = page.locator("#bars .name").all_text_contents()
    assert MARKUP in shown or NAMES[1] in shown

    page.locator("#search").fill("onerror")
    page.locator("#found [role=option]").first.wait_for()
    check(page)
    page.keyboard.press("Enter")
    for label in page.locator("#bars button[aria-pressed=true]").all()[:1]:
        label.click()  # one label fewer, so that there is room for others
    for name in (8, 4, 6):  # the long one, the turned one, the one with controls
        page.locator("#search").fill(str(name))
        page.locator("#found [role=option]").first.wait_for()
        page.keyboard.press("Enter")
    page.locator("#run").click()
    page.wait_for_function("(n) => document.querySelectorAll('.cell').length >= n", arg=3)
    wait_done(page)
    page.locator("#share").press("ArrowRight")
    page.locator("#tab-paint").click()
    page.locator("#canvas").click()
    page.locator("#painted-share").filter(has_not_text="0 %").wait_for()
    check(page)
    page.set_viewport_size({"width": 390, "height": 900})
    check(page)
    page.reload()
    wait_done(page)
    check(page)
    assert not set("\n\r\x1b\u202e") & set(page.locator("#command").text_content())
    page.locator("#saving summary").click()

    with page.expect_download() as download:
        page.locator("#files a[href$='page.html']").click()
    saved = tabs.browser.new_page()
    saved.set_default_timeout(600_000)
    complaints: list[str] = []
    saved.on("pageerror", lambda error: complaints.append(str(error)))
    download.value.save_as(tmp_path / "page.html")
    saved.goto((tmp_path / "page.html").as_uri())
    saved.locator("canvas").first.wait_for()
    check(saved)
    saved.close()
    tabs.close()
    assert complaints == []
