"""What Ray costs per unit, and what a second worker brings.

    python benchmarks/ray_scaling.py [--trivial 5000] [--units 24]

Trivial units show the overhead: the seconds from the first result to the last, less those of a plain loop, and the
driver's memory on the way. Then a unit as studies have them, gradients of EfficientNet-Lite0 with random weights, with
one thread per worker: one worker, two, two, one, in one run. A run counts from when all its workers have answered.
The ratio needs two idle cores; the share of time that workers spent inside units says what Ray took, on any machine.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

import proofmap as pm
from proofmap.study.executor import RayExecutor

IMAGES, LABELS = 4, 3  # of a unit
LOAD = os.getloadavg()[0]


def make_trivial() -> Callable[[int], int]:
    return abs


@dataclass(frozen=True)
class Done:
    maps: torch.Tensor
    process: int
    seconds: float


def make_gradients() -> Callable[[int], Done]:
    f = pm.load_classifier("efficientnet-lite0", pretrained=False)
    method = pm.make_method("gradient")
    labels = torch.arange(LABELS).expand(IMAGES, LABELS)

    def gradients(seed: int) -> Done:
        began = time.perf_counter()
        images = torch.rand(IMAGES, 3, *f.size, generator=torch.Generator().manual_seed(seed))
        maps = method(f, images, labels, seed=seed)
        return Done(maps, os.getpid(), time.perf_counter() - began)

    return gradients


def megabytes() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def overhead(units: int) -> None:
    began = time.perf_counter()
    for unit in range(units):
        abs(unit)
    work = time.perf_counter() - began
    memory: dict[int, float] = {}
    asked = time.perf_counter()
    results = RayExecutor(workers=2).run(make_trivial, range(units))
    next(results)
    began = time.perf_counter()
    for done, _ in enumerate(results, start=2):
        if done in (units // 10, units):
            memory[done] = megabytes()
    seconds = time.perf_counter() - began
    print(f"{units:,} trivial units, 2 workers: {seconds - work:.2f} s beyond their work of {work:.2f} s,")
    print(f"  after {began - asked:.1f} s until the first result, and including the end of the cluster")
    print(f"  driver's memory: {memory[units // 10]:.0f} MB at 10 %, {memory[units]:.0f} MB at 100 %")


def measured(workers: int, units: int) -> tuple[float, float]:
    """Units per second, and the share of their time that the workers spent inside units."""
    seen: set[int] = set()
    times: list[float] = []
    began = ended = 0.0
    for _, done in RayExecutor(workers=workers, cpus_per_worker=1).run(make_gradients, range(units)):
        assert isinstance(done, Done)
        ended = time.perf_counter()
        if len(seen) == workers:
            times.append(done.seconds)
        else:
            seen.add(done.process)
            began = ended
    return len(times) / (ended - began), sum(times) / (ended - began) / workers


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trivial", type=int, default=5_000)
    parser.add_argument("--units", type=int, default=24)
    args = parser.parse_args()
    overhead(args.trivial)
    print(f"gradients of {IMAGES} images x {LABELS} labels, one thread per worker:")
    rates: dict[int, float] = {1: 0.0, 2: 0.0}
    for workers in (1, 2, 2, 1):
        rate, share = measured(workers, args.units)
        rates[workers] += rate
        print(f"  {workers} worker(s): {rate:.2f} units/s, {share:.0%} of the time inside units")
    print(f"ratio {rates[2] / rates[1]:.2f} (load of the machine before it: {LOAD:.1f})")


if __name__ == "__main__":
    main()
