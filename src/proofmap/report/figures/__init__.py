"""Figures for papers, drawn with matplotlib (extra ``figures``).

A figure is first made as a small record of its data, which is then drawn. ``draw_figure(name, out=..., ...)`` makes, draws and captions any of
``FIGURES``. Each module defines some of the records and the functions that make them, and registers these functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.files import output_folder, write_text
from proofmap.core.text import check_known
from proofmap.report.figures import curves, learned, masks, scatter, theorem  # noqa: F401
from proofmap.report.figures.drawing import FIGURES, FORMATS, Figure, draw
from proofmap.results.evaluation import Evaluation, Results, evaluation_of
from proofmap.results.sharing import shared


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
        "scatter": bool(scatter.scatter_panels(evaluation)),
        "mask-grid": bool(evaluation.pictured),
        "mask-grid-wrong": bool(evaluation.pictured) and bool((evaluation.labels[:, 1:] >= 0).any()),
    }
    return [name for name, yes in possible.items() if yes]
