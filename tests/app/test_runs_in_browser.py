"""Runs in a real browser: progress while one looks, a report that is a stranger to the server, any image, a narrow window."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra app is not installed")

from proofmap.study import run_study
from tests.app.test_runs import progress
from tests.app.threaded import Served
from tests.study.studies import Stop, toy_study
from tests.toys import linear_classifier

ASK = "fetch('/api/about').then(() => 'answered', () => 'refused')"


@pytest.fixture
def tab(browser: Any) -> Any:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.set_default_timeout(600_000)
    return page


@pytest.mark.slow
def test_a_run_is_watched_while_it_is_written_and_any_image_of_it_opened(tab: Any, tmp_path: Path) -> None:
    from axe_playwright_python.sync_playwright import Axe

    study, run = toy_study(tmp_path, 4, methods=("gradient", "random")), tmp_path / "runs" / "first"
    with pytest.raises(KeyboardInterrupt):
        run_study(study, run, threads=1, watchers=[Stop(3)])
    complaints: list[str] = []
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    served = Served(linear_classifier(8, 3), runs=tmp_path / "runs")

    def check() -> None:
        found = Axe().run(tab, options={"iframes": False}).response["violations"]
        assert not [(v["id"], v["nodes"]) for v in found if v["impact"] in ("serious", "critical")]
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390

    try:
        tab.goto(f"{served.address}runs")
        assert tab.locator(".state").inner_text() == "unfinished"
        progress(run, pid=os.getpid())
        tab.wait_for_selector("progress")  # without anyone's reloading the page
        assert "3 of 8 units" in tab.locator("article").inner_text()
        check()
        tab.get_by_role("link", name="report").click()
        report = tab.frame_locator("iframe")
        report.locator("#share").press("End")
        assert "100" in report.locator("#share-words").inner_text()
        check()
        frame = next(frame for frame in tab.frames if frame.url.endswith("/report"))
        assert frame.evaluate(ASK) == "refused" and tab.evaluate(ASK) == "answered"
        assert frame.evaluate("self.origin") == "null"
        assert not tab.locator("#newer").is_visible()
        run_study(study, run, threads=1)
        (run / "progress.json").unlink()
        tab.locator("#newer").click()
        assert tab.locator(".state").inner_text() == "finished"
        tab.get_by_role("link", name="all images").click()
        tab.get_by_label("Find").fill("03")
        tab.get_by_role("button", name="Show").press("Enter")
        check()
        tab.get_by_role("link", name="03.png").click()
        image = tab.frame_locator("iframe")
        image.get_by_role("heading", name="The net says").wait_for()
        assert image.locator(".cell canvas").count() >= 6  # a row for each method, a column for each label
        tab.locator("[rel=prev]").click()
        image.get_by_role("heading", name="02.png").wait_for()
        assert complaints == []
    finally:
        served.stop()
