"""What ten million units would take of the store and of the driver: measured on fewer, and extrapolated.

    python benchmarks/many_units.py [--units 100000] [--methods 10]

A unit here is one method on one image with three labels and five metrics: the smallest that a study can have. Measured are, in
processor time of one core, writing a unit (its own transaction, as a run does it), planning a run with and without finished units (what
starting and resuming cost), the bytes on disk and the memory of the plan. Costs for each unit are printed for parts of the run: if they do not
grow with the number of units stored, the extrapolation is fair.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from proofmap.study.planning.plan import work_of
from proofmap.study.store.database import Store
from proofmap.study.store.records import ImageRow, Registered, UnitRow, curve_blob
from proofmap.study.unit import Unit

METRICS, LABELS, STEPS, ASKED = 5, 3, 32, 10_000_000


def unit_row(unit: Unit, methods: dict[str, Registered], metrics: dict[str, Registered]) -> UnitRow:
    """A finished unit as :class:`~proofmap.study.sink.RunSink` stores it."""
    import numpy as np

    (image,) = unit.subjects
    line = np.full((LABELS, STEPS), 0.5, dtype=np.float32)
    blobs = [curve_blob(line), *(curve_blob(line[:, 0]) for _ in range(3)), curve_blob(line[:, :LABELS])]
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
        label_scores=[(metrics[name].id, image.id, k, 0.5) for name in unit.metrics for k in range(LABELS)],
        curves={image.id: ("insertion", *blobs)},
        failures={},
    )


def memory() -> float:
    """Largest resident memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, default=100_000)
    parser.add_argument("--methods", type=int, default=10)
    asked = parser.parse_args()
    images = asked.units // asked.methods
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder), create=True) as store:
        store.register("methods", [Registered(0, f"method {k}", False, {}) for k in range(asked.methods)])
        store.register(
            "metrics", [Registered(0, f"metric {k}", True, {}, "", 0.0, 1.0) for k in range(METRICS)]
        )
        methods, metrics = store.registered("methods"), store.registered("metrics")
        rows = [
            ImageRow(
                f"image-{k:08d}.jpg", f"{k:032x}", "1", eligible=True, labels=(1, 2, 3), f=(0.5, 0.3, 0.1)
            )
            for k in range(images)
        ]
        store.add_images(rows)
        store.add_blocks([[row.id] for row in store.images()])
        before, began = memory(), time.process_time()
        found = store.images()
        work = work_of(store, found, methods, metrics, "context")
        planned = time.process_time() - began
        each = (memory() - before) / len(work.waiting)
        print(
            f"{len(work.waiting):,} units planned: {1e6 * planned / len(work.waiting):.0f} us and {each:.0f} bytes of memory each"
        )
        tenth = max(1, len(work.waiting) // 5)
        for start in range(0, len(work.waiting), tenth):
            part = [unit_row(unit, methods, metrics) for unit in work.waiting[start : start + tenth]]
            began, clock = time.process_time(), time.perf_counter()
            for row in part:
                store.add_unit(row)
            taken, wall = time.process_time() - began, time.perf_counter() - clock
            print(
                f"  stored {start + len(part):>9,}: {1e6 * taken / len(part):.0f} us of processor time each ({1e6 * wall / len(part):.0f} us by the clock)"
            )
        store.checkpoint()
        size = sum(path.stat().st_size for path in Path(folder).iterdir()) / asked.units
        began = time.process_time()
        left = work_of(store, store.images(), methods, metrics, "context").waiting
        resumed = time.process_time() - began
        assert not left
        print(
            f"resumed, nothing left: {1e6 * resumed / asked.units:.0f} us each; {size:.0f} bytes on disk each"
        )
        many = ASKED
        print(
            f"{many:,} units: {many * taken / len(part) / 3600:.1f} h of one core to store, {many * planned / asked.units / 60:.0f} min and "
            f"{many * each / 2**30:.1f} GiB to plan, {many * resumed / asked.units / 60:.0f} min to resume, {many * size / 2**30:.0f} GiB on disk"
        )


if __name__ == "__main__":
    main()
