"""Writes the results of units to a run directory, each unit completely or not at all. A unit is one method on one block of images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from proofmap.metrics.curves import Curves
from proofmap.results.evaluation import BATCH_DIFFERENCE, batch_record
from proofmap.study.manifest import Manifest
from proofmap.study.planning.plan import digest
from proofmap.study.store.database import Store
from proofmap.study.store.maps import MapsFile, write_maps
from proofmap.study.store.records import ImageRow, Registered, UnitRow, curve_blob
from proofmap.study.study import KeptMaps
from proofmap.study.unit import Unit, UnitResult


class RunSink:
    """Writes finished units to the store of a run, and their maps to files. ``finished`` has the (method, block) of each written unit."""

    def __init__(
        self,
        folder: Path,
        store: Store,
        manifest: Manifest,
        methods: Mapping[str, Registered],
        metrics: Mapping[str, Registered],
        maps: KeptMaps,
    ) -> None:
        self.folder, self.store, self.manifest = folder, store, manifest
        self.methods, self.metrics = methods, metrics
        self.dtype = torch.float32 if maps == "float32" else torch.float16
        self.finished: set[tuple[str, int]] = set()
        self._games: set[str] = set()

    def add(self, unit: Unit, result: UnitResult) -> None:
        """Store a unit: first write the file of its maps, then its row in the database, which names the file."""
        self._record_environment(result)
        self._record_batches(result)
        row, file = self._row(unit, result), self._write_maps(unit, result)
        if file is not None:
            row = replace(row, maps=file.name, maps_bytes=file.size)
        self.store.add_unit(row)
        self.finished.add((unit.method, unit.block))

    def _record_environment(self, result: UnitResult) -> None:
        """Record a new machine, or batch sizes that were halved for lack of memory, in the manifest. A resumed run uses these batch sizes."""
        manifest = self.manifest.continued(result.environment)
        forward, gradient = map(min, result.batches, manifest.batches)
        manifest = replace(manifest, batches=(forward, gradient))
        if manifest != self.manifest:
            manifest.write(self.folder)
            self.manifest = manifest

    def _record_batches(self, result: UnitResult) -> None:
        """Store how much f differs between batches, if no earlier unit saw a larger difference."""
        if not batch_record(result.batch_difference):
            return
        known = self.store.note(BATCH_DIFFERENCE)
        if not isinstance(known, float) or known < result.batch_difference:
            self.store.set_note(BATCH_DIFFERENCE, result.batch_difference)

    def _row(self, unit: Unit, result: UnitResult) -> UnitRow:
        """The record of a unit for the store: everything except its maps."""
        image_scores: list[tuple[int, int, float]] = []
        label_scores: list[tuple[int, int, int, float]] = []
        curves: dict[int, tuple[object, ...]] = {}
        for part in result.parts:
            members, found = [unit.subjects[place] for place in part.places], part
            for name, values in found.values.items():
                metric = self.metrics[name].id
                image_scores += [
                    (metric, image.id, value) for image, value in zip(members, values.tolist(), strict=True)
                ]
            for name, table in found.pairs.items():
                metric = self.metrics[name].id
                label_scores += [
                    (metric, image.id, place, value)
                    for image, row in zip(members, table.tolist(), strict=True)
                    for place, value in enumerate(row[: len(image.labels)])
                ]
            if found.insertion is not None:
                curves |= _curve_rows(self._game(found.insertion), found.insertion, members)
        return UnitRow(
            method=self.methods[unit.method].id,
            block=unit.block,
            metrics=tuple(self.metrics[name].id for name in unit.metrics),
            key=unit.key,
            environment=self.manifest.environments.index(result.environment),
            batches=result.batches,
            seconds=result.seconds,
            passes=result.passes,
            finished=datetime.now(UTC).isoformat(timespec="milliseconds"),
            image_scores=image_scores,
            label_scores=label_scores,
            curves=curves,
            failures={unit.subjects[place].id: reason for place, reason in result.failures.items()},
        )

    def _game(self, curves: Curves) -> str:
        """The key of the note with the steps and settings of these curves. The note is stored if it is new."""
        about = {
            "counts": curves.counts.tolist(),
            "positions": curves.positions,
            "settings": curves.settings,
        }
        key = f"insertion {digest(about)}"
        if key not in self._games:
            self.store.set_note(key, about)
            self._games.add(key)
        return key

    def _write_maps(self, unit: Unit, result: UnitResult) -> MapsFile | None:
        kept = [part for part in result.parts if len(part.maps)]
        if not kept:
            return None
        maps = torch.cat([part.maps for part in kept])
        names = [unit.subjects[place].name for part in kept for place in part.places]
        return write_maps(self.folder, maps, names, self.dtype)


def _curve_rows(game: str, curves: Curves, images: Sequence[ImageRow]) -> dict[int, tuple[object, ...]]:
    """The rows for the table of curves, by image id, without the values of padded labels. ``game`` is the key of the curves' settings."""
    tensors = (curves.probabilities, curves.f, curves.auc, curves.error, curves.matrix)
    # numpy cuts them up faster than torch
    arrays: list[Any] = [None if tensor is None else tensor.numpy() for tensor in tensors]
    probabilities, f, auc, error, matrix = arrays
    rows: dict[int, tuple[object, ...]] = {}
    for k, image in enumerate(images):
        n = len(image.labels)
        own = None if matrix is None else matrix[k, :n, :n]
        tables = (probabilities[k, :n], f[k, :n], auc[k, :n], error[k, :n], own)
        rows[image.id] = (game, *map(curve_blob, tables))
    return rows
