"""The result of one method: its scores and the values behind them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from proofmap.core.deferred import Tensor, type_in
from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL
from proofmap.core.text import counted
from proofmap.plugins.failures import exit_as_error
from proofmap.results.arrays import Array, CurveArrays, HoldsArrays, as_array
from proofmap.results.statistics import RunScore, Score

if TYPE_CHECKING:
    from proofmap.metrics.curves import Curves
    from proofmap.metrics.metric import Metric, RunMetric, RunValues
    from proofmap.session import Session
else:
    Curves = type_in("proofmap.metrics.curves", "Curves")

COMPLETENESS, SOUNDNESS, BEST_EFFORT = "completeness", "soundness", "best-effort"
"""The kinds of score that a verdict uses. Completeness and soundness are the two halves of the definition of a proof."""


def setting_text(setting: object) -> str:
    """A setting as JSON text. The text stays the same if the setting is stored and read again, so it can be compared."""
    return json.dumps(setting, sort_keys=True, default=str)


@dataclass(frozen=True, repr=False)
class MethodResult(HoldsArrays, tensors=["maps"], tables=["values", "pairs"], curves=["insertion"]):
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
        return tuple(self._each_row())

    @cached_property
    def one_map(self) -> bool:
        """Whether one map serves all labels: the method says so, or the maps of all labels show the positions of each image in the same order.

        Maps in the same order give every label the same area, to the bit. Images with one label, and inputs that the net does not react to,
        say nothing.
        """
        if self.label_free:
            return True
        curves = self.curve_arrays
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

    @property
    def curve_arrays(self) -> CurveArrays:
        """The insertion curves as NumPy arrays."""
        held = vars(self)["insertion"]
        return held if isinstance(held, CurveArrays) else CurveArrays.of(held)

    def _each_row(self) -> Iterator[Mapping[str, object]]:
        curves, pairs = self.curve_arrays, self.arrays("pairs")
        for i, row in enumerate(curves.labels.tolist()):
            values = {key: table[i].tolist() for key, table in pairs.items()}
            believed = curves.f[i].tolist()
            for j, label in enumerate(row):
                if label != NO_LABEL:
                    place = {"label": label, "name": self.label_names[label], "f": believed[j]}
                    scores = {key: value[j] for key, value in values.items()}
                    yield {"method": self.name, "image": self.image_names[i], **place, **scores}

    def __repr__(self) -> str:
        return f"MethodResult({self.name}, {counted(len(self.image_names), 'image')}, {counted(len(self.scores), 'score')})"

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

    def pairs_of_kind(self, kind: str) -> Tensor | None:
        """The values ``(N, L)`` of the first score of this kind that has values per label; None if there is no such score."""
        name = self._with_pairs(kind)
        return None if name is None else self.pairs[name]

    def pair_array(self, kind: str) -> Array | None:
        """The values of :meth:`pairs_of_kind` as a NumPy array."""
        name = self._with_pairs(kind)
        return None if name is None else self.arrays("pairs")[name]

    def _with_pairs(self, kind: str) -> str | None:
        return next((s.name for s in self.scores if s.kind == kind and s.name in vars(self)["pairs"]), None)

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


def unmeasured_scores(metrics: Mapping[str, Metric], session: Session) -> list[Score]:
    """One :class:`Score` without a value for each metric, with the metric's name, direction and settings."""
    judging = session.judging()
    return [
        Score.unmeasured(name, m.higher_is_better, m.full_record(judging), m.measures, m.limits)
        for name, m in metrics.items()
    ]


@exit_as_error()
def run_scores(metrics: Mapping[str, RunMetric], results: Sequence[MethodResult]) -> tuple[RunScore, ...]:
    """The scores of metrics that judge a run as a whole, computed from the values of all ``results``. ``metrics`` maps names to metrics."""
    return tuple(
        RunScore(
            name,
            found.subject,
            found.value,
            found.n,
            metric.higher_is_better,
            metric.settings(),
            metric.kind or metric.name,
        )
        for name, metric in metrics.items()
        for found in metric.measure_run(_run_values(results))
    )


def _run_values(results: Sequence[MethodResult]) -> RunValues:
    """The values of all methods and the direction of each score. The values are copies, because a metric may write into them."""
    from proofmap.metrics.metric import RunValues

    directions = {score.name: score.higher_is_better for result in results for score in result.scores}
    values = {result.name: {name: x.clone() for name, x in result.values.items()} for result in results}
    return RunValues(values, directions)


def method_result(
    name: str,
    scores: Sequence[Score],
    *,
    values: Mapping[str, Tensor] | Mapping[str, Array],
    pairs: Mapping[str, Tensor] | Mapping[str, Array],
    maps: Tensor | Array,
    insertion: Curves | CurveArrays,
    settings: Mapping[str, object],
    label_free: bool,
    signed: bool,
    image_names: Sequence[str],
    label_names: Sequence[str],
    context: Mapping[str, object],
    seconds: float,
) -> MethodResult:
    """Create a :class:`MethodResult`, with scores computed from the ``values`` of all images. ``context`` has the evaluation's settings."""
    judged_by = {key: context[key] for key in ("label_set", "renormalise", "outputs", "labels")}
    found = tuple(
        replace(score, settings={**score.settings, **judged_by}).over(as_array(values[score.name]))
        for score in scores
    )
    return MethodResult.from_arrays(
        name=name,
        settings=settings,
        label_free=label_free,
        scores=found,
        values=values,
        pairs=pairs,
        maps=maps,
        insertion=insertion,
        seconds=seconds,
        image_names=image_names,
        label_names=label_names,
        signed=signed,
    )
