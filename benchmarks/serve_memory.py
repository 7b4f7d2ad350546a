"""Memory of ``proofmap serve`` while 300 visitors upload photos: it must stay flat after the first ones.

    PYTHONPATH=. python benchmarks/serve_memory.py [--uploads 300] [--side 1500]

Each visitor uploads a photo of their own (noise, so that no two are alike), asks for its labels, its view and a fill, and for a job with two
labels. The server is a process of its own with a tiny net. After the first 100 visitors everything that is kept is full (64 photos, 32 jobs);
from then on resident memory may grow by at most 64 MB. The exit status is 1 where it grows more.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

from tests.app.processes import Served

WARM = 100
MOST_GROWTH = 64
"""MB."""


def photo(seed: int, side: int) -> bytes:
    """A JPEG that no other seed gives; its content is coarse noise, so that it is small."""
    coarse = np.random.default_rng(seed).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(coarse).resize((side, side)).save(file, "JPEG")
    return file.getvalue()


def resident(served: Served) -> float:
    """MB of the server's process."""
    status = Path(f"/proc/{served.process.pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s*(\d+)", status)[0]) / 1024


def visit(served: Served, seed: int, side: int) -> None:
    made = served.photo(photo(seed, side))
    for asked in ("beliefs", "view", "fill"):
        assert served.send("GET", f"/api/photos/{made}/{asked}?net=net.py:make").status == 200
    assert served.until(served.job(made), "done", "failed") == "done"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--uploads", type=int, default=300)
    parser.add_argument("--side", type=int, default=1500)
    args = parser.parse_args()
    print("uploads | resident memory, MB")
    with TemporaryDirectory() as folder:
        served = Served(Path(folder))
        try:
            full = 0.0
            for k in range(1, args.uploads + 1):
                visit(served, k, args.side)
                if k % 50 == 0 or k == args.uploads:
                    print(f"{k} | {resident(served):.0f}", flush=True)
                if k == min(WARM, args.uploads):
                    full = resident(served)
            growth = resident(served) - full
        finally:
            served.kill()
    print(f"growth after the first {WARM}: {growth:.0f} MB, at most {MOST_GROWTH} are allowed")
    return int(growth > MOST_GROWTH)


if __name__ == "__main__":
    sys.exit(main())
