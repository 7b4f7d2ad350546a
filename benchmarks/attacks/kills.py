"""Kill runs, cut the power, and let the disk fail, many times; then finish each and compare it with one that was left alone.

    python -m benchmarks.attacks.kills reproduce --times 20       # kill -9 inside `reproduce`, at any touch of the disk
    python -m benchmarks.attacks.kills from --times 20            # the same while it begins with the run of another recipe
    python -m benchmarks.attacks.kills ray --times 6              # kill -9 of the driver and of workers, with Ray
    python -m benchmarks.attacks.kills errors --times 40          # full, read-only and broken disks, no memory, at any touch
    python -m benchmarks.attacks.kills power --times 20           # power cuts on ext4 and XFS (root alone)

Each prints what was tried and how many of the finished runs have the same numbers and maps, and ends with exit code 1 if one
has not. A touch of the disk is a statement of SQLite, a write or a renaming.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from proofmap.core.errors import ProofmapError
from proofmap.reproduce.run import reproduce
from proofmap.study import Study, run_study, verify_run
from proofmap.study.executor import RayExecutor
from tests.reproduce.small_world import small_data, small_nets
from tests.study.processes import _act_at, _raise
from tests.study.studies import facts, toy_study
from tests.study.test_power_cut import Disk


def forked(work: Callable[[], object]) -> int:
    """Start a process that does this and ends with exit code 0, 2 for an error of ours, or 1."""
    child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    except ProofmapError:
        os._exit(2)
    except MemoryError:
        os._exit(3)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def ended(child: int) -> int:
    """The exit code of a process; negative for the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_at(touch: int, work: Callable[[], object]) -> int:
    """Run it in a process that kills itself at this touch of the disk; its exit code."""

    def doomed() -> None:
        _act_at(touch, lambda: os.kill(os.getpid(), signal.SIGKILL))
        work()

    return ended(forked(doomed))


def numbers(folder: Path) -> Any:
    """What a recipe found; without the time it took."""
    told = json.loads((folder / "paper.json").read_text())
    return told["numbers"], told["claims"], facts(folder)


# ---- what is tried: each returns (what happened, whether the finished run is the same) ------------------------------


def try_reproduce(times: int, drawn: random.Random, folder: Path, first: str | None = None) -> Counter[str]:
    """Kill a recipe three times in a row, then let it finish."""
    small_nets(pytest.MonkeyPatch())
    data, name = small_data(folder / "data"), "cifar10-tv" if first is None else "cifar10-curves"
    start = None if first is None else folder / "start"
    if first is not None:
        assert ended(forked(lambda: reproduce(first, folder / "start", data=data, quick=True))) == 0

    def work(out: Path) -> Callable[[], object]:
        return lambda: reproduce(name, out, data=data, quick=True, start=start)

    assert ended(forked(work(folder / "whole"))) == 0
    seen: Counter[str] = Counter()
    while seen["kills"] < times:
        out = folder / f"run-{seen['kills']}"
        for _ in range(3):
            code = killed_at(drawn.randint(1, 200), work(out))
            seen["kills"] += code == -signal.SIGKILL
            seen["ended before the kill"] += code == 0
            seen["other ends"] += code not in (0, -signal.SIGKILL)
        seen["runs"] += 1
        same = ended(forked(work(out))) == 0 and numbers(out) == numbers(folder / "whole")
        seen["identical"] += same and verify_run(out) == []
        shutil.rmtree(out)
    return seen


def try_ray(times: int, drawn: random.Random, folder: Path) -> Counter[str]:
    """Kill the driver, or a worker, when a drawn number of units is done."""
    import ray  # noqa: F401  before the fork, since it takes seconds

    study = toy_study(folder, 40)
    run_study(study, folder / "whole", threads=1)
    seen: Counter[str] = Counter()

    def work(out: Path) -> Callable[[], object]:
        return lambda: run_study(study, out, threads=1, executor=RayExecutor(workers=2))

    while seen["kills"] < times:
        out = folder / f"run-{seen['kills']}"
        victims = ("worker", "driver") if seen["runs"] % 2 else ("driver", "worker")
        for victim in victims:
            child = forked(work(out))
            limit = _units(out) + drawn.randint(1, 20)
            while os.waitpid(child, os.WNOHANG) == (0, 0):
                workers = [pid for pid, name in _descendants(child).items() if name.startswith("ray::_work")]
                if _units(out) >= limit and (victim == "driver" or workers):
                    family = _descendants(child)
                    with suppress(ProcessLookupError):
                        os.kill(child if victim == "driver" else drawn.choice(workers), signal.SIGKILL)
                        seen["kills"] += 1
                        seen[f"kills of a {victim}"] += 1
                    seen[f"ends after a kill of a {victim}: {ended(child)}"] += 1
                    if victim == "driver":
                        for pid in family:  # what Ray leaves behind is not ours to wait for
                            with suppress(ProcessLookupError):
                                os.kill(pid, signal.SIGKILL)
                    break
                time.sleep(0.05)
        seen["runs"] += 1
        assert ended(forked(work(out))) == 0
        seen["identical"] += facts(out) == facts(folder / "whole") and verify_run(out) == []
    return seen


def _units(out: Path) -> int:
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"file:{out / 'scores.sqlite'}?mode=ro", uri=True)) as store,
    ):
        return int(store.execute("SELECT count(*) FROM units").fetchone()[0])
    return 0


def _descendants(process: int) -> dict[int, str]:
    """The processes below one, with how they call themselves."""
    found: dict[int, str] = {}
    with suppress(OSError):
        for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
            with suppress(OSError):
                found[int(child)] = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
            found |= _descendants(int(child))
    return found


def _whole(folder: Path, n: int = 6) -> tuple[Study, dict[str, Any]]:
    study = toy_study(folder, n)
    run_study(study, folder / "whole", threads=1)
    return study, facts(folder / "whole")


def try_errors(times: int, drawn: random.Random, folder: Path) -> Counter[str]:
    """Let one touch of the disk fail, then continue."""
    study, whole = _whole(folder)
    seen: Counter[str] = Counter()
    for k in range(times):
        name, touch = ("ENOSPC", "EROFS", "EIO", "MemoryError")[k % 4], drawn.randint(1, 100)

        def work(name: str = name, touch: int = touch, out: Path = folder / f"run-{k}") -> None:
            _act_at(touch, lambda: _raise(name))
            run_study(study, out, threads=1)

        seen[f"{name}: exit code {ended(forked(work))}"] += 1
        seen["runs"] += 1
        run_study(study, folder / f"run-{k}", threads=1)
        seen["identical"] += facts(folder / f"run-{k}") == whole and verify_run(folder / f"run-{k}") == []
    return seen


def try_power(times: int, drawn: random.Random, folder: Path) -> Counter[str]:
    """Kill a run and cut the power of its disk, twice in a row, then finish it."""
    study, whole = _whole(folder)
    seen: Counter[str] = Counter()
    for kind in ("ext4", "xfs"):
        if shutil.which(f"mkfs.{kind}") is None:
            seen[f"no mkfs.{kind} on this machine"] += 1
            continue
        (folder / kind).mkdir()
        disk = Disk(folder / kind, kind)
        try:
            for k in range(-(-times // 2)):
                out = disk.path / f"run-{k}"
                for _ in range(2):
                    killed_at(drawn.randint(1, 100), lambda out=out: run_study(study, out, threads=1))
                    shutil.copytree(out, folder / "seen", dirs_exist_ok=True) if out.exists() else None
                    before = _units(folder / "seen")
                    disk.cut_power()
                    seen[f"power cuts on {kind}"] += 1
                    seen["units lost"] += max(0, before - _units(out))
                    shutil.rmtree(folder / "seen", ignore_errors=True)
                seen["runs"] += 1
                run_study(study, out, threads=1)
                seen["identical"] += facts(out) == whole and verify_run(out) == []
                shutil.rmtree(out)
        finally:
            disk.close()
    return seen


ATTACKS: dict[str, Callable[[int, random.Random, Path], Counter[str]]] = {
    "reproduce": try_reproduce,
    "from": lambda times, drawn, folder: try_reproduce(times, drawn, folder, first="cifar10-tv"),
    "ray": try_ray,
    "errors": try_errors,
    "power": try_power,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("attack", choices=ATTACKS)
    parser.add_argument("--times", type=int, default=20, help="how often (default 20)")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="proofmap-attack-") as folder:
        seen = ATTACKS[chosen.attack](chosen.times, random.Random(chosen.seed), Path(folder))
    for what, n in seen.items():
        print(f"{n:5d}  {what}")
    if seen["identical"] < seen["runs"]:
        sys.exit("some runs differ from one that was left alone")


if __name__ == "__main__":
    main()
