"""Maps that are given: their cost beside that of a method that costs nothing, and memory as images grow, in one run.

    python benchmarks/given_speed.py [--images 10000] [--rounds 5]

Pictures and maps are files that NumPy maps into memory, read by a loader, with a small net. The free method returns a view of the pictures, and
the given maps hold the same values, so all scores are equal. The two are timed in turn, by the time of the processor, which other programs disturb
little, and the ratio of their medians is printed; it should be at most 1.05. Memory is the growth of the peak from a quarter of the images to all of
them, without pages of the files; results and digests take about 3 kB of each picture.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import proofmap as pm
from proofmap.cli import run_script

SIDE = 16


class Pictures(Dataset[torch.Tensor]):
    """Pictures of an array in a file; one is in memory at a time. ``peak`` is the largest memory of the process while they are read, in MB."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.peak = array, 0.0

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, k: int) -> torch.Tensor:
        if k % 250 == 0:
            self.peak = max(self.peak, own_memory())
        return torch.from_numpy(self.array[k].copy())


def free(net: Any, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The first channel, a view of the pictures."""
    return images[:, :1].expand(-1, labels.shape[1], -1, -1)


def own_memory() -> float:
    """The memory of this process in MB, without pages of files; its peak where the system does not tell."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.is_file() else []
    anonymous = [int(line.split()[1]) for line in lines if line.startswith("RssAnon:")]
    return (anonymous or [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss])[0] / 1024


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    layers = (nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 7 * 7, 10))
    net = pm.Classifier(nn.Sequential(*layers), size=SIDE, batch_size=256)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pictures.npy"
        array = np.lib.format.open_memmap(file, "w+", np.float32, (given.images, 3, SIDE, SIDE))
        for start in range(0, given.images, 1000):
            part = array[start : start + 1000]
            part[:] = np.random.default_rng(start).random(part.shape, dtype=np.float32)
        array.flush()
        array = np.load(file, mmap_mode="r")
        labels = np.random.default_rng(0).integers(10, size=given.images)

        def judged(count: int, **how: Any) -> tuple[float, dict[str, float], float]:
            began, pictures = time.process_time(), Pictures(array[:count])
            loader = DataLoader(pictures, batch_size=64)
            found = pm.evaluate(
                net, loader, labels=labels[:count], metrics="soundness,completeness", keep_maps=0, **how
            )
            return time.process_time() - began, found.to_dict(), pictures.peak

        def of_maps(count: int) -> tuple[float, dict[str, float], float]:
            return judged(count, maps={"mine": array[:count, 0]})

        quarter = given.images // 4
        of_maps(quarter)  # warm
        grown = -of_maps(quarter)[2] + of_maps(given.images)[2]
        times: dict[str, list[float]] = {"given": [], "free": []}
        for k in range(given.rounds):
            for name in ("given", "free") if k % 2 else ("free", "given"):
                seconds, scores, _ = (
                    of_maps(given.images) if name == "given" else judged(given.images, methods={"mine": free})
                )
                times[name].append(seconds)
                print(
                    f"round {k}: {name} {seconds:.1f} s, soundness {scores['mine/soundness']:.6f}", flush=True
                )
    ratio = statistics.median(times["given"]) / statistics.median(times["free"])
    print(
        f"given maps take {ratio:.3f} of the time of a free method ({given.images} pictures, {given.rounds} rounds)"
    )
    print(f"memory grows by {grown:.0f} MB from {quarter} to {given.images} pictures")


if __name__ == "__main__":
    run_script(main)
