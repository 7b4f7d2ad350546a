"""Passes per second of every mask method, over those of the belief mask, measured in one run.

    python benchmarks/mask_methods_speed.py [--model efficientnet-lite0] [--pairs N] [--methods SPEC ...]

A pass is one composite through the net and back; forward alone, as in iGOS++'s line search and Fong and Vedaldi's discs, is
half a pass. iGOS++ tries all lengths of its line search together, also those that one after the other would spare: compare its
time per pair, too. The information bottleneck runs the net behind its layer only. Every method learns the same pairs on random
pictures, after one run that does not count (round 0); the methods take turns, and the best of ``--rounds`` counts.
"""

from __future__ import annotations

import argparse
import functools
from pathlib import Path

import torch
from _timing import timed

import proofmap as pm
from proofmap.cli import run_script
from proofmap.methods.masks.method import MaskMethod
from proofmap.session import Session

BASE = "belief-mask:passes={steps},fills=gray+blur"
METHODS = (
    "learned-mask:steps={steps},distractors=1,fill=blur",
    "fong-vedaldi:steps={steps}",
    "fong-vedaldi:preset=pytorch,steps={steps},fill=blur",
    "extremal-perturbation:steps={steps},areas=0.1",
    "igos++:iterations=1",
    "diffmask:steps={steps},samples=1,fill=blur",
    "iba:steps={steps},samples=1,fill=noise,pool=32",
)


class Forward:
    """Counts the images that go through a classifier without a gradient."""

    def __init__(self) -> None:
        self.images, self._call = 0, pm.Classifier.from_normalised
        pm.Classifier.from_normalised = lambda f, x: self.counted(f, x)  # type: ignore[method-assign]

    def counted(self, f: pm.Classifier, x: torch.Tensor) -> torch.Tensor:
        self.images += 0 if torch.is_grad_enabled() else len(x)
        return self._call(f, x)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="efficientnet-lite0")
    parser.add_argument("--weights", type=Path, default=None)
    parser.add_argument("--pairs", type=int, default=None, help="(image, label) pairs, two labels per image")
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=None)
    parser.add_argument("--methods", nargs="+", default=METHODS, help="specs; {steps} is filled in")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    cuda = device == "cuda"
    f = pm.load_classifier(args.model, weights=args.weights, device=device, batch_size=args.batch_size)
    steps, pairs = args.steps or (100 if cuda else 4), args.pairs or (200 if cuda else 4)
    images = torch.rand(-(-pairs // 2), 3, *f.size, generator=torch.Generator().manual_seed(0)).to(f.device)
    labels = f.top(images, 2)
    specs = [spec.replace("{steps}", str(steps)) for spec in (BASE, *args.methods)]
    session, methods = Session(f), [pm.make_method(spec) for spec in specs]
    for method in methods:
        session.prepare(method)
    best, forward = dict.fromkeys(specs, 0.0), Forward()
    fastest = dict.fromkeys(specs, float("inf"))
    for turn in range(1 + args.rounds):
        for spec, method in zip(specs, methods, strict=True):
            assert isinstance(method, MaskMethod), f"{spec} learns no masks"
            cost = method.cost(labels.shape[1], session)
            assert cost is not None
            forward.images = 0
            _, took = timed(functools.partial(session.maps, method, images, labels))
            rate = (len(images) * cost.gradient + forward.images / 2) / took
            print(f"round {turn}, {spec}: {took:.1f} s, {rate:,.1f} passes/s", flush=True)
            if turn:
                best[spec] = max(best[spec], rate)
                fastest[spec] = min(fastest[spec], took / labels.numel())
    name = torch.cuda.get_device_name() if cuda else "CPU"
    print(
        f"{args.model} on {name}, torch {torch.__version__}, {labels.numel()} pairs, batches {f.batches[1].size}"
    )
    for spec in specs:
        print(
            f"{spec}: {best[spec]:,.1f} passes/s, {best[spec] / best[specs[0]]:.2f} of the belief mask's; "
            f"{1000 * fastest[spec]:.1f} ms per pair"
        )
    print(f"ratio {min(best[spec] for spec in specs[1:]) / best[specs[0]]:.2f}")


if __name__ == "__main__":
    run_script(main)
