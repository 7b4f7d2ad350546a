"""Writes golden records: ``python -m tests.golden.write [CASE ...]``; all cases without a name.

Never in the commit of the change that moves the numbers: a commit of its own says why they may move.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.golden import record
from tests.golden.cases import CASES

for name in sys.argv[1:] or CASES:
    began = time.perf_counter()
    path = record.write(name, CASES[name].record())
    print(f"{path.name}: {path.stat().st_size:,} bytes, {time.perf_counter() - began:.1f} s")
