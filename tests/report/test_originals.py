"""Where the net sees a part of a photo, sheet and page say how much of the original it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from proofmap.core.inputs import Pictures
from proofmap.report.pictures import crop_words
from tests.command import run
from tests.test_cli import MODEL, NET

LABELS = ("--labels", "top2", "--method", "gradient", "--quiet")


def test_a_sentence_says_how_much_of_a_photo_the_net_sees() -> None:
    square, panorama = Pictures(size=(16, 16)), Image.new("RGBA", (1200, 200))
    assert crop_words(Image.new("RGB", (301, 300)), square) == ""
    assert crop_words(panorama, square).startswith("The net sees 17 % of the original (1200 x 200 pixels)")
    for how in ("pad", "squash"):
        assert crop_words(panorama, Pictures(size=(16, 16), fit=how)) == ""
    margin = Pictures(size=(14, 14), resize=16)
    assert "sees 77 % of the original" in crop_words(Image.new("RGB", (300, 300)), margin)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A net that takes squares, a panorama and a square."""
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "photos").mkdir()
    for name, size in (("panorama", (120, 20)), ("square", (20, 20))):
        pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{name}.png")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.filterwarnings("ignore:.*the net sees the middle")
def test_page_and_sheet_of_explain_say_what_the_net_sees(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    draw = ImageDraw.ImageDraw.text
    monkeypatch.setattr(
        ImageDraw.ImageDraw,
        "text",
        lambda self, xy, words, *a: (written.append(words), draw(self, xy, words, *a)),
    )
    assert run(monkeypatch, "explain", "photos", *MODEL, *LABELS) == 0
    sheets = " ".join(written)
    assert sheets.count("The net sees 17 % of the original (120 x 20 pixels)") == 1, (
        "only the panorama's sheet"
    )
    page = folder / "proofs" / "report.html"
    assert page.read_text(encoding="utf-8").count('<p class="soft">The net sees 17 % of the original') == 1
    assert run(monkeypatch, "explain", "photos", *MODEL, *LABELS, "--fit", "pad", "--force") == 0
    assert "of the original" not in page.read_text(encoding="utf-8")
