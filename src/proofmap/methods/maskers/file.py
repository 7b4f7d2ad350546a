"""The file of a trained masker: its weights as safetensors, and a header that says how and on what it was trained.

``benchmarks/maskers/train.py`` writes such files.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.files import parse_json
from proofmap.methods.maskers.nets import Scale
from proofmap.methods.probe import module_of


class MaskerWarning(UserWarning):
    """A label was not in a masker's training data."""


PACKAGED = Path(__file__).parent / "weights"
"""The folder of the maskers that come with the package."""
HEADER = "proofmap-masker"
COUNTER = "num_batches_tracked"
"""What the names of batch-norm's counters end with. Maskers' files do not have them."""


@dataclass(frozen=True)
class Header:
    """The description of a masker.

    Attributes:
        kind: ``dabkowski``, ``phang-ca`` or ``phang-fix``.
        width: the channels of the masker.
        layers: the layers that were named to be read; empty if they were found.
        scales: the layers that it reads, the coarsest first.
        model: the name of the net that it was trained on.
        net: a digest of that net, see :func:`net_digest`.
        data: the dataset's title.
        images: number of images of the dataset that were used.
        present: the labels in the data; a masker that takes a label knows nothing about other labels. None if the file does not say.
    """

    kind: str
    width: int
    layers: tuple[str, ...]
    scales: tuple[Scale, ...]
    model: str
    net: str
    data: str
    images: int
    present: list[int] | None

    @classmethod
    def parse(cls, text: str) -> Header:
        found: dict[str, Any] = parse_json(text)
        recipe = found["recipe"]
        return cls(
            kind=recipe["kind"],
            width=recipe["width"],
            layers=tuple(recipe["layers"]),
            scales=tuple(
                Scale(s["layer"], s["channels"], (s["size"][0], s["size"][1])) for s in found["scales"]
            ),
            model=found["model"],
            net=found["net"],
            data=found["data"],
            images=found["images"],
            present=found.get("present"),
        )


def net_digest(classifier: Classifier) -> str:
    """A digest of the net's weights and the shape and normalisation of its input. It does not depend on the label set or the
    wrapper.

    Values are rounded to float16, so a net in half precision is the same net.
    """
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr((classifier.inputs.shape, classifier.mean, classifier.std)).encode())
    net = module_of(classifier, "a masker")
    for name, tensor in [*net.named_parameters(), *net.named_buffers()]:
        if not name.endswith(COUNTER):
            digest.update(str(tuple(tensor.shape)).encode())
            digest.update(tensor.detach().to("cpu", torch.float16).contiguous().numpy().tobytes())
    return digest.hexdigest()


def read_header(path: Path) -> Header:
    """The header of a masker's file."""
    if not path.is_file():
        raise InputError(
            f"there is no masker {str(path)!r}; name the file of one as weights=FILE.safetensors"
        )
    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get(HEADER)
    except Exception as error:  # SafetensorError for the header, OSError and others for the rest
        raise InputError(
            f"{str(path)!r} cannot be read as safetensors ({error}); it is damaged or incomplete: remove it, or name another file"
        ) from None
    if text is None:
        raise InputError(f"{str(path)!r} holds no masker; name a file that benchmarks/maskers/train.py wrote")
    try:
        return Header.parse(str(text))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"the masker {str(path)!r} is of another version of Proofmap ({error}); train it again"
        ) from None


def read_weights(path: Path) -> dict[str, Tensor]:
    """A masker's weights in float32."""
    return {name: tensor.float() for name, tensor in load_file(path).items()}


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
