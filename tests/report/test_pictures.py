"""Pictures show what the numbers say."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from proofmap.core.inputs import Pictures
from proofmap.core.ranking import keep_top
from proofmap.judging import evaluate
from proofmap.report import pictures, sheets
from proofmap.report.pictures import crop_words
from proofmap.results import proof_shape
from proofmap.results.proof_shape import ProofShape, percent, shape_of
from tests.command import run
from tests.report.pages import judged
from tests.test_cli import MODEL, NET
from tests.toys import conv_classifier, pixels


def test_the_kept_picture_shows_exactly_the_top_pixels() -> None:
    generator = torch.Generator().manual_seed(0)
    image = torch.rand(3, 12, 10, generator=generator) * 0.5  # darker than the gray that hides
    heat = torch.rand(12, 10, generator=generator)
    shown = np.asarray(pictures.masked_photo(image, heat, Pictures(size=(12, 10)), 0.25))
    gray = round(0.86 * 255)
    visible = (shown != gray).any(axis=2)
    assert visible.sum() == 30
    assert (visible == keep_top(heat[None], 0.25)[0].numpy()).all()


def test_brighter_means_more_salient_and_lightness_rises_evenly() -> None:
    colours = pictures.heat_colours(np.linspace(0, 1, 65))
    lightness = colours @ [0.299, 0.587, 0.114]
    assert (np.diff(lightness) > 0).all()


def test_a_flat_map_is_drawn_without_dividing_by_zero() -> None:
    assert (pictures.displayed(torch.full((4, 4), 3.0)) == 0).all()


def test_outliers_do_not_darken_the_rest_of_a_map() -> None:
    heat = torch.linspace(0, 1, 10_000).view(100, 100).clone()
    heat[0, 0] = 1e6
    assert pictures.displayed(heat)[50].mean() == pytest.approx(0.5, abs=0.03)


def test_more_than_three_channels_show_the_first_three_and_two_their_mean_as_gray() -> None:
    image = torch.rand(5, 4, 4, generator=torch.Generator().manual_seed(0))
    inputs = Pictures(size=(4, 4))
    assert (np.asarray(pictures.photo(image, inputs)) == np.asarray(pictures.photo(image[:3], inputs))).all()
    gray = np.asarray(pictures.photo(image[:2], inputs))
    expected = (255 * (image[0] + image[1]) / 2).round().numpy()
    assert (np.abs(gray - expected[..., None]) <= 1).all() and (gray == gray[..., :1]).all()


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are drawn on pictures from now on."""
    texts: list[str] = []
    draw = ImageDraw.ImageDraw.text
    monkeypatch.setattr(
        ImageDraw.ImageDraw,
        "text",
        lambda self, xy, words, *a: (texts.append(words), draw(self, xy, words, *a)),
    )
    return texts


def test_sheets_print_probabilities_in_percent(drawn: list[str]) -> None:
    found = judged(1, 8, methods=["gradient"], labels="top3")
    small = replace(found, f=torch.tensor([[0.7512, 0.002, 0.5]]))
    heads = ["whole image 75 %", "whole image <1 %", "whole image 50 %"]
    curves = found.results[0].insertion
    areas = [percent(auc) for auc in curves.auc[0].tolist()]
    peaks = [percent(max(curve)) for curve in curves.probabilities[0, :, 1:].tolist()]
    numbers = [f"average {auc}, peak {peak}" for auc, peak in zip(areas, peaks, strict=True)]
    for sheet in (sheets.proof_sheet, sheets.comparison_sheet):
        drawn.clear()
        sheet(small, 0)
        assert [words for words in drawn if words.startswith("whole image")] == heads
        assert [words for words in drawn if words.startswith("average")] == numbers


def test_the_shape_of_a_proof_is_drawn_to_scale() -> None:
    """A made-up proof in a box 101 wide: one pixel is one percent."""
    page = Image.new("RGB", (101, 18), (255, 255, 255))
    found = ProofShape(0.4, 0.3, 0.7, 0.2, 1.0, 1.0, 1.75)
    sheets.draw_shape(ImageDraw.Draw(page), found, 0, 0, 101)
    row = [page.getpixel((x, 5)) for x in range(101)]
    assert row[35] == row[60] == row[10] != row[80]  # the average, and the line up to the peak
    ink = page.getpixel((40, 1))  # the mark of the belief
    assert ink not in (page.getpixel((39, 1)), page.getpixel((43, 1)))
    assert page.getpixel((20, 15)) != page.getpixel((21, 15))  # how few pixels reach it


def test_the_verdict_of_a_map_is_that_of_its_scores() -> None:
    """A run may score proofs on another curve than the one that is drawn."""
    found = judged(2, 8, methods=["gradient"], labels="top3")
    result = found.results[0]
    ones = torch.ones(2, 3)
    pairs = {"completeness": 0.3 * ones, "completeness-2": ones, "soundness": 0.4 * ones}
    pairs["soundness"][1, 1] = math.nan
    changed = replace(result, pairs=pairs, insertion=replace(result.insertion, auc=found.f.clone()))
    assert proof_shape.proof_values(found, changed, 0, 1) == pytest.approx((0.3, 0.4))
    assert proof_shape.proof_values(found, changed, 1, 1) == pytest.approx(
        (0.3, 1.0)
    )  # the drawn curve matches f
    assert proof_shape.proof_values(found, replace(changed, pairs={}), 0, 1) == pytest.approx((1.0, 1.0))


# ---- signed maps -------------------------------------------------------------------------------------------


def luminance(colours: np.ndarray) -> np.ndarray:
    linear: np.ndarray = (colours / 255) ** 2.2 @ np.array([0.2126, 0.7152, 0.0722])
    return linear


def test_signed_colours_are_brightest_at_zero_and_equally_dark_on_both_sides() -> None:
    colours = pictures.heat_colours(np.linspace(0, 1, 65), signed=True)
    light = luminance(colours)
    assert light.argmax() == 32 and (np.diff(light[:33]) > 0).all() and (np.diff(light[32:]) < 0).all()
    assert np.abs(light - light[::-1]).max() < 0.1
    assert colours[0, 2] > colours[0, 0] and colours[-1, 0] > colours[-1, 2], "blue is against, orange for"


def test_zero_stays_zero_in_a_signed_map() -> None:
    values = torch.arange(-10, 31) / 10
    shown = pictures.displayed(values, signed=True)
    assert shown[10] == 0.5 and (np.diff(shown) >= 0).all()
    assert shown[0] == pytest.approx(1 / 3, abs=0.01)
    assert (pictures.displayed(torch.zeros(3, 3), signed=True) == 0.5).all()
    mostly_zero = torch.zeros(1000)
    mostly_zero[5] = -2.0
    assert pictures.displayed(mostly_zero, signed=True)[5] == 0.0


def test_sheets_show_signed_maps_in_two_colours_with_a_bar() -> None:
    f, images = conv_classifier(16), pixels(1, 16)
    sign = evaluate(f, images, methods=["gradient-x-input"], labels="top2")
    size = evaluate(f, images, methods=["gradient"], labels="top2")
    both = evaluate(
        f, images, methods=["gradient", "gradient-x-input", "top-label:gradient-x-input"], labels="top2"
    )
    assert [r.signed for r in both.results] == [False, True, True]
    for sheet, plain in (
        (sheets.proof_sheet(sign, 0), sheets.proof_sheet(size, 0)),
        (sheets.comparison_sheet(sign, 0), sheets.comparison_sheet(size, 0)),
    ):
        assert sheet.height > plain.height and holds(sheet, pictures.colour_bar(140, 12))
        assert not holds(plain, pictures.colour_bar(140, 12))
    assert holds(sheets.comparison_sheet(both, 0), pictures.colour_bar(140, 12))


def holds(sheet: Image.Image, part: Image.Image) -> bool:
    """Whether a picture is somewhere in another, pixel for pixel."""
    whole, piece = np.asarray(sheet), np.asarray(part)
    places = np.argwhere((whole == piece[0, 0]).all(axis=-1))
    h, w = piece.shape[:2]
    return any(np.array_equal(whole[y : y + h, x : x + w], piece) for y, x in places)


# ---- Where the net sees a part of a photo, sheet and page say how much of the original it is --------------------------


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


# ---- One proof at a glance: its numbers against plain loops over the curve, and what its words say, case by case ------


def shape(
    f: float,
    proof: float,
    peak: float,
    *,
    reach: float | None = 0.1,
    completeness: float = 1.0,
    steadiness: float = 1.0,
    empty: float = math.nan,
) -> ProofShape:
    soundness = min(max(f, 0.001) / proof, 1.0) if proof else 1.0
    overshoot = peak / max(f, 0.001)
    return ProofShape(f, proof, peak, reach, completeness, soundness, overshoot, steadiness, 0.2, empty)


def test_numbers_are_those_of_a_loop_over_the_curve() -> None:
    found = judged(2, 8, methods=["gradient", "random"], labels="top3", metrics=["completeness", "soundness"])
    for result in found.results:
        curves = result.insertion
        for i in range(2):
            for j in range(3):
                points = [
                    (int(c) / curves.positions, float(p))
                    for c, p in zip(curves.counts, curves.probabilities[i, j], strict=True)
                    if c > 0
                ]
                f = float(found.f[i, j])
                there = [share for share, p in points if p >= 0.9 * f]
                got = shape_of(found, result, i, j)
                share, _ = max(points, key=lambda point: point[1])
                assert (got.peak_share, got.empty) == (share, float(curves.probabilities[i, j, 0]))
                assert got.peak == pytest.approx(max(p for _, p in points))
                assert got.reach == pytest.approx(min(there, default=1.0))
                assert (got.belief, got.proof) == (f, float(curves.auc[i, j]))
                assert got.overshoot == pytest.approx(got.peak / f)


def test_steadiness_is_that_of_the_metric() -> None:
    found = judged(3, 8, methods=["gradient", "random"], labels="top1", metrics=["steadiness", "insertion"])
    for result in found.results:
        for i, value in enumerate(result.values["steadiness"].tolist()):
            assert shape_of(found, result, i, 0).steadiness == pytest.approx(value)


def test_a_label_that_the_net_does_not_believe_has_no_reach() -> None:
    found = judged(1, 8, methods=["gradient"], labels="top2")
    unbelieved = replace(found, f=found.f * 0 + 0.002)
    assert shape_of(unbelieved, found.results[0], 0, 0).reach is None


@pytest.mark.parametrize(
    "given, word, said",
    [
        (shape(0.39, 0.43, 0.45), "proof", "proof"),
        (
            shape(0.39, 0.43, 0.71, steadiness=0.7),
            "overshoots 1.8 x",
            "right on average, overshoots 1.8 x",
        ),
        (shape(0.39, 0.38, 0.45, steadiness=0.7), "unsteady", "right on average, unsteady"),
        (shape(0.5, 0.23, 0.45, completeness=0.46), "too weak", "too weak: 46 % of the belief"),
        (shape(0.5, 0.3999, 0.45, completeness=0.7998), "too weak", "too weak: 79 % of the belief"),
        (shape(0.3, 0.6, 0.95), "too strong", "too strong: 2.0 times the belief"),
        (
            shape(0.002, 0.2, 0.6, reach=None),
            "too strong",
            "too strong: 20 % for a label that the net does not believe",
        ),
        (shape(0.0002, 0.0005, 0.001, reach=None), "trifle", "trifle: never above 1 %"),
        (shape(0.02, 0.04, 0.049), "trifle", "trifle: never above 5 %"),
        (shape(0.06, 0.01, 0.02, completeness=0.2), "too weak", "too weak: 20 % of the belief"),
        (shape(0.5, 0.5, 0.5, completeness=math.nan), "not judged", "not judged"),
    ],
)
def test_the_words_say_what_the_curve_does(given: ProofShape, word: str, said: str) -> None:
    assert (given.verdict, given.summary) == (word, said)


@pytest.mark.parametrize(
    "given, cut, said",
    [
        (shape(0.4, 0.4, 0.5), 0.1, "10 % of the pixels reach the belief"),
        (shape(0.4, 0.1, 0.4, reach=1.0, completeness=0.25), 1.0, "only all pixels reach the belief"),
        (shape(0.3, 0.6, 0.95), 0.2, "cut at the peak: 20 % of the pixels"),
        (shape(0.002, 0.003, 0.3, reach=None), 0.2, "cut at the peak: 20 % of the pixels"),
        (
            shape(0.4, 0.1, 0.3, reach=1.0, completeness=0.25),
            0.2,
            "never reaches the belief, cut at the peak: 20 % of the pixels",
        ),
        (shape(0.4, 0.4, 0.5, empty=0.38), 0.0, "0 pixels needed"),
    ],
)
def test_a_picture_is_cut_where_the_proof_reaches_the_belief_or_at_its_peak(
    given: ProofShape, cut: float, said: str
) -> None:
    assert (given.cut, given.cut_words()) == (cut, said)


def test_what_the_fill_gives_is_said_where_it_gives_much() -> None:
    assert shape(0.6, 0.5, 0.7, empty=0.36).empty_words == "nothing shown 36 %"
    assert shape(0.9, 0.9, 0.9, empty=0.2).empty_words == shape(0.1, 0.1, 0.1, empty=0.04).empty_words == ""
    assert shape(0.6, 0.5, 0.7).empty_words == ""


def test_the_bar_of_a_terminal_shows_average_belief_and_peak() -> None:
    assert shape(0.5, 0.5, 0.5).text(10) == "█████│····"
    assert shape(0.0, 0.3, 0.9).text(10) == "│██──────·"
    assert shape(1.0, 1.0, 1.0).text(10) == "█████████│"
    assert shape(math.nan, math.nan, math.nan).text(4) == "····"
