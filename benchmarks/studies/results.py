"""Studies whose numbers stand in docs/results, in the order in which a GPU's time is best spent on them, with as many images as half an hour allows.

    python benchmarks/studies/results.py DATA --out OUT --list
    python benchmarks/studies/results.py DATA --out OUT [--minutes 30] [--at-once 2] [--studies held two-labels ...]

DATA is the folder that ``proofmap reproduce`` looks in: imagenette/, imagenet_val/, two_objects/, cifar-10-batches-py/ and weights/.
Every study is a command of its own that writes below OUT and prints to OUT/NAME.log. Two run at a time, because none of them fills a GPU all the time; those that
are there for their time run alone. One that needs another's masks comes after it, and not at all where that failed. When the minutes are up, and on Ctrl-C or SIGTERM, what runs is
interrupted as by Ctrl-C. The same command then goes on: studies that are done (OUT/NAME.done) are left alone, and those that keep what they have done continue from there.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
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
        "belief_mask.py {data}/imagenet_val --fold held --number 150 --batch 960 --out {out}/held.json --methods "
        "belief-mask:preset=thorough belief-mask:passes=600,smoothness=0.15 belief-mask grad-cam",
    ),
    Study("two-labels", "what-we-found.md", "two-labels"),
    Study("imagenette", "imagenette-table.md", "imagenette --images 200"),
    Study("cifar10-tv", "cifar10-table.md", "cifar10-tv --variant resnet56-short --images 240"),
    Study("cifar10-range", "cifar10-table.md", "cifar10-range --variant resnet56-short --images 48"),
    Study(
        "cifar10-artifacts",
        "cifar10-table.md",
        "cifar10-artifacts --variant resnet56-short --images 48 --from {out}/cifar10-range",
        after="cifar10-range",
    ),
    Study(
        "controls",
        "what-we-found.md",
        "evaluate --data imagenet:{data}/imagenet_val --number 150 --min-second-probability .1 --labels top5 --controls --no-pictures --methods "
        "gradient,gradient-x-input,smooth-grad,grad-cam,learned-mask,belief-mask",
    ),
    Study("imagenette-corner", "imagenette-table.md", "imagenette-corner --images 200"),
    Study(
        "unseen-fills",
        "belief-masks.md",
        "belief_mask.py {data}/imagenet_val --fold held --number 75 --batch 960 --out {out}/unseen-fills.json --methods "
        "belief-mask:preset=thorough,fills=blur+images belief-mask:preset=thorough,fills=gray+images belief-mask:preset=thorough,fills=gray+blur",
    ),
    Study("belief-mask-alone", "speed.md", "imagenette --rows belief-mask", alone=True),
    Study("learned-mask-alone", "speed.md", "imagenette --rows Ours", alone=True),
    Study(
        "thousand",
        "belief-masks.md",
        "evaluate --data imagenet:{data}/imagenet_val --number 1000 --methods belief-mask --labels top5 --images-per-unit 250 --store-maps none --no-pictures",
        alone=True,
    ),
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
    Study(
        "imagenet-metrics",
        "imagenet-tables.md",
        "imagenet-metrics --images 120 --from {out}/imagenet",
        after="imagenet",
    ),
    Study(
        "pushed",
        "belief-mask-bounds.md",
        "belief_mask.py {data}/imagenet_val --fold held --number 40 --batch 960 --out {out}/pushed.json --methods "
        "belief-mask:target=strongest,passes=3600",
    ),
    Study("theory", "theory.md", "theory"),
    # with the passes of the paper
    Study(
        "imagenette-full-s1",
        "imagenette-table.md",
        "imagenette --variant efficientnet-lite0-full --images 30 --rows 'Ours (s=1)'",
    ),
    Study(
        "best-effort",
        "imagenette-table.md",
        "imagenette-best-effort --variant efficientnet-lite0 --rows iGOS++",
    ),
    Study(
        "ensembling-full", "imagenet-tables.md", "ensembling --variant efficientnet-lite0-full --images 20"
    ),
    Study("sanity-full", "imagenet-tables.md", "sanity --variant efficientnet-lite0-full --images 20"),
    Study("imagenet-full", "imagenet-tables.md", "imagenet --variant efficientnet-lite0-full --images 20"),
    Study(
        "imagenet-metrics-full",
        "imagenet-tables.md",
        "imagenet-metrics --variant efficientnet-lite0-full --images 20 --from {out}/imagenet-full",
        after="imagenet-full",
    ),
    Study(
        "imagenette-corner-full",
        "imagenette-table.md",
        "imagenette-corner --variant efficientnet-lite0-full --images 20",
    ),
    # with 104 images of images-seed 0 these are 200, because the samples share one; joined_samples.py joins them
    Study(
        "cifar10-range-others",
        "cifar10-table.md",
        "cifar10-range --variant resnet56 --images 97 --seed 1 --images-seed 1",
    ),
    Study(
        "cifar10-artifacts-others",
        "cifar10-table.md",
        "cifar10-artifacts --variant resnet56 --images 97 --seed 1 --images-seed 1 --from {out}/cifar10-range-others",
        after="cifar10-range-others",
    ),
    Study(  # 14 minutes by itself, and all rows twice that
        "cifar10-released",
        "cifar10-table.md",
        "cifar10-tv --images 500 --rows 'TV *'",
    ),
    Study(
        "cifar10-full",
        "cifar10-table.md",
        "cifar10-tv --images 500 --from {out}/cifar10-released",
        after="cifar10-released",
    ),
    Study(
        "cifar10-full-curves",
        "cifar10-table.md",
        "cifar10-curves --images 500 --from {out}/cifar10-full",
        after="cifar10-full",
    ),
    Study(
        "cifar10-full-metrics",
        "cifar10-table.md",
        "cifar10-metrics --images 500 --from {out}/cifar10-full",
        after="cifar10-full",
    ),
]


def next_study(waiting: list[Study], running: list[Study]) -> Study | None:
    """The first study that may begin beside those that run."""
    ahead = {study.name for study in (*waiting, *running)}
    found = next((study for study in waiting if study.after not in ahead), None)
    if found is None or (running and (found.alone or any(study.alone for study in running))):
        return None
    return found


def run_all(studies: list[Study], data: Path, out: Path, *, seconds: float, at_once: int) -> int:
    """Run studies until all are done or the time is up; returns how many are not."""
    out.mkdir(parents=True, exist_ok=True)
    waiting = [study for study in studies if not done(study.name, out).exists()]
    running: dict[Study, subprocess.Popen[bytes]] = {}
    left, end = len(waiting), time.monotonic() + seconds
    try:
        while (waiting or running) and time.monotonic() < end:
            left -= collect(running, out)
            while len(running) < at_once and (study := next_study(waiting, list(running))) is not None:
                waiting.remove(study)
                if study.after is not None and not done(study.after, out).exists():
                    tell(study, f"left out: {study.after} is not done")
                    continue
                running[study] = start(study, data, out)
                tell(study, "begins")
            time.sleep(0.2)
    finally:
        stop(list(running.values()))
        left -= collect(running, out)
    for study in waiting:
        tell(study, "not begun")
    return left


def done(name: str, out: Path) -> Path:
    """The file that says that a study is done."""
    return out / f"{name}.done"


def start(study: Study, data: Path, out: Path) -> subprocess.Popen[bytes]:
    """Start a study; what it prints is added to its log."""
    if study.alone and (out / study.name).exists():
        shutil.rmtree(out / study.name)  # what an earlier part took is not known
    with open(out / f"{study.name}.log", "ab") as log:
        command = study.argv(data, out)
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)


def collect(running: dict[Study, subprocess.Popen[bytes]], out: Path) -> int:
    """Take out what has ended, and tell how; returns how many of them are done."""
    ended = {study: code for study, process in running.items() if (code := process.poll()) is not None}
    for study, code in ended.items():
        del running[study]
        tell(study, f"ended with {code}: see {study.name}.log" if code else "done")
        if code == 0:
            done(study.name, out).touch()
    return sum(code == 0 for code in ended.values())


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
    parser.add_argument("--at-once", type=int, choices=range(1, 9), default=2)
    parser.add_argument("--studies", nargs="+", choices=[s.name for s in STUDIES], metavar="NAME")
    parser.add_argument(
        "--list", action="store_true", help="say what would be run, and on which page it stands"
    )
    args = parser.parse_args()
    names = args.studies or [study.name for study in STUDIES]
    chosen = [study for study in STUDIES if study.name in names]
    if args.list:
        for study in chosen:
            print(f"{study.name} ({study.page}): {shlex.join(study.argv(args.data, args.out))}")
        return
    if not args.data.is_dir():
        parser.error(f"there is no folder {args.data}; proofmap reproduce says what goes into it")
    if not args.minutes > 0:
        parser.error(f"--minutes must be above 0, not {args.minutes}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    # a shell's background job begins with interrupts ignored, and what it starts would not hear them
    signal.signal(signal.SIGINT, signal.default_int_handler)
    data, out = args.data.resolve(), args.out.resolve()
    sys.exit(run_all(chosen, data, out, seconds=60 * args.minutes, at_once=args.at_once) > 0)


if __name__ == "__main__":
    main()
