"""The file of a trained masker: its weights as safetensors, and a header that says how and on what it was trained."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.files import atomic_write, parse_json
from proofmap.methods.maskers.nets import Scale
from proofmap.methods.maskers.objective import TrainingRecipe
from proofmap.methods.method import ReadyMethod
from proofmap.methods.probe import module_of

IMAGES = 16
"""Maximum number of images in the summary of a masker's maps."""
_FLAT, _EQUAL, _LARGE = 1e-3, 0.98, 100.0
_MANY = 0.5


class MaskerWarning(UserWarning):
    """The masker seems to have learned nothing, or a label was not in its training data."""


@dataclass(frozen=True)
class MapSummary:
    """Statistics of the maps of the two likeliest labels of a few training images.

    They cost little and show failures that are otherwise silent. They do not measure how good the maps are as proofs; metrics do.

    Attributes:
        images: number of images.
        mean: the mean of all values of the maps.
        spread: the standard deviation over an image's positions, averaged over maps.
        flat: the share of maps with a deviation below .001; masks lie in [0, 1], maps of belief maskers have a deviation of 2.
        correlation: |r| between the maps of an image's two labels, averaged over images. For flat maps r is 1 if both are flat, and
            0 if one is. None if one map serves all labels, or if there is one label.
        equal: the share of images with r > .98; None in the same cases.
    """

    images: int
    mean: float
    spread: float
    flat: float
    correlation: float | None = None
    equal: float | None = None

    def __str__(self) -> str:
        """The numbers in one line.

        >>> print(MapSummary(16, 0.1, 0.213, 0.0, 0.62, 0.0))
        maps of 16 images of the data: mean 0.1, spread 0.213, |correlation| of the two likeliest labels 0.62
        """
        text = f"maps of {self.images} images of the data: mean {self.mean:.3g}, spread {self.spread:.3g}"
        if self.correlation is None:
            return text
        return f"{text}, |correlation| of the two likeliest labels {self.correlation:.3g}"

    def problems(self) -> list[str]:
        """Suspicious findings, one sentence each.

        >>> MapSummary(16, 0.005, 0.0001, 1.0).problems()
        ['its maps are constant on most images, and rank nothing']
        """
        found = []
        if self.flat > _MANY:
            found.append("its maps are constant on most images, and rank nothing")
        if self.equal is not None and self.equal > _MANY:
            found.append(
                "its maps of the two likeliest labels are equal on most images, and do not depend on the label"
            )
        if self.spread > _LARGE:
            found.append(f"its maps are very large (spread {self.spread:.3g}): the training diverged")
        return found


def summarise_maps(ready: ReadyMethod, images: Tensor) -> MapSummary:
    """Statistics of the maps that a masker's method makes for images ``(N, C, H, W)``."""
    classifier = ready.classifier
    labels = classifier.top(images, min(2, len(classifier.label_set)))
    maps = ready(images, labels).flatten(2).double()
    deviation = maps.std(dim=2, correction=0)
    flat = deviation < _FLAT
    found = MapSummary(
        len(images), _short(maps.mean()), _short(deviation.mean()), _short(flat.double().mean())
    )
    if ready.label_free or labels.shape[1] < 2:
        return found
    standard = (maps - maps.mean(dim=2, keepdim=True)) / deviation[..., None].clamp_min(_FLAT)
    r = standard.prod(dim=1).mean(dim=1).where(~flat.any(dim=1), flat.all(dim=1).double())
    return replace(found, correlation=_short(r.abs().mean()), equal=_short((r > _EQUAL).double().mean()))


def _short(value: Tensor) -> float:
    """The number rounded to four digits, so that storing and reading do not change it."""
    return float(f"{float(value):.4g}")


PACKAGED = Path(__file__).parent / "weights"
"""The folder of the maskers that come with the package."""
_HEADER = "proofmap-masker"
_COUNTER = "num_batches_tracked"


@dataclass(frozen=True)
class Header:
    """The description of a masker: its kind, and the net and data it was trained on.

    Attributes:
        recipe: how it was trained.
        model: the net's name.
        net: a digest of the net, see :func:`net_digest`.
        label_set: the labels that counted, or ``"all"``.
        scales: the layers that it reads, the coarsest first.
        data: the dataset's title.
        images: number of images of the dataset that were used.
        content: a digest of those images and their labels.
        made: number of steps made; fewer than the recipe's if time was limited.
        learned: statistics of the masker's maps.
        present: the labels in the data; a masker that takes a label knows nothing about other labels.

    Two headers are equal if the maskers were trained in the same way from the same data. The last three attributes are not compared.
    """

    recipe: TrainingRecipe
    model: str
    net: str
    label_set: str | list[int]
    scales: tuple[Scale, ...]
    data: str
    images: int
    content: str
    made: int | None = field(default=None, compare=False)
    learned: MapSummary | None = field(default=None, compare=False)
    present: list[int] | None = field(default=None, compare=False)

    def text(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def parse(cls, text: str) -> Header:
        found: dict[str, Any] = parse_json(text)
        recipe = found.pop("recipe")
        recipe["layers"] = tuple(recipe["layers"])
        scales = tuple(
            Scale(scale["layer"], scale["channels"], (scale["size"][0], scale["size"][1]))
            for scale in found.pop("scales")
        )
        learned = found.pop("learned", None)
        return cls(
            recipe=TrainingRecipe(**recipe),
            scales=scales,
            learned=None if learned is None else MapSummary(**learned),
            **found,
        )

    def matches(self, text: str) -> bool:
        """Whether the header describes a masker that was trained in the same way from the same data."""
        try:
            return Header.parse(text) == self
        except (KeyError, TypeError, ValueError):
            return False


def net_digest(classifier: Classifier) -> str:
    """A digest of the net's weights and the shape and normalisation of its input. It does not depend on the label set or the
    wrapper.

    Values are rounded to float16, so a net in half precision is the same net.
    """
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr((classifier.inputs.shape, classifier.mean, classifier.std)).encode())
    net = module_of(classifier, "a masker")
    for name, tensor in [*net.named_parameters(), *net.named_buffers()]:
        if not name.endswith(_COUNTER):
            digest.update(str(tuple(tensor.shape)).encode())
            digest.update(tensor.detach().to("cpu", torch.float16).contiguous().numpy().tobytes())
    return digest.hexdigest()


def write_masker(path: Path, net: nn.Module, header: Header) -> None:
    """Write a masker and its header to a file, atomically. Kernels are stored in float16 and vectors in float32."""
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
    """The text of a file's header."""
    if not path.is_file():
        raise InputError(f"there is no masker {str(path)!r}; make one with proofmap train-masker")
    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get(_HEADER)
    except Exception as error:  # SafetensorError for the header, OSError and others for the rest
        raise InputError(
            f"{str(path)!r} cannot be read as safetensors ({error}); it is damaged or incomplete: remove it, or name another file"
        ) from None
    if text is None:
        raise InputError(f"{str(path)!r} holds no masker; they are made by proofmap train-masker")
    return str(text)


def read_masker(path: Path) -> tuple[Header, dict[str, Tensor]]:
    """A masker's header, and its weights in float32."""
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
