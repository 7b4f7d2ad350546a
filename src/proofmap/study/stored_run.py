"""Reads a run: its scores, failures and maps, or everything as one :class:`~proofmap.Evaluation`. Checks its files."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from proofmap.core.deferred import Tensor, torch, type_in
from proofmap.core.errors import InputError, ProofmapError
from proofmap.core.labels import label_array
from proofmap.core.text import counted
from proofmap.results.evaluation import Evaluation, batch_record
from proofmap.results.records import CurveArrays, MethodResult, measured
from proofmap.results.statistics import Score
from proofmap.study.manifest import Manifest, Registered
from proofmap.study.sanity import sanity_notes
from proofmap.study.store import ImageRow, Store, StoreError, read_maps

if TYPE_CHECKING:
    import pandas as pd

    from proofmap.data.dataset import Dataset
else:
    Dataset = type_in("proofmap.data.dataset", "Dataset")

Choice = Callable[[Evaluation], Sequence[int]]
"""A function that chooses which images to show: it takes the evaluation of all images and returns indices."""

Array = NDArray[Any]


@dataclass(frozen=True)
class Failure:
    """An image without a result: it could not be read (then ``method`` is empty), or ``method`` failed on it."""

    image: str
    method: str
    reason: str


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
        return self.manifest.images(self.store)

    @property
    def methods(self) -> Mapping[str, Registered]:
        return self.manifest.methods

    @property
    def metrics(self) -> Mapping[str, Registered]:
        return self.manifest.metrics

    @property
    def label_names(self) -> tuple[str, ...]:
        return self.manifest.label_names

    @property
    def has_results(self) -> bool:
        """Whether any method has given a value."""
        return self.store.has_values()

    @property
    def state(self) -> str:
        """Whether the run has no value yet (``empty``), some values (``unfinished``) or all (``finished``)."""
        if not self.has_results:
            return "empty"
        return "unfinished" if self.unfinished() else "finished"

    def failures(self) -> list[Failure]:
        """Images that could not be read, then those that a method failed on."""
        rows, _ = self.manifest.selection.passed_over(self.store.images())
        found = [Failure(row.name, "", str(row.failure)) for row in rows]
        failed: dict[str, dict[str, str]] = {name: {} for name in self.methods}
        query = "SELECT method, failures FROM units WHERE failures IS NOT NULL ORDER BY method, block, id"
        for method, reasons in self.store.rows(query):
            failed.setdefault(method, {}).update(json.loads(reasons))
        return found + [
            Failure(image, name, why) for name, own in failed.items() for image, why in own.items()
        ]

    def unfinished(
        self, methods: Collection[str] | None = None, metrics: Collection[str] | None = None
    ) -> dict[str, int]:
        """The methods that are not finished, each with the number of images that it has not judged yet. Failed images are not counted.

        ``methods`` and ``metrics`` restrict this to some methods and metrics of the run.
        """
        rows = [name for name in self.methods if methods is None or name in methods]
        wanted = [name for name in self.metrics if metrics is None or name in metrics]
        blocks, lacking = self.manifest.blocks, dict.fromkeys(rows, 0)
        for block, units in self.store.unfinished(rows, wanted, len(blocks)).items():
            for row in rows:
                if row not in units or not units[row][0].issuperset(wanted):
                    lacking[row] += len(blocks[block])
        return {name: images for name, images in lacking.items() if images}

    def notes(
        self, methods: Collection[str] | None = None, metrics: Collection[str] | None = None
    ) -> list[str]:
        """Notes on how the numbers of these methods and metrics were made; by default of all."""
        rows, kind = list(self.methods if methods is None else methods), self.manifest.kind
        images, failures = counted(len(self.images), kind.singular), self.failures()
        notes = _environment_notes(self.manifest.environments)
        notes += [] if self.manifest.sanity is None else sanity_notes(self.manifest.sanity)
        unlabelled = len(self.manifest.selection.passed_over(self.store.images())[1])
        if unlabelled:
            notes.append(
                f"{counted(unlabelled, kind.singular)} without a known true label {'is' if unlabelled == 1 else 'are'} left out, since true "
                "labels are judged"
            )
        lacking = [f"{name} lacks {n} of {images}" for name, n in self.unfinished(rows, metrics).items()]
        if lacking:
            notes.append(f"not finished, so means are over different {kind.noun}: {', '.join(lacking)}")
        unreadable = sum(not failure.method for failure in failures)
        if unreadable:
            verb = "is" if unreadable == 1 else "are"
            notes.append(f"{counted(unreadable, kind.singular)} could not be read and {verb} not counted")
        for method in rows:
            reasons = [failure.reason for failure in failures if failure.method == method]
            if reasons:
                notes.append(f"{method} failed on {len(reasons)} of {images}, first with: {reasons[0]}")
        return notes

    def table(self) -> str:
        """The scores as text."""
        return "\n".join([self.evaluation().table(), *self.notes()])

    def to_dataframe(self, table: str = "scores") -> pd.DataFrame:
        """The numbers as a pandas DataFrame: ``scores`` (means with intervals), ``per_image`` or ``per_label``."""
        return self.evaluation().to_dataframe(table)

    # ---- the evaluation -----------------------------------------------------------------------------------------

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
        bare = self._bare(list(self.methods if methods is None else methods))
        wanted = pictured(bare) if callable(pictured) else pictured
        places = list(range(min(wanted, len(self.images)))) if isinstance(wanted, int) else list(wanted)
        outside = [place for place in places if not 0 <= place < len(self.images)]
        if outside:
            item = self.manifest.kind.singular
            raise InputError(f"there is no {item} {outside[0]}: the run has 0 to {len(self.images) - 1}")
        return self._pictured(bare, places, dataset) if places else bare

    def _bare(self, methods: Sequence[str]) -> Evaluation:
        manifest, table = self.manifest, label_array([image.labels for image in self.images])
        context = {
            **manifest.identity,
            "device": " and ".join(dict.fromkeys(str(e.get("device")) for e in manifest.environments)),
            "batches": list(manifest.batches),
            "threads": manifest.threads,
            "proofmap": " and ".join(sorted(manifest.versions)),
            **batch_record(manifest.batch_difference),
        }
        f = np.full(table.shape, np.nan, dtype=np.float32)
        for k, image in enumerate(self.images):
            f[k, : len(image.f)] = image.f
        read = {name: _Numbers(table, f) for name in methods}
        blocks = manifest.blocks
        for method, block, seconds, arrays in self.store.results(methods):
            if block < len(blocks):  # one may have been added after the run was opened
                read[method].add(blocks[block], arrays, seconds)
        found = tuple(self._result(name, own, context) for name, own in read.items() if own.has_values)
        if not found:
            raise self._no_results()
        return Evaluation.from_arrays(
            results=found,
            images=np.empty(0, dtype=np.float32),
            image_names=tuple(image.name for image in self.images),
            labels=table,
            label_names=self.label_names,
            f=f,
            settings=context,
            run_scores=manifest.run_scores,
        )

    def _no_results(self) -> StoreError:
        """The error for a run without values: nothing was computed yet, or everything failed."""
        failed = next(iter(self.failures()), None)
        if failed is None:
            return StoreError(f"{self.folder} has no results yet; continue it with: proofmap evaluate")
        what = f"{failed.method} failed on {failed.image}" if failed.method else failed.image
        return StoreError(
            f"{self.folder} has no results: {what}: {failed.reason}. Fix that and continue the run with: proofmap evaluate --retry"
        )

    def _result(self, name: str, found: _Numbers, context: Mapping[str, object]) -> MethodResult:
        method = self.methods[name]
        empty = np.full(len(self.images), np.nan, dtype=np.float32)
        scores = []
        for m in self.metrics.values():
            least, greatest = m.limits
            limits = (-math.inf if least is None else least, math.inf if greatest is None else greatest)
            scores.append(
                Score(m.name, higher_is_better=m.flag, settings=m.settings, kind=m.kind, limits=limits)
            )
        values: Any = {metric: found.arrays.get(f"value {metric}", empty) for metric in self.metrics}
        return MethodResult.from_arrays(
            name=name,
            scores=measured(scores, values, context),
            values=values,
            pairs={m: found.arrays[f"pair {m}"] for m in self.metrics if f"pair {m}" in found.arrays},
            maps=np.empty(0, dtype=np.float32),
            insertion=found.curves(self.manifest.game or {"counts": [0], "positions": 1, "settings": {}}),
            settings=method.settings,
            label_free=method.flag,
            signed=method.kind == "signed",
            image_names=tuple(image.name for image in self.images),
            label_names=self.label_names,
            seconds=found.seconds,
        )

    # ---- maps and pixels ----------------------------------------------------------------------------------------

    def maps_of(self, method: str, image: str) -> Tensor:
        """The stored maps ``(L, *positions)`` of an image, one for each of its L labels. L is 1 for a label-free method."""
        place = next((k for k, row in enumerate(self.images) if row.name == image), None)
        if place is None or method not in self.methods:
            item = self.manifest.kind.singular
            raise InputError(f"the run has no method {method!r} or no {item} {image!r}")
        found = self._maps(method, [place])
        if place not in found:
            raise InputError(f"the maps of {method} on {image} were not kept (maps = none), or failed")
        return found[place]

    def _maps(self, method: str, places: Sequence[int]) -> dict[int, Tensor]:
        """One method's maps of the images at these places. If several files have maps of an image, the newest file counts."""
        found, wanted = dict[int, Tensor](), {*places}
        for block, members in enumerate(self.manifest.blocks):
            lacking = {self.images[place].name: place for place in members if place in wanted}
            query = (
                "SELECT maps FROM units WHERE method = ? AND block = ? AND maps IS NOT NULL ORDER BY id DESC"
            )
            for (file,) in self.store.rows(query, method, block) if lacking else ():
                own = read_maps(self.folder, file, list(lacking))
                found |= {lacking.pop(name): maps for name, maps in own.items()}
        return found

    def _pictured(self, bare: Evaluation, places: Sequence[int], dataset: Dataset | None) -> Evaluation:
        """The evaluation ``bare`` with pixels and maps of the images at ``places``.

        An image is left out if its pixels cannot be read or a method has no maps of it.
        """
        maps = {result.name: self._maps(result.name, places) for result in bare.results}
        shown = [place for place in places if all(place in found for found in maps.values())]
        pixels = self._pixels(shown, dataset)
        shown = [place for place in shown if place in pixels]
        if not shown:
            return bare
        results = []
        for result in bare.results:
            wide = 1 if result.label_free else bare.labels.shape[1]
            stack = [_padded(maps[result.name][place], wide) for place in shown]
            results.append(replace(result, maps=torch.stack(stack)))
        images = torch.stack([pixels[place] for place in shown])
        return replace(bare, results=tuple(results), images=images, pictured=tuple(shown))

    def _pixels(self, places: Sequence[int], dataset: Dataset | None) -> dict[int, Tensor]:
        """The pixels of the images at ``places``, read from the data again. Images that are missing or have changed are left out."""
        from proofmap.core.inputs import inputs_of
        from proofmap.data.loader import load_listed
        from proofmap.data.specs import rebuild_dataset

        try:
            dataset = dataset or rebuild_dataset(self.manifest.study["dataset"])
        except ProofmapError:
            return {}
        index = {name: i for i, name in enumerate(dataset.names)}
        there = {index[row.name]: place for place in places if (row := self.images[place]).name in index}
        same = {i: place for i, place in there.items() if _digest(dataset, i) == self.images[place].digest}
        if not same:
            return {}
        (block,) = load_listed(dataset, inputs_of(self.manifest.identity), [list(same)], ahead=0)
        return {same[i]: block.images[k].cpu() for k, i in enumerate(block.indices)}


class _Numbers:
    """The numbers of one method, collected from its units. ``table`` has the labels ``(N, L)``, -1 where an image has fewer."""

    def __init__(self, table: Array, f: Array) -> None:
        self.table, self.seconds = table, 0.0
        self.arrays: dict[str, Array] = {"f": f.copy()}  # f of the survey, where a curve is missing
        self.has_values, self.lacks_matrix = False, False

    def add(self, places: range, arrays: Mapping[str, Array], seconds: float) -> None:
        """Add the arrays of a unit, whose rows are the images at ``places``. They may have fewer labels than others."""
        self.seconds += seconds
        self.has_values = self.has_values or any(key.startswith("value ") for key in arrays)
        self.lacks_matrix = self.lacks_matrix or ("auc" in arrays and "matrix" not in arrays)
        n, wide = self.table.shape
        for key, array in arrays.items():
            axes = 0 if key.startswith("value ") else 2 if key == "matrix" else 1  # of labels
            if key not in self.arrays:
                shape = (n, *[wide] * axes, *array.shape[1 + axes :])
                self.arrays[key] = np.full(shape, np.nan, dtype=np.float32)
            there = (slice(places.start, places.stop), *(slice(0, array.shape[1 + k]) for k in range(axes)))
            target = self.arrays[key][there]
            np.copyto(target, array, where=~np.isnan(array))

    def curves(self, game: Mapping[str, Any]) -> CurveArrays:
        n, wide = self.table.shape
        empty = np.full((n, wide), np.nan, dtype=np.float32)
        found = {
            "probabilities": np.full((n, wide, len(game["counts"])), np.nan, dtype=np.float32),
            "auc": empty,
            "error": empty,
            **{key: array for key, array in self.arrays.items() if " " not in key},
        }
        matrix = None if self.lacks_matrix else found.pop("matrix", None)
        return CurveArrays(
            game="insertion",
            labels=self.table,
            counts=np.array(game["counts"], dtype=np.int64),
            positions=game["positions"],
            settings=game["settings"],
            matrix=matrix,
            **{key: found[key] for key in ("f", "probabilities", "auc", "error")},
        )


def _digest(dataset: Dataset, i: int) -> str | None:
    try:
        return dataset.digest(i)
    except ProofmapError:
        return None


def _padded(maps: Tensor, wide: int) -> Tensor:
    """Pad maps ``(L, *positions)`` with zeros, or cut them, to ``(wide, *positions)``. Stored blocks may differ in the number of labels."""
    if len(maps) >= wide:
        return maps[:wide]
    return torch.cat([maps, maps.new_zeros(wide - len(maps), *maps.shape[1:])])


def _environment_notes(environments: Sequence[Mapping[str, object]]) -> list[str]:
    """A list with one note for readers if ``environments`` differ in machine or version; otherwise an empty list.

    >>> _environment_notes([{"torch": "2.4", "device": "cpu"}, {"torch": "2.5", "device": "cpu"}])
    ['made on more than one machine or version (torch 2.4 and 2.5): numbers may differ in rounding']
    """
    keys = ("device", "device_name", "torch", "proofmap", "system")
    varied = [key for key in keys if len({str(e.get(key)) for e in environments}) > 1]
    changes = [
        f"{key} {' and '.join(dict.fromkeys(str(e.get(key)) for e in environments))}" for key in varied
    ]
    if not changes:
        return []
    return [
        f"made on more than one machine or version ({', '.join(changes)}): numbers may differ in rounding"
    ]


def verify_run(folder: str | Path) -> list[str]:
    """A line for each damaged file of a run directory; empty if there is none. Nothing is changed."""
    folder, problems = Path(folder), []
    with Run(folder) as run:
        answers = run.store.rows("PRAGMA integrity_check(5)")
        problems += [f"{run.store.path} is damaged: {text}" for (text,) in answers if text != "ok"]
        query = "SELECT DISTINCT maps FROM units WHERE maps IS NOT NULL ORDER BY maps"
        for (name,) in run.store.rows(query):
            try:
                read_maps(folder, name, ())
            except StoreError as error:
                problems.append(str(error))
    return problems
