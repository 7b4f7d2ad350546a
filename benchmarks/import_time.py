"""What ``import proofmap`` adds to ``import torch``, in fresh interpreters.

python benchmarks/import_time.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys

CODE = "import time, torch; t = time.perf_counter(); import proofmap; print(time.perf_counter() - t)"


def main() -> None:
    times = [float(subprocess.check_output([sys.executable, "-c", CODE], text=True)) for _ in range(7)]
    print(f"import proofmap after torch: median {statistics.median(times):.2f} s of {len(times)} runs")


if __name__ == "__main__":
    main()
