"""Memory of methods over many images: it must not grow, and no hook may be left behind.

    python benchmarks/methods_memory.py [--images 2000] [--device cpu] [--methods gradient,grad-cam]

Each method makes maps of three labels for one block of images after another, on a small net. After every block the
memory of the process is read (and on CUDA that of the tensors); growth is the median over the last quarter of the blocks
minus that over the second quarter, when all is warm. It ends with an error where a method grows by more than the limit.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import statistics
import sys
from pathlib import Path

import torch
from torch import nn

import proofmap as pm
from proofmap.classifier.view import has_hooks
from proofmap.core.errors import ProofmapError
from proofmap.methods import METHODS, Method, make_method
from proofmap.plugins.specs import split_specs
from proofmap.session import Session
from tests.toys import conv_net, pixels

SIDE, BLOCK, LABELS = 16, 50, 3
LIMIT = 8e6  # bytes over half of the images: what the allocator's own moods amount to
MOST_PASSES = 40  # per label: a method that takes more is given fewer steps below, or left out
CHEAP = {
    "belief-mask": "belief-mask:passes=6,grid=4,fills=gray+noise",
    "captum": "captum:IntegratedGradients(n_steps=4)",
    "learned-mask": "learned-mask:steps=3,scale=4,fill=noise",
    "pytorch-grad-cam": "pytorch-grad-cam:GradCAM",
    "top-label": "top-label:gradient",
}


def cheap(name: str) -> Method | str:
    """A registered method with few passes, or why it is left out."""
    try:
        method = make_method(CHEAP.get(name, name))
    except ProofmapError as error:
        return str(error)
    cost = method.cost(LABELS)
    passes = 0 if cost is None else cost.passes
    return f"{passes} passes" if passes > MOST_PASSES * LABELS else method


def resident() -> int:
    """Bytes of memory that this process has now; its peak where the system does not tell."""
    statm = Path("/proc/self/statm")
    if statm.is_file():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def growth(readings: list[int]) -> float:
    quarter = max(1, len(readings) // 4)
    return statistics.median(readings[-quarter:]) - statistics.median(readings[quarter : 2 * quarter])


def left_hooks(f: pm.Classifier) -> bool:
    nets = [f.net, *(view.net for view in f._frozen.values())]
    return any(has_hooks(net) for net in nets if isinstance(net, nn.Module))


def run(method: Method, device: str, images: int) -> tuple[float, float, bool]:
    """Growth of the process and of tensors on a GPU in bytes, and whether hooks were left behind."""
    f = pm.Classifier(conv_net(channels=3).to(device), size=SIDE, batch_size=BLOCK * LABELS)
    session = Session(f)
    labels = torch.tensor([[0, 2, 1]], device=device).expand(BLOCK, -1)
    process, tensors = [], []
    for k in range(images // BLOCK):
        session.maps(method, pixels(BLOCK, SIDE, seed=k).to(device), labels)
        gc.collect()
        process.append(resident())
        tensors.append(torch.cuda.memory_allocated() if device.startswith("cuda") else 0)
    return growth(process), growth(tensors), left_hooks(f)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--methods", default="", help="specs separated by commas; every cheap one when left out"
    )
    given = parser.parse_args()
    named = {spec: make_method(spec) for spec in split_specs(given.methods)} if given.methods else {}
    print(f"{given.images} images of {SIDE} x {SIDE}, {LABELS} labels, {given.device}")
    print(f"{'method':44} {'process':>10} {'tensors':>10} {'hooks':>6}")
    failed = []
    for name in named or sorted(METHODS):
        method = named.get(name) or cheap(name)
        if isinstance(method, str):
            print(f"{name:44} left out: {method.splitlines()[0][:90]}")
            continue
        process, tensors, left = run(method, given.device, given.images)
        bad = process > LIMIT or tensors > 0 or left
        failed += [name] if bad else []
        mark = "  GROWS" if bad else ""
        print(
            f"{method.title():44.44} {process / 1e6:+7.2f} MB {tensors / 1e6:+7.2f} MB {'left' if left else 'none':>6}{mark}",
            flush=True,
        )
    if failed:
        print(f"not within the limits: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
