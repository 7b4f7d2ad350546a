"""The result of one method: its scores and the values behind them.

Reading and auditing a finished run needs only NumPy, because importing torch takes seconds. So the fields of a result may be given as NumPy arrays
(:class:`HoldsArrays`). Users get tensors, which share their memory with the arrays.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from proofmap.core.deferred import Tensor, torch, type_in
from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL
from proofmap.core.text import counted
from proofmap.results.statistics import RunScore, Score

if TYPE_CHECKING:
    from proofmap.metrics.curves import Curves
    from proofmap.metrics.metric import RunMetric, RunValues
else:
    Curves = type_in("proofmap.metrics.curves", "Curves")

COMPLETENESS, SOUNDNESS, BEST_EFFORT = "completeness", "soundness", "best-effort"
"""The kinds of score that a verdict uses. Completeness and soundness are the two halves of the definition of a proof."""


def setting_text(setting: object) -> str:
    """A setting as JSON text. The text stays the same if the setting is stored and read again, so it can be compared."""
    return json.dumps(setting, sort_keys=True, default=str)


class CurveArrays(SimpleNamespace):
    """The fields of :class:`~proofmap.metrics.curves.Curves`, with NumPy arrays instead of tensors."""


def _as_tensors(held: Any) -> Any:
    """A field as tensors: an array, a table of arrays, or curves. What has none is returned as it is, so that a user can add a column to a table."""
    if isinstance(held, CurveArrays):
        from proofmap.metrics.curves import Curves

        return Curves(**_as_tensors(vars(held)))
    if isinstance(held, Mapping) and any(isinstance(each, np.ndarray) for each in held.values()):
        return {
            name: torch.from_numpy(each) if isinstance(each, np.ndarray) else each
            for name, each in held.items()
        }
    return torch.from_numpy(held) if isinstance(held, np.ndarray) else held


def _as_arrays(held: Any) -> Any:
    """A field as NumPy arrays. A tensor on the CPU is not copied."""
    if isinstance(held, Mapping):
        return {name: _as_arrays(each) for name, each in held.items()}
    if hasattr(held, "auc") and not isinstance(held, CurveArrays):
        return CurveArrays(**{**_as_arrays(vars(held)), "settings": held.settings})
    return held.detach().cpu().numpy() if hasattr(held, "detach") else held


class _ReadAsTensors:
    """Descriptor for a field of a dataclass, which is converted to tensors when it is first read."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: object | None, owner: type | None = None) -> Any:
        if instance is None:  # so that the dataclass finds no default
            raise AttributeError(self.name)
        held = vars(instance)
        held[self.name] = _as_tensors(held[self.name])
        return held[self.name]

    def __set__(self, instance: object, value: Any) -> None:
        vars(instance)[self.name] = value


class HoldsArrays:
    """Base class of dataclasses whose fields ``tensors`` may be given as NumPy arrays, and are read as tensors.

    >>> @dataclass
    ... class Answers(HoldsArrays, tensors=["labels"]):
    ...     labels: Tensor
    >>> answers = Answers(np.array([1, 2]))
    >>> answers.numpy("labels"), answers.labels
    (array([1, 2]), tensor([1, 2]))
    """

    def __init_subclass__(cls, tensors: Sequence[str] = ()) -> None:
        for name in tensors:
            setattr(cls, name, _ReadAsTensors(name))

    @classmethod
    def from_arrays(cls, **values: Any) -> Self:
        """Create an object from values that may be arrays. The constructor does the same, but its type annotations allow only tensors."""
        return cls(**values)

    def numpy(self, name: str) -> Any:
        """The field ``name``, one of ``tensors``, as a NumPy array, a dict of arrays, or :class:`CurveArrays`. It does not import torch."""
        return _as_arrays(vars(self)[name])

    def replaced(self, **changes: Any) -> Self:
        """A copy with these fields changed, like :func:`dataclasses.replace`, but arrays in the other fields are not converted to tensors."""
        held = {each.name: vars(self)[each.name] for each in fields(self)}  # type: ignore[arg-type]
        return self.from_arrays(**{**held, **changes})


@dataclass(frozen=True, repr=False)
class MethodResult(HoldsArrays, tensors=["values", "pairs", "maps", "insertion"]):
    """The result of one method: its scores, the values per image and per (image, label) pair behind them, its maps and its curves.

    N is the number of images, L the number of labels per image, and P the number of images whose pixels and maps were kept.
    """

    name: str
    settings: Mapping[str, object]
    label_free: bool
    scores: tuple[Score, ...]
    values: Mapping[str, Tensor]
    """For each score, a tensor ``(N,)``; NaN if an image does not count."""
    pairs: Mapping[str, Tensor]
    """For each score with values per label, a tensor ``(N, L)``."""
    maps: Tensor
    """Maps ``(P, L, *positions)`` of the kept images; ``(P, 1, *positions)`` for a method with one map for all labels."""
    insertion: Curves
    """Insertion curves of all images. They include the label x label matrix if there are few enough labels."""
    seconds: float
    image_names: Sequence[str]
    label_names: Sequence[str]
    signed: bool = False
    """Whether negative values of the maps are evidence against the label."""

    @cached_property
    def rows(self) -> tuple[Mapping[str, object], ...]:
        """One row per (image, label): f (the net's probability of the label), and the scores of the map."""
        curves, pairs = self.numpy("insertion"), self.numpy("pairs")
        return tuple(
            {
                "method": self.name,
                "image": image,
                "label": label,
                "name": self.label_names[label],
                "f": float(curves.f[i, j]),
                **{score: float(values[i, j]) for score, values in pairs.items()},
            }
            for i, (image, labels) in enumerate(zip(self.image_names, curves.labels.tolist(), strict=True))
            for j, label in enumerate(labels)
            if label != NO_LABEL
        )

    @cached_property
    def one_map(self) -> bool:
        """Whether one map serves all labels: the method says so, or the maps of all labels show the positions of each image in the same order.

        Maps in the same order give every label the same area, to the bit. Images with one label, and inputs that the net does not react to,
        say nothing.
        """
        if self.label_free:
            return True
        curves = self.numpy("insertion")
        if curves.matrix is None:
            return False
        judged = curves.labels != NO_LABEL
        several = judged.sum(axis=1) > 1
        steps = curves.probabilities[several][:, 0]
        if not steps.size or not bool((steps != steps[:, :1]).any()):
            return False
        areas = curves.matrix[several]
        same = ((areas == areas[:, :1]) | ~judged[several][:, None, :]).all(axis=2)
        return bool((same | ~judged[several]).all())

    @property
    def curve_settings(self) -> Mapping[str, object]:
        """The settings of the insertion curves. Reading them does not import torch."""
        settings: Mapping[str, object] = vars(self)["insertion"].settings
        return settings

    def __repr__(self) -> str:
        return f"MethodResult({self.name}, {counted(len(self.image_names), 'image')}, {counted(len(self.scores), 'score')})"

    def __getitem__(self, name: str) -> Score:
        """The score of a metric, by its name."""
        return self.score(name)

    def score(self, name: str) -> Score:
        for score in self.scores:
            if score.name == name:
                return score
        raise InputError(f"no score is named {name!r}; there are {', '.join(s.name for s in self.scores)}")

    def first_score(self, kind: str) -> Score | None:
        """The first score of this kind, whatever its name."""
        return next((score for score in self.scores if score.kind == kind), None)

    def first_scores(self, kind: str) -> dict[str, Score]:
        """The first score of this kind for each fill, by the name of the fill."""
        found: dict[str, Score] = {}
        for score in self.scores:
            if score.kind == kind:
                found.setdefault(score.fill, score)
        return found

    def pairs_of_kind(self, kind: str) -> NDArray[Any] | None:
        """The values ``(N, L)`` of the first score of this kind that has values per label; None if there is no such score."""
        pairs = self.numpy("pairs")
        return next((pairs[s.name] for s in self.scores if s.kind == kind and s.name in pairs), None)

    def select_images(
        self, places: Sequence[int], pictured: Sequence[int], names: Sequence[str]
    ) -> MethodResult:
        """The result on the images with the indices ``places`` and the ``names``, with the rows ``pictured`` of the maps. Called by
        :meth:`Evaluation.select_images`."""
        at = list(places)
        values = {name: column[at] for name, column in self.values.items()}
        return replace(
            self,
            scores=tuple(score.over(values[score.name]) for score in self.scores),
            values=values,
            pairs={name: table[at] for name, table in self.pairs.items()},
            maps=self.maps[list(pictured)],
            insertion=self.insertion.select_images(at),
            image_names=names,
        )

    def threshold(self, which: str) -> float:
        """The threshold ``"e1"`` or ``"e2"`` that the scores used, or the paper's value if no score used it."""
        for score in self.scores:
            if which in score.settings:
                return float(str(score.settings[which]))
        from proofmap.metrics.scores import THRESHOLDS

        return float(getattr(THRESHOLDS["paper"], which))


def run_scores(metrics: Mapping[str, RunMetric], results: Sequence[MethodResult]) -> tuple[RunScore, ...]:
    """The scores of metrics that judge a run as a whole, computed from the values of all ``results``. ``metrics`` maps names to metrics."""
    return tuple(
        RunScore(
            name,
            subject,
            value,
            n,
            metric.higher_is_better,
            metric.settings(),
            metric.kind or metric.name,
        )
        for name, metric in metrics.items()
        for subject, (value, n) in metric.measure_run(_run_values(results)).items()
    )


def _run_values(results: Sequence[MethodResult]) -> RunValues:
    """The values of all methods and the direction of each score. The values are copies, because a metric may write into them."""
    from proofmap.metrics.metric import RunValues

    directions = {score.name: score.higher_is_better for result in results for score in result.scores}
    values = {result.name: {name: x.clone() for name, x in result.values.items()} for result in results}
    return RunValues(values, directions)


def measured(
    scores: Sequence[Score], values: Mapping[str, Tensor], context: Mapping[str, object]
) -> tuple[Score, ...]:
    """The scores with their numbers, computed from the ``values`` of all images. ``context`` has the evaluation's settings."""
    judged_by = {key: context[key] for key in ("label_set", "renormalise", "outputs", "labels")}
    return tuple(
        replace(score, settings={**score.settings, **judged_by}).over(values[score.name]) for score in scores
    )
