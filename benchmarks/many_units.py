"""What ten million units take of the store and of the driver.

    python benchmarks/many_units.py [--units 100000] [--methods 10] [--metrics 5] [--labels 3] [--written 5000] [--no-resume]

A unit here is one method on one image, the smallest that a study can have, with three labels and five metrics unless stated. Measured are, in
processor time of one core, planning a run with and without finished units (what starting and resuming cost), writing a unit (its own
transaction, as a run does it), the bytes on disk, and memory. ``--written`` units are written by the store itself, a fifth of them
when the store is empty and the rest when it is full. The units between are put into the tables by SQL, which takes minutes where the
store would take hours.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from proofmap.study.planning.plan import work_of
from proofmap.study.store.database import Store
from proofmap.study.store.records import ImageRow, Registered, UnitRow, curve_blob
from proofmap.study.unit import Unit

STEPS = 32


def unit_row(unit: Unit, methods: dict[str, Registered], metrics: dict[str, Registered]) -> UnitRow:
    """A finished unit as :class:`~proofmap.study.sink.RunSink` stores it."""
    import numpy as np

    (image,) = unit.subjects
    labels = len(image.labels)
    line = np.full((labels, STEPS), 0.5, dtype=np.float32)
    blobs = [curve_blob(line), *(curve_blob(line[:, 0]) for _ in range(3)), curve_blob(line[:, :labels])]
    return UnitRow(
        method=methods[unit.method].id,
        block=unit.block,
        metrics=tuple(metrics[name].id for name in unit.metrics),
        key=unit.key,
        environment=0,
        batches=(64, 64),
        seconds=0.1,
        passes=100,
        finished="2026-01-01T00:00:00.000",
        image_scores=[(metrics[name].id, image.id, 0.5) for name in unit.metrics],
        label_scores=[(metrics[name].id, image.id, k, 0.5) for name in unit.metrics for k in range(labels)],
        curves={image.id: ("insertion", *blobs)},
        failures={},
    )


def memory() -> float:
    """Resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * float(resource.getpagesize())


def write(store: Store, rows: list[UnitRow]) -> str:
    """Store finished units one by one; returns what one of them takes."""
    began, clock = time.process_time(), time.perf_counter()
    for row in rows:
        store.add_unit(row)
    taken, wall = time.process_time() - began, time.perf_counter() - clock
    return f"{1e6 * taken / len(rows):.0f} us of processor time each ({1e6 * wall / len(rows):.0f} us by the clock)"


def fill(store: Store, units: Sequence[Unit], methods: dict[str, Registered], like: UnitRow) -> None:
    """Put finished units into the tables, with the values of one that the store has written. Seals are not right, and not read here."""
    run = store.database.execute
    run("BEGIN")
    (first,) = run("SELECT max(id) FROM units").fetchone()
    columns = "environment, batches, seconds, passes, maps, maps_bytes, maps_digest, finished, seal"
    values = run(f"SELECT {columns} FROM units WHERE id = ?", (first,)).fetchone()
    store.database.executemany(
        f"INSERT INTO units (method, block, key, {columns}) VALUES (?, ?, ?{', ?' * len(values)})",
        ((methods[unit.method].id, unit.block, unit.key, *values) for unit in units),
    )
    new = "FROM units JOIN images ON images.block = units.block"
    where, order = f"WHERE units.id > {first}", "ORDER BY units.method"
    metrics = "CROSS JOIN metrics"
    run(
        f"INSERT INTO done SELECT method, block, metrics.id, units.id FROM units {metrics} {where} {order}, metrics.id, block"
    )
    run(
        f"INSERT INTO image_scores SELECT method, metrics.id, images.id, .5 {new} {metrics} {where} {order}, metrics.id, images.id"
    )
    places = (
        f"CROSS JOIN (SELECT value AS place FROM json_each('{[*range(len(units[0].subjects[0].labels))]}'))"
    )
    run(
        f"INSERT INTO label_scores SELECT method, metrics.id, images.id, place, .5 {new} {metrics} {places} {where} "
        f"{order}, metrics.id, images.id, place"
    )
    (curve,) = like.curves.values()
    run(f"INSERT INTO curves SELECT method, images.id, ?, ?, ?, ?, ?, ?, '{0:032x}' {new} {where}", curve)
    run("COMMIT")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--units", type=int, default=100_000)
    parser.add_argument("--methods", type=int, default=10)
    parser.add_argument("--metrics", type=int, default=5)
    parser.add_argument("--labels", type=int, default=3)
    parser.add_argument("--written", type=int, default=5_000, help="units that the store writes")
    parser.add_argument("--no-resume", action="store_true", help="leave out what resuming takes")
    asked = parser.parse_args()
    images = asked.units // asked.methods
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder), create=True) as store:
        store.register("methods", [Registered(0, f"method {k}", False, {}) for k in range(asked.methods)])
        store.register(
            "metrics", [Registered(0, f"metric {k}", True, {}, "", 0.0, 1.0) for k in range(asked.metrics)]
        )
        methods, metrics = store.registered("methods"), store.registered("metrics")
        store.add_images(
            ImageRow(
                f"image-{k:08d}.jpg",
                f"{k:032x}",
                "1",
                eligible=True,
                labels=tuple(range(asked.labels)),
                f=(0.3,) * asked.labels,
            )
            for k in range(images)
        )
        store.add_blocks([[row.id] for row in store.images()])
        before, began = memory(), time.process_time()
        waiting = work_of(store, store.images(), methods, metrics, "context", {}).waiting
        planned, count = time.process_time() - began, len(waiting)
        print(
            f"{count:,} units planned: {1e6 * planned / count:.0f} us and {(memory() - before) / count:.0f} bytes of memory each",
            flush=True,
        )
        first = [unit_row(unit, methods, metrics) for unit in waiting[: asked.written // 5]]
        rest = max(len(first), count - (asked.written - len(first)))
        print(f"  stored {len(first):,}, the first: {write(store, first)}", flush=True)
        fill(store, waiting[len(first) : rest], methods, first[0])
        last = [unit_row(unit, methods, metrics) for unit in waiting[rest:]]
        if last:
            print(f"  stored {len(last):,}, the last of {count:,}: {write(store, last)}", flush=True)
        store.checkpoint()
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        print(f"{size / count:.0f} bytes on disk each, {size / 2**30:.1f} GiB", flush=True)
        if asked.no_resume:
            return
        del waiting, first, last
        before, began = memory(), time.process_time()
        left = work_of(store, store.images(), methods, metrics, "context", {}).waiting
        resumed = time.process_time() - began
        assert not left
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
        print(
            f"resumed, nothing left: {1e6 * resumed / count:.0f} us each, {most / 2**30:.1f} GiB of memory at most ({(most - before) / count:.0f} bytes each)"
        )


if __name__ == "__main__":
    main()
