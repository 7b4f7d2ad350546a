"""A trained masker as a file: weights in safetensors, and in its header what it was trained on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.files import atomic_write
from proofmap.methods.maskers.features import Scale, module_of
from proofmap.methods.maskers.learned import Learned
from proofmap.methods.maskers.objective import Recipe

PACKAGED = Path(__file__).parent / "weights"
"""Maskers that come with the package."""
_HEADER = "proofmap-masker"
_COUNTER = "num_batches_tracked"


@dataclass(frozen=True)
class Header:
    """What a masker is and what it was trained on.

    Attributes:
        recipe: how it was trained.
        model: the net's name.
        net: a digest of the net, see :func:`net_digest`.
        label_set: the labels that counted, or ``"all"``.
        scales: the layers that it reads, the coarsest first.
        data: the dataset's title.
        images: how many of its images.
        content: a digest of those images and their labels.
        made: how many steps were made; fewer than the recipe's where time was limited.
        learned: what its maps look like.
        present: the labels that occurred in the data; of others a masker that is told the label knows nothing.

    Headers are equal where maskers are trained in the same way from the same; what came of it does not count. Files of earlier versions
    have none of the last three.
    """

    recipe: Recipe
    model: str
    net: str
    label_set: str | list[int]
    scales: tuple[Scale, ...]
    data: str
    images: int
    content: str
    made: int | None = field(default=None, compare=False)
    learned: Learned | None = field(default=None, compare=False)
    present: list[int] | None = field(default=None, compare=False)

    def text(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def parse(cls, text: str) -> Header:
        found: dict[str, Any] = json.loads(text)
        recipe = found.pop("recipe")
        recipe["layers"] = tuple(recipe["layers"])
        scales = tuple(
            Scale(scale["layer"], scale["channels"], (scale["size"][0], scale["size"][1]))
            for scale in found.pop("scales")
        )
        learned = found.pop("learned", None)
        return cls(
            recipe=Recipe(**recipe),
            scales=scales,
            learned=None if learned is None else Learned(**learned),
            **found,
        )

    def says_the_same(self, text: str) -> bool:
        """Whether the text of a header, of any version, is that of a masker trained in the same way from the same."""
        try:
            return Header.parse(text) == self
        except (KeyError, TypeError, ValueError):
            return False


def net_digest(classifier: Classifier) -> str:
    """A digest of the net's weights and its input; of which labels count, and how the net is wrapped, it knows nothing.

    Values count as float16, so that a net in half precision is the same net.
    """
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr((classifier.inputs.shape, classifier.mean, classifier.std)).encode())
    net = module_of(classifier)
    for name, tensor in [*net.named_parameters(), *net.named_buffers()]:
        if not name.endswith(_COUNTER):
            digest.update(str(tuple(tensor.shape)).encode())
            digest.update(tensor.detach().to("cpu", torch.float16).contiguous().numpy().tobytes())
    return digest.hexdigest()


def write_masker(path: Path, net: nn.Module, header: Header) -> None:
    """Kernels in float16, vectors in float32; all of it or nothing."""
    tensors = {
        name: (tensor.half() if tensor.ndim > 1 else tensor).detach().cpu().contiguous()
        for name, tensor in net.state_dict().items()
        if not name.endswith(_COUNTER)
    }
    write_tensors(path, tensors, header.text())


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: str) -> None:
    with atomic_write(path) as part:
        save_file(dict(tensors), part, {_HEADER: header})


def read_header(path: Path) -> str:
    """The header's text, or an error that says what the file is not."""
    if not path.is_file():
        raise InputError(f"there is no masker {str(path)!r}; make one with proofmap train-masker")
    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get(_HEADER)
    except Exception as error:  # SafetensorError for the header, OSError and others for the rest
        raise InputError(
            f"{str(path)!r} cannot be read as safetensors ({error}); it is damaged or not whole: remove it, or name another file"
        ) from None
    if text is None:
        raise InputError(f"{str(path)!r} holds no masker; they are made by proofmap train-masker")
    return str(text)


def read_masker(path: Path) -> tuple[Header, dict[str, Tensor]]:
    """What a masker was trained on, and its weights in float32."""
    text = read_header(path)
    try:
        header = Header.parse(text)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"the masker {str(path)!r} is of another version of Proofmap ({error}); train it again"
        ) from None
    return header, {name: tensor.float() for name, tensor in load_file(path).items()}


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
