"""Speed of two source trees, side by side in one run: the same work in turn by a process of each, as ratios.

    python benchmarks/side_by_side.py OLD NEW [--rounds 9] [--only curves] [--threads 1]

OLD and NEW are checkouts, such as a git worktree of an earlier version and the folder itself; without arguments, this checkout is compared with itself, which shows
how far chance alone moves a ratio. A ratio above 1 means that NEW is faster. Seconds are those of processor time, and work goes to both processes in turn, so that
other load of the machine meets both.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
CURVES = ["completeness", "soundness", "deletion"]


def works() -> dict[str, Callable[[], object]]:
    """The work that is timed, as functions of the public names alone. Nets and inputs are those of the tree's golden records, or made here."""
    import torch
    from torch import nn

    import proofmap as pm
    from tests.golden import nets

    def conv(width: int = 16, size: int = 48) -> pm.Classifier:
        layers: list[nn.Module] = []
        for before, after, stride in ((3, width, 2), (width, 2 * width, 2), (2 * width, 4 * width, 2)):
            layers += [nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, 10))
        return pm.Classifier(nets.drawn(net), size=size, mean=nets.MEAN, std=nets.STD, batch_size=64)

    net, tokens, texts, table = conv(), nets.tokens(), nets.texts(), nets.table_model()
    photos = nets.photos(8, 48, 48)
    sentences = [" ".join(text.split()[: 2 + k % 11]) for k, text in enumerate(nets.TEXTS * 3)]
    labels = [0, 1, 2]

    def judged(
        f: pm.Classifier, x: Any, methods: Sequence[str], metrics: Sequence[str]
    ) -> Callable[[], object]:
        return lambda: pm.evaluate(f, x, methods=methods, labels=labels, metrics=metrics)

    cheap = ["insertion:points=1"]
    masks = ["learned-mask:steps=10,fill=noise", "belief-mask:passes=20,fills=gray+blur,closing=none"]
    searches = ["occlusion", "kernel-shap:samples=200", "belief-order:budget=200"]
    x = torch.cat([photos] * 32)
    return {
        "frozen net": lambda: net.frozen().probabilities(x),
        "gradients": judged(net, photos, ["smooth-grad:samples=10", "integrated-gradients:steps=20"], cheap),
        "mask engine": judged(net, photos[:4], masks, cheap),
        "CAMs": judged(net, photos, ["grad-cam", "grad-cam++", "layer-cam", "score-cam"], cheap),
        "curves": judged(net, photos[:4], ["gradient", "random"], CURVES),
        "curves on noise": judged(net, photos[:4], ["gradient"], ["completeness:fill=noise,draws=4"]),
        "texts": judged(texts, sentences, ["occlusion:window=1", "belief-order:budget=200"], CURVES),
        "tokens": judged(
            tokens, sentences, ["belief-mask:passes=20,fills=gray,closing=none", "random"], CURVES
        ),
        "tables": judged(table, nets.TABLE[:20], searches, CURVES),
        "one small call": judged(nets.conv(), nets.photos(1), ["gradient", "random"], CURVES),
    }


def worker(threads: int) -> None:
    """Answers each line of stdin, the name of a work, with the seconds of processor time that it took."""
    import warnings

    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(threads)
    found = works()
    print(json.dumps([*found]), flush=True)
    for line in sys.stdin:
        work = found[line.strip()]
        began = time.process_time()
        work()
        print(time.process_time() - began, flush=True)


class Tree:
    """A process that works with the sources of one checkout."""

    def __init__(self, root: Path, threads: int) -> None:
        if not (root / "tests" / "golden" / "nets.py").exists():
            sys.exit(f"{root} has no tests/golden/nets.py, whose nets the work is done on")
        path = os.pathsep.join([str(root / "src"), str(root)])
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": str(threads)}
        self.process = subprocess.Popen(
            [sys.executable, str(HERE), "--worker", "--threads", str(threads)],
            cwd=root,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.works: list[str] = json.loads(self._line())

    def seconds(self, work: str) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(work + "\n")
        self.process.stdin.flush()
        return float(self._line())

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return line or sys.exit("a process ended; its error is above")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", type=Path, nargs="*", metavar="TREE", help="two checkouts: the old, the new")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="only works whose name has this in it")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        worker(args.threads)
        return
    if len(args.trees) not in (0, 2):
        parser.error("give two checkouts, or none")
    old, new = (Tree(root.resolve(), args.threads) for root in args.trees or [HERE.parents[1]] * 2)
    print(
        f"{'work':18}{'old, s':>10}{'new, s':>10}{'new is faster by':>20}   middle half of {args.rounds} rounds"
    )
    for work in (name for name in old.works if name in new.works and args.only in name):
        for tree in (old, new):
            tree.seconds(work)  # to warm up
        pairs = []
        for k in range(args.rounds):
            turn = (old, new) if k % 2 == 0 else (new, old)
            times = {tree: tree.seconds(work) for tree in turn}
            pairs.append((times[old], times[new]))
        ratios = sorted(a / b for a, b in pairs)
        middle = [statistics.median(each) for each in zip(*pairs, strict=True)]
        quarter = len(ratios) // 4
        print(
            f"{work:18}{middle[0]:10.3f}{middle[1]:10.3f}{statistics.median(ratios):20.3f}"
            f"   {ratios[quarter]:.3f} to {ratios[-1 - quarter]:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
