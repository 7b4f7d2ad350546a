"""Photos with only the top pixels of a map kept, for right and for wrong labels."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL, is_by_probability
from proofmap.core.progress import Progress
from proofmap.core.text import one_line
from proofmap.judging import evaluate
from proofmap.methods.method import MethodLike
from proofmap.metrics.proof_scores import default_metrics
from proofmap.report.colours import hidden_of
from proofmap.report.figures.drawing import evaluation_settings, place_title
from proofmap.report.figures.grid import READING, GridCell, GridFigure, photo_cell, picture_cell, proof_cell
from proofmap.report.pictures import input_word, masked_photo, photo
from proofmap.results.evaluation import Evaluation
from proofmap.results.records import MethodResult
from proofmap.results.strength import OTHER_CURVE, judged_on_another_curve, proof_values

SHARE = 0.3
"""The share of pixels that the paper's grids keep."""
MOST_ROWS = 4


def mask_grid(
    evaluation: Evaluation,
    *,
    place: int = 0,
    images: Sequence[int] | None = None,
    share: float = SHARE,
) -> GridFigure:
    """Masked photos, a row per image and a column per method.

    Args:
        place: which of each image's labels: 0 the top one, 1 the second, and so on.
        images: indices of the images; by default the first four whose pixels were kept.
    """
    labelled = [i for i in evaluation.pictured if _label(evaluation, i, place) != NO_LABEL]
    chosen = labelled[:MOST_ROWS] if images is None else list(images)
    if not chosen:
        raise InputError(f"no image with its pixels kept has a label in place {place}")
    if any(_label(evaluation, i, place) == NO_LABEL for i in chosen):
        raise InputError(f"not every chosen image has a label in place {place}")
    label = place_title(evaluation, place)
    if place and is_by_probability(str(evaluation.settings["labels"])):
        label += ", which the net believes less than the top one"
    noun = input_word(evaluation.inputs)
    return GridFigure(
        name="mask-grid" if place == 0 else "mask-grid-wrong",
        about=f"{noun.capitalize()}s with only the top {100 * share:.0f} % of {evaluation.inputs.position_noun} of each "
        f"method's map of {label}; the rest is hidden. Below each {noun}: the label and f. {READING}",
        headings=(noun, *map(_heading, evaluation.results)),
        rows=tuple(
            (
                photo_cell(
                    evaluation.image_of(i),
                    evaluation.inputs,
                    evaluation.label_names[_label(evaluation, i, place)],
                    float(evaluation.f[i, place]),
                ),
                *(_shown_map(evaluation, result, i, place, share) for result in evaluation.results),
            )
            for i in chosen
        ),
        settings=_marks(evaluation) + evaluation_settings(evaluation),
        gaps=(1,),
    )


def wrong_mask_grid(evaluation: Evaluation, *, share: float = SHARE) -> GridFigure:
    """:func:`mask_grid` of the second label, which a sound method must not prove beyond what the net believes."""
    return mask_grid(evaluation, place=1, share=share)


def two_objects(evaluation: Evaluation, *, share: float = SHARE) -> GridFigure:
    """Masked photos of several things: a row per photo, and for each method a column per label.

    All images of the evaluation must have the same labels, given as a list: one for each thing.
    """
    labels = [a for a in evaluation.labels[0].tolist() if a != NO_LABEL]
    if len(labels) < 2 or not bool((evaluation.labels == evaluation.labels[:1]).all()):
        raise InputError("two-objects needs the same two labels or more for every image, given as a list")
    names = tuple(one_line(evaluation.label_names[a]) for a in labels)
    noun, methods = input_word(evaluation.inputs), evaluation.results
    rows = []
    for i in evaluation.pictured[:MOST_ROWS]:
        beliefs = evaluation.f[i, : len(labels)].tolist()
        text = "\n".join(f"{n} {f:.2f}".replace(" 0.", " .") for n, f in zip(names, beliefs, strict=True))
        maps = [_shown_map(evaluation, r, i, j, share) for r in methods for j in range(len(labels))]
        rows.append((picture_cell(photo(evaluation.image_of(i), evaluation.inputs), text), *maps))
    first = tuple(1 + k * len(labels) for k in range(len(methods)))
    return GridFigure(
        name="two-objects",
        about=f"{noun.capitalize()}s that show more than one thing ({' and '.join(names)}), and the top {100 * share:.0f} % "
        f"of {evaluation.inputs.position_noun} of each method's map for each. Below each {noun}: f of each label. {READING}",
        headings=(noun, *(names * len(methods))),
        rows=tuple(rows),
        settings=_marks(evaluation) + evaluation_settings(evaluation),
        gaps=first,
        spans=tuple((c, c + len(labels) - 1, _heading(r)) for c, r in zip(first, methods, strict=True)),
    )


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
    """Judge methods on photos that show several things, and show what they find of each."""
    return two_objects(
        evaluate(
            classifier,
            images,
            methods=methods,
            labels=labels,
            metrics=[m for m in default_metrics() if m.name in ("completeness", "soundness")],
            names=names,
            seed=seed,
            progress=progress,
        )
    )


def _shown_map(evaluation: Evaluation, result: MethodResult, i: int, place: int, share: float) -> GridCell:
    """The photo with the top pixels of a method's map of this label."""
    heat = evaluation.map_of(result, i, place)
    picture = masked_photo(
        evaluation.image_of(i), heat, evaluation.inputs, share, hidden_of(evaluation).colour
    )
    auc = float(result.insertion.auc[i, place])
    return proof_cell(picture, auc, *proof_values(evaluation, result, i, place))


def _heading(result: MethodResult) -> str:
    return result.name + ("*" if result.label_free else "")


def _label(evaluation: Evaluation, i: int, place: int) -> int:
    return int(evaluation.labels[i, place]) if place < evaluation.labels.shape[1] else NO_LABEL


def _marks(evaluation: Evaluation) -> str:
    """What the star and the hidden positions mean, and whether the signs come from another curve."""
    star = "* One map for all labels. " if any(r.label_free for r in evaluation.results) else ""
    other = f"{OTHER_CURVE} " if judged_on_another_curve(evaluation) else ""
    return f"{star}{hidden_of(evaluation).words} {other}"
