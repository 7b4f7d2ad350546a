"""Metrics that judge a method: each reads what it needs of the maps and gives one value per image.

A metric is a frozen record of settings with a name and a direction. It is called with a :class:`Judged`, which holds
one method's maps on a block of images and plays each game at most once, whatever number of metrics ask for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar, Self, get_type_hints

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.progress import Progress, Silent
from proofmap.metrics import proof
from proofmap.metrics.curves import Curves, CurveSettings, Game, curve_settings, curves
from proofmap.plugins.python_file import from_python_file, is_python_file, split_python_file
from proofmap.plugins.registry import Registry
from proofmap.plugins.settings import read_settings

MOST_LABELS_IN_MATRIX = 64
"""The label x label matrix is kept up to so many labels: it costs no passes, but memory that grows with their square."""


@dataclass
class Judged:
    """One method's maps on some images, and what was measured on them so far."""

    classifier: Classifier
    images: Tensor
    labels: Tensor
    maps: Tensor
    seed: int = 0
    progress: Progress = field(default_factory=Silent)
    _played: dict[tuple[Game, CurveSettings], Curves] = field(default_factory=dict, repr=False)
    _f: Tensor | None = field(default=None, repr=False)

    @property
    def f(self) -> Tensor:
        """f(x, .) for all outputs, ``(N, A)``."""
        if self._f is None:
            self._f = self.classifier.probabilities(self.images)
        return self._f

    @property
    def top2(self) -> tuple[Tensor, Tensor]:
        """The two most probable labels of the label set ``(N, 2)`` and their probabilities ``(N, 2)``."""
        members = torch.tensor(self.classifier.label_set, device=self.f.device)
        order = self.f[:, members].argsort(dim=1, descending=True, stable=True)[:, :2]
        labels = members[order]
        f = self.f.gather(1, labels)
        if labels.shape[1] < 2:  # a label set of one: there is no second label
            labels, f = labels.expand(-1, 2), torch.cat([f, torch.zeros_like(f)], dim=1)
        return labels, f

    def curves(self, game: Game, settings: CurveSettings) -> Curves:
        """The game's curves, played once for equal settings."""
        settings = settings.prepare(self.classifier)  # only a ready fill tells its distractors from others
        key = (game, settings)
        if key not in self._played:
            self._played[key] = curves(
                game,
                self.classifier,
                self.images,
                self.maps,
                self.labels,
                preset=settings,
                matrix=self.labels.shape[1] <= MOST_LABELS_IN_MATRIX,
                seed=self.seed,
                progress=self.progress,
            )
        return self._played[key]


class Metric(ABC):
    """One value per image, from a :class:`Judged`; NaN where an image does not count."""

    name: ClassVar[str]
    kind: ClassVar[str] = ""
    """What it measures, which tables and pages go by: ``completeness``, ``soundness``, ``insertion``; its name if empty."""
    higher_is_better: ClassVar[bool]
    meaning: ClassVar[str]

    def prepare(self, classifier: Classifier) -> Self:
        """A metric that is ready for this classifier, and can say all that its values depend on."""
        return self

    @abstractmethod
    def __call__(self, judged: Judged) -> Tensor:
        """Values ``(N,)``."""

    def pairs(self, judged: Judged) -> Tensor | None:
        """Values ``(N, L)`` behind the per-image ones, where there are any."""
        return None

    @abstractmethod
    def settings(self) -> dict[str, object]:
        """What a score must carry."""

    def games(self) -> tuple[tuple[Game, CurveSettings], ...]:
        """The games this metric needs played, for the plan of a study; equal ones are played once."""
        return ()

    @classmethod
    def option_types(cls) -> dict[str, Any]:
        """The settings that can be written as text or in a file, and the types they are to become."""
        types = get_type_hints(cls)
        return {f.name: types[f.name] for f in fields(cls)} if is_dataclass(cls) else {}

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Metric:
        """The metric with these settings, whose names are among :meth:`option_types`."""
        return cls(**options)


METRICS: Registry[Metric] = Registry("metric", "proofmap.metrics")


def make_metric(spec: str | Metric, defaults: Mapping[str, Any] | None = None) -> Metric:
    """A metric from its name, from ``name:key=value,key=value``, from ``FILE.py:CLASS``, or as given.

    >>> make_metric("soundness:thresholds=released,curve=rise,points=16").settings()["points"]
    16
    """
    if isinstance(spec, Metric):
        return spec
    if not isinstance(spec, str):
        raise InputError(f"a metric is a name or a Metric, not {type(spec).__name__}")
    if is_python_file(spec):
        file, called, rest = split_python_file(spec.strip())
        kind = _metric_in(file, called)
    else:
        name, _, rest = spec.strip().partition(":")
        kind = METRICS[name]
    types = kind.option_types()
    return _made(kind, read_settings(f"metric {kind.name!r}", rest, types, types), defaults)


def build_metric(name: str, options: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> Metric:
    """A metric by name, or ``FILE.py:CLASS``, with settings as values; ``defaults`` serve where it has such a setting."""
    if is_python_file(name):
        file, called, _ = split_python_file(name)
        return _made(_metric_in(file, called), options, defaults)
    return _made(METRICS[name], options, defaults)


def _metric_in(file: str, name: str) -> type[Metric]:
    found = from_python_file(file, name, "metric")
    if not (isinstance(found, type) and issubclass(found, Metric)):
        raise InputError(f"{file}:{name} is not a class of Metrics (proofmap.metrics.Metric)")
    return found


def _made(
    kind: type[Metric], options: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
) -> Metric:
    name = kind.name
    known = kind.option_types()
    options = {**{key: value for key, value in (defaults or {}).items() if key in known}, **options}
    unknown = [key for key in options if key not in known]
    if unknown:
        listed = ", ".join(known) or "none"
        raise InputError(f"metric {name!r} has no setting {unknown[0]!r}; its settings are {listed}")
    try:
        return kind.from_options(options)
    except TypeError as error:
        raise InputError(f"metric {name!r}: {error}") from None


def _curve_of(game: Game, options: Mapping[str, Any]) -> CurveSettings:
    """Curve settings from a preset's name and changes to it."""
    changes = {key: options[key] for key in ("fill", "ties", "draws") if key in options}
    settings = curve_settings(options.get("curve", "paper"), game, **changes)
    if "points" in options:
        settings = replace(settings, quadrature=replace(settings.quadrature, points=options["points"]))
    return settings


@dataclass(frozen=True, kw_only=True)
class _GameMetric(Metric):
    """A metric that reads one game's curves."""

    game: ClassVar[Game] = "insertion"
    curve: CurveSettings = field(default_factory=lambda: curve_settings("paper"))

    def prepare(self, classifier: Classifier) -> Self:
        return replace(self, curve=self.curve.prepare(classifier))

    def areas(self, judged: Judged) -> Curves:
        return judged.curves(self.game, self.curve)

    def settings(self) -> dict[str, object]:
        return {"game": self.game, **self.curve.record()}

    def games(self) -> tuple[tuple[Game, CurveSettings], ...]:
        return ((self.game, self.curve),)

    @classmethod
    def option_types(cls) -> dict[str, Any]:
        return {"curve": str, "fill": str, "points": int | str, "ties": str, "draws": int}

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Metric:
        return cls(curve=_curve_of(cls.game, options))


@dataclass(frozen=True, kw_only=True)
class _ProofMetric(_GameMetric):
    """A metric of the paper's definition, with its thresholds."""

    at: proof.Thresholds = proof.THRESHOLDS["paper"]

    def settings(self) -> dict[str, object]:
        return {"e1": self.at.e1, "e2": self.at.e2, **super().settings()}

    @classmethod
    def option_types(cls) -> dict[str, Any]:
        return {"thresholds": str, "e1": float, "e2": float, **super().option_types()}

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Metric:
        at = proof.thresholds(options.get("thresholds", "paper"))
        at = replace(at, **{key: float(options[key]) for key in ("e1", "e2") if key in options})
        return cls(at=at, curve=_curve_of(cls.game, options))


@METRICS.register
@dataclass(frozen=True, kw_only=True)
class Completeness(_ProofMetric):
    name: ClassVar[str] = "completeness"
    higher_is_better: ClassVar[bool] = True
    meaning: ClassVar[str] = (
        "worst case over labels of min(max(AUC, e1) / f, 1): what the net believes is proved"
    )

    def pairs(self, judged: Judged) -> Tensor:
        c = self.areas(judged)
        return proof.completeness(c.auc, c.f, self.at.e1)

    def __call__(self, judged: Judged) -> Tensor:
        return proof.worst_case(self.pairs(judged))


@METRICS.register
@dataclass(frozen=True, kw_only=True)
class Soundness(_ProofMetric):
    name: ClassVar[str] = "soundness"
    higher_is_better: ClassVar[bool] = True
    meaning: ClassVar[str] = (
        "worst case over labels of min(max(f, e2) / AUC, 1): what it does not believe is not"
    )

    def pairs(self, judged: Judged) -> Tensor:
        c = self.areas(judged)
        return proof.soundness(c.auc, c.f, self.at.e2)

    def __call__(self, judged: Judged) -> Tensor:
        return proof.worst_case(self.pairs(judged))


@METRICS.register
@dataclass(frozen=True, kw_only=True)
class BestEffort(_ProofMetric):
    name: ClassVar[str] = "best-effort"
    higher_is_better: ClassVar[bool] = True
    meaning: ClassVar[str] = "worst completeness over the labels with f >= e1 other than the top one"

    def __call__(self, judged: Judged) -> Tensor:
        c = self.areas(judged)
        top2, f = judged.top2
        return proof.best_effort(c.auc, c.f, c.labels, top2, f[:, 1], self.at.e1)


@METRICS.register
@dataclass(frozen=True, kw_only=True)
class Insertion(_GameMetric):
    name: ClassVar[str] = "insertion"
    higher_is_better: ClassVar[bool] = True
    meaning: ClassVar[str] = "area under the insertion curve of the first label"

    def pairs(self, judged: Judged) -> Tensor:
        return self.areas(judged).auc

    def __call__(self, judged: Judged) -> Tensor:
        return self.pairs(judged)[:, 0]


@METRICS.register
@dataclass(frozen=True, kw_only=True)
class Deletion(Insertion):
    name: ClassVar[str] = "deletion"
    game: ClassVar[Game] = "deletion"
    higher_is_better: ClassVar[bool] = False
    meaning: ClassVar[str] = "area under the deletion curve of the first label"
    curve: CurveSettings = field(default_factory=lambda: curve_settings("paper", "deletion"))


def default_metrics(
    thresholds: str | tuple[float, float] | proof.Thresholds = "paper", curve: str | CurveSettings = "paper"
) -> list[Metric]:
    """Completeness, soundness and best effort at these thresholds, insertion and deletion, on these curves."""
    at = proof.thresholds(thresholds)
    shown, hidden = curve_settings(curve), curve_settings(curve, "deletion")
    return [
        Completeness(at=at, curve=shown),
        Soundness(at=at, curve=shown),
        BestEffort(at=at, curve=shown),
        Insertion(curve=shown),
        Deletion(curve=hidden),
    ]
