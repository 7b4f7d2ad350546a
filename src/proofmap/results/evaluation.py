"""The results of an evaluation, and of ``explain``, with tables, notebook displays and files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from proofmap.core.deferred import Deferred, Tensor
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs, inputs_of
from proofmap.core.labels import NO_LABEL, LabelRule
from proofmap.core.text import counted
from proofmap.results.records import COMPLETENESS, SOUNDNESS, HoldsArrays, MethodResult
from proofmap.results.statistics import RunScore
from proofmap.results.validation import Validation

if TYPE_CHECKING:
    import pandas as pd

    from proofmap.report import display
else:
    display = Deferred("proofmap.report.display")  # draws and saves results, and imports this module


_SMALLEST_STATED = 1e-4


def batch_record(difference: object) -> dict[str, object]:
    """The entry of an evaluation's settings for a difference of f between batches; empty if the difference is small or unknown.

    >>> batch_record(0.00213), batch_record(1e-6), batch_record(None)
    ({'batch_difference': 0.0021}, {}, {})
    """
    stated = isinstance(difference, float) and difference >= _SMALLEST_STATED
    return {"batch_difference": float(f"{difference:.2g}")} if stated else {}


class HasEvaluation(Protocol):
    """An object with an evaluation: a :class:`~proofmap.Run`, a :class:`~proofmap.Proof`, or the outcome of a study."""

    @property
    def evaluation(self) -> Evaluation | Callable[[], Evaluation]: ...


@dataclass(frozen=True, repr=False)
class Evaluation(HoldsArrays, tensors=["images", "labels", "f"]):
    """The results of methods on N images. Tables, comparisons, audits, reports and figures all read this type.

    :func:`proofmap.evaluate` returns an evaluation, and :meth:`proofmap.Run.evaluation` reads one from a run directory. It prints as a table.

    ``labels`` ``(N, L)`` has a row of labels for each image, padded with -1, and ``f`` ``(N, L)`` the net's probabilities of these labels.
    In the methods, ``index`` is the index of an image, and ``place`` is the index of a label in the image's row of labels.

    Scores are stored for all images. Pixels and maps take memory, so they are stored only for the P images whose indices are in
    ``pictured``: ``images`` is ``(P, *shape)`` (see :attr:`inputs`).
    """

    results: tuple[MethodResult, ...]
    images: Tensor
    image_names: tuple[str, ...]
    labels: Tensor
    label_names: tuple[str, ...]
    f: Tensor
    settings: Mapping[str, object]
    pictured: tuple[int, ...] = ()
    run_scores: tuple[RunScore, ...] = ()
    """Scores of the run as a whole, computed from the values of all methods."""
    trust: Mapping[str, str] = field(default_factory=dict)
    """For metrics that were validated with this net: the share of pairs with a known answer that they order rightly, such as ``94 % [91, 96]``."""

    def __len__(self) -> int:
        """The number of images."""
        return len(self.image_names)

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of the methods, in the given order."""
        return tuple(result.name for result in self.results)

    @cached_property
    def inputs(self) -> Inputs:
        """The kind of input (images, series, rows of a table, texts), which knows the shape of inputs and the names of their positions."""
        return inputs_of(self.settings)

    def image_of(self, index: int) -> Tensor:
        """A pictured image as the net takes it, such as ``(C, H, W)``. Raises :class:`InputError` if its pixels were not kept."""
        return self.images[self._place(index)]

    def map_of(self, result: MethodResult, index: int, place: int) -> Tensor:
        """The map ``(*positions,)`` of a pictured image for the label at ``place``."""
        return result.maps[self._place(index), 0 if result.label_free else place]

    def maps_of(self, result: MethodResult) -> Tensor:
        """The maps ``(P, L, *positions)`` of all pictured images and labels."""
        return result.maps.expand(-1, self.labels.shape[1], *result.maps.shape[2:])

    def places_of(self, index: int) -> list[int]:
        """The indices in an image's row of labels that are not padding."""
        return [
            place for place, label in enumerate(self.numpy("labels")[index].tolist()) if label != NO_LABEL
        ]

    def label_name(self, index: int, place: int) -> str:
        """The name of the label at ``place`` of an image."""
        return self.label_names[int(self.numpy("labels")[index, place])]

    def count_of(self, index: int) -> int:
        """The number of positions of a pictured input. For a text this is its own length, without padding."""
        lengths = self.inputs.lengths(self.image_of(index)[None])
        return self.inputs.count if lengths is None else int(lengths[0])

    def _place(self, index: int) -> int:
        if index not in self.pictured:
            raise InputError(
                f"the {self.inputs.position_noun} and maps of {self.inputs.singular} {index} were not kept; kept are {len(self.pictured)} of {len(self)}"
            )
        return self.pictured.index(index)

    def __getitem__(self, method: str) -> MethodResult:
        """The result of a method, by its name or by a unique prefix of its name."""
        for result in self.results:
            if result.name == method:
                return result
        beginning = [result for result in self.results if result.name.startswith(str(method))]
        if len(beginning) == 1 and method:
            return beginning[0]
        raise InputError(f"no method {method!r} was judged; there are {', '.join(self.methods)}")

    def select_images(self, places: Sequence[int]) -> Evaluation:
        """The evaluation restricted to the images with the indices ``places``, in this order. Means and intervals are computed again.

        ``run_scores`` is empty in the result.
        """
        outside = [place for place in places if not 0 <= place < len(self)]
        if outside or not places:
            item = self.inputs.singular
            which = f"no {item} {outside[0]}" if outside else f"no {item} asked for"
            raise InputError(f"there is {which}: the evaluation has 0 to {len(self) - 1}")
        names = tuple(self.image_names[place] for place in places)
        kept = [place for place in places if place in self.pictured]
        rows = [self.pictured.index(place) for place in kept]
        return replace(
            self,
            results=tuple(r.select_images(places, rows, names) for r in self.results),
            images=self.images[rows],
            image_names=names,
            labels=self.labels[list(places)],
            f=self.f[list(places)],
            pictured=tuple(k for k, place in enumerate(places) if place in kept),
            run_scores=(),
        )

    def by_fill(self) -> dict[str, Evaluation]:
        """For each fill with which every method was judged by completeness and soundness, the evaluation with the scores of this fill and those
        that use no fill. A single one if there is one fill."""
        results = self.results
        fills = [
            score.fill
            for score in results[0].scores
            if score.kind == SOUNDNESS
            and all(score.fill in r.first_scores(kind) for r in results for kind in (COMPLETENESS, SOUNDNESS))
        ]
        return {
            fill: self.replaced(
                results=tuple(
                    r.replaced(scores=tuple(s for s in r.scores if s.fill in ("", fill))) for r in results
                )
            )
            for fill in dict.fromkeys(fills)
        }

    def trusting(self, validation: Validation, fingerprint: object) -> Evaluation:
        """The evaluation with what a validation found about its metrics; unchanged if that was of a net with another ``fingerprint``."""
        if validation.settings.get("fingerprint") != fingerprint:
            return self
        names = [score.name for score in self.results[0].scores if validation.short(score.name)]
        return replace(self, trust={name: validation.short(name) for name in names})

    def wrong_kind(self, index: int, place: int) -> Literal["", "near", "far"]:
        """``near`` or ``far`` if the label at ``place`` is a wrong one that the label rule ``+wrong`` added; otherwise empty."""
        first = LabelRule.first_wrong(str(self.settings.get("labels", "")))
        if first is None or place < first or int(self.numpy("labels")[index, place]) == NO_LABEL:
            return ""
        return "near" if place == first else "far"

    def table(self, width: int | None = None) -> str:
        """The scores as text, with one line per method, one column per metric and intervals in brackets. A table wider than ``width``
        columns is stacked."""
        return display.score_table(self).table(width)

    def to_dataframe(self, table: str = "scores") -> pd.DataFrame:
        """A table as a pandas DataFrame with one row per value. ``table`` is ``scores`` (means with intervals), ``per_image`` or
        ``per_label``."""
        return display.dataframe(self, table)

    def to_latex(self, *, caption: str | None = None, label: str = "tab:scores") -> str:
        """The scores as a LaTeX table (package booktabs). ``caption`` is LaTeX code; by default the notes of the table."""
        return display.shared_table(self).to_latex(caption=caption, label=label)

    def to_dict(self) -> dict[str, float]:
        """The scores by plain names: ``grad-cam/soundness``, and its 95 % interval as ``grad-cam/soundness/low`` and
        ``grad-cam/soundness/high``. Scores of the run as a whole are named ``SCORE/SUBJECT``."""
        found = {f"{score.name}/{score.subject}": score.value for score in self.run_scores}
        for result in self.results:
            for score in result.scores:
                name = f"{result.name}/{score.name}"
                found |= {name: score.value, f"{name}/low": score.low, f"{name}/high": score.high}
        return found

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        methods = ", ".join(result.name for result in self.results)
        return (
            f"Evaluation({counted(len(self), self.inputs.singular)}, {self.settings.get('model')}; {methods})"
        )

    def _repr_html_(self) -> str:
        return display.evaluation_html(self)

    def save(self, folder: str | Path, *, pictures: bool = True) -> list[Path]:
        """Write ``scores.csv``, ``pairs.csv``, ``evaluation.json`` and the pictures into ``folder``. Returns the paths of the files."""
        return display.save_evaluation(self, folder, pictures=pictures)


Results = Evaluation | HasEvaluation
"""The type of results that comparisons, audits, analyses, reports and figures take."""


def evaluation_of(results: Results) -> Evaluation:
    """The evaluation of ``results``: the argument itself, or the evaluation of a run, a proof or the outcome of a study."""
    if isinstance(results, Evaluation):
        return results
    found = getattr(results, "evaluation", None)
    found = found() if callable(found) else found
    if not isinstance(found, Evaluation):
        raise InputError(f"an Evaluation, a Run or a Proof is needed, not {type(results).__name__}")
    return found


@dataclass(frozen=True)
class Proof:
    """The judged maps of one or several methods: a view of an :class:`~proofmap.results.evaluation.Evaluation`.

    ``proof["grad-cam"]`` is the proof of one of several methods.
    """

    evaluation: Evaluation

    def __getitem__(self, method: str) -> Proof:
        """The proof of one method, by its name or by a unique prefix of its name."""
        return Proof(replace(self.evaluation, results=(self.evaluation[method],), run_scores=()))

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of the methods, in the given order."""
        return self.evaluation.methods

    @property
    def result(self) -> MethodResult:
        """The result of the only method. Raises :class:`InputError` if there are several methods."""
        if len(self.methods) > 1:
            raise InputError(
                f"there are {len(self.methods)} methods; name one, such as proof[{self.methods[0]!r}].maps"
            )
        return self.evaluation.results[0]

    @property
    def maps(self) -> Tensor:
        """The maps ``(N, L, *positions)``, such as ``(N, L, H, W)``. Raises :class:`InputError` if there are several methods."""
        return self.evaluation.maps_of(self.result)

    @property
    def labels(self) -> Tensor:
        """The explained labels ``(N, L)`` as indices into the classifier's outputs, padded with -1."""
        return self.evaluation.labels

    @property
    def scores(self) -> tuple[Mapping[str, object], ...]:
        """One row per method, image and label, with f (the net's probability of the label), completeness, soundness and insertion (the AUC)."""
        return tuple(row for result in self.evaluation.results for row in result.rows)

    def table(self, *, scores: bool = False) -> str:
        """What each map proves: a line for each label with a bar, belief, proof and peak, and a word; then one sentence. With ``scores``, all
        scores and settings follow."""
        return display.proof_table(self.evaluation, scores=scores)

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return display.proof_html(self.evaluation)

    def _repr_png_(self) -> bytes | None:
        return display.proof_png(self.evaluation)

    def save(self, folder: str | Path) -> list[Path]:
        """Write one picture per image, the maps and the numbers. Returns the paths."""
        return display.save_proof(self.evaluation, folder)
