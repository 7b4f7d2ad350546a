"""Class activation maps for all labels: ours beside pytorch-grad-cam looped over images and labels, in one run.

    python benchmarks/cam_speed.py [--images 16] [--labels 10] [--weights FILE] [--skip-score-cam]

A CIFAR ResNet-20, every label of every picture; the maps of both are compared, and the ratio of their times is printed.
pytorch-grad-cam takes one label per picture and call. Looped over pictures and labels it is called as its examples do;
looped over labels alone it is given all pictures at once, which is its fastest use. Where it is not installed, ours is timed alone.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import functools
import io

import numpy as np
import torch
from _timing import timed

import proofmap as pm
from proofmap.cli import run_script
from proofmap.session import Session


def import_grad_cam() -> object | None:
    """pytorch-grad-cam, also where torchvision's compiled half does not fit this torch; None where it is not installed."""
    try:
        import pytorch_grad_cam
    except ImportError:
        return None
    except RuntimeError:
        import sys

        for name in [
            name for name in sys.modules if name.split(".")[0] in ("torchvision", "pytorch_grad_cam")
        ]:
            del sys.modules[name]
        import_grad_cam.kept = torch.library.Library("torchvision", "DEF")  # type: ignore[attr-defined]
        for operator in ("nms", "qnms"):
            schema = f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            import_grad_cam.kept.define(schema)  # type: ignore[attr-defined]
        import pytorch_grad_cam
    return pytorch_grad_cam


def agreement(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The smallest correlation of any two maps of the same pair; maps that are zero everywhere are passed over."""
    pairs = zip(ours.reshape(-1, ours[0, 0].size), theirs.reshape(-1, ours[0, 0].size), strict=True)
    return min(np.corrcoef(a, b)[0, 1] for a, b in pairs if a.std() > 0 and b.std() > 0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--labels", type=int, default=10)
    parser.add_argument("--weights", default=None, help="of cifar10-resnet20; random when left out")
    parser.add_argument("--rounds", type=int, default=5, help="of ours; the fastest counts")
    parser.add_argument("--skip-score-cam", action="store_true")
    args = parser.parse_args()
    library = import_grad_cam()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    f = pm.load_classifier(
        "cifar10-resnet20", weights=args.weights, pretrained=bool(args.weights), device=device
    )
    images = torch.rand(args.images, 3, 32, 32, generator=torch.Generator().manual_seed(0)).to(device)
    labels = torch.arange(args.labels, device=device).expand(args.images, -1)
    mean, std = (torch.tensor(v, device=device).view(1, 3, 1, 1) for v in (f.mean, f.std))
    x, net = (images - mean) / std, copy.deepcopy(f.net).requires_grad_(True)
    print(f"{f.name} on {device}, {args.images} images x {args.labels} labels, torch {torch.__version__}")

    methods = [("grad-cam", "GradCAM"), ("grad-cam++", "GradCAMPlusPlus"), ("layer-cam", "LayerCAM")]
    if not args.skip_score_cam:
        methods.append(("score-cam:preset=pytorch-grad-cam", "ScoreCAM"))
    for name, theirs in methods:
        make = functools.partial(Session(f).maps, pm.make_method(name), images, labels)
        make()
        runs = [timed(lambda make=make: make().cpu().numpy()) for _ in range(args.rounds)]
        maps, ours = min(runs, key=lambda run: run[1])
        if library is None:
            print(f"{name}: ours {ours:.3f} s; pytorch-grad-cam is not here")
            continue
        from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget

        cam = getattr(library, theirs)(model=net, target_layers=[net.layer3])

        def whole(cam: object = cam) -> np.ndarray:
            targets = [[ClassifierOutputTarget(int(a))] * len(x) for a in labels[0]]
            return np.stack([cam(x, target) for target in targets], axis=1)

        def single(cam: object = cam) -> np.ndarray:
            rows = [[cam(one[None], [ClassifierOutputTarget(int(a))])[0] for a in labels[0]] for one in x]
            return np.array(rows)

        with contextlib.redirect_stderr(io.StringIO()):  # Score-CAM draws a progress bar for every call
            found, batched = timed(whole)
            looped = timed(single)[1] if theirs != "ScoreCAM" else batched
        cam.activations_and_grads.release()
        beside = (
            "" if theirs == "ScoreCAM" else f"; looped over labels {batched:.2f} s, {batched / ours:.0f}x"
        )
        print(
            f"{name}: ours {ours:.3f} s; {theirs} looped {looped:.2f} s, {looped / ours:.0f}x{beside}; "
            f"smallest correlation {agreement(maps, found):.6f}"
        )


if __name__ == "__main__":
    run_script(main)
