"""Figures about learned masks: curves by total variation, artifacts, and several masks per label. The functions learn the masks themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL, Labels
from proofmap.core.outputs import in_words
from proofmap.core.progress import Progress
from proofmap.core.text import counted, one_line
from proofmap.fills import Fill, make_fill
from proofmap.methods.masks.learned import LearnedMask
from proofmap.metrics import proof
from proofmap.metrics.curves import Curves
from proofmap.metrics.playing import insertion
from proofmap.report.figures.curves import Panel, draw_panel, mean_line, panel_top
from proofmap.report.figures.drawing import INK, SMALL, WIDTH, Figure, escaped
from proofmap.report.figures.grid import (
    READING,
    GridCell,
    GridFigure,
    photo_cell,
    picture_cell,
    proof_cell,
    short_probability,
)
from proofmap.report.figures.masks import shown_probability
from proofmap.report.pictures import drawn_colour, masked_photo, photo
from proofmap.results.tables import number
from proofmap.session import Session

TVS = (0.0, 0.001, 0.01, 0.1)
"""The weights of the total variation in the paper's figures."""
_PLACES = ("Top label", "Second label")


@dataclass(frozen=True)
class TVCurves(Figure):
    """The figure of mean insertion curves of learned masks, with a row of panels per label, a panel per fill, and a line per weight of the
    total variation. The fill is what replaces hidden pixels."""

    name = "tv-curves"
    rows: tuple[tuple[Panel, ...], ...]
    settings: str
    positions: str = "pixels"

    def caption(self) -> str:
        return (
            f"Mean probability of a label while the {self.positions} of its learned mask are shown, best first, for several weights "
            "of the total variation. Top: the top label, where a large area (AUC) means completeness. Bottom: the second "
            f"label, where an area beyond f (dotted) means unsoundness. Columns: what hidden {self.positions} show. "
            f"{self.settings}"
        )

    def drawn(self, plt: Any) -> Any:
        n = len(self.rows[0][0].lines)
        colours = [plt.get_cmap("plasma")(0.7 * k / max(1, n - 1)) for k in range(n)]
        styles = [{"color": c} for c in colours]
        figure, axes = plt.subplots(
            len(self.rows),
            len(self.rows[0]),
            figsize=(WIDTH, 1.85 * len(self.rows)),
            sharex=True,
            sharey="row",
            squeeze=False,
        )
        for row, panels in zip(axes, self.rows, strict=True):
            for axis, panel in zip(row, panels, strict=True):
                draw_panel(axis, panel, styles, panel_top(*panels), self.positions)
                axis.set_title(escaped(panel.title), pad=13)
                axis.label_outer()
                _key(axis, panel, colours)
            row[0].set_ylabel("mean probability")
        return figure


def _key(axis: Any, panel: Panel, colours: Sequence[Any]) -> None:
    """Write the weight and the area of each line, in the line's colour, in a row above the panel."""
    words = ["TV (AUC)", *(f"{line.method} ({number(line.auc)})" for line in panel.lines)]
    letters = sum(len(word) + 3 for word in words) - 3
    x = 0.0
    for word, colour in zip(words, (INK, *colours), strict=True):
        axis.text(x, 1.03, word, transform=axis.transAxes, va="bottom", fontsize=SMALL, color=colour)
        x += (len(word) + 3) / letters


def tv_curves(
    classifier: Classifier,
    images: Tensor,
    *,
    tvs: Sequence[float] = TVS,
    fills: Sequence[str | Fill] = ("gray", "images"),
    method: LearnedMask | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> TVCurves:
    """Learn masks of the top two labels with each weight of the total variation, and compute their insertion curves with each fill.

    Args:
        tvs: the weights of the total variation.
        fills: the fills of the insertion curves. The masks are learned with the method's own fill.
        method: the learned mask whose ``tv`` is varied; by default the preset ``fast``.
    """
    images = classifier.check_images(images)
    labels = _chosen("top2", classifier, images)
    if labels.shape[1] < 2:
        raise InputError("tv-curves shows the second label; the classifier has a label set of one")
    base = method or LearnedMask()
    backgrounds = [make_fill(fill) for fill in fills]
    found: dict[str, dict[str, Curves]] = {fill_name(fill): {} for fill in backgrounds}
    for tv in tvs:
        maps = replace(base, tv=tv)(classifier, images, labels, seed=seed, progress=progress)
        for fill in backgrounds:
            found[fill_name(fill)][f"{tv:g}"] = insertion(
                classifier.frozen(), images, maps, labels, fill=fill, seed=seed, progress=progress
            )
    settings = learned_settings(classifier, base, len(images), seed, varied=("tv",))
    return TVCurves(panels_by_fill(found), settings, classifier.inputs.position_noun)


def panels_by_fill(found: Mapping[str, Mapping[str, Curves]]) -> tuple[tuple[Panel, ...], ...]:
    """The rows of :class:`TVCurves`. ``found`` has the curves of the top two labels, first by the fill's name, then by the line's name."""
    return tuple(
        tuple(
            Panel(
                f"{label}, {fill} behind",
                tuple(mean_line(name, curves, place) for name, curves in lines.items()),
            )
            for fill, lines in found.items()
        )
        for place, label in enumerate(_PLACES)
    )


def artifacts(
    classifier: Classifier,
    images: Tensor,
    *,
    labels: Labels = "all",
    tvs: Sequence[float] = (0.0, 0.01),
    method: LearnedMask | None = None,
    thresholds: str | tuple[float, float] | proof.Thresholds = "paper",
    seed: int = 0,
    progress: Progress | None = None,
) -> GridFigure:
    """Learn a mask for every label of each image with each weight of the total variation, and blend each photo with gray by its masks.

    Args:
        labels: the labels of the columns, the same for all images: ``"all"``, or a list.
        tvs: the weights of the total variation.
        thresholds: e1 and e2 of completeness and soundness.
    """
    images = classifier.check_images(images)
    table = _chosen(labels, classifier, images)
    if str(labels) == "all":
        table = table.sort(dim=1).values  # so that a column is a label
    elif not bool((table == table[:1]).all()):
        raise InputError("artifact has a column per label: give a list of labels, or 'all'")
    base = method or LearnedMask()
    maps = {tv: replace(base, tv=tv)(classifier, images, table, seed=seed, progress=progress) for tv in tvs}
    settings = learned_settings(classifier, base, len(images), seed, varied=("tv",))
    return artifacts_of(
        classifier, images, table, maps, settings, thresholds=thresholds, seed=seed, progress=progress
    )


def artifacts_of(
    classifier: Classifier,
    images: Tensor,
    table: Tensor,
    maps: Mapping[float, Tensor],
    settings: str,
    *,
    thresholds: str | tuple[float, float] | proof.Thresholds = "paper",
    points: int | Literal["all"] = 32,
    seed: int = 0,
    progress: Progress | None = None,
) -> GridFigure:
    """The figure of :func:`artifacts` from masks that are already learned.

    Args:
        table: the labels ``(N, L)``. If its rows differ, the labels' names are written above the pictures.
        maps: the masks ``(N, L, *positions)`` by their weight of the total variation.
        settings: how the masks were learned, as a sentence for the caption.
        points: the number of points of the insertion curves whose areas are shown.
    """
    at = proof.thresholds(thresholds)
    inputs, same_labels = classifier.inputs, bool((table == table[:1]).all())
    rows: list[tuple[GridCell | None, ...]] = []
    for masks in maps.values():
        curves = insertion(
            classifier.frozen(), images, masks, table, points=points, seed=seed, progress=progress
        )
        f, auc = curves.f.tolist(), curves.auc.tolist()
        complete = proof.completeness(curves.auc, curves.f, at.e1).tolist()
        sound = proof.soundness(curves.auc, curves.f, at.e2).tolist()
        blends = blended(classifier, images, masks)
        for i, image in enumerate(images):
            row = [photo_cell(image, inputs, "")]
            for j in range(table.shape[1]):
                cell = proof_cell(photo(blends[i, j], inputs), auc[i][j], complete[i][j], sound[i][j])
                name = "" if same_labels else f"{one_line(classifier.names[int(table[i, j])])}\n"
                row.append(replace(cell, above=f"{name}f {short_probability(f[i][j])}"))
            rows.append(tuple(row))
    names = [classifier.names[a] if same_labels else "" for a in table[0].tolist()]
    noun, weights = inputs.singular, " and ".join(f"{tv:g}" for tv in maps)
    return GridFigure(
        name="artifact",
        about="Artifacts: masks learned for every label, without much regularisation, show labels that are not there. Each "
        f"{noun} is blended with gray as its mask says, for total variation {weights}. Above each picture: "
        f"f of the label on the whole {noun}. {READING}",
        headings=(noun, *names),
        rows=tuple(rows),
        settings=f"{settings} e1 = {at.e1:g}, e2 = {at.e2:g}.",
        titles=tuple(f"TV {tv:g}" for tv in maps for _ in images),
        gaps=(1,),
        breaks=tuple(len(images) * k for k in range(1, len(maps))),
    )


def blended(classifier: Classifier, images: Tensor, masks: Tensor) -> Tensor:
    """The images x ``(N, *shape)`` blended with gray by masks M ``(N, L, *positions)``: M x + (1 - M) gray, ``(N, L, *shape)``."""
    return classifier.inputs.composite(masks, images[:, None], classifier.blank(1)[None])


def masks_by_k(
    classifier: Classifier,
    images: Tensor,
    *,
    ks: Sequence[int] = (1, 2, 3),
    share: float = 0.3,
    method: LearnedMask | None = None,
    masks: Mapping[int, Tensor] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> GridFigure:
    """Learn K masks for the top label of each image, for each K in ``ks``, and show the top ``share`` of each mask's positions.

    If ``masks`` is given, its masks ``(N, K, *positions)`` for each K are shown instead.
    """
    images = classifier.check_images(images)
    inputs, labels = classifier.inputs, _chosen("top1", classifier, images)
    hidden = drawn_colour(inputs, inputs.neutral.tolist())
    base = method or LearnedMask()
    f = classifier.frozen().probabilities(images).gather(1, labels)[:, 0].tolist()
    rows = [
        [photo_cell(image, inputs, classifier.names[int(a)], p)]
        for image, a, p in zip(images, labels, f, strict=True)
    ]
    gaps, spans, column = [], [], 1
    for k in ks:
        if masks is None:
            session = Session(classifier, seed=seed, progress=progress)
            own = replace(base, masks=k).each_mask(session, images, labels)[:, 0]
        else:
            own = masks[k]
        for i, image in enumerate(images):
            for mask in own[i]:
                alone = shown_probability(classifier, image, mask, int(labels[i, 0]), share)
                rows[i].append(
                    picture_cell(masked_photo(image, mask, inputs, share, hidden), short_probability(alone))
                )
        gaps.append(column)
        spans.append((column, column + k - 1, f"K = {k}"))
        column += k
    noun, positions = inputs.singular, inputs.position_noun
    return GridFigure(
        name="masks-by-k",
        about=f"K masks learned together share out the {noun}; each must show the label by itself. Each picture keeps the top "
        f"{100 * share:.0f} % of {positions} of one mask. Below each {noun}: its top label and f; below each picture: the label's "
        f"probability when only these {positions} are shown on gray.",
        headings=(noun, *([""] * (column - 1))),
        rows=tuple(tuple(row) for row in rows),
        settings=learned_settings(classifier, base, len(images), seed, varied=("masks",)),
        gaps=tuple(gaps),
        spans=tuple(spans),
    )


def learned_settings(
    classifier: Classifier, method: LearnedMask, n: int, seed: int, varied: Sequence[str] = ()
) -> str:
    """One sentence for captions with the settings of learned masks. The settings named in ``varied`` are left out."""
    shown = ("steps", "distractors", "learning_rate", "scale", "tv", "objective", "masks")
    learning = ", ".join(
        f"{key.replace('_', ' ')} {value:g}"
        if isinstance(value := getattr(method, key), float)
        else f"{key} {value}"
        for key in shown
        if key not in varied and not (key == "masks" and method.masks == 1)
    )
    l1 = "1 / (H W)" if method.l1 is None else f"{method.l1:g}"
    return one_line(
        f"Settings: net {classifier.name} ({in_words(classifier.settings())}); {counted(n, 'image')}; learned mask with {learning}, l1 {l1}, on "
        f"{fill_name(method.fill)}; seed {seed}."
    )


def _chosen(labels: Labels, classifier: Classifier, images: Tensor) -> Tensor:
    table = classifier.choose_labels(images, labels)
    if bool((table == NO_LABEL).any()):
        raise InputError("this figure needs the same number of labels for every image")
    return table


def fill_name(fill: Fill) -> str:
    """The word for a fill in captions."""
    return {"images": "random images", "blur": "blurred", "noise": "noise"}.get(fill.name, fill.name)
