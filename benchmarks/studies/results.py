"""The studies behind docs/results, in the order in which a GPU's time is best spent on them.

    python benchmarks/studies/results.py DATA --out OUT --list
    python benchmarks/studies/results.py DATA --out OUT [--minutes 30] [--at-once 2] [--studies held two-labels ...]

DATA is the folder that ``proofmap reproduce`` looks in: imagenette/, imagenet_val/, two_objects/, cifar-10-batches-py/ and weights/.
Every study is a command of its own that writes OUT/NAME and OUT/NAME.log; two run at a time, because none of them fills a GPU all the time. One
that needs another's masks waits for it. When the minutes are up, what runs is interrupted as by Ctrl-C. The same command then goes on: studies that
are done (OUT/NAME.done says in how many seconds) are left alone, and those that keep what they have done continue from there.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PATIENCE = 30.0
"""Seconds that an interrupted study gets to put its things in order."""


@dataclass(frozen=True)
class Study:
    """One command. ``{data}`` and ``{out}`` are put in; the first word is a recipe, a script of this folder, or ``evaluate``."""

    name: str
    page: str
    command: str
    after: str | None = None
    """The study whose masks it takes."""
    alone: bool = False
    """Whether nothing else may run beside it, because its time is what it is for."""

    def argv(self, data: Path, out: Path) -> list[str]:
        """What is run."""
        first, *rest = [word.format(data=data, out=out) for word in shlex.split(self.command)]
        if first.endswith(".py"):
            return [sys.executable, "-u", str(HERE / first), *rest]
        proofmap = [sys.executable, "-u", "-m", "proofmap"]
        if first == "evaluate":
            return [*proofmap, first, *rest, "--out", str(out / self.name)]
        return [*proofmap, "reproduce", first, *rest, "--data", str(data), "--out", str(out / self.name)]


STUDIES = [
    Study(
        "held",
        "belief-masks.md",
        "belief_mask.py {data}/imagenet_val --fold held --number 150 --batch 960 --out {out}/held.md --methods "
        "belief-mask:preset=thorough belief-mask:preset=smooth belief-mask",
    ),
    Study("two-labels", "what-we-found.md", "two-labels"),
    Study("imagenette", "imagenette-table.md", "imagenette --images 200"),
    Study("cifar10-tv", "cifar10-table.md", "cifar10-tv --variant resnet56-short --images 240"),
    Study(
        "cifar10-curves",
        "what-we-found.md",
        "cifar10-curves --variant resnet56-short --images 240 --from {out}/cifar10-tv",
        after="cifar10-tv",
    ),
    Study(
        "cifar10-metrics",
        "what-we-found.md",
        "cifar10-metrics --variant resnet56-short --images 240 --from {out}/cifar10-tv",
        after="cifar10-tv",
    ),
    Study("cifar10-range", "what-we-found.md", "cifar10-range --variant resnet56-short --images 48"),
    Study(
        "cifar10-artifacts",
        "what-we-found.md",
        "cifar10-artifacts --variant resnet56-short --images 48 --from {out}/cifar10-range",
        after="cifar10-range",
    ),
    Study(
        "controls",
        "what-we-found.md",
        "evaluate --data imagenet:{data}/imagenet_val --number 150 --second .1 --labels top5 --controls --no-pictures --methods "
        "gradient,gradient-x-input,smooth-grad,grad-cam,learned-mask,belief-mask",
    ),
    Study("imagenette-corner", "what-we-found.md", "imagenette-corner --images 100"),
    Study("belief-mask-alone", "speed.md", "imagenette --variant belief-mask-alone", alone=True),
    Study("learned-mask-alone", "speed.md", "imagenette --variant learned-mask-alone", alone=True),
    Study(
        "cifar10-belief",
        "belief-masks.md",
        "belief_cases.py cifar10 {data}/cifar-10-batches-py --weights {data}/weights/cifar10_resnet56.safetensors --number 300 "
        "--out {out}/cifar10-belief",
    ),
    Study(
        "imagenette-belief",
        "belief-masks.md",
        "belief_cases.py imagenette {data}/imagenette --number 60 --draws 1 --fills gray images noise* "
        "--methods belief-mask:preset=thorough belief-mask grad-cam --out {out}/imagenette-belief",
    ),
    Study(
        "frontier-photos",
        "frontier.md",
        "frontier.py photos imagenet:{data}/imagenet_val --images 60 --out {out}/frontier-photos",
    ),
    Study(
        "frontier-cifar10",
        "frontier.md",
        "frontier.py cifar10 cifar10:{data}/cifar-10-batches-py --weights {data}/weights/cifar10_resnet56.safetensors --images 200 "
        "--out {out}/frontier-cifar10",
    ),
    Study("sanity", "imagenet-tables.md", "sanity --images 50"),
    Study("ensembling", "imagenet-tables.md", "ensembling --images 50"),
    Study("imagenet", "imagenet-tables.md", "imagenet --images 120"),
    Study("imagenet-metrics", "imagenet-tables.md", "imagenet-metrics --images 120"),
    Study("theory", "theory.md", "theory"),
]


def next_study(waiting: list[Study], running: list[Study]) -> Study | None:
    """The first study that may begin beside those that run."""
    ahead = {study.name for study in (*waiting, *running)}
    ready = (study for study in waiting if study.after not in ahead)
    found = next(ready, None)
    if found is None or (running and (found.alone or any(study.alone for study in running))):
        return None
    return found


def run_all(studies: list[Study], data: Path, out: Path, *, seconds: float, at_once: int) -> int:
    """Run studies until all are done or the time is up; returns how many are not."""
    out.mkdir(parents=True, exist_ok=True)
    waiting = [study for study in studies if not done(study, out).exists()]
    running: dict[Study, tuple[subprocess.Popen[bytes], float]] = {}
    failed, end = 0, time.monotonic() + seconds
    try:
        while (waiting or running) and time.monotonic() < end:
            for study, (process, began) in list(running.items()):
                if (code := process.poll()) is None:
                    continue
                del running[study]
                took = time.monotonic() - began
                failed += code != 0
                tell(
                    study,
                    f"done in {took:.0f} s" if code == 0 else f"ended with {code}; see {study.name}.log",
                )
                if code == 0:
                    done(study, out).write_text(f"{took:.1f}\n", encoding="utf-8")
            while len(running) < at_once and (study := next_study(waiting, list(running))) is not None:
                waiting.remove(study)
                running[study] = (start(study, data, out), time.monotonic())
                tell(study, "begins")
            time.sleep(0.2)
    finally:
        stop([process for process, _ in running.values()])
    for study in (*running, *waiting):
        tell(study, "stopped" if study in running else "not begun")
    return failed + len(running) + len(waiting)


def done(study: Study, out: Path) -> Path:
    """The file that says that a study is done."""
    return out / f"{study.name}.done"


def start(study: Study, data: Path, out: Path) -> subprocess.Popen[bytes]:
    """Start a study; what it prints is added to its log."""
    with open(out / f"{study.name}.log", "ab") as log:
        return subprocess.Popen(study.argv(data, out), stdout=log, stderr=subprocess.STDOUT)


def stop(processes: list[subprocess.Popen[bytes]]) -> None:
    """Interrupt them as Ctrl-C does, and end those that do not listen."""
    for process in processes:
        process.send_signal(signal.SIGINT)
    end = time.monotonic() + PATIENCE
    for process in processes:
        try:
            process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def tell(study: Study, what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {study.name}: {what}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--studies", nargs="+", choices=[s.name for s in STUDIES], metavar="NAME")
    parser.add_argument(
        "--list", action="store_true", help="say what would be run, and on which page it stands"
    )
    args = parser.parse_args()
    names = args.studies or [study.name for study in STUDIES]
    chosen = [study for study in STUDIES if study.name in names]
    if args.list:
        for study in chosen:
            print(f"{study.name} ({study.page}): {shlex.join(study.argv(args.data, args.out)[2:])}")
        return
    data, out = args.data.resolve(), args.out.resolve()
    sys.exit(run_all(chosen, data, out, seconds=60 * args.minutes, at_once=args.at_once) > 0)


if __name__ == "__main__":
    main()
