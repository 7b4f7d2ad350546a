"""Can the scores of two runs be compared? Finds the images and metrics that two runs share, and how the runs differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL
from proofmap.results.arrays import Array
from proofmap.results.evaluation import Evaluation
from proofmap.results.records import MethodResult, setting_text

MUST_AGREE = (
    "model",
    "fingerprint",
    "inputs",
    "size",
    "length",
    "columns",
    "mean",
    "std",
    "resize",
    "interpolation",
    "outputs",
    "label_set",
    "renormalise",
    "labels",
)
"""Settings of an evaluation that must be equal in two runs. A setting that one of the runs does not record is not checked."""
SAME_F = 0.01
"""If f (the net's probability of a label) differs by more than this, the nets or images differ. The difference between devices, or between
half and full precision, is well below."""


@dataclass(frozen=True)
class Entry:
    """One method of one run. ``name`` is the method's name in messages, such as ``run/method``."""

    run: str
    evaluation: Evaluation
    result: MethodResult
    name: str


def shared_metrics(method: Entry, against: Entry, metrics: Sequence[str] | None) -> list[str]:
    """The names of the metrics that both methods have. If ``metrics`` is given, only these are returned, and both methods must have them."""
    names = [s.name for s in method.result.scores if s.name in against.result.arrays("values")]
    for asked in metrics or ():
        if asked not in names:
            raise InputError(
                f"{method.name} and {against.name} do not share a metric {asked!r}; they share {', '.join(names)}"
            )
    return [name for name in names if metrics is None or name in metrics]


def shared_images(method: Entry, against: Entry) -> tuple[list[int], list[int]]:
    """The images that both evaluations have, matched by name: their row indices in ``method`` and in ``against``, in the order of
    ``method``."""
    if method.evaluation is against.evaluation:
        rows = list(range(len(method.evaluation)))
        return rows, rows
    place = {name: i for i, name in enumerate(against.evaluation.image_names)}
    rows = [i for i, name in enumerate(method.evaluation.image_names) if name in place]
    if not rows:
        raise InputError(
            f"{method.name} and {against.name} cannot be compared: no {method.evaluation.inputs.singular} of the same name was judged for both"
        )
    return rows, [place[method.evaluation.image_names[i]] for i in rows]


def what_differs(method: Entry, against: Entry, metrics: Sequence[str] | None) -> list[str]:
    """The reasons why the scores of two runs cannot be compared; empty if they can be compared."""
    if method.evaluation is against.evaluation:
        return []
    ours, theirs = method.evaluation.settings, against.evaluation.settings
    complaints = [
        f"{key} is {ours[key]} and {theirs[key]}"
        for key in MUST_AGREE
        if key in ours and key in theirs and setting_text(ours[key]) != setting_text(theirs[key])
    ]
    for name in shared_metrics(method, against, metrics):
        a, b = method.result.score(name), against.result.score(name)
        if a.higher_is_better != b.higher_is_better:
            complaints.append(f"{name} is better higher in one and lower in the other")
        for key in sorted({*a.settings, *b.settings} - set(MUST_AGREE)):
            mine, other = a.settings.get(key), b.settings.get(key)
            if setting_text(mine) != setting_text(other):
                complaints.append(f"{name} has {key} = {mine} and {other}")
    return complaints or _different_images(method, against)


def _different_images(method: Entry, against: Entry) -> list[str]:
    """A list with one sentence on the first image whose labels or f differ between the runs; empty if there is none. This check is needed
    because equal settings and names do not imply equal weights and pictures."""
    rows, others = shared_images(method, against)
    ours, theirs = method.evaluation, against.evaluation
    for i, j in zip(rows, others, strict=True):
        labels, others_labels = _real(ours.array("labels")[i]), _real(theirs.array("labels")[j])
        name, item = ours.image_names[i], ours.inputs.singular
        if labels != others_labels:
            return [f"{item} {name!r} has labels {labels} and {others_labels}"]
        gap = np.abs(ours.array("f")[i][: len(labels)] - theirs.array("f")[j][: len(labels)]).max()
        if float(gap) > SAME_F:
            return [f"f of {item} {name!r} differs by {float(gap):.2f}: other weights, or another {item}"]
    return []


def _real(labels: Array) -> list[int]:
    return [a for a in labels.tolist() if a != NO_LABEL]
