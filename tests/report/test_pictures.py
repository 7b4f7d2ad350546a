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
from proofmap.report import pictures, sheets
from proofmap.report.cell import CURVE, curve_picture, cut_picture
from proofmap.report.pictures import crop_words
from proofmap.results import proof_shape
from proofmap.results.proof_shape import ProofShape, percent, shape_of
from tests.command import run
from tests.report.pages import judged
from tests.test_cli import MODEL, NET


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


def test_sheets_print_belief_proof_and_peak_in_percent(drawn: list[str]) -> None:
    found = judged(1, 8, methods=["gradient", "random"], labels="top3")
    changed = replace(found, f=torch.tensor([[0.7512, 0.002, 0.5]]))
    for evaluation in (replace(changed, results=changed.results[:1]), changed):
        drawn.clear()
        sheets.explained_sheet(evaluation, 0)
        for result in evaluation.results:
            curves = result.insertion
            for j, belief in enumerate(("75 %", "<1 %", "50 %")):
                shape = shape_of(evaluation, result, 0, j)
                assert f"belief {belief}, proof {percent(float(curves.auc[0, j]))}" in drawn
                assert f"peak {percent(float(curves.probabilities[0, j, 1:].max()))}" in drawn
                assert shape.verdict in drawn and evaluation.label_name(0, j) in drawn


def test_a_sheet_has_at_most_three_columns() -> None:
    found = judged(1, 8, methods=["gradient"], labels="top3")
    several = replace(found, results=found.results * 3)
    assert sheets.explained_sheet(found, 0).width == 2 * (sheets.SIDE + 24) + 24  # the photo and three labels
    assert sheets.explained_sheet(several, 0).width == 3 * (sheets.SIDE + 24) + 24


# ---- The picture of a proof ------------------------------------------------------------------------------------------


BLUE, SIDE = (0, 100, 170), 20  # of a pixel of a map 16 wide, in a picture 320 wide


def middles(picture: Image.Image) -> np.ndarray:
    """The colour in the middle of each pixel of the map, where no outline is."""
    found: np.ndarray = np.asarray(picture).astype(int)[SIDE // 2 :: SIDE, SIDE // 2 :: SIDE]
    return found


def test_a_proof_is_in_colour_up_to_its_cut_and_a_gray_ghost_elsewhere() -> None:
    generator = torch.Generator().manual_seed(0)
    image, heat = torch.rand(3, 16, 16, generator=generator), torch.rand(16, 16, generator=generator)
    for share in (0.0, 0.25, 1.0):
        seen = middles(cut_picture(image, heat, Pictures(size=(16, 16)), share, BLUE, 16 * SIDE))
        keep = keep_top(heat[None], share)[0].numpy()
        whole = np.asarray(pictures.photo(image, Pictures(size=(16, 16)))).astype(int)
        gray = 172 + 0.3 * (whole @ [0.299, 0.587, 0.114])
        assert (seen[keep] == whole[keep]).all()
        assert np.abs(seen[~keep] - gray[~keep][:, None]).max(initial=0) <= 1.5


def outlined(heat: torch.Tensor, share: float) -> np.ndarray:
    """Where the picture of a proof of a black image has the colour of the outline."""
    image = torch.zeros(3, *heat.shape)
    seen = np.asarray(cut_picture(image, heat, Pictures(size=tuple(heat.shape)), share, BLUE, 320)).astype(
        int
    )
    found: np.ndarray = (np.abs(seen - BLUE) <= 2).all(axis=2)
    return found


def test_the_outline_runs_where_the_shown_part_ends() -> None:
    ramp = -torch.arange(16.0).expand(16, 16)  # the left half first
    columns = np.flatnonzero(outlined(ramp, 0.5)[160])
    assert columns.min() >= 156 and columns.max() <= 163 and len(columns) >= 2


def test_specks_have_no_outline() -> None:
    noise = torch.rand(224, 224, generator=torch.Generator().manual_seed(0))
    assert outlined(noise, 0.2).mean() < 0.005 and outlined(noise, 0.5).mean() < 0.005


def test_the_curve_is_orange_above_the_belief_only() -> None:
    shares, values = np.linspace(0, 1, 5), np.array([0.0, 0.2, 0.8, 0.8, 0.4])
    drawn = np.asarray(curve_picture(shares, values, shape(0.4, 0.4, 0.8, reach=0.3), 300)).astype(int)
    orange = (np.abs(drawn - (246, 201, 168)) <= 2).all(axis=2)
    rows, columns = orange.nonzero()
    assert columns.min() >= 0.33 * 300 and columns.max() > 0.9 * 300  # F passes .4 at a share of .33
    assert rows.max() <= 0.6 * CURVE + 1 and rows.min() >= 0.2 * CURVE - 1


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
    assert shape(0.4, 0.4, 0.5, reach=0.25).cut_words("words", 8) == "2 of 8 words reach the belief"


def test_what_the_fill_gives_is_said_where_it_gives_much() -> None:
    assert shape(0.6, 0.5, 0.7, empty=0.36).empty_words == "nothing shown 36 %"
    assert shape(0.9, 0.9, 0.9, empty=0.2).empty_words == shape(0.1, 0.1, 0.1, empty=0.04).empty_words == ""
    assert shape(0.6, 0.5, 0.7).empty_words == ""


def test_the_bar_of_a_terminal_shows_average_belief_and_peak() -> None:
    assert shape(0.5, 0.5, 0.5).text(10) == "█████│····"
    assert shape(0.0, 0.3, 0.9).text(10) == "│██──────·"
    assert shape(1.0, 1.0, 1.0).text(10) == "█████████│"
    assert shape(math.nan, math.nan, math.nan).text(4) == "····"
