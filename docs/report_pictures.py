"""Screenshots of the HTML report, at the width of a desk and of a telephone: ``python -m docs.report_pictures``.

It judges the photographs of the demo (some minutes), opens the report in Chromium (extra ``browser``), and keeps two
small pictures: the opening, and below it one photograph in full.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

import proofmap as pm
from docs.make_pictures import COMPARED, DEMO, LABELS, PICTURES, judged
from proofmap.report.html import write_report
from tests.browser import chromium

SIZES = {1440: 900, 390: 844}
HEAVIEST = 150_000  # bytes
GAP = 12
"""Pixels between two views."""


def screenshots(report: Path, width: int, anchors: Sequence[str]) -> list[Image.Image]:
    """The report in a window of this width, scrolled to each of these places."""
    shots = []
    with chromium() as browser:
        window = {"width": width, "height": SIZES[width]}
        page = browser.new_context(viewport=window, color_scheme="light", offline=True).new_page()
        page.goto(report.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        for anchor in anchors:
            page.evaluate("(anchor) => { location.hash = anchor; }", anchor)  # also shows an image
            page.locator("#pictures" if anchor.startswith("#image-") else anchor).evaluate(
                "(n) => n.scrollIntoView()"
            )
            page.wait_for_timeout(1000)  # what comes into view is painted then
            shots.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    return shots


def save_small(picture: Image.Image, path: Path) -> None:
    """Fewer colours, then fewer pixels, until the file is light."""
    for share in (1.0, 0.85, 0.7, 0.6, 0.5):
        size = (round(picture.width * share), round(picture.height * share))
        small = picture.resize(size, Image.Resampling.LANCZOS).quantize(
            256, method=Image.Quantize.MAXCOVERAGE
        )
        small.save(path, optimize=True)
        if path.stat().st_size < HEAVIEST:
            return


def save_pictures(evaluation: pm.Evaluation, image: int = 1) -> None:
    """``report-1440.png``, one view below the other, and ``report-390.png``, side by side."""
    with tempfile.TemporaryDirectory() as folder:
        report = write_report(evaluation, Path(folder) / "report.html", command="proofmap demo")
        for width, height in SIZES.items():
            views = screenshots(report, width, ["#verdict", f"#image-{image}"])
            beside = width < 720
            size = (2 * width + GAP, height) if beside else (width, 2 * height + GAP)
            sheet = Image.new("RGB", size, "silver")
            for k, view in enumerate(views):
                sheet.paste(view, (k * (width + GAP), 0) if beside else (0, k * (height + GAP)))
            path = PICTURES / f"report-{width}.png"
            save_small(sheet, path)
            print(f"{path.name}: {path.stat().st_size / 1000:.0f} KB, {Image.open(path).size}")


if __name__ == "__main__":
    save_pictures(judged(DEMO, COMPARED, LABELS))
