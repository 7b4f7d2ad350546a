"""Where the net sees a part of a photo, the page shows the original with a frame around that part."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from proofmap.core.inputs import Pictures
from proofmap.core.inputs.pictures import fit, fitted_size
from proofmap.report.pictures import framed, original_of
from tests.command import run
from tests.test_cli import MODEL, NET

SQUARE = Pictures(size=(16, 16))
LABELS = ("--labels", "top2", "--method", "gradient", "--quiet")


@given(given=st.tuples(st.integers(4, 400), st.integers(4, 400)), resize=st.sampled_from([None, 16, 20, 31]))
def test_the_part_that_is_seen_is_what_fit_cuts_out(given: tuple[int, int], resize: int | None) -> None:
    left, top, right, bottom = Pictures(size=16, resize=resize).seen_part(Image.new("RGB", given))
    (wide, high), (x, y) = fitted_size(given, (16, 16), resize)
    assert (left * wide, top * high) == pytest.approx((x, y))
    assert ((right - left) * wide, (bottom - top) * high) == pytest.approx((16, 16))


def test_the_frame_is_around_the_pixels_that_the_net_gets() -> None:
    """A photo that is red exactly where the net looks gives a red picture, and red inside the frame alone."""
    photo = Image.new("RGB", (600, 100), "blue")
    photo.paste((255, 0, 0), (250, 0, 350, 100))
    assert (np.asarray(fit(photo, (16, 16), None, "nearest")) == (255, 0, 0)).all()
    small = np.asarray(framed(photo, SQUARE.seen_part(photo))).astype(int)
    red = (small[..., 0] > 250) & (small[..., 2] < 5)
    columns = np.flatnonzero(red.any(axis=0))
    wide = small.shape[1]
    assert small.shape[1] == 320 and columns.min() >= wide * 250 / 600 - 1
    assert columns.max() <= wide * 350 / 600 + 1 and len(columns) > wide / 6 - 10
    assert small[..., 2].max() > 200, "the frame is white"
    assert 80 < small[20, 20, 2] < 160, "what the net does not see is darker"


def test_a_photo_that_is_seen_whole_needs_no_original() -> None:
    assert original_of(Image.new("RGB", (300, 300)), SQUARE) is None
    assert original_of(Image.new("RGB", (301, 300)), SQUARE) is None
    panorama = Image.new("RGBA", (1200, 200))
    for how in ("pad", "squash"):
        assert original_of(panorama, Pictures(size=(16, 16), fit=how)) is None
    found = original_of(panorama, SQUARE)
    assert found is not None
    assert found.words.startswith(
        "The original, 1200 x 200. The net sees 17 % of it, the part inside the frame"
    )
    margin = original_of(Image.new("RGB", (300, 300)), Pictures(size=(14, 14), resize=16))
    assert margin is not None and "sees 77 % of it" in margin.words
    assert original_of(Image.new("RGB", (300, 300)), Pictures(size=(14, 14), resize=16), cropped=True) is None


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


def originals_in(page: Path) -> list[tuple[str, str]]:
    text = page.read_text(encoding="utf-8")
    figure = r'<figure class="original"><img src="data:image/jpeg;base64,([^"]+)".*?alt="The original of (.+?), with'
    found = re.findall(figure, text)
    for data, _ in found:
        assert Image.open(io.BytesIO(base64.b64decode(data))).size == (120, 20)
    return [
        (name, "The net sees 17 % of it" if "The net sees 17 % of it" in text else "") for _, name in found
    ]


@pytest.mark.filterwarnings("ignore::proofmap.data.photos.CropWarning")
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
    assert originals_in(folder / "proofs" / "report.html") == [("panorama", "The net sees 17 % of it")]
    assert run(monkeypatch, "explain", "photos", *MODEL, *LABELS, "--fit", "pad", "--force") == 0
    assert originals_in(folder / "proofs" / "report.html") == []


def test_the_page_of_a_study_does_so_while_the_photos_are_at_hand(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ("--data", "photos", "--methods", "gradient", "--no-pictures", "--quiet", "--out", "run")
    assert run(monkeypatch, "evaluate", *flags, *MODEL) == 0
    assert originals_in(folder / "run" / "report.html") == [("panorama.png", "The net sees 17 % of it")]
    (folder / "photos").rename(folder / "elsewhere")
    assert run(monkeypatch, "report", "run") == 0
    assert originals_in(folder / "run" / "report.html") == []
