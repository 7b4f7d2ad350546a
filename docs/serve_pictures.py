"""Screenshots of the page of ``proofmap serve``: ``python -m docs.serve_pictures``.

It starts a server with the demo's net, takes the sample photo of a rocket, waits for the maps (a minute or two), and paints
a proof. Two small pictures are kept: the proofs, and the painting. Then a server of a forest of trees shows a row of scikit-learn's breast-cancer
table, one of py3langid a text in two languages, and one of a small net a whistle that rises.
"""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import joblib
import numpy as np
import torch
from PIL import Image

from docs.make_pictures import PICTURES
from docs.report_pictures import save_small
from docs.series_picture import sounds
from tests.browser import chromium

WINDOW = {"width": 1280, "height": 900}
TEXT = "The committee voted yesterday, aber niemand wusste davon."
PATIENCE = 1_800_000  # milliseconds
STROKES = (
    ((0.40, 0.34), (0.58, 0.34)),
    ((0.38, 0.42), (0.60, 0.42)),
    ((0.40, 0.50), (0.58, 0.50)),
    ((0.48, 0.3), (0.48, 0.85)),
)
"""Where the brush goes, as shares of the photo's sides."""


@contextmanager
def served(*options: str) -> Iterator[str]:
    """The address of a server that runs meanwhile."""
    command = [sys.executable, "-m", "proofmap", "serve", "--no-browser", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            assert server.stdout is not None
            yield next(word for line in server.stdout for word in line.split() if word.startswith("http"))
        finally:
            server.terminate()


def play(page: Any) -> None:
    """The story: a sample photo, its proofs, of which a picture is saved, and a painted proof."""
    page.locator("#samples button", has_text="rocket").click()
    page.locator("#saving:not([hidden])").wait_for()
    save_small(pictured(page, "h1", "#rows"), PICTURES / "serve-proofs.png")
    page.locator("#tab-paint").click()
    page.locator("#size").fill("30")
    canvas = page.locator("#canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    for start, end in STROKES:
        page.mouse.move(
            *(
                box[a] + share * box[side]
                for a, share, side in zip("xy", start, ("width", "height"), strict=True)
            )
        )
        page.mouse.down()
        page.mouse.move(
            *(
                box[a] + share * box[side]
                for a, share, side in zip("xy", end, ("width", "height"), strict=True)
            ),
            steps=5,
        )
        page.mouse.up()
    page.wait_for_timeout(3000)  # the answer to the last stroke
    page.mouse.move(2, 2)


def pictured(page: Any, first: str, last: str) -> Image.Image:
    """The page from the top of one part to the end of another."""
    page.evaluate("() => scrollTo(0, 0)")
    whole = Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB")
    top, bottom = page.locator(first).bounding_box(), page.locator(last).bounding_box()
    above = max(0, int(top["y"]) - 12)
    return whole.crop((0, above, whole.width, int(bottom["y"] + bottom["height"]) + 12))


def save_row(browser: Any) -> None:
    """``serve-row.png``: a tumour that the forest calls malignant."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.ensemble import RandomForestClassifier

    table = load_breast_cancer(as_frame=True)
    diagnosis = table.target.map({0: "malignant", 1: "benign"})
    with TemporaryDirectory() as folder:
        model, data = Path(folder, "forest.joblib"), Path(folder, "tumours.csv")
        joblib.dump(RandomForestClassifier(50, random_state=0).fit(table.data[200:], diagnosis[200:]), model)
        table.data[:200].assign(diagnosis=diagnosis[:200]).to_csv(data, index=False)
        options = ("--model", f"sklearn:{model}?pickle=true", "--data", str(data), "--target", "diagnosis")
        with served(*options) as address:
            page = _opened(browser, address)
            page.locator(".pick").nth(1).click()
            page.locator("#saving:not([hidden])").wait_for()
            save_small(pictured(page, "#desk", "#rows"), PICTURES / "serve-row.png")


def save_text(browser: Any) -> None:
    """``serve-text.png``."""
    with served("--model", "py3langid") as address:
        page = _opened(browser, address)
        page.locator("#text").fill(TEXT)
        page.locator("#read").click()
        page.locator("#saving:not([hidden])").wait_for()
        save_small(pictured(page, "#desk", "#rows"), PICTURES / "serve-text.png")


def save_series(browser: Any) -> None:
    """``serve-series.png``: a whistle in noise, and whether it rises."""
    with TemporaryDirectory() as folder:
        net, data = Path(folder, "whistles.py"), Path(folder, "whistles.npz")
        net.write_text(
            "import proofmap as pm\nfrom docs.series_picture import INPUTS, trained\n\n\n"
            'def make():\n    return pm.Classifier(trained(), inputs=INPUTS, names=["rises", "falls"])\n'
        )
        x, falls = sounds(6, torch.Generator().manual_seed(3))
        np.savez(data, series=x.numpy(), labels=np.array(["rises", "falls"])[falls.numpy()])
        with served("--model", f"{net}:make", "--data", str(data)) as address:
            page = _opened(browser, address)
            page.locator(".pick").first.click()
            page.locator("#saving:not([hidden])").wait_for()
            save_small(pictured(page, "#desk", "#rows"), PICTURES / "serve-series.png")


def _opened(browser: Any, address: str) -> Any:
    page = browser.new_context(viewport=WINDOW, color_scheme="light").new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    page.wait_for_selector("html[data-ready]", state="attached")
    return page


def save_pictures() -> None:
    """``serve-proofs.png`` and ``serve-paint.png``."""
    with served() as address, chromium() as browser:
        page = browser.new_context(viewport=WINDOW, color_scheme="light").new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(address)
        play(page)
        save_small(pictured(page, "#desk", "#paint"), PICTURES / "serve-paint.png")
        save_row(browser)
        save_text(browser)
        save_series(browser)


if __name__ == "__main__":
    save_pictures()
