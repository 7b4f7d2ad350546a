"""The page in a real browser, from disk and with the network off: what one sees is what was computed."""

from __future__ import annotations

import json
import math
import re
import zlib
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
    for step in (40, 0, 1, 37, 100, 199, 200):
        _slide(page, step)
        assert f"{round(step / 200 * 640)} of 640 pixels" in page.locator("#share-words").text_content()
        for image in range(2):
            shown = np.stack(pixels_of(page.locator(f"#image-{image} canvas.kept")))
            for place, pictures in enumerate(shown.reshape(3, 3, 32, 20, 4)):
                for result, picture in zip(evaluation.results, pictures, strict=True):
                    assert (picture[..., 3] == 255).all()
                    assert (picture[..., :3] == played(evaluation, result, image, place, step / 200)).all()


def played(
    evaluation: pm.Evaluation, result: MethodResult, image: int, place: int, share: float
) -> np.ndarray:
    """What the net saw when this share of the pixels was shown: bytes ``(h, w, 3)``."""
    kept = keep_top(evaluation.map_of(result, image, place)[None], share)[0].numpy()
    photo = (evaluation.images[image].permute(1, 2, 0).numpy() * 255).round()
    return np.where(kept[..., None], photo, GRAY).astype(np.uint8)


def _slide(page: Any, step: int) -> None:
    """Move the slider and wait until everything in view has followed."""
    page.locator("#share").fill(str(step))
    page.wait_for_function(
        "(words) => [...document.querySelectorAll('.reading-off')].every((p) => p.textContent.startsWith(words))",
        arg=f"at {step / 2:g} %:",
    )


def test_the_probability_is_read_off_the_curve(
    open_page: Any, report: Path, evaluation: pm.Evaluation
) -> None:
    page = open_page(report, height=ALL)
    for step in (0, 33, 200):
        _slide(page, step)
        row = page.locator("#image-0 .row").nth(1)
        for m, result in enumerate(evaluation.results):
            curves = result.insertion
            p = np.interp(round(step / 200 * 640), curves.counts, curves.probabilities[0, 1])
            assert row.locator(".reading-off b").nth(m).text_content() == tables.number(float(p))
    assert row.locator(".reading-off b").first.text_content() == tables.number(float(evaluation.f[0, 1]))


@pytest.mark.slow
def test_labels_are_switched_one_by_one_and_for_all_images(open_page: Any, report: Path) -> None:
    page = open_page(report)
    rows, chip = page.locator("#image-0 .row"), page.locator("#image-0 .chip").nth(1)
    assert rows.count() == 3 and all(rows.nth(k).is_visible() for k in range(3))
    chip.focus()
    page.keyboard.press("Enter")
    assert chip.get_attribute("aria-pressed") == "false" and not rows.nth(1).is_visible()
    chip.click()
    assert rows.nth(1).is_visible()
    page.locator("#labels-shown").select_option("1")
    assert [page.locator(".row").nth(k).is_visible() for k in range(6)] == [True, False, False] * 2


@pytest.mark.slow
def test_the_page_of_explain_has_labels_side_by_side(open_page: Any, tmp_path: Path) -> None:
    found = judged(2, 16, labels="top3", methods=["gradient"])
    page = open_page(write_report(found, tmp_path / "r.html", explained=True), height=ALL)
    cells = page.locator("#image-0 .cell")
    assert page.locator("#image-0 .row").count() == 1 and cells.count() == 3
    names = [found.label_names[a] for a in found.labels[0].tolist()]
    assert cells.locator("h4").all_text_contents() == names
    boxes = [cells.nth(k).bounding_box() for k in range(3)]
    assert len({box["y"] for box in boxes}) == 1 and boxes[0]["x"] < boxes[1]["x"] < boxes[2]["x"]
    page.locator("#image-0 .chip").nth(1).click()
    assert [cells.nth(k).is_visible() for k in range(3)] == [True, False, True]
    page.locator("#labels-shown").select_option("1")
    assert [cells.nth(k).is_visible() for k in range(3)] == [True, False, False]


@pytest.mark.slow
def test_signed_maps_are_painted_in_two_colours_around_zero(open_page: Any, tmp_path: Path) -> None:
    found = judged(1, (32, 20), labels="top1", methods=["gradient-x-input"])
    page = open_page(write_report(found, tmp_path / "r.html", explained=True), height=ALL)
    page.locator(".reading-off b").wait_for()  # painted
    pixels = pixels_of(page.locator("canvas.heat"))[0]
    heat = found.map_of(found.results[0], 0, 0).numpy()
    red_minus_blue = pixels[..., 0].astype(int) - pixels[..., 2]
    size = np.percentile(np.abs(heat), 80)
    assert (red_minus_blue[heat > size] > 30).all() and (red_minus_blue[heat < -size] < -30).all()
    drawn = np.asarray(overlay(found.image_of(0), torch.tensor(heat), found.inputs, signed=True)).astype(int)
    assert np.abs(pixels[..., :3] - drawn).mean() < 6, "the page paints what the sheet shows"


@pytest.mark.slow
def test_keys_move_the_slider(open_page: Any, report: Path) -> None:
    page = open_page(report)
    page.locator("#share").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#share").input_value() == "41"
    assert page.locator("#share").get_attribute("aria-valuetext") == "20.5 %, 131 of 640 pixels"
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
    return [cell.split("\n")[0] for cell in cells.all_inner_texts()]


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
    heads.nth(1).click()
    assert _column(page, ".scores", 1) == [".90", ".50", "-"]
    assert page.locator(".scores thead th").nth(1).get_attribute("aria-sort") == "descending"
    heads.nth(1).click()
    assert _column(page, ".scores", 1) == [".50", ".90", "-"]
    heads.nth(5).click()
    assert _column(page, ".scores", 5) == [".10", ".20", ".30"]
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
    assert page.locator("#share").count() == 0 and "No image is shown in full" in page.inner_text("#pictures")
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
    labels = page.locator(".row h4").all_text_contents()
    assert len(labels) == 6 and any("<" in name or "&" in name or '"' in name for name in labels)


@pytest.mark.slow
@pytest.mark.parametrize("step", [None, 120], ids=["at once", "after moving the slider"])
def test_paper_shows_what_the_screen_shows(
    browser: Any, report: Path, evaluation: pm.Evaluation, step: int | None
) -> None:
    """The pictures inside a PDF, of a page that is printed as soon as it is open, with most of it never in view."""
    page = browser.new_page(viewport={"width": 900, "height": 300})
    page.set_default_timeout(600_000)
    page.goto(report.as_uri())
    if step is not None:
        page.locator("#share").fill(str(step))
    printed = {found.tobytes() for found in _pictures_of(page.pdf(), 20, 32)}
    share = (40 if step is None else step) / 200
    for image in range(2):
        for place in range(3):
            for result in evaluation.results:
                assert played(evaluation, result, image, place, share).tobytes() in printed
    heats = {heat[..., :3].tobytes() for heat in pixels_of(page.locator("canvas.heat"))}
    assert len(heats) >= 14 and heats <= printed  # 2 photos x (2 methods x 3 labels + 1 map for all labels)
    page.close()


def _pictures_of(pdf: bytes, width: int, height: int) -> list[np.ndarray]:
    """The pictures of this size in a PDF, as bytes ``(height, width, 3)``."""
    found = []
    for start in re.finditer(rb"<<([^<>]*/Subtype\s*/Image[^<>]*)>>\s*stream\r?\n", pdf):
        about = dict(re.findall(rb"/(Width|Height|Length) (\d+)", start[1]))
        data = zlib.decompress(pdf[start.end() : start.end() + int(about[b"Length"])])
        if (int(about[b"Width"]), int(about[b"Height"]), len(data)) == (width, height, 3 * width * height):
            found.append(np.frombuffer(data, np.uint8).reshape(height, width, 3))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("explained", [False, True])
def test_a_telephone_needs_no_scrolling_sideways(
    open_page: Any, evaluation: pm.Evaluation, tmp_path: Path, explained: bool
) -> None:
    path = write_report(evaluation, tmp_path / "r.html", stored="float16", explained=explained)
    page = open_page(path, width=390)
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390
    assert page.locator("#share").is_visible() and page.locator(".rounded").is_visible()


@pytest.mark.slow
def test_every_curve_says_its_scale_and_no_curve_is_written_over(open_page: Any, report: Path) -> None:
    page = open_page(report, height=ALL)
    curves = page.locator("#image-0 .row").first.locator(".curve")
    assert all(re.fullmatch(r"0 to [.\d]+", words) for words in curves.locator(".scale").all_inner_texts())
    scale, drawing = (
        curves.first.locator(".scale").bounding_box(),
        curves.first.locator("> svg").bounding_box(),
    )
    assert scale["y"] + scale["height"] <= drawing["y"] + 1
    assert "it differs between labels" in page.inner_text("#pictures")


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
    page.wait_for_selector(".own-matrix table")
    assert serious(page) == []


@pytest.fixture(scope="module")
def tested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a net that is sure of one of twelve labels, with two wrong labels for each of three images."""
    net = linear_classifier(16, 12, strength=0.3, names=[f"name {k}" for k in range(12)])
    found = pm.evaluate(
        net, pixels(3, 16), methods=["gradient", "gradient-x-input", "random"], labels="top1+wrong"
    )
    return write_report(found, tmp_path_factory.mktemp("tested") / "report.html", command="proofmap")


def test_one_image_is_open_and_links_keys_and_buttons_open_others(open_page: Any, tested: Path) -> None:
    page = open_page(tested)

    def wait_for(*opened: bool) -> None:
        """The page answers to an event a moment later."""
        page.wait_for_function(
            "(all) => all.every((open, i) => document.querySelector(`#image-${i} > details`).open === open)",
            arg=list(opened),
        )

    def top(image: int) -> float:
        return float(page.locator(f"#image-{image}").bounding_box()["y"])

    wait_for(True, False, False)
    page.locator("#strip a[href='#image-2']").click()
    wait_for(True, False, True)
    assert 0 < top(2) < 900
    page.locator("#close-all").click()
    wait_for(False, False, False)
    assert not page.locator("#image-0 .row").first.is_visible()
    page.locator("#image-1 summary").first.focus()
    page.keyboard.press("Enter")
    wait_for(False, True, False)
    assert page.locator("#image-1 .row").first.is_visible()
    page.locator("#jump").select_option("0")
    wait_for(True, True, False)
    # The address does not change: it was there before. Rows that are drawn above the list move the link away
    # from a pointer between press and release, so the link is clicked without a pointer.
    page.locator("#list a[href='#image-2']").evaluate("link => link.click()")
    wait_for(True, True, True)
    page.locator("#close-all").click()
    wait_for(False, False, False)
    page.locator("#open-all").click()
    wait_for(True, True, True)


@pytest.mark.slow
def test_the_page_opens_with_one_photo_and_can_be_read_without_scrolling_through_it(
    open_page: Any, tested: Path
) -> None:
    page = open_page(tested, height=700)
    record = json.loads(page.locator("#record").text_content())
    # the opening, then the verdict with its reasons directly under it
    assert page.locator("main > section").first.get_attribute("id") == "opening"
    assert page.locator("#opening img").count() == 3
    assert page.locator("#verdict h2 + .reasons li").all_text_contents() == record["verdict"]["reasons"]
    # links that follow
    links = page.locator(".sections a")
    assert page.locator(".sections a[aria-current]").text_content() == "One image"
    links.filter(has_text="Scores").click()
    page.locator(".sections a[aria-current]").filter(has_text="Scores").wait_for()
    assert page.locator("#scores").bounding_box()["y"] >= page.locator(".sections").bounding_box()["height"]
    # numbers of a mark, by pointer and by keyboard
    mark = page.locator(".plot").first.locator(".point-mark").first
    mark.hover()
    readout = page.locator(".plot .readout").first
    assert (
        readout.text_content() == mark.get_attribute("aria-label") and "soundness" in readout.text_content()
    )
    page.mouse.move(0, 0)
    assert "Point at a mark" in readout.text_content()
    mark.focus()
    assert readout.text_content() == mark.get_attribute("aria-label")
    # images to choose from, the worst first
    soundness = next(k for k, m in enumerate(record["metrics"]) if m["kind"] == "soundness")
    own = [m for m in record["methods"] if not m["label_free"]]
    worst = sorted(range(3), key=lambda i: min(m["values"][soundness][i] for m in own))
    hrefs = page.locator("#strip a").evaluate_all("(all) => all.map((a) => a.getAttribute('href'))")
    assert hrefs == [f"#image-{i}" for i in worst]


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


def test_a_proof_is_a_bar_with_its_words_and_its_curve_sets_the_slider(
    open_page: Any, tested: Path, report: Path
) -> None:
    page = open_page(tested, height=ALL)
    image = json.loads(page.locator("#record").text_content())["pictured"][0]
    cell, facts = page.locator("#image-0 .row .cell").first, image["methods"][0]["labels"][0]
    glyph = cell.locator(".glyph")
    assert facts["words"] in glyph.get_attribute("aria-label") and facts["strength"] in glyph.get_attribute(
        "class"
    )
    widths = glyph.locator("rect.belief, rect.average, rect.reach").evaluate_all(
        "(all) => all.map((rect) => Number(rect.getAttribute('width')))"
    )
    assert widths == pytest.approx([100 * facts[k] for k in ("f", "average", "reach")], abs=0.01)
    headers = page.locator("#image-0 .row header")
    assert [("a wrong one, to test" in text) for text in headers.all_text_contents()] == [False, True, True]
    # hover reads the curve, a click sets the slider
    curve = cell.locator(".curve")
    point(curve, "pointermove", 0.5)
    assert curve.locator(".here").text_content().startswith("50 % shown: ")
    point(curve, "click", 0.75)
    assert page.locator("#share").input_value() in ("149", "150", "151")
    # the part above the belief has another colour, and ends at the belief
    clip, line = curve.locator("svg.clip"), curve.locator("path.belief")
    assert float(clip.get_attribute("height")) == pytest.approx(
        float(re.search(r"M0,([\d.]+)", line.get_attribute("d"))[1])  # type: ignore[index]
    )
    fills = curve.locator("path.area").evaluate_all("(all) => all.map((p) => getComputedStyle(p).fill)")
    assert len(set(fills)) == 2
    # cells of the matrix above their row's diagonal are outlined, and the question is answered; maps of labels that the net does
    # not believe should prove nothing
    for path, some in ((tested, False), (report, True)):
        page = open_page(path, height=ALL)
        shown = json.loads(page.locator("#record").text_content())["matrix"]
        asked = [a for a, f in enumerate(shown["f"]) if f >= 0.01]
        above = sum(v > m[a][a] for m in shown["methods"] for a in asked for v in m[a])
        assert page.locator("#matrices td.above").count() == above and (above > 0) == some
        assert page.locator("#matrices .answer").all_text_contents() == shown["answers"]
