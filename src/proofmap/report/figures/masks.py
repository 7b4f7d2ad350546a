"""Grids of masked photos, in which only the top pixels of a map are shown, for right and for wrong labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs
from proofmap.core.labels import NO_LABEL, LabelRule
from proofmap.core.progress import Progress
from proofmap.core.ranking import keep_top
from proofmap.core.text import one_line
from proofmap.judging import evaluate
from proofmap.methods.method import MethodLike
from proofmap.metrics import Metric
from proofmap.metrics.proof_scores import default_metrics
from proofmap.report.figures.drawing import evaluation_settings, place_title, registered
from proofmap.report.figures.grid import (
    READING,
    GridCell,
    GridFigure,
    short_probability,
)
from proofmap.report.pictures import displayed, hidden_of, masked_photo, per_pixel, photo
from proofmap.results.evaluation import Evaluation
from proofmap.results.proof_shape import other_curve_note, proof_values
from proofmap.results.records import MethodResult

SHARE = 0.3
"""The share of pixels that the paper's grids keep."""
ROWS = 4
"""The number of images in a grid, unless another number is given."""


@registered("mask-grid", "30 % of pixels kept, for the top label")
def mask_grid(
    evaluation: Evaluation,
    *,
    place: int = 0,
    images: Sequence[int] | None = None,
    rows: int = ROWS,
    share: float = SHARE,
) -> GridFigure:
    """A grid of masked photos, with a row per image and a column per method.

    Args:
        place: the index of the label in each image's row of labels: 0 for the top label, 1 for the second, and so on.
        images: indices of the images; by default the first ``rows`` whose pixels were kept.
        rows: the number of images if ``images`` is not given.
        share: the share of positions that a masked photo shows.
    """
    chosen = _chosen(evaluation, place, images, rows)
    label = _label_words(evaluation, place)
    noun = evaluation.inputs.singular
    return GridFigure(
        name="mask-grid" if place == 0 else "mask-grid-wrong",
        about=f"{evaluation.inputs.noun.capitalize()} with only the top {100 * share:.0f} % of {evaluation.inputs.position_noun} of each "
        f"method's map of {label}; the rest is hidden. Below each {noun}: the label and f. {READING}",
        headings=(noun, *map(_heading, evaluation.results)),
        rows=tuple(_row(evaluation, i, place, share) for i in chosen),
        settings=_marks(evaluation) + evaluation_settings(evaluation),
        gaps=(1,),
    )


@registered("mask-grid-wrong", "30 % of pixels kept, for the second label")
def wrong_mask_grid(evaluation: Evaluation, *, rows: int = ROWS, share: float = SHARE) -> GridFigure:
    """:func:`mask_grid` of the second label. A sound method must not prove this label more than the net believes it."""
    return mask_grid(evaluation, place=1, rows=rows, share=share)


def mask_pairs(
    classifier: Classifier,
    evaluation: Evaluation,
    *,
    place: int = 0,
    rows: int = ROWS,
    share: float = SHARE,
) -> GridFigure:
    """A grid like the paper's grids of learned masks. The row of an image has, for each method, the masked photo and the mask, and then the
    photo.

    The number below a masked photo is the label's probability when only these positions are shown on gray. A mask with values in [0, 1] is
    drawn unscaled, from black (0) to white (1). Maps with other values are scaled.
    """
    chosen = _chosen(evaluation, place, None, rows)
    inputs, hidden = evaluation.inputs, hidden_of(evaluation)[0]
    grid: list[tuple[GridCell, ...]] = []
    for i in chosen:
        image, label, cells = evaluation.image_of(i), _label(evaluation, i, place), []
        for result in evaluation.results:
            heat = evaluation.map_of(result, i, place).float()
            shown = shown_probability(classifier, image, heat, label, share)
            cells += [
                GridCell.of(masked_photo(image, heat, inputs, share, hidden), short_probability(shown)),
                GridCell.of(_mask_picture(heat, inputs)),
            ]
        f = float(evaluation.f[i, place])
        grid.append((*cells, GridCell.photo(image, inputs, evaluation.label_names[label], f)))
    methods = len(evaluation.results)
    first, noun, positions = range(0, 2 * methods, 2), inputs.singular, inputs.position_noun
    return GridFigure(
        name="mask-pairs" if place == 0 else "mask-pairs-second",
        about=f"Masks of {_label_words(evaluation, place)}. For each method, the {noun} with only the top {100 * share:.0f} % of "
        f"{positions} (below it: f of the label when these are shown on gray), and the mask itself, white where it is 1. Last: the "
        f"{noun}, with the label and f.",
        headings=(*(f"{100 * share:.0f} %", "mask") * methods, noun),
        rows=tuple(grid),
        settings=evaluation_settings(evaluation, thresholds=False),
        gaps=(*first[1:], 2 * methods),
        spans=tuple((c, c + 1, _heading(r)) for c, r in zip(first, evaluation.results, strict=True)),
    )


def two_objects(evaluation: Evaluation, *, rows: int = ROWS, share: float = SHARE) -> GridFigure:
    """A grid of masked photos that show several objects, with a row per photo and, for each method, a column per label.

    Every image must have the same number of labels, two or more. The labels may be one list for all images, or the true labels of each image.
    If the images' labels differ, the labels' names are written above the pictures.
    """
    count = evaluation.labels.shape[1]
    if count < 2 or bool((evaluation.labels == NO_LABEL).any()):
        raise InputError("two-objects needs the same number of labels for every image, two or more")
    same = bool((evaluation.labels == evaluation.labels[:1]).all())
    noun, methods = evaluation.inputs.singular, evaluation.results
    grid = []
    for i in evaluation.pictured[:rows]:
        names = [one_line(evaluation.label_names[a]) for a in evaluation.labels[i].tolist()]
        beliefs = zip(names, evaluation.f[i].tolist(), strict=True)
        text = "\n".join(f"{n} {f:.2f}".replace(" 0.", " .") for n, f in beliefs)
        maps = [
            replace(_shown_map(evaluation, r, i, j, share), above="" if same else names[j])
            for r in methods
            for j in range(count)
        ]
        grid.append((GridCell.of(photo(evaluation.image_of(i), evaluation.inputs), text), *maps))
    names = (
        [one_line(evaluation.label_names[a]) for a in evaluation.labels[0].tolist()] if same else [""] * count
    )
    first = tuple(1 + k * count for k in range(len(methods)))
    things = f"more than one thing ({' and '.join(names)})" if same else f"{count} things"
    return GridFigure(
        name="two-objects",
        about=f"{evaluation.inputs.noun.capitalize()} that show {things}, and the top {100 * share:.0f} % "
        f"of {evaluation.inputs.position_noun} of each method's map for each. Below each {noun}: f of each label. {READING}",
        headings=(noun, *(names * len(methods))),
        rows=tuple(grid),
        settings=_marks(evaluation) + evaluation_settings(evaluation),
        gaps=first,
        spans=tuple((c, c + count - 1, _heading(r)) for c, r in zip(first, methods, strict=True)),
    )


@registered("two-objects", "maps of each of several things in a photo", "images")
def two_objects_of(
    classifier: Classifier,
    images: Tensor,
    labels: Sequence[int | str],
    *,
    methods: Sequence[MethodLike] = ("learned-mask", "top-label:learned-mask"),
    names: Sequence[str] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> GridFigure:
    """Judge methods on photos that show several objects, and make the figure of :func:`two_objects`. ``labels`` are the objects."""
    return two_objects(
        evaluate(
            classifier,
            images,
            methods=methods,
            labels=labels,
            metrics=_proof_metrics(),
            names=names,
            seed=seed,
            progress=progress,
        )
    )


def desk_of(evaluation: Evaluation, index: int = 0, places: Sequence[int] = (0, 1)) -> GridFigure:
    """The figure of the paper's worked example for one image of an evaluation: a row per label, with the masked photo of each method.
    ``places`` are indices in the image's row of labels."""
    noun, positions = evaluation.inputs.singular, evaluation.inputs.position_noun
    return GridFigure(
        name="desk-photo",
        about=f"The {noun}, with each label and f, and the top {100 * SHARE:.0f} % of {positions} of each method's map of this label. {READING}",
        headings=(noun, *map(_heading, evaluation.results)),
        rows=tuple(_row(evaluation, index, j, SHARE) for j in places if j in evaluation.places_of(index)),
        settings=_marks(evaluation) + evaluation_settings(evaluation),
        gaps=(1,),
    )


@registered("desk-photo", "the paper's worked example, on a photo of yours", "images")
def desk_of_photo(
    classifier: Classifier,
    images: Tensor,
    *,
    labels: Sequence[int | str] | str = "top2",
    methods: Sequence[MethodLike] = (
        "learned-mask",
        "learned-mask:tv=0.001,scale=4",
        "top-label:learned-mask",
    ),
    seed: int = 0,
    progress: Progress | None = None,
) -> GridFigure:
    """The figure of the paper's example for the first of ``images``. By default it has the top two labels and three methods: the learned mask,
    the same with less smoothing, and one map for both labels."""
    metrics = _proof_metrics((0.0, 0.0))
    return desk_of(
        evaluate(
            classifier,
            images[:1],
            methods=methods,
            labels=labels,
            metrics=metrics,
            seed=seed,
            progress=progress,
        )
    )


def _proof_metrics(thresholds: tuple[float, float] | str = "paper") -> list[Metric]:
    return [m for m in default_metrics(thresholds) if m.name in ("completeness", "soundness")]


def _row(evaluation: Evaluation, i: int, place: int, share: float) -> tuple[GridCell, ...]:
    """An image with its label at ``place`` and f, and the masked photo of each method."""
    name, f = evaluation.label_name(i, place), float(evaluation.f[i, place])
    whole = GridCell.photo(evaluation.image_of(i), evaluation.inputs, name, f)
    return (whole, *(_shown_map(evaluation, result, i, place, share) for result in evaluation.results))


def _shown_map(evaluation: Evaluation, result: MethodResult, i: int, place: int, share: float) -> GridCell:
    """The cell of one map: the photo with only the map's top pixels, and the AUC of the map."""
    heat = evaluation.map_of(result, i, place)
    picture = masked_photo(evaluation.image_of(i), heat, evaluation.inputs, share, hidden_of(evaluation)[0])
    auc = float(result.insertion.auc[i, place])
    return GridCell.proof(picture, auc, *proof_values(evaluation, result, i, place))


@torch.no_grad()
def shown_probability(
    classifier: Classifier, image: Tensor, heat: Tensor, label: int, share: float = SHARE
) -> float:
    """The net's probability of the label when only the top ``share`` of a map's positions are shown, on gray."""
    image, heat = image.to(classifier.device), heat.to(classifier.device)
    shown = classifier.inputs.composite(keep_top(heat[None], share), image, classifier.blank(1))
    return float(classifier.frozen().probabilities(shown)[0, label])


def _mask_picture(heat: Tensor, inputs: Inputs) -> Image.Image:
    within = float(heat.min()) >= 0 and float(heat.max()) <= 1
    values = heat.double().cpu().numpy() if within else displayed(heat)
    return Image.fromarray((255 * per_pixel(values, inputs)).round().astype(np.uint8))


def _chosen(evaluation: Evaluation, place: int, images: Sequence[int] | None, rows: int) -> list[int]:
    """The indices of the images in a grid. Raises :class:`InputError` if one of them has no label at ``place``."""
    labelled = [i for i in evaluation.pictured if _label(evaluation, i, place) != NO_LABEL]
    chosen = labelled[:rows] if images is None else list(images)
    if not chosen:
        raise InputError(f"no image with its pixels kept has a label in place {place}")
    if any(_label(evaluation, i, place) == NO_LABEL for i in chosen):
        raise InputError(f"not every chosen image has a label in place {place}")
    return chosen


def _label_words(evaluation: Evaluation, place: int) -> str:
    label = place_title(evaluation, place)
    if place and LabelRule.is_by_probability(str(evaluation.settings["labels"])):
        label += ", which the net believes less than the top one"
    return label


def _heading(result: MethodResult) -> str:
    return result.name + ("*" if result.label_free else "")


def _label(evaluation: Evaluation, i: int, place: int) -> int:
    return int(evaluation.labels[i, place]) if place < evaluation.labels.shape[1] else NO_LABEL


def _marks(evaluation: Evaluation) -> str:
    """Sentences for the caption: what the star means, how hidden positions are drawn, and whether completeness and soundness come from another
    curve than the AUC."""
    star = "* One map for all labels. " if any(r.label_free for r in evaluation.results) else ""
    return f"{star}{hidden_of(evaluation)[1]} {other_curve_note(evaluation)} ".replace("  ", " ")
