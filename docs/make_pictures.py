"""The pictures of the documentation, one function each: ``make pictures``, or ``python -m docs.make_pictures NAME ...``.

They show EfficientNet-Lite0 on photographs inside scikit-image (extra ``demo``), so anyone can make them again. All of
them take an hour on a laptop, most of it for the masks of `LONG`.
"""

from __future__ import annotations

import io
import json
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from PIL import Image, ImageDraw, ImageFont

import proofmap as pm
from proofmap.classifier.randomised import layers_of, randomised
from proofmap.core.ranking import keep_top
from proofmap.data import load_blocks
from proofmap.data.photos import photographs
from proofmap.methods.masks.learned import LearnedMask
from proofmap.metrics.localisation import side_by_side
from proofmap.metrics.roughness import Roughness
from proofmap.report import pictures, sheets
from proofmap.report.cell import cut_picture, enlarged
from proofmap.report.figures.curves import Line, Panel, TVCurves
from proofmap.report.figures.drawing import draw
from proofmap.report.figures.grid import GridCell, GridFigure
from proofmap.report.figures.learned import masks_by_k
from proofmap.report.figures.masks import desk_of, mask_pairs, two_objects
from proofmap.report.figures.scatter import ScatterFigure, ScatterPanel, ScatterPoint, scatter_figure
from proofmap.report.figures.theorem import TheoremFigure
from proofmap.report.pictures import hidden_of, masked_photo
from proofmap.report.sheets import SheetCell, SheetSection, SheetText
from proofmap.reproduce.findings import Job
from proofmap.reproduce.linear_case import curves_of
from proofmap.reproduce.recipe import Recipe
from proofmap.results.proof_shape import shape_of, short_percent
from proofmap.results.tables import number
from tests.browser import chromium

HERE = Path(__file__).parent
PICTURES = HERE / "pictures"
HEAVIEST = 190_000  # bytes
NEARLY_WHITE = 244
DEMO = ("cat", "rocket", "coffee", "motorcycle", "astronaut")
COMPARED = (
    "belief-mask",
    "top-label:belief-mask",
    "grad-cam",
    "gradient-x-input",
    "gradient",
    "centered-gaussian",
    "random",
)
LABELS = "top3+wrong"
"""Photos, methods and labels of ``proofmap demo``."""
INK, SOFT, BLUE, ORANGE = "#18181c", "#5c5c64", "#0072B2", "#D55E00"


@cache
def net() -> pm.Classifier:
    return pm.load_classifier("efficientnet-lite0")


@cache
def judged(photos: tuple[str, ...], methods: tuple[str, ...], labels: str | tuple[str, ...]) -> pm.Evaluation:
    """What the methods achieve on sample photographs."""
    dataset = photographs([f"sample:{name}" for name in photos])
    (block,) = load_blocks(dataset, net(), block_size=len(dataset))
    return pm.evaluate(net(), block.images, methods=methods, labels=labels, names=dataset.names)


# ---- one function per picture --------------------------------------------------------------------------------------


HERO = HERE / "results" / "hero.json"
ASKED = "mosque"
HERO_SHARE = 0.2
"""Share of the pixels that the first picture of the README shows."""
Shade = tuple[int, int, int]
PAPERS: dict[str, tuple[Shade, Shade, Shade, Shade]] = {
    "light": ((255, 255, 255), (24, 24, 28), (190, 70, 0), (228, 230, 235)),
    "dark": ((13, 17, 23), (230, 237, 243), (255, 160, 95), (48, 54, 61)),
}
"""Paper, ink, alarm and the track of bars of the two first pictures of the README, on GitHub's colours."""


@cache
def asked_for_a_wrong_label() -> pm.Evaluation:
    """Two methods that are asked for a label of little belief; each curve has 200 points. The numbers go to ``results/hero.json``."""
    metrics = ["insertion:points=200", "completeness:points=200", "soundness:points=200"]
    found = pm.evaluate(
        net(), photo_of("rocket"), methods=["grad-cam", "belief-mask"], labels=[ASKED], metrics=metrics
    )
    methods = {}
    for result in found.results:
        shape, heat = shape_of(found, result, 0, 0), found.map_of(result, 0, 0)
        seen = net().blank(1)[0].where(~keep_top(heat[None], HERO_SHARE)[0], found.image_of(0))
        said = float(net().probabilities(seen[None])[0, found.labels[0, 0]])
        methods[result.name] = {
            "at the share": round(said, 4),
            "proof": round(shape.proof, 4),
            "peak": round(shape.peak, 4),
            "peak share": shape.peak_share,
        }
    record = {"photo": "sample:rocket", "label": ASKED, "belief": round(float(found.f[0, 0]), 4)}
    HERO.write_text(json.dumps({**record, "share": HERO_SHARE, "methods": methods}, indent=1) + "\n")
    return found


def hero(paper: str) -> Image.Image:
    """What the photo says of a label that the net does not believe, what a fifth of its pixels says by Grad-CAM, and by a belief mask."""
    found = asked_for_a_wrong_label()
    record = json.loads(HERO.read_text())
    back, ink, alarm, track = PAPERS[paper]
    belief, (cam, mask) = record["belief"], record["methods"].values()
    image, side, gap = found.image_of(0), 316, 22
    strong, trifle = pictures.STRENGTHS["strong"], pictures.SOFT
    cuts = [
        cut_picture(image, found.map_of(result, 0, 0), found.inputs, HERO_SHARE, colour, side)
        for result, colour in zip(found.results, (strong, trifle), strict=True)
        if colour
    ]
    whole = enlarged(pictures.photo(image, found.inputs), side)
    pixels = f"{100 * HERO_SHARE:.0f} % of the pixels"
    columns = (
        (whole, "The photo", "", "the net says", belief, ink, f"{ASKED} {short_percent(belief)}"),
        (cuts[0], "Grad-CAM", f"asked for {ASKED}", f"these {pixels} say", cam["at the share"], alarm, f"{ASKED} {short_percent(cam['at the share'])}"),
        (cuts[1], "belief mask", f"asked for {ASKED}", "however many pixels:", mask["peak"], ink, f"never above {math.ceil(100 * mask['peak'])} %"),
    )  # fmt: skip
    page = Image.new("RGB", (3 * (side + gap) + gap, side + 246), back)
    pen, plain, big = ImageDraw.Draw(page), ImageFont.load_default(25), ImageFont.load_default(38)
    for k, (picture, title, asked, about, p, colour, said) in enumerate(columns):
        x, below = gap + k * (side + gap), 92 + side
        pen.text((x, 8), title, ink, plain)
        pen.text((x, 44), asked, ink, plain)
        page.paste(picture, (x, 88))
        pen.rectangle((x, below + 16, x + side - 1, below + 34), track)
        pen.rectangle((x, below + 16, x + round(p * (side - 1)), below + 34), colour)
        mark = x + round(belief * (side - 1))
        pen.line((mark, below + 10, mark, below + 40), ink, 3)
        pen.text((x, below + 50), about, ink, plain)
        pen.text((x, below + 90), said, colour, big)
    return page


def proof_sheet() -> Image.Image:
    """What belief masks prove of one photo, for its five most probable labels."""
    return sheets.explained_sheet(judged(("rocket",), ("belief-mask",), "top5"), 0)


def game() -> Image.Image:
    """The insertion game: what the net sees, and what it says, at three moments; for the first and the fifth label."""
    found = judged(("rocket",), ("learned-mask",), "top5")
    result, image = found.results[0], found.image_of(0)
    rows = []
    for place in (0, 4):
        label, f = int(found.labels[0, place]), float(found.f[0, place])
        heat, name = found.map_of(result, 0, place), found.label_names[label]
        cells = []
        for share in (0.05, 0.2, 0.5):
            keep = keep_top(heat[None], share)[0]
            seen = net().blank(1)[0].where(~keep, image)
            p = float(net().probabilities(seen[None])[0, label])
            shown = f"the top {100 * share:.0f} %"
            cells.append(
                SheetCell(shown, pictures.photo(seen, found.inputs), (SheetText(f"{name} {100 * p:.1f} %"),))
            )
        rows.append(
            SheetSection(cells, f"The map of {name}; the net says {100 * f:.1f} % for the whole photo")
        )
    return sheets.sheet("The net sees the map's best pixels; the rest is gray", rows)


def curves(plt: Any) -> Any:
    """The probability along the game as a curve: its area is the AUC, to be compared with f."""
    found = judged(("rocket",), ("learned-mask",), "top5")
    insertion = found.results[0].insertion
    shares = (insertion.counts / insertion.positions).tolist()
    figure, axes = plt.subplots(1, 2, figsize=(6.5, 2.5), sharey=True)
    shown = ((axes[0], 0, BLUE, "completeness"), (axes[1], 4, ORANGE, "soundness"))
    for axis, place, colour, word in shown:
        line, f, auc = (
            insertion.probabilities[0, place].tolist(),
            float(insertion.f[0, place]),
            float(insertion.auc[0, place]),
        )
        axis.fill_between(shares, line, color=colour, alpha=0.15, linewidth=0)
        axis.plot(shares, line, color=colour)
        axis.axhline(f, color=INK, linestyle=":", linewidth=1)
        axis.text(1.01, f, f"f = {f:.3f}", va="center", color=INK)
        axis.text(0.03, 0.93, f"AUC = {auc:.3f}", transform=axis.transAxes, color=colour)
        score = number(min(auc / f if word == "completeness" else f / auc, 1.0))
        axis.set_title(f"{found.label_names[int(found.labels[0, place])]}: {word} {score}", color=colour)
        axis.set_xlabel("share of pixels shown")
        axis.set_xlim(0, 1)
        highest = float(insertion.probabilities[0, [0, 4]].max())
        axis.set_ylim(0, 1.2 * highest)  # room for the number above the curve
    axes[0].set_ylabel("probability of the label")
    return figure


def one_area(plt: Any) -> Any:
    """Three made-up curves with the mean f = .4: the area sees no difference; peak, reach and steadiness do."""
    shares = torch.linspace(0, 1, 401)

    def curve(start: float, full: float, bump: torch.Tensor) -> torch.Tensor:
        """A line from 0 at ``start`` to f at ``full``, and as much of a bump as makes the mean f."""
        line = 0.4 * ((shares - start) / (full - start)).clamp(0, 1)
        return line + bump * (0.4 - line.mean()) / bump.mean()

    steady = curve(0.0, 0.12, torch.sin(torch.pi * shares))
    late = curve(0.3, 1.0, torch.sin(torch.pi * (shares - 0.3) / 0.7).clamp_min(0) * (shares > 0.3))
    early = curve(
        0.0, 1.0, torch.exp(-(((shares - 0.3) / 0.17) ** 2)) - torch.exp(torch.tensor(-3.1)) * (1 - shares)
    )
    figure, axes = plt.subplots(1, 3, figsize=(7.5, 2.4), sharey=True)
    drawn = ((axes[0], steady, BLUE), (axes[1], late, ORANGE), (axes[2], early, ORANGE))
    for axis, line, colour in drawn:
        late_part = shares >= 0.1
        within = (line >= 0.4 / 1.5) & (line <= 0.4 * 1.5)
        share = float((within & late_part).sum() / late_part.sum())
        reach = float(shares[(line >= 0.36).int().argmax()])
        axis.axhspan(0.4 / 1.5, 0.4 * 1.5, color=SOFT, alpha=0.25, linewidth=0)
        axis.axhline(0.4, color=INK, linestyle=":", linewidth=1)
        axis.plot(shares, line, color=colour)
        numbers = f"area {number(float(line.mean()))}, peak {float(line.max()) / 0.4:.1f} f\nreach {number(reach)}, steadiness {number(share)}"
        axis.set_title(numbers, color=colour)
        axis.set_xlabel("share of pixels shown")
        axis.set_xlim(0, 1)
        axis.set_ylim(0, 1)
    axes[0].text(0.98, 0.38, "f = .40", ha="right", va="top", color=INK)
    axes[0].set_ylabel("probability of the label")
    return figure


def anytime(plt: Any) -> Any:
    """Scores of belief masks by their number of passes, from the record of steady proofs."""
    text = (HERE / "results" / "steady-proofs.json").read_text(encoding="utf-8")
    rows = json.loads(text)["rows"]
    figure, axes = plt.subplots(1, 3, figsize=(7.5, 2.5), sharey=True)
    kinds = (("every point", "curve|steady", BLUE), ("the area", "thorough|passes=60$|mask$", ORANGE))
    for kind, pattern, colour in kinds:
        own = [
            row for row in rows if re.search(f"^belief-mask.*({pattern})|^belief-({pattern})", row["method"])
        ]
        own.sort(key=lambda row: row["passes"])
        for axis, measure in zip(axes, ("completeness", "soundness", "steadiness"), strict=True):
            values = [row["means"]["learned on"][measure] for row in own]
            axis.plot([row["passes"] for row in own], values, "o-", markersize=3, color=colour, label=kind)
            axis.set_title(measure)
            axis.set_xscale("log")
            axis.set_xlabel("passes per label")
            axis.set_xticks([60, 200, 600, 1800], ["60", "200", "600", "1,800"])
            axis.minorticks_off()
            axis.set_ylim(0, 1)
    axes[0].legend(title="matched to f", loc="lower right", frameon=False)
    return figure


def two_languages() -> Image.Image:
    """What two methods prove of a text in two languages, as ``explain`` writes it (extras ``theory`` and ``browser``)."""
    said = "The committee voted yesterday, aber niemand wusste davon."
    found = pm.evaluate(
        pm.load_classifier("py3langid"), [said], methods=["belief-order", "kernel-shap"], labels=["en", "de", "nl"], keep_maps=None
    )  # fmt: skip
    with TemporaryDirectory() as folder, chromium() as browser:
        pm.Proof(found).save(folder)
        page = browser.new_page(viewport={"width": 780, "height": 100}, device_scale_factor=2)
        page.goto(Path(folder, "proofs.html").as_uri())
        return Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB")


def cheating() -> Image.Image:
    """One map for all labels: it looks sound for labels that nobody asked it to prove."""
    methods = ("learned-mask", "top-label:learned-mask")
    return sheets.explained_sheet(judged(("rocket",), methods, "top3"), 0)


def artifacts() -> Image.Image:
    """Fine masks without smoothing against the preset fast: the finer, the more it can prove, right or wrong."""
    methods = ("learned-mask:scale=1,tv=0,l1=0", "learned-mask")
    labels = ("missile", "mosque", "tabby")
    return sheets.explained_sheet(judged(("rocket",), methods, labels), 0)


@cache
def photo_of(name: str) -> torch.Tensor:
    """A sample photograph as the net takes it, ``(1, 3, H, W)``."""
    return pm.load_images([f"sample:{name}"], net())


def learned(**settings: Any) -> dict[str, Any]:
    """A learned mask of the paper, with 200 passes unless the settings say otherwise, and random images of all samples behind it."""
    fill = {"fill": "images", "source": "samples", "size": 256}
    return {"method": "learned-mask", "fill": fill, **settings}


LONG = {"preset": "released", "distractors": 2}
"""A fifth of the paper's passes, 2,000 steps x 2, for three pictures of learned masks that contradict their tables with 200: half an hour of two cores."""


def regularised() -> dict[str, pm.Method]:
    """The rows of the recipe ``sanity``: with and without total variation and upsampling; belief masks; edges, a control."""
    rows: dict[str, Any] = {
        f"{'US, ' if scale > 1 else ''}TV {number(tv) if tv else 0}": learned(scale=scale, tv=tv, **LONG)
        for scale in (1.0, 4.0)
        for tv in (0.0, 0.01)
    }
    return {
        name: pm.make_method(spec)
        for name, spec in {**rows, "belief-mask": "belief-mask", "edges": "edges"}.items()
    }


def judged_rows(
    image: torch.Tensor, methods: Mapping[str, pm.Method], labels: Any, **settings: Any
) -> pm.Evaluation:
    """What methods achieve on one image; each result has the name of its row."""
    found = pm.evaluate(net(), image, methods=list(methods.values()), labels=labels, **settings)
    named = (replace(result, name=name) for result, name in zip(found.results, methods, strict=True))
    return replace(found, results=tuple(named))


@cache
def by_regularisation() -> pm.Evaluation:
    """These rows on one photo."""
    return judged_rows(photo_of("coffee"), regularised(), "top1")


def masks_by_regularisation() -> Image.Image:
    """Learned masks of one photo by total variation and upsampling: the top 30 % of pixels, and the mask itself."""
    found = by_regularisation()
    learned_rows = replace(found, results=found.results[:4])
    return _drawn(lambda path: draw(mask_pairs(net(), learned_rows), path))


def randomised_layer() -> Image.Image:
    """Maps of one photo, of the net and of the net with a randomised last layer, and their roughness."""
    found, image = by_regularisation(), photo_of("coffee")
    other = randomised(net(), layers_of(net())[-1])
    hidden = hidden_of(found)[0]
    rows: list[list[GridCell]] = [[], []]
    for result, method in zip(found.results, regularised().values(), strict=True):
        maps = (found.map_of(result, 0, 0).float()[None], method(other, image, found.labels, seed=0)[:, 0])
        for row, heat in zip(rows, maps, strict=True):
            rough = f"roughness {float(Roughness.of_masks(keep_top(heat, 0.3))):.1f}"
            row.append(GridCell.of(masked_photo(image[0], heat[0], found.inputs, 0.3, hidden), rough))
    figure = GridFigure(
        name="randomised-layer",
        about="",
        headings=tuple(result.name for result in found.results),
        rows=tuple(map(tuple, rows)),
        settings="",
        titles=("trained", "last layer randomised"),
    )
    return _drawn(lambda path: draw(figure, path))


def k_masks() -> Image.Image:
    """One, two and four masks of one photo that are learned together, each shown alone."""
    method = pm.make_method(learned(scale=1.0, tv=0.0, l1=2e-5, **LONG))
    assert isinstance(method, LearnedMask)
    figure = masks_by_k(net(), photo_of("coffee"), ks=(1, 2, 4), method=method)
    return _drawn(lambda path: draw(figure, path))


def two_labels() -> Image.Image:
    """Two sample photographs in one picture, and the maps of both labels by the rows of the recipe ``two-labels``."""
    names = [net().names.index(name) for name in ("Egyptian cat", "espresso")]
    photos = torch.cat([photo_of("cat"), photo_of("coffee")])
    montage = side_by_side(net().inputs, photos, names)[0][:1]
    ours = learned(scale=4.0, tv=0.01)
    methods = {
        "Ours": ours,
        "Phang et al.": "phang-masker",
        "Ours (cheating)": {"method": "top-label", "of": ours},
        "belief-mask": "belief-mask",
    }
    found = judged_rows(montage, {name: pm.make_method(spec) for name, spec in methods.items()}, names)
    return _drawn(lambda path: draw(two_objects(found), path))


def desk_photo() -> Image.Image:
    """The figure of the recipe ``desk-photo``, for a photo with two labels that the net believes: missile and projectile."""
    rows = {
        "learned mask, TV .01": learned(scale=4.0, tv=0.01),
        "learned mask, TV .001": learned(scale=4.0, tv=0.001),
        "Phang et al.": "phang-masker",
        "belief-mask": "belief-mask",
    }
    methods = {name: pm.make_method(spec) for name, spec in rows.items()}
    found = judged_rows(photo_of("rocket"), methods, "top2", metrics=["completeness:e1=0", "soundness:e2=0"])
    return _drawn(lambda path: draw(desk_of(found), path))


def scatter(plt: Any) -> Any:
    """The demo's seven methods and the paper's: completeness and best effort against soundness."""

    return scatter_figure(judged(DEMO, COMPARED, LABELS)).drawn(plt)


def smoothness(plt: Any) -> Any:
    """What total variation costs and buys, from the record of ``reproduce cifar10-tv``."""
    weights = ["0", ".001", ".01", ".1"]
    found = {(n["method"], n["score"]): n for n in _numbers("cifar10-tv") if "score" in n and "than" not in n}
    figure, axes = plt.subplots(1, 2, figsize=(6.5, 2.5), sharey=True)
    for axis, fill in zip(axes, ("gray", "random image"), strict=True):
        for score, colour in (("completeness", BLUE), ("soundness", ORANGE)):
            cells = [found[f"TV {weight}", f"{score}, {fill}"] for weight in weights]
            ours, low, high, paper = ([float(n[k]) for n in cells] for k in ("value", "low", "high", "paper"))
            places = range(len(weights))
            spread = [
                [a - b for a, b in zip(ours, low, strict=True)],
                [a - b for a, b in zip(high, ours, strict=True)],
            ]
            axis.errorbar(places, ours, spread, color=colour, marker="o", markersize=4, capsize=2)
            axis.plot(places, paper, "x", color=colour, markersize=5)
            x, y = (1.35, ours[1] + 0.03) if score == "completeness" else (0.1, ours[0] + 0.06)
            axis.text(x, y, score, color=colour)
        axis.set_xticks(range(len(weights)), weights)
        axis.set_xlabel("weight of the total variation")
        axis.set_title(f"hidden pixels show {'gray' if fill == 'gray' else 'another image'}")
        axis.set_ylim(0, 1)
    axes[0].set_ylabel("mean over 500 images")
    axes[1].text(3, 0.04, "crosses: the paper's values", ha="right", color=SOFT)
    return figure


def cifar10_tv_curves() -> Image.Image:
    """The figure of ``reproduce cifar10-curves`` on 500 images, from the points that it drew and the areas of its record."""
    areas = {(n["method"], n["score"]): n["value"] for n in _numbers("cifar10-curves") if "score" in n}
    drawn = json.loads((HERE / "results" / "cifar10-tv-curves.json").read_text(encoding="utf-8"))

    def panel(fill: str, label: str) -> Panel:
        shares, lines = tuple(drawn[fill]["shares"]), drawn[fill][label]
        title = f"{label.capitalize()}, {fill} behind"
        return Panel(
            title,
            tuple(
                Line(name.removeprefix("TV "), shares, tuple(p), p[-1], areas[name, f"{label}, {fill}"])
                for name, p in lines.items()
            ),
        )

    rows = tuple(tuple(panel(fill, label) for fill in drawn) for label in ("top label", "second label"))
    return _drawn(lambda path: draw(TVCurves(rows, ""), path))


def _numbers(record: str) -> list[dict[str, Any]]:
    """The numbers of a run in results/recorded."""
    text = (HERE / "results" / "recorded" / f"{record}.json").read_text(encoding="utf-8")
    numbers: list[dict[str, Any]] = json.loads(text)["numbers"]
    return numbers


def imagenette_scatter() -> Image.Image:
    """Completeness at e1 = .01 against soundness at e2 = .1, from Table 1."""
    return _imagenette("| method | completeness |", "soundness, .1", {"completeness": "completeness"})


def imagenette_all_passes() -> Image.Image:
    """The same with the paper's passes, on 30 photos."""
    return _imagenette(
        "| method, all passes | completeness |", "soundness, .1", {"completeness": "completeness"}
    )


def imagenette_best_effort() -> Image.Image:
    """Completeness and best effort at e1 = .01 against soundness at e2 = .1, on photos with a second label."""
    across = {"completeness": "completeness, e1 = .01", "best-effort": "best effort, e1 = .01"}
    return _imagenette("| method, 80 photos |", ".1", across)


def _imagenette(head: str, up: str, across: Mapping[str, str]) -> Image.Image:
    """Columns of the table in results/imagenette-table.md whose head begins so; a panel for each column across. ``up`` names the column
    upwards, the last one of this name."""
    text = (HERE / "results" / "imagenette-table.md").read_text(encoding="utf-8")
    table = next(t for t in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE) if t.startswith(head))
    header, _, *rows = [[cell.strip(" *") for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    panels, last = [], len(header) - 1 - header[::-1].index(up)
    for kind, column in across.items():
        points = []
        for cells in rows:
            x, y = (
                [float(n) for n in re.findall(r"-?[\d.]+", cells[place])[:3]]
                for place in (header.index(column), last)
            )
            name = cells[0].removesuffix("\\")
            points.append(ScatterPoint(name, name != cells[0], (x[0], x[1], x[2]), (y[0], y[1], y[2])))
        panels.append(ScatterPanel(kind, tuple(points)))
    return _drawn(lambda path: draw(ScatterFigure(tuple(panels), ""), path))


def theorem() -> Image.Image:
    """Theorem 5.1 in simulation: the curves of the recipe ``theory`` (extra ``theory``)."""
    recipe = Recipe.named("theory")
    job = Job(recipe, recipe.chosen(data=HERE), HERE)
    return _drawn(lambda path: draw(TheoremFigure(tuple(curves_of(job))), path))


def frontier_photos() -> Image.Image:
    """The frontier of methods, from the rows that ``benchmarks/studies/frontier.py`` left."""
    sys.path.insert(0, str(HERE.parent / "benchmarks" / "studies"))
    import frontier

    _, rows = frontier.read(HERE / "results" / "frontier-photos.json")
    title = "30 ImageNet photos, EfficientNet-Lite0, top five labels"
    return _drawn(lambda path: frontier.draw(rows, title, path))


def _drawn(write: Callable[[Path], object]) -> Image.Image:
    """A picture that something writes to a file."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "drawn.png")
        write(path)
        return Image.open(path).convert("RGB")


MAKERS: dict[str, Callable[..., Any]] = {
    "hero-light.png": lambda: hero("light"),
    "hero-dark.png": lambda: hero("dark"),
    "rocket.belief-mask.webp": proof_sheet,
    "game.webp": game,
    "curves.png": curves,
    "one-area.png": one_area,
    "anytime.png": anytime,
    "two-languages.webp": two_languages,
    "cheating.webp": cheating,
    "artifacts.webp": artifacts,
    "masks-by-regularisation.png": masks_by_regularisation,
    "randomised-layer.png": randomised_layer,
    "k-masks.png": k_masks,
    "two-labels.png": two_labels,
    "desk-photo.png": desk_photo,
    "scatter.png": scatter,
    "smoothness.png": smoothness,
    "cifar10-tv-curves.png": cifar10_tv_curves,
    "imagenette-scatter.png": imagenette_scatter,
    "imagenette-all-passes.png": imagenette_all_passes,
    "imagenette-best-effort.png": imagenette_best_effort,
    "theorem.png": theorem,
    "frontier-photos.png": frontier_photos,
}
CHARTS = ("curves.png", "one-area.png", "anytime.png", "scatter.png", "smoothness.png")


def save(name: str) -> Path:
    path = PICTURES / name
    if name in CHARTS:
        _save_chart(MAKERS[name], path)
    elif name.startswith("hero"):
        MAKERS[name]().save(path, "PNG", optimize=True)
    elif path.suffix == ".webp":
        sheet = MAKERS[name]()
        for quality in (85, 70, 50, 35):
            sheet.save(path, "WEBP", quality=quality, method=6)
            if path.stat().st_size < HEAVIEST:
                break
    else:
        _save_sheet(MAKERS[name](), path)
    return path


def _save_sheet(sheet: Image.Image, path: Path) -> None:
    """256 colours, no wider than it is shown, narrower where it would weigh too much: no difference to the eye."""
    for widest in (1300, 1100, 900, 750):
        if sheet.width > widest:
            height = round(sheet.height * widest / sheet.width)
            sheet = sheet.resize((widest, height), Image.Resampling.LANCZOS)
        palette = _with_white(sheet.quantize(256, method=Image.Quantize.MEDIANCUT))
        small = sheet.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG)
        small.save(path, "PNG", optimize=True)
        if path.stat().st_size < HEAVIEST:
            return


def _with_white(palette: Image.Image) -> Image.Image:
    """The palette with its lightest colours made white, so that paper stays paper."""
    colours = palette.getpalette() or []
    for k in range(0, len(colours), 3):
        if min(colours[k : k + 3]) >= NEARLY_WHITE:
            colours[k : k + 3] = [255, 255, 255]
    palette.putpalette(colours)
    return palette


def _save_chart(make: Callable[[Any], Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    style = {
        "font.size": 9,
        "axes.titlesize": 9.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": SOFT,
        "figure.constrained_layout.use": True,
    }
    with plt.rc_context(style):
        figure = make(plt)
        figure.savefig(path, dpi=200, metadata={"Software": None})
        plt.close(figure)


def main(names: Sequence[str]) -> None:
    unknown = [name for name in names if name not in MAKERS]
    if unknown:
        sys.exit(f"there is no picture {unknown[0]!r}; there are {', '.join(MAKERS)}")
    PICTURES.mkdir(exist_ok=True)
    torch.set_num_threads(1)  # learning amplifies rounding, and the number of threads decides on that
    for name in names or MAKERS:
        path = save(name)
        print(f"{path.relative_to(HERE.parent)}  {path.stat().st_size / 1000:.0f} KB", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
