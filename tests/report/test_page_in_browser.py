"""The page in a real browser, from disk and with the network off: what one sees is what was computed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import proofmap as pm
from proofmap.core.ranking import keep_top
from proofmap.report.html import write_report
from proofmap.report.pictures import overlay
from proofmap.results import tables
from proofmap.results.records import MethodResult
from tests.browser import pixels_of, serious
from tests.report.pages import judged, listed
from tests.toys import linear_classifier, pixels

ALL = 8000  # pixels: a window so high that all rows are in view
GRAY = 128  # what the net of these tests sees in place of hidden pixels: its mean, .5


@pytest.fixture(scope="module")
def evaluation() -> pm.Evaluation:
    return judged(2, (32, 20), labels="top3", names=["<i>one</i>", "two & three"])


@pytest.fixture(scope="module")
def report(evaluation: pm.Evaluation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    return write_report(evaluation, path, command="proofmap evaluate --data 'a b'", failures=[("x", "y")])


@pytest.fixture
def open_page(browser: Any) -> Iterator[Any]:
    """Opens a file; the test fails when the page complains or asks for anything but itself."""
    contexts, complaints = [], []

    def opened(path: Path, width: int = 1440, height: int = 900, scheme: str = "light") -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, offline=True
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(600_000)
        page.on("console", lambda m: m.type != "error" or complaints.append(m.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda r: r.url.startswith(("file:", "data:")) or complaints.append(r.url))
        page.goto(path.as_uri())
        if page.locator("#share").count():
            page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def test_the_slider_shows_exactly_the_pixels_that_the_ranking_keeps(
    open_page: Any, report: Path, evaluation: pm.Evaluation
) -> None:
    page = open_page(report, height=ALL)
    page.locator("input[name=share-mode][value=seen]").check()
    counts = json.loads(page.locator("#record").text_content())["counts"]
    for image, place, step in ((0, 0, 10), (0, 1, 0), (0, 2, 1), (1, 0, 23), (1, 1, len(counts) - 1)):
        page.locator("#strip button").nth(image).click()
        page.locator(f"#image-{image} .chip").nth(place).click()
        _slide(page, step)
        assert f"{counts[step]} of 640 pixels" in page.locator("#share-words").text_content()
        canvases = page.locator(f"#image-{image} .rows canvas")
        assert canvases.count() == 3
        for result, picture in zip(evaluation.results, _small(canvases, 20, 32), strict=True):
            assert (picture[..., 3] == 255).all()
            assert (picture[..., :3] == played(evaluation, result, image, place, counts[step] / 640)).all()


def _small(canvases: Any, width: int, height: int) -> list[np.ndarray]:
    """The pictures of canvases that show each pixel of a small picture larger: the pixel in the middle of each."""
    found = []
    for picture in pixels_of(canvases):
        rows = ((np.arange(height) + 0.5) * picture.shape[0] / height).astype(int)
        columns = ((np.arange(width) + 0.5) * picture.shape[1] / width).astype(int)
        found.append(picture[rows][:, columns])
    return found


def played(
    evaluation: pm.Evaluation, result: MethodResult, image: int, place: int, share: float
) -> np.ndarray:
    """What the net saw when this share of the pixels was shown: bytes ``(h, w, 3)``."""
    kept = keep_top(evaluation.map_of(result, image, place)[None], share)[0].numpy()
    photo = (evaluation.images[image].permute(1, 2, 0).numpy() * 255).round()
    return np.where(kept[..., None], photo, GRAY).astype(np.uint8)


def _painted(page: Any) -> None:
    """Wait until what follows the slider is painted."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def _slide(page: Any, step: int) -> None:
    page.locator("#share").fill(str(step))
    _painted(page)


def test_each_proof_is_shown_at_its_own_share_until_the_slider_moves(open_page: Any, report: Path) -> None:
    page = open_page(report, height=ALL)
    assert page.locator("#share-words").text_content() == "each map at its own share"
    cells = page.locator("#image-0 .proof-cell")
    facts = [
        m["labels"][0] for m in json.loads(page.locator("#record").text_content())["pictured"][0]["methods"]
    ]
    assert [cells.nth(k).locator(".one-word").text_content() for k in range(3)] == [
        f["verdict"] for f in facts
    ]
    before = [picture.tobytes() for picture in pixels_of(cells.locator("canvas"))]
    _slide(page, 3)
    assert all(a != b.tobytes() for a, b in zip(before, pixels_of(cells.locator("canvas")), strict=True))
    page.locator("#share-own").click()
    _painted(page)
    assert [picture.tobytes() for picture in pixels_of(cells.locator("canvas"))] == before
    point(cells.first.locator(".curve"), "click", 0.2)  # a press on a curve moves the slider
    _painted(page)
    assert page.locator("#share-words").text_content().startswith("20 % ")


def test_labels_are_tabs_that_keys_reach(open_page: Any, report: Path, evaluation: pm.Evaluation) -> None:
    page = open_page(report)
    tabs = page.locator("#image-0 .chip")
    assert tabs.count() == 3 and tabs.first.get_attribute("aria-selected") == "true"
    tabs.first.focus()
    page.keyboard.press("ArrowRight")
    assert [tabs.nth(k).get_attribute("aria-selected") for k in range(3)] == ["false", "true", "false"]
    name = page.locator("#image-0 canvas").first.get_attribute("aria-label")
    assert name.startswith(f"gradient for {evaluation.label_name(0, 1)}: belief ")


@pytest.mark.slow
def test_the_page_of_explain_has_labels_side_by_side(open_page: Any, tmp_path: Path) -> None:
    found = judged(2, 16, labels="top3", methods=["gradient"])
    page = open_page(write_report(found, tmp_path / "r.html", explained=True), height=ALL)
    cells = page.locator("#image-0 .proof-cell")
    names = [found.label_names[a] for a in found.labels[0].tolist()]
    assert cells.count() == 3 and cells.locator("h4").all_text_contents() == names
    boxes = [cells.nth(k).bounding_box() for k in range(3)]
    assert len({box["y"] for box in boxes}) == 1 and boxes[0]["x"] < boxes[1]["x"] < boxes[2]["x"]


@pytest.mark.slow
def test_signed_maps_are_painted_in_two_colours_around_zero(open_page: Any, tmp_path: Path) -> None:
    found = judged(1, (32, 20), labels="top1", methods=["gradient-x-input"])
    page = open_page(write_report(found, tmp_path / "r.html", explained=True), height=ALL)
    page.locator("input[name=share-mode][value=heat]").check()
    _painted(page)
    (pixels,) = _small(page.locator("#image-0 canvas"), 20, 32)
    heat = found.map_of(found.results[0], 0, 0).numpy()
    red_minus_blue = pixels[..., 0].astype(int) - pixels[..., 2]
    size = np.percentile(np.abs(heat), 80)
    assert (red_minus_blue[heat > size] > 30).all() and (red_minus_blue[heat < -size] < -30).all()
    drawn = np.asarray(overlay(found.image_of(0), torch.tensor(heat), found.inputs, signed=True)).astype(int)
    assert np.abs(pixels[..., :3] - drawn).mean() < 8, "the page paints what the sheet shows"


@pytest.mark.slow
def test_keys_move_the_slider(open_page: Any, report: Path) -> None:
    page = open_page(report)
    page.locator("#share").focus()
    page.locator("#share").fill("9")
    page.keyboard.press("ArrowRight")
    assert page.locator("#share").input_value() == "10"
    assert page.locator("#share").get_attribute("aria-valuetext") == "10 % · 64 of 640 pixels"
    page.keyboard.press("End")
    assert "640 of 640" in page.locator("#share-words").text_content()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_follows_the_system_until_it_is_switched(open_page: Any, report: Path, scheme: str) -> None:
    page = open_page(report, scheme=scheme)

    def is_dark() -> bool:
        colour = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in colour.strip("rgb()").split(",")) < 200

    assert is_dark() == (scheme == "dark")
    page.locator("#theme").click()
    assert is_dark() != (scheme == "dark")


def _column(page: Any, table: str, column: int) -> list[str]:
    cells = page.locator(f"{table} tbody tr > :nth-child({column + 1})")
    return [cell.strip().split("\n")[0] for cell in cells.all_inner_texts()]


def test_scores_are_sorted_best_first_then_worst_first_and_what_is_missing_last(
    open_page: Any, evaluation: pm.Evaluation, tmp_path: Path
) -> None:
    values = {"gradient": (0.5, 0.3), "gradient-x-input": (math.nan, 0.2), "random": (0.9, 0.1)}
    results = []
    for result in evaluation.results:
        first, *middle, last = (
            result.scores
        )  # completeness, where higher is better, and deletion, where lower is
        high, low = values[result.name]
        changed = replace(first, value=high, low=math.nan), *middle, replace(last, value=low, low=math.nan)
        results.append(replace(result, scores=changed))
    page = open_page(write_report(replace(evaluation, results=tuple(results)), tmp_path / "r.html"))
    heads = page.locator(".scores thead button")
    heads.nth(2).click()
    assert _column(page, ".scores", 2) == [".90", ".50", "-"]
    assert page.locator(".scores thead th").nth(2).get_attribute("aria-sort") == "descending"
    heads.nth(2).click()
    assert _column(page, ".scores", 2) == [".50", ".90", "-"]
    assert not heads.nth(6).is_visible(), "insertion and deletion are behind a button"
    page.locator("#more-scores").click()
    heads.nth(6).click()
    assert _column(page, ".scores", 6) == [".10", ".20", ".30"]
    heads.nth(0).click()
    assert _column(page, ".scores", 0)[0].startswith("gradient")


@pytest.mark.slow
def test_two_thousand_images_are_listed_sorted_and_found(
    open_page: Any, evaluation: pm.Evaluation, tmp_path: Path
) -> None:
    many = listed(evaluation, 2000)
    values = many.results[1].values["soundness"]
    values[:7] = torch.tensor([math.nan, 0.125, 0.375, 0.00123, 0.435, 1.0, -0.35])
    page = open_page(write_report(many, tmp_path / "r.html"))
    assert (
        page.locator("#share").count() == 0
        and "No image is shown in full" in page.locator("#legend").text_content()
    )
    page.locator("#images summary").click()
    rows = page.locator("#list tbody tr")
    assert rows.count() <= 300  # the rest is made when one scrolls there
    assert _column(page, "#list", 4)[:50] == [tables.number(v) for v in values[:50].tolist()]
    page.locator("#list thead button").nth(4).click()  # worst first
    ordered = sorted(v for v in values.tolist() if v == v)
    assert _column(page, "#list", 4)[:100] == [tables.number(v) for v in ordered[:100]]
    page.locator("#find").fill("image 199")
    assert page.locator("#found").text_content() == "11 of 2000 images"
    page.locator("#find").fill("")
    page.locator("#metric").select_option("0")
    first = sorted(many.results[1].values["completeness"].tolist())[:20]
    assert _column(page, "#list", 4)[:20] == [tables.number(v) for v in first]
    page.locator("#more").evaluate("(more) => { while (!more.hidden) more.click(); }")
    assert rows.count() == 2000 and _column(page, "#list", 4)[0] == tables.number(first[0])


def test_names_are_text(open_page: Any, report: Path) -> None:
    page = open_page(report)
    assert page.locator("article h3").all_text_contents() == ["<i>one</i>", "two & three"]
    assert page.locator("article i").count() == 0
    labels = page.locator(".chip").all_text_contents()
    assert len(labels) == 6 and any("<" in name or "&" in name or '"' in name for name in labels)


@pytest.mark.slow
def test_paper_shows_what_the_screen_shows(browser: Any, report: Path, evaluation: pm.Evaluation) -> None:
    """The page can be printed: folds are open, and the picture that is shown is on it."""
    page = browser.new_page(viewport={"width": 900, "height": 300})
    page.goto(report.as_uri())
    page.wait_for_selector("html[data-ready]", state="attached")
    page.locator("input[name=share-mode][value=seen]").check()
    page.emulate_media(media="print")
    assert len(page.pdf()) > 10_000
    assert page.locator("#made details:not([open])").count() == 0
    page.close()


BROKEN_WORDS = """() => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const broken = [];
  while (texts.nextNode()) {
    const text = texts.currentNode;
    if (text.parentElement.closest("script, style, [hidden], .unseen, .skip, pre, .settings")) continue;
    for (const word of text.data.matchAll(/[\\p{L}\\p{N}]+/gu)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      if (new Set([...range.getClientRects()].filter(({ width }) => width > 0).map(({ top }) => Math.round(top))).size > 1) broken.push(word[0]);
    }
  }
  return broken;
}"""
"""The words that are broken inside, over two lines."""


@pytest.mark.slow
@pytest.mark.parametrize("explained", [False, True])
def test_a_telephone_needs_no_scrolling_sideways(
    open_page: Any, evaluation: pm.Evaluation, tmp_path: Path, explained: bool
) -> None:
    path = write_report(evaluation, tmp_path / "r.html", stored="float16", explained=explained)
    page = open_page(path, width=390)
    page.locator("details").evaluate_all("(all) => all.forEach((details) => { details.open = true; })")
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390
    assert page.evaluate(BROKEN_WORDS) == []
    assert page.locator("#share").is_visible()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_finding_about_accessibility(open_page: Any, tmp_path: Path, scheme: str) -> None:
    evaluation = judged(2, 16, labels="top2", methods=["gradient", "random"], keep_maps=1)
    path = write_report(
        evaluation, tmp_path / "r.html", command="proofmap", failures=[("x", "y")], banner="Quick run"
    )
    page = open_page(path, height=ALL, scheme=scheme)
    colour = "(node) => getComputedStyle(node).{}"
    assert page.locator(".banner").evaluate(colour.format("backgroundColor")) == "rgb(179, 38, 30)"
    grays = {page.locator(place).first.evaluate(colour.format("color")) for place in (".headline", ".soft")}
    assert len(grays) == 1, "the verdict of what is no evidence is gray"
    page.locator("details").evaluate_all("(all) => all.forEach((details) => { details.open = true; })")
    page.wait_for_selector("table.matrix")
    assert serious(page) == []


@pytest.fixture(scope="module")
def tested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a net that is sure of one of twelve labels, with two wrong labels for each of three images."""
    net = linear_classifier(16, 12, strength=0.3, names=[f"name {k}" for k in range(12)])
    found = pm.evaluate(
        net, pixels(3, 16), methods=["gradient", "gradient-x-input", "random"], labels="top1+wrong"
    )
    return write_report(found, tmp_path_factory.mktemp("tested") / "report.html", command="proofmap")


def test_one_image_is_shown_and_links_and_buttons_show_others(open_page: Any, tested: Path) -> None:
    page = open_page(tested)
    pictured = json.loads(page.locator("#record").text_content())["pictured"]
    sure = max(range(3), key=lambda i: max(label["f"] for label in pictured[i]["labels"]))

    def wait_for(image: int) -> None:
        page.wait_for_function(
            "(image) => [...document.querySelectorAll('.image')].every((card, k) => card.hidden === (k !== image))",
            arg=image,
        )

    wait_for(sure)
    other = (sure + 1) % 3
    page.locator("#strip button").nth(other).click()
    wait_for(other)
    assert page.locator("#strip button").nth(other).get_attribute("aria-pressed") == "true"
    page.locator("#images summary").click()
    page.locator(f"#list a[href='#image-{sure}']").click()
    wait_for(sure)


@pytest.mark.slow
def test_the_verdict_comes_before_pictures_and_all_else_is_folded(open_page: Any, tested: Path) -> None:
    page = open_page(tested, height=700)
    record = json.loads(page.locator("#record").text_content())
    assert page.locator("h1").all_text_contents() == [record["verdict"]["headline"]]
    assert page.locator("main > section").first.get_attribute("id") == "verdict"
    lines = [record["verdict"]["reasons"][0], record["verdict"]["sure"], record["verdict"]["action"]]
    assert page.locator(".answer dd").all_text_contents() == lines
    assert page.locator("#verdict details[open]").count() == 0
    # links that follow
    links = page.locator(".sections a")
    assert page.locator(".sections a[aria-current]").text_content() == "Verdict"
    links.filter(has_text="Methods").click()
    page.locator(".sections a[aria-current]").filter(has_text="Methods").wait_for()
    # numbers of a dot, by pointer and by tap
    dot, words = page.locator(".leads .dot-mark").last, page.locator("#dot-words")
    dot.hover()
    assert words.text_content() == dot.get_attribute("data-words")
    page.mouse.move(0, 0)
    assert "Point at a dot" in words.text_content()
    dot.dispatch_event("click")
    assert words.text_content() == dot.get_attribute("data-words")


def point(curve: Any, event: str, share: float) -> None:
    """Send a pointer event to the curve, at a share of its width. A real mouse could miss it: the page is still being drawn, and the curve moves."""
    curve.evaluate(
        """(node, [event, share]) => {
          const { left, top, width } = node.getBoundingClientRect();
          const at = { clientX: left + share * width, clientY: top + 20, bubbles: true };
          node.dispatchEvent(new PointerEvent(event, at));
        }""",
        [event, share],
    )


def test_the_failure_and_the_best_method_follow_one_slider(open_page: Any, report: Path) -> None:
    page = open_page(report, height=ALL)
    opening = json.loads(page.locator("#record").text_content())["opening"]
    cells = page.locator("#opening-cells .proof-cell")
    assert cells.count() == len(opening["methods"])
    curve = cells.first.locator(".curve")
    point(curve, "pointermove", 0.5)
    assert curve.locator(".here").text_content().startswith("50 % shown: ")
    before = [picture.tobytes() for picture in pixels_of(cells.locator("canvas"))]
    page.locator("#opening-share").fill("2")
    _painted(page)
    assert all(a != b.tobytes() for a, b in zip(before, pixels_of(cells.locator("canvas")), strict=True))
    # a part above the belief has another colour, and ends at the belief
    clip, line = curve.locator("svg.clip"), curve.locator("path.belief")
    assert float(clip.get_attribute("height")) == pytest.approx(
        float(re.search(r"M0,([\d.]+)", line.get_attribute("d"))[1])  # type: ignore[index]
    )


def test_cells_of_the_matrix_are_multiples_of_the_belief(open_page: Any, tested: Path, report: Path) -> None:
    for path in (tested, report):
        page = open_page(path, height=ALL)
        shown = json.loads(page.locator("#record").text_content())["matrix"]
        above = sum(
            v >= 0.05 and v / f > 1.25
            for m in shown["methods"]
            for row in m
            for v, f in zip(row, shown["f"], strict=True)
        )
        assert page.locator("#matrices td.above").count() == above
        said = page.locator(".own tbody td:last-child").all_text_contents()
        assert [words.replace("\xa0", " ") for words in said] == [a["words"] for a in shown["answers"]]
