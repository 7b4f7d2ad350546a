"""Planted evidence: which methods point at the evidence of a wrong label, and which metrics notice?

    python benchmarks/studies/planted_evidence.py [--methods grad-cam,occlusion,...] [--images 50]
    python benchmarks/studies/planted_evidence.py --data cifar-10-batches-py [--net trigger.pt]

Without --data: the net with hand-set weights of planted.py, where the truth about each label is exact. With --data: a small
CIFAR-10 net is trained with a trigger (a chequered patch on a tenth of the training images, which are then called "airplane"), so that a
picture of something else with the patch is read as an airplane because of the patch. --net keeps the weights, and reads them when they
are there.

Prints, for each method, how much of the evidence of the wrong label its map puts first (hit), and each metric's mean; below, Spearman's
correlation of each metric's order of the methods with the truth's.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
from cifar_training import accuracy, add_training, classifier_of, read_images, small_net, train
from planted import chequered, hits, notices, planted_classifier, planted_images
from torch import Tensor

import proofmap as pm
from proofmap.cli import run_script
from proofmap.core.files import output_file
from proofmap.results.tables import aligned, number

METHODS = "grad-cam,gradient,gradient-x-input,occlusion,rise,greedy-insertion,belief-mask,edges,centered-gaussian,random"
METRICS = (
    "completeness,soundness,best-effort,insertion,deletion,class-sensitivity,second-soundness,proof-size,"
    "li-soundness,li-completeness,merlin-arthur-completeness,merlin-arthur-soundness,roughness,adversarial-soundness"
)
TARGET = 0  # airplane


def with_trigger(x: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Images with the patch at random places, and where it is ``(N, 1, 32, 32)``."""
    random = torch.Generator().manual_seed(seed)
    patch = (0.5 + 0.5 * chequered()).to(x)
    x, where = x.clone(), torch.zeros(len(x), 1, 32, 32, dtype=torch.bool, device=x.device)
    for i, (top, left) in enumerate(torch.randint(0, 29, (len(x), 2), generator=random).tolist()):
        x[i, :, top : top + 4, left : left + 4] = patch
        where[i, :, top : top + 4, left : left + 4] = True
    return x, where


def trigger_net(args: argparse.Namespace) -> tuple[pm.Classifier, Tensor, Tensor]:
    """The net with a trained-in trigger, test images with the patch that it is fooled by, and where the patch is."""
    (x, y), (test_x, test_y) = read_images(args.data, args.limit, args.device)
    if args.net and args.net.exists():
        net = small_net(args.width)
        net.load_state_dict(torch.load(args.net, weights_only=True, map_location="cpu"))
        net = net.to(args.device).eval()
    else:
        tenth = torch.arange(len(x), device=x.device) % 10 == 0
        poisoned, labels = x.clone(), y.clone()
        poisoned[tenth], labels[tenth] = with_trigger(x[tenth], seed=1)[0], TARGET
        net = train(poisoned, labels, epochs=args.epochs, width=args.width)
        if args.net:
            torch.save({name: value.cpu() for name, value in net.state_dict().items()}, args.net)
    f = classifier_of(net)
    others = test_y != TARGET
    clean, (triggered, where) = test_x[others], with_trigger(test_x[others], seed=2)
    fooled = f.probabilities(triggered).argmax(dim=1) == TARGET
    right = f.probabilities(clean).argmax(dim=1) == test_y[others]
    print(
        f"accuracy {accuracy(f, test_x, test_y):.3f} without the patch; with it {float(fooled.float().mean()):.1%} of other "
        f"things are airplanes ({int((fooled & right).sum())} of them read rightly without)",
        flush=True,
    )
    chosen = (fooled & right).nonzero()[: args.images, 0]
    return f, triggered[chosen], where[chosen]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=None, help="the folder cifar-10-batches-py")
    parser.add_argument("--net", type=Path, default=None, help="weights of the net with a trigger")
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--metrics", default=METRICS)
    parser.add_argument("--images", type=int, default=50)
    parser.add_argument("--labels", type=int, default=4, help="judged for each image, most probable first")
    add_training(parser, epochs=10)
    args = parser.parse_args()
    began = time.monotonic()
    if args.data:
        f, x, evidence = trigger_net(args)
        wrong = TARGET
    else:
        f, wrong = planted_classifier(), 1
        x, evidence = planted_images(args.images)
        evidence = evidence[:, wrong : wrong + 1]
    if len(x) == 0:
        raise SystemExit("the trigger fools the net on no image that it reads rightly without; train longer")
    methods = args.methods.split(",")
    if not args.data:  # its filters are silent on what layers are looked for with
        methods = ["grad-cam:layer=1" if method == "grad-cam" else method for method in methods]
    found = pm.evaluate(
        f, x, methods=methods, labels=f"top{args.labels}", metrics=args.metrics.split(","), keep_maps=None
    )
    truth = {}
    for result in found.results:
        place = (found.labels == wrong).nonzero()
        own = found.maps_of(result).to(evidence.device)
        truth[result.name] = float(hits(own[place[:, 0], place[:, 1]][:, None], evidence[place[:, 0]]).mean())
    scores = [s.name for s in found.results[0].scores]
    rows = [
        [r.name, number(truth[r.name]), *(number(s.value) for s in r.scores)]
        for r in sorted(found.results, key=lambda r: -truth[r.name])
    ]
    print(aligned(["method", "hit", *scores], rows))
    agreement = {
        s.name: notices({r.name: r.score(s.name).value for r in found.results}, truth, s.higher_is_better)
        for s in found.results[0].scores
    }
    print("\nagreement with the truth (Spearman, methods ranked by their hits):")
    for name, value in sorted(agreement.items(), key=lambda pair: -pair[1] if pair[1] == pair[1] else 2):
        print(f"  {name:28} {value:+.2f}")
    print(f"{len(x)} images, {time.monotonic() - began:.0f} s on {args.device}")
    if args.out:
        output_file(args.out).write_text(json.dumps({"hit": truth, "agreement": agreement, "images": len(x)}))


if __name__ == "__main__":
    run_script(main)
