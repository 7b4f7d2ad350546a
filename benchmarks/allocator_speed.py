"""Passes on the CPU with freed memory kept by the process and without, in two processes that take turns.

python benchmarks/allocator_speed.py [--model efficientnet-lite0] [--batch-size 8] [--threads 2] [--rounds 15]

A pass is the frozen net with its input gradient. Time, processor time inside the kernel, and pages taken anew; medians over rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import statistics
import subprocess
import sys

import torch
from frozen_speed import seconds

import proofmap as pm
from proofmap.core.allocator import keep_memory

KINDS = ("plain", "kept")


def work(args: argparse.Namespace) -> None:
    """The process that runs passes: one for every line it is sent; prints seconds, seconds in the kernel and pages."""
    if args.worker == "kept" and not keep_memory():
        sys.exit("memory is kept only with glibc, and without settings of memory in the environment")
    torch.set_num_threads(args.threads)
    frozen = pm.load_classifier(args.model, device="cpu").frozen()
    images = torch.rand(args.batch_size, 3, *frozen.size, generator=torch.Generator().manual_seed(0))
    for _ in sys.stdin:
        before = resource.getrusage(resource.RUSAGE_SELF)
        took, after = seconds(frozen, images), resource.getrusage(resource.RUSAGE_SELF)
        print(took, after.ru_stime - before.ru_stime, after.ru_minflt - before.ru_minflt, flush=True)


def asked(worker: subprocess.Popen[str]) -> list[float]:
    """What it says of one more round; nothing where it has ended."""
    assert worker.stdin is not None and worker.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        worker.stdin.write("\n")
        worker.stdin.flush()
    return [float(word) for word in worker.stdout.readline().split()]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="efficientnet-lite0")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--worker", choices=KINDS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args)
        return
    command = [sys.executable, __file__, *sys.argv[1:], "--worker"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    workers = {kind: subprocess.Popen([*command, kind], **pipes) for kind in KINDS}  # type: ignore[call-overload]
    rounds: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    for _ in range(args.rounds + 2):
        for kind, worker in workers.items():
            if not (told := asked(worker)):
                sys.exit("a process that runs passes ended; it says why above")
            rounds[kind].append(told)
    for worker in workers.values():
        worker.communicate()
    print(f"{args.model}, batch {args.batch_size}, {args.threads} threads, {args.rounds} rounds")
    medians = {kind: [statistics.median(v) for v in zip(*rounds[kind][2:], strict=True)] for kind in KINDS}
    for kind, (took, kernel, pages) in medians.items():
        print(
            f"{kind}: {args.batch_size / took:.1f} passes/s, {kernel:.3f} s in the kernel, {pages:,.0f} pages"
        )
    print(f"ratio {medians['plain'][0] / medians['kept'][0]:.2f}")


if __name__ == "__main__":
    main()
