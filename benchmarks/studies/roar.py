"""ROAR (Hooker et al. 2019): remove the pixels that a map puts first from all images, train anew, and see what is lost.

    python benchmarks/studies/roar.py --data cifar-10-batches-py [--methods grad-cam,gradient,random] [--shares 0.3,0.7]

Maps are those of the label that the first net puts first, for training and test images alike, so that no true label decides
what is removed. Removed pixels are the mean colour. Prints the test accuracy after each share, and the mean loss beyond that
of removing random pixels: higher is better.

An extrinsic measure: it is about nets that are trained anew, not about the net that was explained, and it costs a training per method, share
and seed. A few minutes on a GPU with 10,000 images; on a CPU say --limit 2000 --epochs 3.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from cifar_training import accuracy, add_training, classifier_of, read_images, train
from torch import Tensor

import proofmap as pm
from proofmap.cli import run_script
from proofmap.core.files import output_file
from proofmap.core.ranking import rank
from proofmap.methods import make_method
from proofmap.results.tables import aligned, number
from proofmap.session import Session

NOTE = "extrinsic: accuracies of nets that were trained anew, not of the net that was explained"


def orders(f: pm.Classifier, method: str, x: Tensor, block: int = 500) -> Tensor:
    """Ranks ``(N, 1024)`` of the pixels by the maps of each image's top label."""
    session, made = Session(f), make_method(method)
    return torch.cat([rank(session.maps(made, part, f.top(part, 1))[:, 0]) for part in x.split(block)])


def removed(x: Tensor, ranks: Tensor, share: float) -> Tensor:
    """Images whose first share of pixels is the mean colour."""
    gone = (ranks < round(share * ranks.shape[1])).view(-1, 1, *x.shape[2:])
    return torch.where(gone, x.mean(dim=(0, 2, 3), keepdim=True), x)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder cifar-10-batches-py")
    parser.add_argument("--methods", default="grad-cam,gradient,gradient-x-input,edges")
    parser.add_argument("--shares", default="0.1,0.3,0.5,0.7,0.9")
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each kind")
    add_training(parser, epochs=8)
    args = parser.parse_args()
    began = time.monotonic()
    (x, y), (test_x, test_y) = read_images(args.data, args.limit, args.device)
    shares = [float(share) for share in args.shares.split(",")]
    training = {"epochs": args.epochs, "width": args.width}
    first = classifier_of(train(x, y, **training, seed=0))
    whole = accuracy(first, test_x, test_y)
    print(
        f"{len(x)} images to train on, {len(test_x)} to test on; accuracy with all pixels {whole:.3f}",
        flush=True,
    )
    found: dict[str, list[float]] = {}
    for method in dict.fromkeys(["random", *args.methods.split(",")]):
        ranks, test_ranks = (orders(first, method, images) for images in (x, test_x))
        found[method] = []
        for share in shares:
            few, test_few = removed(x, ranks, share), removed(test_x, test_ranks, share)
            scores = [
                accuracy(classifier_of(train(few, y, **training, seed=1 + seed)), test_few, test_y)
                for seed in range(args.seeds)
            ]
            found[method].append(statistics.mean(scores))
        print(f"  {method}: {', '.join(number(a) for a in found[method])}", flush=True)
    beyond = {m: statistics.mean(a) for m, a in found.items()}
    rows = [
        [m, *(number(a) for a in scores), number(beyond["random"] - beyond[m])] for m, scores in found.items()
    ]
    print(aligned(["removed", *(f"{share:.0%}" for share in shares), "loss beyond random ↑"], rows))
    print(f"{NOTE}; {args.seeds} training(s) each, {time.monotonic() - began:.0f} s on {args.device}")
    if args.out:
        output_file(args.out).write_text(
            json.dumps({"note": NOTE, "all pixels": whole, "shares": shares, "accuracy": found})
        )


if __name__ == "__main__":
    run_script(main)
