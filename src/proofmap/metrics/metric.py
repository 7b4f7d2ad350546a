"""The interface of metrics: what a metric measures, how to read it, and how it computes values.

Most metrics have one value per image. The mean over images, with an interval, is the score. The value of an image may be computed
from values per (image, label) pair. Other metrics have values per run, computed from the values of all methods together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from proofmap.classifier.raw import as_classifier
from proofmap.core.errors import InputError
from proofmap.core.registry import Registry
from proofmap.core.tensors import exact
from proofmap.methods.method import Cost
from proofmap.metrics.games import Game
from proofmap.metrics.judged import Judged
from proofmap.metrics.playing import given_parts
from proofmap.plugins.identity import identity, provenance
from proofmap.plugins.settings import Plugin, required
from proofmap.plugins.specs import make_plugin
from proofmap.session import Session


class Metric(Plugin):
    """The settings of a metric: one value per image from a :class:`Judged`, which holds a method's maps; NaN if an image does
    not count.

    Attributes:
        kind: what the metric measures: ``completeness``, ``soundness``, ``best-effort``, ``insertion``, ``deletion`` or a word
            of your own. Tables and pages choose metrics by their kind, not by their name. If empty, the kind is the name.
        higher_is_better: the direction.
        limits: the least and the greatest value.
        intrinsic: whether only the net and the images are used: nothing is trained, and no other data is needed.
        reads: the labels whose maps the metric reads: ``all`` of an image, or only its ``first``. In an evaluation, a metric that reads
            the first is given that label alone, so that its games are played on one map an image; its values per label are NaN for
            other labels.
    """

    noun = "metric"
    kind: ClassVar[str] = ""
    higher_is_better: ClassVar[bool]
    limits: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    intrinsic: ClassVar[bool] = True
    reads: ClassVar[Literal["all", "first"]] = "all"

    @classmethod
    def make(cls, spec: Any) -> Metric:
        return make_metric(spec)

    def __call__(
        self,
        judged: Any = None,
        x_batch: Any = None,
        y_batch: Any = None,
        a_batch: Any = None,
        *,
        model: Any = None,
        **others: Any,
    ) -> Any:
        """The values per image ``(N,)`` of a :class:`Judged`.

        It may also be called as a metric of Quantus, with ``model, x_batch, y_batch, a_batch``: ``a_batch[n]`` explains the label ``y_batch[n]``,
        or the labels ``y_batch[n, k]``. The values are then an array. Other arguments of Quantus are not used.
        """
        if isinstance(judged, Judged):
            return self.measure(judged)[0]
        if x_batch is None or y_batch is None or a_batch is None:
            raise InputError(
                f"the metric {self.name} needs x_batch, y_batch and a_batch: images, labels and their maps"
            )
        session = Session(as_classifier(judged if model is None else model, x_batch), role="judge")
        self.prepare(session)
        found = []
        for images, maps, labels in given_parts(session.net, x_batch, a_batch, y_batch):
            values = torch.zeros(len(images), device=images.device)
            whole = [(session.inputs.count, torch.arange(len(images)))]
            for n, places in session.inputs.by_length(images) or whole:
                cut = session.inputs.cut(images[places], n), labels[places], maps[places][..., :n]
                values[places] = self.measure(Judged(session.at_length(n), *cut))[0].to(values)
            found.append(values)
        return torch.cat(found).cpu().numpy()

    def values(self, judged: Judged) -> Tensor:
        """Values per image ``(N,)``. A metric defines either this method or :meth:`pairs`, if an image's value is computed from its labels."""
        raise InputError(
            f"the metric {self.name} gives no values: define values(judged), which returns a tensor (N,) with one value per image, "
            "or pairs(judged), which returns a tensor (N, L) with one value per label"
        )

    def pairs(self, judged: Judged) -> Tensor | None:
        """Values per label ``(N, L)``, from which the values per image are computed. None if the metric has no values per label."""
        return None

    def from_pairs(self, judged: Judged, pairs: Tensor) -> Tensor:
        """One value for each image ``(N,)``, from the values per label that :meth:`pairs` returns. By default, the value of the first label."""
        return pairs[:, 0]

    def measure(self, judged: Judged) -> tuple[Tensor, Tensor | None]:
        """Values per image ``(N,)``, and values per label ``(N, L)`` or None. An evaluation calls this method; it calls :meth:`pairs` only
        once. Raises :class:`InputError` if the metric returned something else.
        """
        n_labels, pairs = judged.labels.shape[1], None
        if self.reads == "first":
            judged = judged.first_label()
        found = self.pairs(judged.copy())
        if found is not None:
            shape = tuple(judged.labels.shape)
            pairs = self._checked(found, "pairs(judged)", shape, "one value per label", judged)
        if pairs is None or type(self).values is not Metric.values:
            values = self._checked_values(self.values(judged.copy()), "values(judged)", judged).clone()
        else:
            values = self.from_pairs(judged.copy(), pairs.clone())
            values = self._checked_values(values, "from_pairs(judged, pairs)", judged)
        if pairs is not None:
            pairs = F.pad(pairs, (0, n_labels - pairs.shape[1]), value=torch.nan)
        return values, pairs

    def _checked_values(self, found: object, call: str, judged: Judged) -> Tensor:
        low, high = self.limits
        values = self._checked(found, call, (len(judged.images),), "one value per image", judged)
        slack = 1e-5 * max([1.0, *(abs(limit) for limit in self.limits if math.isfinite(limit))])
        if outside := values[(values < low - slack) | (values > high + slack)].tolist():
            raise InputError(
                f"the metric {self.name}: {call} returned {outside[0]:g}, but its values must lie between its limits {low:g} and {high:g}, or be "
                "NaN if an image does not count. Correct the value, or the limits that the metric declares"
            )
        return values

    def _checked(self, found: object, call: str, shape: tuple[int, ...], each: str, judged: Judged) -> Tensor:
        """What a metric returned, as a tensor of floats that needs no gradient."""
        expected = (
            f"the metric {self.name}: {call} must return a torch.Tensor of numbers of shape {shape}, {each}"
        )
        if not isinstance(found, Tensor) or found.is_complex():
            what = "None" if found is None else f"{type(found).__name__}"
            raise InputError(f"{expected}, not {found.dtype if isinstance(found, Tensor) else what}")
        if found.shape != shape:
            advice = (
                ". Values per label belong into pairs(judged)" if found.shape == judged.labels.shape else ""
            )
            raise InputError(f"{expected}, not of shape {tuple(found.shape)}{advice}")
        values = (found if found.is_floating_point() else exact(found)).detach()
        if bool(values.isinf().any()):
            raise InputError(
                f"{expected}: finite, or NaN if it does not count. It returned an infinite value"
            )
        return values

    def games(self) -> tuple[Game, ...]:
        """The games that this metric needs; equal games are played once."""
        return ()

    def cost(self, labels: int, method: Cost | None) -> Cost | None:
        """The passes for one image in addition to those of the games, given the cost ``method`` of one run of the method. None if
        unknown.
        """
        return Cost()

    def settings(self) -> dict[str, object]:
        """Every setting as plain data, without the name."""
        return {key: value for key, value in super().settings().items() if key != self.noun}

    @property
    def measures(self) -> str:
        """What the metric measures: its kind, or its name if it states none."""
        return self.kind or self.name

    def prepare(self, session: Session) -> None:
        """Find or build what the metric needs for a net, and raise an error if it cannot judge it. By default, prepare its games."""
        for game in self.games():
            session.prepare(game)

    def record(self, session: Session) -> dict[str, object]:
        """The record of a score: the settings, and everything that was determined for the net, such as the fill of each game."""
        return self.settings()

    def full_record(self, session: Session) -> dict[str, object]:
        """The record with the source of the metric's and its games' code, if it is not Proofmap's own."""
        return {**self.record(session), **provenance(self, *self.games())}


@dataclass(frozen=True)
class RunValues:
    """The values of all methods of a run: for each method, values ``(N,)`` by the name of the score. NaN means that an image does not
    count.
    """

    values: Mapping[str, Mapping[str, Tensor]]
    higher_is_better: Mapping[str, bool] = field(default_factory=dict)
    """Whether higher is better, for every score."""

    @property
    def shared(self) -> list[str]:
        """The scores that every method has."""
        return [name for name in self.higher_is_better if all(name in v for v in self.values.values())]

    def table(self, *columns: tuple[str, str]) -> Tensor:
        """One column for each (method, score), and one row for each image that has no NaN in any column. Signs are such that larger is better."""
        signed = [
            self.values[method][score].cpu().double() * (1 if self.higher_is_better[score] else -1)
            for method, score in columns
        ]
        table = torch.stack(signed, dim=1)
        return table[~table.isnan().any(dim=1)]


class FunctionMetric(Metric):
    """Any function of a :class:`Judged` that returns values per image ``(N,)`` or per label ``(N, L)`` as a metric. Higher is better, unless the
    function has an attribute ``higher_is_better`` that says otherwise. The value of an image with values per label is that of its first label.
    """

    description = "a function of yours"
    function: Callable[[Judged], Any] = required("function of what was judged")

    @property
    def name(self) -> str:  # type: ignore[override]
        name = str(getattr(self.function, "__name__", type(self.function).__name__))
        return "metric" if name == "<lambda>" else name

    @property
    def higher_is_better(self) -> bool:  # type: ignore[override]
        return bool(getattr(self.function, "higher_is_better", True))

    def measure(self, judged: Judged) -> tuple[Tensor, Tensor | None]:
        try:
            found = self.function(judged.copy())
        except InputError:
            raise
        except (AttributeError, RuntimeError, TypeError) as error:  # perhaps it expects something else
            error.add_note(
                f"the metric {self.name} is called with what was judged: its .maps (N, L, *positions), .labels, .f and .images; it returns "
                "values (N,) or (N, L)"
            )
            raise
        found = torch.from_numpy(found) if isinstance(found, np.ndarray) else found
        if not isinstance(found, Tensor) or found.ndim != 2:
            return self._checked_values(found, "the function", judged), None
        pairs = self._checked(
            found, "the function", tuple(judged.labels.shape), "one value per label", judged
        )
        return pairs[:, 0], pairs

    def settings(self) -> dict[str, object]:
        return {"code": identity(self.function)}


class RunMetric(Metric):
    """The settings of a metric of a whole run: agreement, reliability, anything that needs all methods at once."""

    def over_run(self, run: RunValues) -> Mapping[str, tuple[float, int]]:
        """The metric's numbers for a run by their subject, such as a score or a pair of methods: each with the number of images that it was
        computed from.
        """
        raise NotImplementedError(f"{type(self).__name__} gives no values per run")

    def measure_run(self, run: RunValues) -> dict[str, tuple[float, int]]:
        """The numbers of :meth:`over_run`. Raises :class:`InputError` if the metric returned something else."""
        found = self.over_run(run)
        if not isinstance(found, Mapping) or not all(
            isinstance(each, tuple) and len(each) == 2 for each in found.values()
        ):
            raise InputError(
                f"the metric {self.name}: over_run(run) must return a table of subject: (value, number of images), not {found!r:.80}"
            )
        return dict(found)


METRICS: Registry[Metric] = Registry("metric", "proofmap.metrics")
"""The registered metrics, by name."""


def make_metric(spec: Any, defaults: Mapping[str, Any] | None = None) -> Metric:
    """A metric from its spec (:mod:`proofmap.plugins.specs`) or from a table of settings. A metric is returned unchanged.

    >>> make_metric("soundness:thresholds=released,curve=rise,points=16").settings()["points"]
    16
    """
    return make_plugin(
        METRICS,
        Metric,
        spec,
        defaults=defaults,
        adopt=lambda thing: FunctionMetric(function=thing) if callable(thing) else None,
    )
