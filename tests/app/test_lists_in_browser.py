"""The page for rows, series and texts in a real browser: what one sees and presses is what the model was asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest

from proofmap.app.items import Items
from proofmap.classifier import Classifier
from proofmap.results.proof_shape import percent
from tests.app.lists import (
    BEATS,
    ROWS,
    beat,
    beats,
    churn,
    customers,
    mood,
    rows_model,
    series_model,
    texts_model,
)
from tests.app.test_page import Tabs, wait_done
from tests.app.threaded import Served

TEXT = "הסרט good היה very good, not bad"


class Opened(Protocol):
    def __call__(self, net: Classifier, *, items: Items, width: int = 1280) -> tuple[Any, Served]: ...


@pytest.fixture
def opened(browser: Any) -> Iterator[Opened]:
    """Opens the page of a server of this net."""
    with ExitStack() as stack:

        def page_of(net: Classifier, *, items: Items, width: int = 1280) -> tuple[Any, Served]:
            served, tabs = Served(net, items=items), Tabs(browser)
            stack.callback(served.stop)
            stack.callback(tabs.close)
            return tabs(served, width=width), served

        yield page_of


def numbers(list_: Any) -> list[str]:
    return list(list_.locator("b").all_text_contents())


def test_a_row_is_chosen_and_its_columns_are_ranked_and_pressed(opened: Opened) -> None:
    page, _ = opened(rows_model(), items=customers())
    page.locator(".pick", has_text="row-1").click()
    wait_done(page)
    row = ROWS.iloc[[1]].drop(columns="churned")
    f = dict(zip(("no", "yes"), churn(row)[0], strict=True))
    assert page.locator("#bars .name").all_text_contents() == ["yes", "no"]
    assert numbers(page.locator("#bars")) == [percent(f["yes"]), percent(f["no"])]
    assert page.locator("#photo-words").inner_text() == "row-1 (true label: yes)"
    cells = page.locator("#rows .cell")
    assert cells.count() == 2, "the right and the wrong label side by side"
    neutral = row.assign(age=ROWS["age"].mean(), income=ROWS["income"].mean(), visits=ROWS["visits"].mean())
    nothing = percent(churn(neutral.assign(city="Ulm"))[0, 1])
    assert f'nothing shown {nothing}; "age" raises it to' in cells.first.locator(".from-fill").inner_text()
    names = cells.first.locator("li .name").all_text_contents()
    assert names[0] == "nothing shown" and sorted(names[1:]) == ["age", "city", "income", "visits"]
    page.locator("#share").fill("4")
    assert cells.first.locator(".unshown").count() == 0
    page.wait_for_function(
        "(text) => document.querySelector('.reading-off').textContent === text",
        arg=f"4 columns: {percent(f['yes'])}",
    )
    page.locator("#tab-paint").click()
    assert not page.locator("#painted").is_visible(), "nothing is pressed yet"
    page.locator("#picker .column", has_text="city").click()
    hidden = row.assign(age=ROWS["age"].mean(), visits=ROWS["visits"].mean())
    shown = percent(churn(hidden)[0, 1])
    page.wait_for_function("(text) => document.querySelector('#sides b')?.textContent === text", arg=shown)


def test_a_text_is_typed_and_its_words_are_shaded_shown_and_pressed(opened: Opened) -> None:
    page, served = opened(texts_model(), items=Items(), width=390)
    page.locator("#text").fill(TEXT)
    page.locator("#read").click()
    wait_done(page)
    assert numbers(page.locator("#bars"))[0] == percent(mood([TEXT])[0, 0])
    cells = page.locator("#rows .cell")
    tops = [cells.nth(k).bounding_box()["y"] for k in range(2)]
    assert tops[0] < tops[1], "the right and the wrong label under each other"
    heat = cells.first.locator(".heat")
    assert heat.inner_text() == TEXT and heat.evaluate("(p) => getComputedStyle(p).direction") == "rtl"
    shaded = heat.locator(".word").evaluate_all(
        "(all) => all.filter((word) => Number(word.style.getPropertyValue('--h')) > 0).length"
    )
    assert shaded == heat.locator(".proves").count() == served.jobs[0].maps[0, 0]["enough"] == 2
    page.locator("#share").fill("0")
    page.wait_for_function("() => document.querySelectorAll('.cell:first-child .unseen-word').length === 7")
    page.locator("#tab-paint").click()
    page.locator("#picker .word", has_text="good").first.click()
    shown = percent(mood(["good"])[0, 0])
    page.wait_for_function("(text) => document.querySelector('#sides b')?.textContent === text", arg=shown)
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_a_series_is_chosen_and_its_segments_are_marked_shown_and_pressed(
    opened: Opened, tmp_path: Path
) -> None:
    page, served = opened(series_model(), items=beats(tmp_path), width=390)
    page.locator(".pick", has_text="series-00001").click()
    wait_done(page)
    late = beat(BEATS[1:2])[0, 1]
    assert numbers(page.locator("#bars")) == [percent(late), percent(1 - late)]
    cells = page.locator("#rows .cell")
    assert cells.count() == 2, "the right and the wrong label side by side"
    enough = served.jobs[0].maps[0, 1]["enough"]
    assert cells.first.locator(".back.proves").count() == enough >= 1
    page.locator("#share").fill("4")
    page.wait_for_function(
        "(text) => document.querySelector('.reading-off').textContent === text",
        arg=f"4 segments: {percent(late)}",
    )
    line = "document.querySelector('.cell .shown.channel-0').getAttribute('d')"
    whole = page.evaluate(line)
    page.locator("#share").fill("0")
    page.wait_for_function(f"() => {line} === ''")
    assert whole == page.evaluate(line.replace(".shown", ".all"))
    shown = BEATS[1:2].copy()
    shown[..., :4], shown[..., 6:] = 0, 0
    page.locator("#tab-paint").click()
    page.locator("#picker .back").nth(2).click()
    told = "(text) => document.querySelector('#sides b')?.textContent === text"
    page.wait_for_function(told, arg=percent(beat(shown)[0, 1]))
    page.keyboard.press("ArrowLeft")
    page.keyboard.press(" ")
    shown[..., 2:4] = BEATS[1, :, 2:4]
    page.wait_for_function(told, arg=percent(beat(shown)[0, 1]))
    assert page.locator("#picker .chosen").count() == 2
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
