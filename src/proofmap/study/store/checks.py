"""Checks that the values of a run are those that were written, and that none is missing.

``proofmap verify`` checks all values; readers check the values of the methods they read. A seal is a stored digest of values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proofmap.study.store.database import Store
from proofmap.study.store.errors import damaged
from proofmap.study.store.schema import is_sealed


@dataclass(frozen=True)
class Problem:
    """Damage to the file ``path``. ``what`` says what is wrong; ``unit`` is the unit to compute again, or None if no unit is affected."""

    path: Path
    what: str
    unit: int | None = None

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


def check_values(store: Store, method: int) -> None:
    """Raise if a value of a method is missing or has changed since it was written."""
    for problem in damage_to_values(store, method):
        raise damaged(problem.path, problem.what)


def check_references(store: Store) -> None:
    """Raise if results refer to a missing row: a new row could get the id of the missing one."""
    for problem in _missing_rows(store):
        raise damaged(problem.path, problem.what)


def damage_to_values(store: Store, method: int | None = None) -> Iterator[Problem]:
    """Yield damage to the values of one method, or of all methods.

    The values of each unit are compared with the unit's seal. Each image of a unit must have values and a curve, or a failure.
    """
    only = () if method is None else (method,)

    def rows(columns: str, table: str, order: str = "") -> list[tuple[Any, ...]]:
        where = "WHERE method = ?" if only else ""
        return store.rows(f"SELECT {columns} FROM {table} {where} {order}", *only)

    yield from _missing_rows(store)
    done = {tuple(key): unit for *key, unit in rows("method, block, metric, unit", "done")}
    blocks = dict(store.rows("SELECT id, block FROM images"))
    images, labels = defaultdict(list), defaultdict(list)
    for method, metric, image, value in rows(
        "method, metric, image, value", "image_scores", "ORDER BY metric, image"
    ):
        images[done.get((method, blocks.get(image), metric))].append((metric, image, value))
    for method, metric, image, place, value in rows(
        "method, metric, image, place, value", "label_scores", "ORDER BY metric, image, place"
    ):
        labels[done.get((method, blocks.get(image), metric))].append((metric, image, place, value))
    if None in images or None in labels:
        yield Problem(store.path, "it has values of no finished unit")
    failed, drawn = (set(rows("method, image", table)) for table in ("failures", "curves"))
    members = defaultdict(set)
    for image, block in blocks.items():
        members[block].add(image)
    for unit, method, block, seal in rows("id, method, block, seal", "units"):
        if not is_sealed(seal, [images[unit], labels[unit]]):
            yield Problem(store.path, f"the values of unit {unit} are not those that were written", unit)
            continue
        judged = {image for _, image, _ in images[unit]}
        if any((method, image) not in failed for image in members[block] - judged):
            yield Problem(
                store.path, f"unit {unit} has neither values nor a failure for some of its images", unit
            )
        if any((method, image) not in drawn and (method, image) not in failed for image in judged):
            yield Problem(store.path, f"curves of unit {unit} are missing", unit)


def _missing_rows(store: Store) -> Iterator[Problem]:
    """Yield a problem for each result that refers to a missing row."""
    for table, column in (("methods", "method"), ("metrics", "metric"), ("units", "unit")):
        found = store.rows(
            f"SELECT DISTINCT unit FROM done WHERE {column} NOT IN (SELECT id FROM {table}) ORDER BY unit"
        )
        for (unit,) in found:
            yield Problem(store.path, f"the row of {table} that unit {unit} refers to is missing", unit)
    games = {game for (game,) in store.rows("SELECT DISTINCT game FROM curves")}
    for game in games - {key for (key,) in store.rows("SELECT key FROM notes")}:
        drawn = store.rows(
            "SELECT DISTINCT units.id FROM curves JOIN images ON images.id = curves.image "
            "JOIN units ON units.method = curves.method AND units.block = images.block WHERE game = ?",
            game,
        )
        for (unit,) in drawn:
            yield Problem(store.path, f"the note about the curves of unit {unit} is missing", unit)


def damage_to_curves(store: Store) -> Iterator[Problem]:
    """Yield a problem for each curve that has changed since it was written."""
    units = {
        (method, block): unit for unit, method, block in store.rows("SELECT id, method, block FROM units")
    }
    query = (
        "SELECT curves.seal, method, block, image, game, probabilities, f, auc, error, matrix FROM curves "
        "JOIN images ON id = image"
    )
    for seal, method, block, image, *curve in store.rows(query):
        if (method, block) in units and not is_sealed(seal, [method, image, *curve]):
            yield Problem(
                store.path,
                f"the curves of image {image} are not those that were written",
                units[method, block],
            )
