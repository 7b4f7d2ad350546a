"""Figures about learned masks: curves by total variation, artifacts, and several masks per label. The functions learn the masks themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.labels import Labels
from proofmap.core.progress import Progress
from proofmap.core.text import one_line
from proofmap.methods.masks.learned import LearnedMask
from proofmap.metrics import scores
from proofmap.metrics.playing import insertion
from proofmap.report.figures.curves import chosen_labels, learned_settings
from proofmap.report.figures.drawing import registered
from proofmap.report.figures.grid import (
    READING,
    GridCell,
    GridFigure,
    short_probability,
)
from proofmap.report.figures.masks import shown_probability
from proofmap.report.pictures import drawn_colour, masked_photo, photo
from proofmap.session import Session


@registered("artifact", "masks of every label, with and without total variation", "images")
def artifacts(
    classifier: Classifier,
    images: Tensor,
    *,
    labels: Labels = "all",
    tvs: Sequence[float] = (0.0, 0.01),
    method: LearnedMask | None = None,
    thresholds: str | tuple[float, float] | scores.Thresholds = "paper",
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
    table = chosen_labels(labels, classifier, images)
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
    thresholds: str | tuple[float, float] | scores.Thresholds = "paper",
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
    at = scores.thresholds(thresholds)
    inputs, same_labels = classifier.inputs, bool((table == table[:1]).all())
    rows: list[tuple[GridCell | None, ...]] = []
    for masks in maps.values():
        curves = insertion(
            classifier.frozen(), images, masks, table, points=points, seed=seed, progress=progress
        )
        f, auc = curves.f.tolist(), curves.auc.tolist()
        complete = scores.completeness(curves.auc, curves.f, at.e1).tolist()
        sound = scores.soundness(curves.auc, curves.f, at.e2).tolist()
        blends = inputs.composite(masks, images[:, None], classifier.blank(1)[None])  # M x + (1 - M) gray
        for i, image in enumerate(images):
            row = [GridCell.photo(image, inputs, "")]
            for j in range(table.shape[1]):
                cell = GridCell.proof(photo(blends[i, j], inputs), auc[i][j], complete[i][j], sound[i][j])
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


@registered("masks-by-k", "K masks that share out the photo", "images")
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
    inputs, labels = classifier.inputs, chosen_labels("top1", classifier, images)
    hidden = drawn_colour(inputs, inputs.neutral.tolist())
    base = method or LearnedMask()
    f = classifier.frozen().probabilities(images).gather(1, labels)[:, 0].tolist()
    rows = [
        [GridCell.photo(image, inputs, classifier.names[int(a)], p)]
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
                    GridCell.of(masked_photo(image, mask, inputs, share, hidden), short_probability(alone))
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
