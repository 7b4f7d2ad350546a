"""A real browser with the network off, for tests of pages and for the pictures in docs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

# One character for each byte: a list of numbers costs seconds on both sides.
_PIXELS = """(canvases) => canvases.map((c) => {
  const bytes = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
  return [c.height, c.width, Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")];
})"""


NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""Programs, the first that exists is used. Debian's shell is Chromium without windows: it takes two thirds of the processor time."""


class NoBrowser(Exception):
    """There is no browser here; the message says why."""


@contextmanager
def chromium() -> Iterator[Any]:
    """Chromium through Playwright: the system's, otherwise the one that Playwright keeps."""
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        raise NoBrowser("playwright is not installed: pip install 'proofmap[browser]'") from None
    found = next(filter(None, map(shutil.which, NAMES)), None)
    flags = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []  # root has no sandbox
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=found, args=flags)
        except Error as error:
            raise NoBrowser(f"Chromium does not start: {str(error).splitlines()[0]}") from None
        yield browser
        browser.close()


def pixels_of(canvases: Any) -> list[NDArray[np.uint8]]:
    """Red, green, blue and opacity ``(H, W, 4)`` of the canvases that a locator finds."""
    return [
        np.frombuffer(text.encode("latin-1"), np.uint8).reshape(height, width, 4)
        for height, width, text in canvases.evaluate_all(_PIXELS)
    ]


def serious(page: Any) -> list[tuple[str, ...]]:
    """What axe calls serious or critical about the accessibility of a page; a test is skipped where axe is not installed."""
    import pytest

    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    return [
        (found["id"], node["html"][:200], node["failureSummary"])
        for found in axe.Axe().run(page).response["violations"]
        if found["impact"] in ("serious", "critical")
        for node in found["nodes"]
    ]
