"""What a run knows of methods and metrics, against what a study asks for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from proofmap.core.errors import InputError
from proofmap.plugins.code import foreign_code
from proofmap.study.manifest import same_settings
from proofmap.study.setup import Ready
from proofmap.study.store.database import Store

Described = tuple[str, bool, Mapping[str, object], str]


def described(ready: Ready) -> dict[str, list[Described]]:
    """A study's methods and metrics as the store registers them; code that is not ours is part of the settings."""
    return {
        "methods": [
            (n, m.label_free, {**m.settings(), **foreign_code(m)}, "") for n, m in ready.methods.items()
        ],
        "metrics": [
            (n, m.higher_is_better, {**m.settings(), **foreign_code(m)}, m.kind or m.name)
            for n, m in ready.metrics.items()
        ],
    }


def check_known(folder: Path, store: Store, ready: Ready) -> None:
    """Refuse a method or metric that bears a name of the run and has other settings or other code."""
    for kind, things in described(ready).items():
        known = store.registered(kind)
        for name, _, settings, _ in things:
            if name in known:
                same_settings(kind[:-1], folder, known[name].settings, settings, name)


def failed_units(store: Store, ready: Ready) -> list[int]:
    """The units to do again: those of this study's methods in which an image failed.

    A unit is taken back with all its metrics, so a study that does not name them all is refused.
    """
    query = (
        "SELECT DISTINCT failures.unit, units.method, units.block, methods.name FROM failures "
        "JOIN units ON units.id = failures.unit JOIN methods ON methods.id = units.method"
    )
    asked = [row for row in store.rows(query) if row[3] in ready.methods]
    names = {metric.id: name for name, metric in store.registered("metrics").items()}
    places = {(method, block) for _, method, block, _ in asked}
    have = {names[metric] for method, block, metric in store.done() if (method, block) in places}
    lacking = sorted(have - set(ready.metrics))
    if lacking:
        raise InputError(
            f"what failed was also judged by {', '.join(lacking)}, which this study does not name; "
            "to do it again, name every metric of the run"
        )
    return [unit for unit, *_ in asked]
