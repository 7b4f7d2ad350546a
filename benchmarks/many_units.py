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
import json
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from proofmap.study.planning import Unit, units_left
from proofmap.study.store import ImageRow, Store

STEPS = 32


def unit_row(unit: Unit) -> dict[str, object]:
    """A finished unit as a run stores it."""
    import numpy as np
    from safetensors.numpy import save

    (image,) = unit.subjects
    labels = len(image.labels)
    half = np.full((1, labels, STEPS), 0.5, dtype=np.float32)
    results = {f"value {name}": half[:, 0, 0] for name in unit.metrics}
    results |= {f"pair {name}": half[..., 0] for name in unit.metrics}
    results |= {"probabilities": half, "matrix": half[:, :, :labels]}
    arrays = {name: np.ascontiguousarray(array) for name, array in results.items()}
    arrays |= {name: np.ascontiguousarray(half[..., 0]) for name in ("f", "auc", "error")}
    return {
        "block": unit.block,
        "method": unit.method,
        "metrics": json.dumps(unit.metrics),
        "judged": 1,
        "seconds": 0.1,
        "passes": 100,
        "results": save(arrays),
    }


def memory() -> float:
    """Resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * float(resource.getpagesize())


def write(store: Store, rows: list[dict[str, object]]) -> str:
    """Store finished units one by one; returns what one of them takes."""
    began, clock = time.process_time(), time.perf_counter()
    for row in rows:
        store.add_unit(row)
    taken, wall = time.process_time() - began, time.perf_counter() - clock
    return f"{1e6 * taken / len(rows):.0f} us of processor time each ({1e6 * wall / len(rows):.0f} us by the clock)"


def fill(store: Store, units: Sequence[Unit]) -> None:
    """Put finished units into the table, with the values of one that the store has written."""
    run = store.database.execute
    columns = [row[1] for row in run("PRAGMA table_info(units)")][3:]
    (values,) = run(f"SELECT {', '.join(columns)} FROM units LIMIT 1").fetchall()
    run("BEGIN")
    store.database.executemany(
        f"INSERT INTO units VALUES (NULL, ?, ?{', ?' * len(values)})",
        ((unit.block, unit.method, *values) for unit in units),
    )
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
    methods = [f"method {k}" for k in range(asked.methods)]
    metrics = [f"metric {k}" for k in range(asked.metrics)]
    blocks = [range(k, k + 1) for k in range(images)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Store(folder, write=True) as store:
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
            before, began = memory(), time.process_time()
            waiting = units_left(store, store.images(), blocks, methods, metrics, {})
            planned, count = time.process_time() - began, len(waiting)
            print(
                f"{count:,} units planned: {1e6 * planned / count:.0f} us and {(memory() - before) / count:.0f} bytes of memory each",
                flush=True,
            )
            first = [unit_row(unit) for unit in waiting[: asked.written // 5]]
            rest = max(len(first), count - (asked.written - len(first)))
            print(f"  stored {len(first):,}, the first: {write(store, first)}", flush=True)
            fill(store, waiting[len(first) : rest])
            last = [unit_row(unit) for unit in waiting[rest:]]
            if last:
                print(f"  stored {len(last):,}, the last of {count:,}: {write(store, last)}", flush=True)
            store.finish()
            size = sum(path.stat().st_size for path in folder.iterdir())
            print(f"{size / count:.0f} bytes on disk each, {size / 2**30:.1f} GiB", flush=True)
        if asked.no_resume:
            return
        del waiting, first, last
        before, began, clock = memory(), time.process_time(), time.perf_counter()
        with Store(folder, write=True) as store:
            print(f"opened in {time.perf_counter() - clock:.2f} s", flush=True)
            left = units_left(store, store.images(), blocks, methods, metrics, {})
            planned = time.perf_counter() - clock
            resumed, wall = time.process_time() - began, time.perf_counter() - clock
            began, clock = time.process_time(), time.perf_counter()
            read = sum(1 for _ in store.results(methods))
            taken = time.process_time() - began
            print(
                f"all numbers read in {time.perf_counter() - clock:.1f} s: {1e6 * taken / read:.0f} us each"
            )
        assert not left
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
        print(
            f"resumed in {wall:.1f} s ({planned:.1f} s until planned), nothing left: {1e6 * resumed / count:.0f} us each, "
            f"{most / 2**30:.1f} GiB of memory at most ({(most - before) / count:.0f} bytes each)"
        )


if __name__ == "__main__":
    main()
