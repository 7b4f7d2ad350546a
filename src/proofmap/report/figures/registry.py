"""The registry of figures by name, and a function that makes, draws and captions any of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.files import output_folder, write_text
from proofmap.core.text import check_known
from proofmap.report.figures.curves import curves_figure
from proofmap.report.figures.desk import desk, desk_of_photo
from proofmap.report.figures.drawing import FORMATS, Figure, draw
from proofmap.report.figures.label_matrix import label_matrix
from proofmap.report.figures.learned import artifacts, masks_by_k, tv_curves
from proofmap.report.figures.masks import mask_grid, two_objects_of, wrong_mask_grid
from proofmap.report.figures.scatter import scatter_figure, scatter_panels
from proofmap.report.figures.theorem import theorem
from proofmap.results.evaluation import Evaluation, Results, evaluation_of
from proofmap.results.sharing import shared

Needs = Literal["evaluation", "images", "nothing"]


@dataclass(frozen=True)
class FigureInfo:
    """An entry of the registry: what a figure shows, what it needs, and the function that makes it.

    If ``needs`` is ``evaluation``, the function is called as ``make(evaluation, **settings)``. If it is ``images``, the function computes its
    own maps and is called as ``make(classifier, images, seed=, progress=, **settings)``. If it is ``nothing``, it is called as
    ``make(**settings)``.
    """

    name: str
    description: str
    needs: Needs
    make: Callable[..., Figure]


FIGURES: Mapping[str, FigureInfo] = {
    info.name: info
    for info in (
        FigureInfo("curves", "probability along the insertion game, by method", "evaluation", curves_figure),
        FigureInfo("scatter", "completeness and best effort against soundness", "evaluation", scatter_figure),
        FigureInfo("mask-grid", "30 % of pixels kept, for the top label", "evaluation", mask_grid),
        FigureInfo(
            "mask-grid-wrong", "30 % of pixels kept, for the second label", "evaluation", wrong_mask_grid
        ),
        FigureInfo("label-matrix", "every label's area under every label's map", "evaluation", label_matrix),
        FigureInfo(
            "tv-curves", "probability curves by total variation, two labels, two fills", "images", tv_curves
        ),
        FigureInfo("artifact", "masks of every label, with and without total variation", "images", artifacts),
        FigureInfo("masks-by-k", "K masks that share out the photo", "images", masks_by_k),
        FigureInfo("two-objects", "maps of each of several things in a photo", "images", two_objects_of),
        FigureInfo("desk", "the paper's worked example, as it prints it", "nothing", desk),
        FigureInfo("theorem", "theorem 5.1: the bounds beside simulation", "nothing", theorem),
        FigureInfo("desk-photo", "the same on a photo of yours", "images", desk_of_photo),
    )
}


def make_figure(
    name: str,
    *,
    evaluation: Evaluation | None = None,
    classifier: Classifier | None = None,
    images: Tensor | None = None,
    **settings: Any,
) -> Figure:
    """Make the figure ``name`` without drawing it. ``settings`` (labels, tvs, ks, seed, ...) are passed to the function that makes it."""
    check_known("figure", name, FIGURES)
    info = FIGURES[name]
    if info.needs == "nothing":
        return info.make(**settings)
    if info.needs == "evaluation":
        if evaluation is None:
            raise InputError(f"the figure {name} is drawn from an evaluation; none was given")
        return info.make(shared(evaluation), **settings)
    if classifier is None or images is None:
        raise InputError(f"the figure {name} learns masks of its own: it needs a classifier and images")
    return info.make(classifier, images, **settings)


def draw_figure(
    name: str,
    *,
    out: str | Path,
    formats: Sequence[str] = ("pdf", "png"),
    evaluation: Results | None = None,
    classifier: Classifier | None = None,
    images: Tensor | None = None,
    **settings: Any,
) -> list[Path]:
    """Make the figure ``name`` and write it to the folder ``out``: ``NAME.pdf``, ``NAME.png``, and its caption in ``NAME.txt``. Returns the
    paths.

    Args:
        formats: the formats to write, of ``pdf``, ``png`` and ``svg``.
        evaluation: the results to draw, for figures that need an evaluation (see ``FIGURES``).
        classifier, images: for figures that compute their own maps.
        settings: passed to the function that makes the figure.
    """
    unknown = [format for format in formats if format not in FORMATS]
    if unknown or not formats:
        raise InputError(
            f"a figure is written as {', '.join(FORMATS)}, not {', '.join(unknown) or 'nothing'}"
        )
    found = None if evaluation is None else evaluation_of(evaluation)
    figure = make_figure(name, evaluation=found, classifier=classifier, images=images, **settings)
    folder = output_folder(out)
    written = [draw(figure, folder / f"{name}.{format}") for format in formats]
    write_text(folder / f"{name}.txt", figure.caption() + "\n")
    return [*written, folder / f"{name}.txt"]


def figures_of(evaluation: Evaluation) -> list[str]:
    """The names of the figures that can be drawn from this evaluation."""
    possible = {
        "curves": True,
        "scatter": bool(scatter_panels(evaluation)),
        "mask-grid": bool(evaluation.pictured),
        "mask-grid-wrong": bool(evaluation.pictured) and bool((evaluation.labels[:, 1:] >= 0).any()),
        "label-matrix": evaluation.results[0].insertion.matrix is not None and evaluation.labels.shape[1] > 1,
    }
    return [name for name, yes in possible.items() if yes]
