"""Reads a run: its scores, failures and maps, or everything as one :class:`~proofmap.Evaluation`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from proofmap.core.deferred import Tensor, type_in
from proofmap.core.environment import environment_notes
from proofmap.core.errors import InputError
from proofmap.core.inputs import kind_of
from proofmap.core.labels import label_array
from proofmap.core.text import counted
from proofmap.results.arrays import Array, CurveArrays
from proofmap.results.evaluation import BATCH_DIFFERENCE, Evaluation, batch_record
from proofmap.results.records import MethodResult, method_result
from proofmap.results.statistics import Score
from proofmap.study.manifest import Manifest
from proofmap.study.reading.run_notes import Failure, gaps
from proofmap.study.sanity import stored_sanity
from proofmap.study.selection import chosen_images, unlabelled_images, unreadable_images
from proofmap.study.store.database import Store
from proofmap.study.store.errors import StoreError
from proofmap.study.store.records import SIGNED, ImageRow, Registered, curve_values

if TYPE_CHECKING:
    import pandas as pd

    from proofmap.data.dataset import Dataset
    from proofmap.study.reading.pictured import RunPictures
else:
    Dataset = type_in("proofmap.data.dataset", "Dataset")

Choice = Callable[[Evaluation], Sequence[int]]
"""A function that chooses which images to show: it takes the evaluation of all images and returns indices."""

RunState = Literal["empty", "unfinished", "finished"]


class Run:
    """A run directory, opened for reading; another process may be writing to it.

    >>> run = Run("runs/first")  # doctest: +SKIP
    >>> print(run.table())  # doctest: +SKIP
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.manifest = Manifest.read(self.folder)
        self.store = Store(self.folder)

    def close(self) -> None:
        self.store.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, {counted(len(self.images), 'image')}, {counted(len(self.methods), 'method')})"

    @cached_property
    def images(self) -> list[ImageRow]:
        """The images of the study, in the order of the survey."""
        return [
            row
            for row in chosen_images(self.store.images(), self.manifest.selection)
            if row.block is not None
        ]

    @cached_property
    def methods(self) -> dict[str, Registered]:
        return self.store.registered("methods")

    @cached_property
    def metrics(self) -> dict[str, Registered]:
        return self.store.registered("metrics")

    @cached_property
    def label_names(self) -> tuple[str, ...]:
        return self.store.label_names()

    def failures(self) -> list[Failure]:
        """Images that could not be read, then those that a method failed on."""
        rows = unreadable_images(self.store.images(), self.manifest.selection)
        unreadable = [(row.name, "", str(row.failure)) for row in rows]
        failed = (
            "SELECT images.name, methods.name, reason FROM failures JOIN images ON images.id = image "
            "JOIN methods ON methods.id = method ORDER BY method, image"
        )
        return [Failure(*row) for row in [*unreadable, *self.store.rows(failed)]]

    @property
    def has_results(self) -> bool:
        """Whether any method has given a value."""
        return bool(self.store.rows("SELECT 1 FROM image_scores LIMIT 1"))

    def unfinished(
        self, methods: Iterable[str] | None = None, metrics: Iterable[str] | None = None
    ) -> dict[str, int]:
        """The methods that are not finished, each with the number of images that it has not judged yet. Failed images are not counted.

        ``methods`` and ``metrics`` restrict this to some methods and metrics of the run.
        """
        asked = {*(self.metrics if metrics is None else metrics)}
        wanted = [metric.id for metric in self.metrics.values() if metric.name in asked]
        rows = {*(self.methods if methods is None else methods)}
        blocks = Counter(image.block for image in self.images)
        lacking: dict[str, int] = {}
        for method in (method for method in self.methods.values() if method.name in rows):
            missing = set().union(
                *(blocks.keys() - self.store.blocks_done(method.id, metric) for metric in wanted)
            )
            if missing:
                lacking[method.name] = sum(blocks[block] for block in missing)
        return lacking

    def _no_results(self) -> StoreError:
        """The error for a run without values: nothing was computed yet, or everything failed."""
        failed = next(iter(self.failures()), None)
        if failed is None:
            return StoreError(f"{self.folder} has no results yet; continue it with: proofmap evaluate")
        what = f"{failed.method} failed on {failed.image}" if failed.method else failed.image
        return StoreError(
            f"{self.folder} has no results: {what}: {failed.reason}. Fix that and continue the run with: proofmap evaluate --retry"
        )

    @property
    def state(self) -> RunState:
        """Whether the run has no value yet (``empty``), some values (``unfinished``) or all (``finished``)."""
        if not self.has_results:
            return "empty"
        return "unfinished" if self.unfinished() else "finished"

    def notes(self, methods: Iterable[str] | None = None, metrics: Iterable[str] | None = None) -> list[str]:
        """Notes on how the numbers of these methods and metrics were made; by default of all."""
        rows = list(self.methods if methods is None else methods)
        notes = environment_notes(self.manifest.environments)
        sanity = stored_sanity(self.store)
        if sanity is not None:
            notes += [str(sanity), *(f"suspicious: {warning}" for warning in sanity.warnings())]
        kind = kind_of(self.manifest.identity)
        unlabelled = len(unlabelled_images(self.store.images(), self.manifest.selection))
        if unlabelled:
            notes.append(
                f"{counted(unlabelled, kind.singular)} without a known true label {'is' if unlabelled == 1 else 'are'} left out, since true "
                "labels are judged"
            )
        return notes + gaps(rows, self.unfinished(rows, metrics), self.failures(), len(self.images), kind)

    def table(self) -> str:
        """The scores as text."""
        return "\n".join([self.evaluation().table(), *self.notes()])

    def to_dataframe(self, table: str = "scores") -> pd.DataFrame:
        """The numbers as a pandas DataFrame: ``scores`` (means with intervals), ``per_image`` or ``per_label``."""
        return self.evaluation().to_dataframe(table)

    def maps_of(self, method: str, image: str) -> Tensor:
        """The stored maps ``(L, *positions)`` of an image, one for each of its L labels. L is 1 for a label-free method."""
        rows = {row.name: row for row in self.images}
        if image not in rows or method not in self.methods:
            item = kind_of(self.manifest.identity).singular
            raise InputError(f"the run has no method {method!r} or no {item} {image!r}")
        found = self._pictures.maps(self.methods[method], [rows[image]])
        if image not in found:
            raise InputError(f"the maps of {method} on {image} were not kept (maps = none), or failed")
        return found[image]

    def evaluation(
        self,
        pictured: int | Sequence[int] | Choice = 0,
        *,
        methods: Sequence[str] | None = None,
        dataset: Dataset | None = None,
    ) -> Evaluation:
        """All numbers of the run, with pixels and maps of some images. Images without the maps of every method get none.

        Args:
            pictured: the images to add pixels and maps for: a number n for the first n images, a list of indices, or a function
                that takes the evaluation and returns indices.
            methods: names of the methods to read, by default all. Methods without a value are left out.
            dataset: where the pixels are read from; by default the data of the study.
        """
        if not self.images:
            raise self._no_results()
        with self.store.snapshot():
            bare = self._bare(self.methods if methods is None else methods)
        wanted = pictured(bare) if callable(pictured) else pictured
        places = list(range(min(wanted, len(self.images)))) if isinstance(wanted, int) else list(wanted)
        outside = [place for place in places if not 0 <= place < len(self.images)]
        if outside:
            item = kind_of(self.manifest.identity).singular
            raise InputError(f"there is no {item} {outside[0]}: the run has 0 to {len(self.images) - 1}")
        return self._pictures.added_to(bare, self.methods, places, dataset) if places else bare

    def _bare(self, methods: Iterable[str]) -> Evaluation:
        table = label_array([image.labels for image in self.images])
        identity = self.manifest.identity
        context = {
            **identity,
            "device": " and ".join(dict.fromkeys(str(e.get("device")) for e in self.manifest.environments)),
            "batches": list(self.manifest.batches),
            "threads": self.manifest.threads,
            "proofmap": " and ".join(sorted(self.manifest.versions)),
            **batch_record(self.store.note(BATCH_DIFFERENCE)),
        }
        names = tuple(image.name for image in self.images)
        results = [self._result(self.methods[name], table, context, names) for name in methods]
        found = tuple(result for result in results if result is not None)
        if not found:
            raise self._no_results()
        return Evaluation.from_arrays(
            results=found,
            images=np.empty(0, dtype=np.float32),
            image_names=names,
            labels=table,
            label_names=self.label_names,
            f=self._surveyed(table),
            settings=context,
            run_scores=tuple(self.store.run_scores()),
        )

    @property
    def _pictures(self) -> RunPictures:
        from proofmap.study.reading.pictured import RunPictures

        return RunPictures(self.folder, self.manifest, self.store, self.images)

    @cached_property
    def _place(self) -> dict[int, int]:
        """The index of each image in ``images``, by its id."""
        return {image.id: k for k, image in enumerate(self.images)}

    def _surveyed(self, table: Array) -> Array:
        """The probabilities f ``(N, L)`` that the survey measured for the labels in ``table`` ``(N, L)``; NaN where a row is padded."""
        f = np.full(table.shape, np.nan, dtype=np.float32)
        for k, image in enumerate(self.images):
            f[k, : len(image.f)] = image.f
        return f

    def _result(
        self, method: Registered, table: Array, context: Mapping[str, object], names: Sequence[str]
    ) -> MethodResult | None:
        if not self.store.rows("SELECT 1 FROM image_scores WHERE method = ? LIMIT 1", method.id):
            return None
        place = self._place
        values = {name: np.full(len(table), np.nan, dtype=np.float32) for name in self.metrics}
        name_of = {metric.id: metric.name for metric in self.metrics.values()}
        for metric, image, value in self.store.rows(
            "SELECT metric, image, value FROM image_scores WHERE method = ? AND value IS NOT NULL", method.id
        ):
            if image in place and metric in name_of:  # one may have been added after the run was opened
                values[name_of[metric]][place[image]] = value
        columns: dict[int, Array] = {}
        for metric, image, at, value in self.store.rows(
            "SELECT metric, image, place, value FROM label_scores WHERE method = ?", method.id
        ):
            if image in place and metric in name_of:
                if metric not in columns:
                    columns[metric] = np.full(table.shape, np.nan, dtype=np.float32)
                columns[metric][place[image], at] = np.nan if value is None else value
        pairs = {name_of[metric]: column for metric, column in columns.items()}
        ((seconds,),) = self.store.rows("SELECT sum(seconds) FROM units WHERE method = ?", method.id)
        scores = [
            Score.unmeasured(m.name, m.flag, m.settings, m.kind, (m.least, m.greatest))
            for m in self.metrics.values()
        ]
        return method_result(
            method.name,
            scores,
            values=values,
            pairs={name: pairs[name] for name in self.metrics if name in pairs},
            maps=np.empty(0, dtype=np.float32),
            insertion=self._curves(method, table),
            settings=method.settings,
            label_free=method.flag,
            signed=method.kind == SIGNED,
            image_names=names,
            label_names=self.label_names,
            context=context,
            seconds=float(seconds or 0),
        )

    def _curves(self, method: Registered, table: Array) -> CurveArrays:
        game = self._game
        about: Any = self.store.note(game) or {"counts": [0], "positions": 1, "settings": {}}
        rows = self.store.rows(
            "SELECT image, probabilities, f, auc, error, matrix FROM curves WHERE method = ? AND game = ?",
            method.id,
            game,
        )
        n, wide, steps = *table.shape, len(about["counts"])
        with_matrix = bool(rows) and all(row[-1] is not None for row in rows)
        probabilities = np.full((n, wide, steps), np.nan, dtype=np.float32)
        f = self._surveyed(table)  # where a curve is missing
        auc, error = (np.full((n, wide), np.nan, dtype=np.float32) for _ in range(2))
        matrix = np.full((n, wide, wide), np.nan, dtype=np.float32) if with_matrix else None
        for image, *blobs in rows:
            k = self._place.get(image)
            if k is None:
                continue
            own = len(self.images[k].labels)
            probabilities[k, :own] = curve_values(blobs[0], own, steps)
            f[k, :own], auc[k, :own], error[k, :own] = (curve_values(blob, own) for blob in blobs[1:4])
            if matrix is not None:
                matrix[k, :own, :own] = curve_values(blobs[4], own, own)
        return CurveArrays(
            game="insertion",
            labels=table,
            f=f,
            counts=np.array(about["counts"], dtype=np.int64),
            positions=about["positions"],
            probabilities=probabilities,
            auc=auc,
            error=error,
            matrix=matrix,
            settings=about["settings"],
        )

    @cached_property
    def _game(self) -> str:
        """The key of the game whose curves most images have. A game is an insertion with certain steps and settings.

        The same game is used for all methods. Metrics that were added later may have stored curves of another game.
        """
        games = self.store.rows("SELECT game FROM curves GROUP BY game ORDER BY count(*) DESC, min(rowid)")
        return games[0][0] if games else ""
