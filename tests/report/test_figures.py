"""Figures: the record holds the numbers, the drawing shows the record, the caption names the settings."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import proofmap as pm
from proofmap.cli.figures import _settings
from proofmap.core.errors import InputError
from proofmap.core.ranking import keep_top
from proofmap.fills import Noise
from proofmap.metrics.scores import completeness
from proofmap.report import figures
from proofmap.report.figures import drawing, grid
from proofmap.report.figures.curves import CurvesFigure, Line, Panel, curves_figure, tv_curves
from proofmap.report.figures.learned import artifacts, masks_by_k
from proofmap.report.figures.masks import (
    desk_of,
    desk_of_photo,
    mask_grid,
    two_objects,
    two_objects_of,
    wrong_mask_grid,
)
from proofmap.report.figures.scatter import ScatterFigure, ScatterPanel, ScatterPoint, scatter_figure
from proofmap.report.pictures import masked_photo
from proofmap.results.proof_shape import strength
from tests.sessions import bound
from tests.toys import conv_classifier, pixels

pytestmark = pytest.mark.usefixtures("drawn_figures")

SIZE = 8
QUICK = pm.LearnedMask(steps=3, scale=2, fill=Noise())


@pytest.fixture(scope="module")
def f() -> pm.Classifier:
    return conv_classifier(SIZE, 4, names=["cat", "dog", "5$ bird", "fish_tank"])


@pytest.fixture(scope="module")
def images() -> Tensor:
    return pixels(3, SIZE)


@pytest.fixture(scope="module")
def found(f: pm.Classifier, images: Tensor) -> pm.Evaluation:
    return pm.evaluate(f, images, methods=["gradient-x-input", "grad-cam", "random"], labels="all")


def drawn(figure: drawing.Figure) -> Any:
    """The matplotlib figure, for looking at what was drawn."""
    pytest.importorskip("matplotlib").use("Agg")
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.close("all")
    with plt.rc_context(drawing._STYLE):
        return figure.drawn(plt)


def words(figure: Any) -> list[str]:
    """All text of a drawn figure."""
    text = pytest.importorskip("matplotlib.text")
    return [t.get_text() for t in figure.findobj(text.Text) if t.get_text()]


# ---- files -------------------------------------------------------------------------------------------------


def small_figure(name: str, f: pm.Classifier, images: Tensor, found: pm.Evaluation) -> drawing.Figure:
    """The figure with few pictures: drawing them is what takes time."""
    mine: dict[str, Any] = {"classifier": f, "images": images[:1]}
    settings: dict[str, dict[str, Any]] = {
        "tv-curves": {**mine, "method": QUICK, "fills": ("gray", "noise"), "tvs": (0.0, 0.1)},
        "artifact": {**mine, "method": QUICK, "labels": ["cat", "5$ bird"]},
        "masks-by-k": {**mine, "method": QUICK, "ks": (1, 2)},
        "two-objects": {**mine, "labels": ["cat", "dog"], "methods": ["gradient", "random"]},
        "desk-photo": {**mine, "methods": ["gradient", "random"]},
        "theorem": {"d": 32, "gammas": (0.5,), "trials": 5, "points": 4},
    }
    results = tuple(dataclasses.replace(r, maps=r.maps[:1]) for r in found.results)
    one = dataclasses.replace(found, results=results, images=found.images[:1], pictured=(0,))
    return figures.make_figure(name, **{"evaluation": one, **settings.get(name, {})})


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name == "curves" else [pytest.mark.slow]) for name in drawing.FIGURES],
)
def test_every_figure_becomes_a_pdf(
    name: str, f: pm.Classifier, images: Tensor, found: pm.Evaluation, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    content = drawing.draw(small_figure(name, f, images, found), tmp_path / f"{name}.pdf").read_bytes()
    assert content.startswith(b"%PDF-") and content.rstrip().endswith(b"%%EOF")
    assert b"/FontType 3" not in content and b"/Type3" not in content  # TrueType, not outlines


@pytest.mark.parametrize("name", drawing.FIGURES)
def test_every_figure_becomes_a_png_and_a_caption(
    name: str,
    f: pm.Classifier,
    images: Tensor,
    found: pm.Evaluation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(drawing, "DPI", 40)  # quicker to fill
    figure = small_figure(name, f, images, found)
    png = drawing.draw(figure, tmp_path / f"{name}.png")
    with Image.open(png) as picture:
        picture.verify()
    with Image.open(png) as picture:
        assert picture.width <= 1.02 * 60 * drawing.WIDTH  # fits the text width
        assert np.asarray(picture.convert("L")).std() > 1
    caption = figure.caption()
    assert caption.endswith(".") and "\n" not in caption and "Settings: " in caption
    if name != "theorem":
        assert (
            "net Sequential" in caption and "seed 0" in caption and re.search(r"\d (images?|rows)", caption)
        )
    assert not list(tmp_path.glob(".*"))


def test_the_same_record_gives_the_same_bytes(found: pm.Evaluation, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for kind in ("pdf", "svg"):
        a, b = (drawing.draw(curves_figure(found), tmp_path / f"{k}.{kind}").read_bytes() for k in "ab")
        assert a == b


def test_draw_figure_writes_what_was_asked_for(found: pm.Evaluation, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    written = figures.draw_figure("curves", evaluation=found, out=tmp_path / "new", formats=("pdf",))
    assert [p.name for p in written] == ["curves.pdf", "curves.txt"]
    assert written[1].read_text() == curves_figure(found).caption() + "\n"
    assert figures.figures_of(found) == ["curves", "scatter", "mask-grid", "mask-grid-wrong"]


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("pie", {}, "no figure is named 'pie'. Known are: artifact, curves"),
        ("curves", {}, "is drawn from an evaluation"),
        ("artifact", {}, "it needs a classifier and images"),
        ("theorem", {"formats": ("gif",)}, "written as pdf, png, svg, not gif"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_written(
    name: str, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        figures.draw_figure(name, out=tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


# ---- curves ------------------------------------------------------------------------------------------------


def test_the_drawn_lines_are_the_mean_curves(found: pm.Evaluation) -> None:
    figure = drawn(curves_figure(found))
    for place, axis in enumerate(figure.axes):
        for line, result in zip(axis.get_lines(), found.results, strict=False):
            expected = [
                sum(p) / len(p) for p in zip(*result.insertion.probabilities[:, place].tolist(), strict=True)
            ]
            assert list(line.get_ydata()) == pytest.approx(expected, abs=1e-6)
            assert line.get_xdata()[-1] == 100
    areas = [r.insertion.auc[:, :2].mean(dim=0).tolist() for r in found.results]
    legend = [t for t in words(figure) if t.startswith("grad-cam (")]
    assert legend == [f"grad-cam ({', '.join(f'{a:.2f}'.removeprefix('0') for a in areas[1])})"]


def test_one_map_for_all_labels_is_dashed_and_hollow(found: pm.Evaluation) -> None:
    lines = drawn(curves_figure(found)).axes[0].get_lines()[:3]
    assert [line.get_linestyle() for line in lines] == ["-", "-", "--"]
    assert "Dashed: one map for all labels." in curves_figure(found).caption()
    line = Line("m", (0.0, 1.0), (0.0, 0.9), 0.9, 0.5)
    low = dataclasses.replace(line, probabilities=(0.0, 0.15))
    panels = (Panel("one", (line,)), Panel("two", (low,)))
    assert "The vertical axes end at 1.00 and .20." in CurvesFigure(panels, "").caption()
    assert "vertical axes" not in CurvesFigure(panels[:1] * 2, "").caption()
    assert "Hollow: one map for all labels." in scatter_figure(found).caption()


def test_curves_by_tv_are_the_insertion_curves_of_masks_learned_so(f: pm.Classifier, images: Tensor) -> None:
    record = tv_curves(f, images, tvs=(0.0, 1.0), method=QUICK, fills=("gray", "noise"))
    labels = f.probabilities(images).topk(2, dim=1).indices
    for k, tv in enumerate((0.0, 1.0)):
        maps = dataclasses.replace(QUICK, tv=tv)(f, images, labels)
        for column, fill in enumerate(("gray", "noise")):
            curves = pm.insertion(f.frozen(), images, maps, labels, fill=fill)
            for place in range(2):
                line = record.rows[place][column].lines[k]
                assert line.method == f"{tv:g}"
                assert line.auc == pytest.approx(float(curves.auc[:, place].mean()), abs=1e-5)
                assert line.probabilities[-1] == pytest.approx(line.believed, abs=1e-5)
    assert "steps 3" in record.settings and "tv" not in record.settings and "noise" in record.settings
    axes = drawn(record).axes
    assert axes[0].get_ylim()[1] >= max(max(line.probabilities) for line in record.rows[0][0].lines)
    assert axes[2].get_xlabel() and not axes[0].get_xlabel()
    assert len(axes) == 4 and axes[0].get_lines()[1].get_ydata()[3] == pytest.approx(
        record.rows[0][0].lines[1].probabilities[3]
    )


# ---- scatter -----------------------------------------------------------------------------------------------


def test_points_stand_at_their_scores_with_their_intervals_and_numbers(found: pm.Evaluation) -> None:
    figure = drawn(scatter_figure(found))
    for axis, x in zip(figure.axes, ("completeness", "best-effort"), strict=True):
        marks = [line.get_xydata()[0].tolist() for line in axis.get_lines() if len(line.get_xydata()) == 1]
        expected = [[r.score(x).value, r.score("soundness").value] for r in found.results]
        assert marks == [pytest.approx(e) for e in expected]
        numbers = sorted(n for t in axis.texts if t.get_text() for n in t.get_text().split(", "))
        assert numbers == ["1", "2", "3"]
    legend = [t.get_text() for t in figure.legends[0].get_texts()]
    assert legend == [f"{k}  {r.name}" for k, r in enumerate(found.results, 1)]


def test_marks_that_cover_one_another_share_one_text() -> None:
    points = tuple(
        ScatterPoint(f"method {k}", k % 2 == 0, (x, x - 0.1, x + 0.1), (y, y - 0.1, y + 0.1))
        for k, (x, y) in enumerate(
            [(0.5, 0.5), (0.52, 0.5), (0.5, 0.53), (0.98, 0.5), (0.97, 0.97), (0.02, 0.02)]
        )
    )
    figure = drawn(ScatterFigure((ScatterPanel("completeness", points),), ""))
    numbers = [t for t in figure.axes[0].texts if t.get_text()]
    assert [t.get_text() for t in numbers] == ["1–3", "4", "5", "6"]
    boxes = [t.get_window_extent(figure.canvas.get_renderer()) for t in numbers]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert all(b.x0 >= 0 and b.x1 <= figure.bbox.width for b in boxes)


def test_the_caption_says_how_many_images_best_effort_counts(found: pm.Evaluation) -> None:
    results = [
        dataclasses.replace(r, scores=tuple(dataclasses.replace(s, n=2) for s in r.scores))
        for r in found.results
    ]
    caption = scatter_figure(dataclasses.replace(found, results=results)).caption()
    assert f"over the 2 of {len(found)} images that it counts: was" in caption
    first = dataclasses.replace(
        results[0], scores=tuple(dataclasses.replace(s, n=1) for s in results[0].scores)
    )
    caption = scatter_figure(dataclasses.replace(found, results=(first, *results[1:]))).caption()
    assert f"over 1 to 2 of {len(found)} images, by method: was" in caption


def test_a_score_that_counts_no_image_has_no_panel(found: pm.Evaluation) -> None:
    results = tuple(
        dataclasses.replace(
            r,
            scores=tuple(
                dataclasses.replace(s, value=torch.nan, n=0) if s.name == "best-effort" else s
                for s in r.scores
            ),
        )
        for r in found.results
    )
    record = scatter_figure(dataclasses.replace(found, results=results))
    assert [panel.kind for panel in record.panels] == ["completeness"] and "Right" not in record.caption()


# ---- pictures ----------------------------------------------------------------------------------------------


def gray_bytes(f: pm.Classifier) -> tuple[int, int, int]:
    """What the net sees in place of hidden pixels, as a picture shows it."""
    red, green, blue = (255 * f.gray).round().int().tolist()
    return red, green, blue


def test_the_grid_shows_thirty_percent_of_each_methods_map(f: pm.Classifier, found: pm.Evaluation) -> None:
    hidden = gray_bytes(f)
    for place, make in enumerate((mask_grid, wrong_mask_grid)):
        record = make(found)
        assert record.headings == ("image", "gradient-x-input", "grad-cam", "random*")
        for i, row in enumerate(record.rows):
            label = found.label_names[int(found.labels[i, place])]
            assert row[0] is not None and row[0].below.startswith(label + "\nf = ")
            for cell, result in zip(row[1:], found.results, strict=True):
                heat = found.map_of(result, i, place)
                assert cell is not None
                assert (
                    cell.pixels
                    == np.asarray(masked_photo(found.image_of(i), heat, found.inputs, 0.3, hidden))
                ).all()
                assert int(keep_top(heat[None], 0.3).sum()) == 19  # of 64
                auc = float(result.insertion.auc[i, place])
                assert cell.below.split()[0] == grid.short_probability(auc)


def test_signs_agree_with_the_scores() -> None:
    for value, auc in [
        (0.5, 0.1),
        (0.1, 0.5),
        (0.5, 0.5),
        (0.5, 0.41),
        (0.5, 0.39),
        (0.005, 0.0),
        (0.0, 0.0),
    ]:
        alpha = float(completeness(torch.tensor(auc), torch.tensor(value), 0.01))
        beta = min(max(value, 0.001) / auc, 1) if auc else 1.0
        sign, _ = grid.SIGNS[strength(alpha, beta)]
        assert sign == ("↓" if alpha < 0.8 else "↑" if beta < 0.8 else "=")


def test_signs_are_those_of_the_scores_not_of_the_drawn_curve(found: pm.Evaluation) -> None:
    """A run may score proofs on another curve than the one that is drawn."""
    first = found.results[0]
    ones = torch.ones(found.f.shape)
    insertion = dataclasses.replace(first.insertion, auc=found.f.clone())
    for complete, sound, sign in ((0.5, 1.0, "↓"), (1.0, 0.5, "↑"), (1.0, 1.0, "=")):
        pairs = {"completeness": complete * ones, "soundness": sound * ones, "soundness-2": ones}
        result = dataclasses.replace(first, insertion=insertion, pairs=pairs)
        judged = dataclasses.replace(found, results=(result,))
        for cell in (mask_grid(judged).rows[0][1], desk_of(judged).rows[0][1]):
            assert cell is not None and cell.below == f"{grid.short_probability(float(found.f[0, 0]))} {sign}"


def test_a_grid_has_as_many_rows_as_are_asked_for(found: pm.Evaluation) -> None:
    assert len(mask_grid(found, rows=2).rows) == 2
    assert len(wrong_mask_grid(found, rows=99).rows) == len(found)
    given = {"labels": None, "method": None, "rows": 7}
    assert [_settings(name, **given) for name in ("mask-grid", "curves")] == [{"rows": 7}, {}]


def test_a_place_without_labels_is_refused(found: pm.Evaluation) -> None:
    with pytest.raises(InputError, match="has a label in place 9"):
        mask_grid(found, place=9)


def test_two_objects_have_as_many_labels_in_every_image(f: pm.Classifier, images: Tensor) -> None:
    one = pm.evaluate(f, images, methods=["gradient"], labels=[0])
    with pytest.raises(InputError, match="same number of labels for every image, two or more"):
        two_objects(one)
    labels = torch.tensor([[0, 1], [0, 1], [1, 2]])
    record = two_objects(pm.evaluate(f, images, methods=["gradient"], labels=labels))
    above = [[cell.above for cell in row[1:] if cell is not None] for row in record.rows]
    assert above == [[f.names[a] for a in own] for own in labels.tolist()]
    assert record.headings[1:] == ("", "")


def test_two_objects_show_each_thing_for_each_method(f: pm.Classifier, images: Tensor) -> None:
    record = two_objects_of(f, images, ["dog", "cat"], methods=["gradient", "random"])
    first = record.rows[0][0]
    assert first is not None and [line.split(" ")[0] for line in first.below.split("\n")] == ["dog", "cat"]
    assert record.headings == ("image", "dog", "cat", "dog", "cat")
    assert record.spans == ((1, 2, "gradient"), (3, 4, "random*"))
    first = record.rows[0]
    assert all(cell is not None for cell in first)
    assert (first[3].pixels == first[4].pixels).all()  # type: ignore[union-attr]  # one map for all labels
    assert not (first[1].pixels == first[2].pixels).all()  # type: ignore[union-attr]


def test_artifacts_are_photos_blended_with_gray_as_the_mask_says(f: pm.Classifier, images: Tensor) -> None:
    record = artifacts(f, images[:2], tvs=(0.0, 1.0), method=QUICK)
    assert record.headings == ("image", *f.names) and len(record.rows) == 4
    assert record.titles == ("TV 0", "TV 0", "TV 1", "TV 1") and record.breaks == (2,)
    labels = torch.arange(4).expand(2, 4)
    maps = dataclasses.replace(QUICK, tv=1.0)(f, images[:2], labels)
    gray = f.gray.view(-1, 1, 1)
    expected = (maps[1, 2] * images[1] + (1 - maps[1, 2]) * gray).permute(1, 2, 0) * 255
    cell = record.rows[3][3]
    assert cell is not None
    assert np.abs(cell.pixels.astype(float) - expected.numpy()).max() <= 1


def test_masks_by_k_shows_every_mask_alone(f: pm.Classifier, images: Tensor) -> None:
    record = masks_by_k(f, images, ks=(1, 3), method=QUICK)
    assert len(record.headings) == 1 + 1 + 3 and [s[2] for s in record.spans] == ["K = 1", "K = 3"]
    top = f.probabilities(images).argmax(dim=1, keepdim=True)
    masks = bound(dataclasses.replace(QUICK, masks=3), f).each_mask(images, top)
    cell = record.rows[1][3]
    shown = np.asarray(masked_photo(images[1], masks[1, 0, 1], f.inputs, 0.3, gray_bytes(f)))
    assert cell is not None and (cell.pixels == shown).all()
    keep = keep_top(masks[1, 0, 1][None], 0.3)
    alone = f.probabilities(torch.where(keep, images[1], f.gray.view(-1, 1, 1))[None])[0, top[1, 0]]
    assert cell.below == grid.short_probability(float(alone))


def test_the_desk_of_a_photo_says_what_was_measured(f: pm.Classifier, images: Tensor) -> None:
    record = desk_of_photo(f, images, methods=["gradient", "random"])
    top2 = f.probabilities(images[:1]).topk(2)
    expected = [
        f"{f.names[a]}\nf = {grid.short_probability(p)}"
        for a, p in zip(top2.indices[0].tolist(), top2.values[0].tolist(), strict=True)
    ]
    assert [row[0].below for row in record.rows if row[0] is not None] == expected
    assert record.headings == ("image", "gradient", "random*") and all(len(row) == 3 for row in record.rows)
