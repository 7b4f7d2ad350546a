"""What is left of each photo when only the top pixels of a map are kept, for right and for wrong labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL, is_by_probability
from proofmap.core.progress import Progress
from proofmap.core.text import one_line
from proofmap.judging import evaluate
from proofmap.methods.method import MethodLike
from proofmap.metrics.proof_scores import default_metrics
from proofmap.report.figures.drawing import evaluation_settings
from proofmap.report.figures.grid import READING, GridFigure, Shown, shown, shown_photo, shown_proof
from proofmap.report.hidden import hidden_of
from proofmap.report.pictures import input_word, kept, photo
from proofmap.results.evaluation import Evaluation
from proofmap.results.strength import OTHER_CURVE, judged_on_another_curve, proof_values

SHARE = 0.3
"""The share of pixels that the paper's grids keep."""
MOST_ROWS = 4


@dataclass(frozen=True, eq=False)
class MaskGrid(GridFigure):
    """A row per image, a column per method."""

    name: ClassVar[str] = "mask-grid"
    label: str = "the top label"
    share: float = SHARE

    def about(self) -> str:
        return (
            f"{self.noun.capitalize()}s with only the top {100 * self.share:.0f} % of {self.positions} of each method's map of "
            f"{self.label}; the rest is hidden. Below each {self.noun}: the label and f. {READING}"
        )


@dataclass(frozen=True, eq=False)
class WrongMaskGrid(MaskGrid):
    """The same for a label that the net does not put first."""

    name: ClassVar[str] = "mask-grid-wrong"


def mask_grid(
    evaluation: Evaluation,
    *,
    place: int = 0,
    images: Sequence[int] | None = None,
    share: float = SHARE,
) -> MaskGrid:
    """Masked photos for the label in this place of each image's labels: 0 the top one, 1 the second, and so on.

    Args:
        images: which ones; the first four of those whose pixels were kept when left out.
    """
    labelled = [i for i in evaluation.pictured if _label(evaluation, i, place) != NO_LABEL]
    chosen = labelled[:MOST_ROWS] if images is None else list(images)
    if not chosen:
        raise InputError(f"no image with its pixels kept has a label in place {place}")
    if any(_label(evaluation, i, place) == NO_LABEL for i in chosen):
        raise InputError(f"not every chosen image has a label in place {place}")
    rows = [(_photo(evaluation, i, place), *_kept_by_each(evaluation, i, place, share)) for i in chosen]
    return (MaskGrid if place == 0 else WrongMaskGrid)(
        headings=(
            input_word(evaluation.inputs),
            *(r.name + ("*" if r.label_free else "") for r in evaluation.results),
        ),
        rows=tuple(rows),
        settings=_marks(evaluation) + evaluation_settings(evaluation),
        gaps=(1,),
        label=_place_name(evaluation, place),
        share=share,
        noun=input_word(evaluation.inputs),
        positions=evaluation.inputs.position_noun,
    )


def wrong_mask_grid(evaluation: Evaluation, *, share: float = SHARE) -> MaskGrid:
    """:func:`mask_grid` of the second label, which a sound method must not prove beyond what the net believes."""
    return mask_grid(evaluation, place=1, share=share)


@dataclass(frozen=True, eq=False)
class TwoObjects(GridFigure):
    """A row per photo; for each method a column per label."""

    name: ClassVar[str] = "two-objects"
    labels: tuple[str, ...] = ()
    share: float = SHARE

    def about(self) -> str:
        return (
            f"{self.noun.capitalize()}s that show more than one thing ({' and '.join(self.labels)}), and the top "
            f"{100 * self.share:.0f} % of {self.positions} of each method's map for each. Below each {self.noun}: f of each label. {READING}"
        )


def two_objects(evaluation: Evaluation, *, share: float = SHARE) -> TwoObjects:
    """From an evaluation whose images all have the same labels, given as a list: one thing each."""
    labels = [a for a in evaluation.labels[0].tolist() if a != NO_LABEL]
    if len(labels) < 2 or not bool((evaluation.labels == evaluation.labels[:1]).all()):
        raise InputError("two-objects needs the same two labels or more for every image, given as a list")
    names = tuple(one_line(evaluation.label_names[a]) for a in labels)
    rows = []
    for i in evaluation.pictured[:MOST_ROWS]:
        beliefs = [float(evaluation.f[i, j]) for j in range(len(labels))]
        text = "\n".join(f"{n} {f:.2f}".replace(" 0.", " .") for n, f in zip(names, beliefs, strict=True))
        row = [shown(photo(evaluation.image_of(i), evaluation.inputs), text)]
        for k in range(len(evaluation.results)):
            row += [_kept_by_each(evaluation, i, j, share)[k] for j in range(len(labels))]
        rows.append(tuple(row))
    methods = evaluation.results
    first = [1 + k * len(labels) for k in range(len(methods))]
    return TwoObjects(
        headings=(input_word(evaluation.inputs), *(names * len(methods))),
        rows=tuple(rows),
        settings=_marks(evaluation) + evaluation_settings(evaluation),
        gaps=tuple(first),
        spans=tuple(
            (c, c + len(labels) - 1, r.name + ("*" if r.label_free else ""))
            for c, r in zip(first, methods, strict=True)
        ),
        labels=names,
        share=share,
        noun=input_word(evaluation.inputs),
        positions=evaluation.inputs.position_noun,
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
) -> TwoObjects:
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


def _photo(evaluation: Evaluation, i: int, place: int) -> Shown:
    name = evaluation.label_names[_label(evaluation, i, place)]
    return shown_photo(evaluation.image_of(i), evaluation.inputs, name, float(evaluation.f[i, place]))


def _kept_by_each(evaluation: Evaluation, i: int, place: int, share: float) -> list[Shown]:
    """For each method: the photo with the top pixels of its map of this label."""
    cells, hidden = [], hidden_of(evaluation).colour
    for result in evaluation.results:
        heat = evaluation.map_of(result, i, place)
        picture = kept(evaluation.image_of(i), heat, evaluation.inputs, share, hidden)
        auc = float(result.insertion.auc[i, place])
        cells.append(shown_proof(picture, auc, *proof_values(evaluation, result, i, place)))
    return cells


def _label(evaluation: Evaluation, i: int, place: int) -> int:
    return int(evaluation.labels[i, place]) if place < evaluation.labels.shape[1] else NO_LABEL


def _place_name(evaluation: Evaluation, place: int) -> str:
    by_probability = is_by_probability(str(evaluation.settings["labels"]))
    if place == 0:
        return "the top label" if by_probability else "the first label"
    nth = {1: "second", 2: "third"}.get(place, f"{place + 1}th")
    return f"the {nth} label" + (", which the net believes less than the top one" if by_probability else "")


def _marks(evaluation: Evaluation) -> str:
    """What the star and the hidden positions mean, and whether the signs come from another curve."""
    star = "* One map for all labels. " if any(r.label_free for r in evaluation.results) else ""
    other = f"{OTHER_CURVE} " if judged_on_another_curve(evaluation) else ""
    return f"{star}{hidden_of(evaluation).words} {other}"
