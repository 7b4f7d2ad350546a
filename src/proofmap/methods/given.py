"""Maps that exist already, as people have them: arrays of any library, in memory or in files, judged like those of any method."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal
from zipfile import BadZipFile

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.files import suggest_path
from proofmap.core.inputs import Inputs
from proofmap.core.inputs.frames import library_of
from proofmap.core.labels import LabelRule
from proofmap.core.ranking import as_maps
from proofmap.core.text import counted
from proofmap.methods.by_columns import by_columns
from proofmap.methods.from_function import given_maps
from proofmap.methods.method import Cost, Method
from proofmap.plugins.failures import reason_of
from proofmap.plugins.settings import required, setting
from proofmap.session import Session

_SUFFIXES = (".npy", ".npz", ".safetensors")
_NAMES = {"feature_names": ("columns", "feature_names"), "output_names": ("classes", "output_names")}
"""The arrays of a file that name the columns and the classes of the others."""
_BESIDE = {"base_values", "expected_value", *(key for keys in _NAMES.values() for key in keys)}
_SCANNED = 64  # images whose maps are looked at together


class GivenMaps(Method):
    """Maps that exist already. They are handed over with the images, and belong to these images and labels alone."""

    name = "given"
    description = "maps that exist already"
    signed = True
    array: str = required(
        "the name of an array that is handed over with the images, or of one in a file", main=True
    )
    file: str = setting("", "the file of the array: .npy, .npz or .safetensors")
    key: str = setting("", "the name of the array in the file, if it has names")

    @staticmethod
    def in_files(place: str) -> list[GivenMaps]:
        """The arrays of maps in a file, or in the files of a folder, as methods: ``FILE``, ``FOLDER``, or ``NAME=FILE`` for another name."""
        name, equals, file = ("", "", place) if Path(place).exists() else place.partition("=")
        path = Path(file if equals else place)
        files = (
            sorted(found for found in path.iterdir() if found.suffix in _SUFFIXES)
            if path.is_dir()
            else [path]
        )
        if not path.exists() or (path.is_file() and path.suffix not in _SUFFIXES) or not files:
            raise InputError(
                f"there are no maps at {path}: give a file ({', '.join(_SUFFIXES)}) or a folder of such files.{suggest_path(path)}"
            )
        found = []
        for each in files:
            with _readable(str(each)):
                if each.suffix == ".safetensors":
                    with safe_open(each, framework="pt") as opened:
                        keys = list(opened.keys())
                else:
                    loaded = np.load(each, mmap_mode="r", allow_pickle=False)
                    keys = (
                        [key for key in loaded.files if key not in _BESIDE] if each.suffix == ".npz" else [""]
                    )
            found += [(key or each.stem, str(each), key) for key in keys]
        if name and len(found) > 1:
            return [GivenMaps(array=f"{name}-{key}", file=file, key=key) for _, file, key in found]
        return [GivenMaps(array=name or title, file=file, key=key) for title, file, key in found]

    @staticmethod
    def are_in(thing: object) -> bool:
        """Whether an object is an array of maps: a tensor, an array, a list of them, or an Explanation of SHAP."""
        return (
            isinstance(thing, (Tensor, np.ndarray, list, tuple))
            or hasattr(thing, "base_values")
            or library_of(thing) is not None
        )

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        raise InputError(
            f"only the maps of {self.array!r} are known, for the images and labels that were judged, and they are needed for others: by a metric that "
            "runs the method again, or a control. Leave that out, or give a function that makes the maps"
        )

    def load(self) -> Any:
        """The array in the file, with the names of its columns and classes if they are there. That of a ``.npy`` file stays on disk until its
        parts are read."""
        with _readable(self.file):
            if self.file.endswith(".safetensors"):
                return load_file(self.file)[self.key]
            loaded = np.load(self.file, mmap_mode="r", allow_pickle=False)
            if not self.key:
                return loaded
            names = {
                what: loaded[key] for what, keys in _NAMES.items() for key in keys if key in loaded.files
            }
            return SimpleNamespace(values=loaded[self.key], **names) if names else loaded[self.key]
        raise AssertionError

    def settings(self) -> dict[str, object]:
        """The name, and the content of the file."""
        if not self.file:
            return {"method": self.name, "array": self.array}
        with _readable(self.file), open(self.file, "rb") as file:
            digest = hashlib.file_digest(file, "blake2b").hexdigest()[:16]
        return {"method": self.name, "file": Path(self.file).name, "key": self.key, "digest": digest}

    def record(self, session: Session) -> dict[str, object]:
        read = session.memo((self, "read"), str)
        return {**self.settings(), **({"read": read} if read else {})}

    def cost(self, labels: int, session: Session | None = None) -> Cost:
        return Cost()

    def _title_name(self) -> str:
        return self.array

    def changes(self) -> list[str]:
        """Empty: the name says it."""
        return []


@contextmanager
def _readable(file: str) -> Iterator[None]:
    """A context in which a file of maps is read; if it cannot be, the error says so."""
    try:
        yield
    except (OSError, ValueError, EOFError, KeyError, BadZipFile, SafetensorError) as error:
        raise InputError(f"{file} cannot be read as maps: {reason_of(error)}") from error


@dataclass(frozen=True, eq=False)
class Given:
    """The maps of all images, checked by :func:`as_given`, and read a few at a time.

    Attributes:
        array: ``(N, ...)``.
        who: what messages call the maps.
        form: what one map is: ``positions``, or an attribution of the ``shape`` of one input, or of that shape with its channels ``last``.
        place: the axis of the labels: ``none``, ``first`` after the images, or ``last``.
        by_output: whether that axis has a map for each output of the net, in their order, from which those of the labels are taken.
        words: how the maps were read, if it must be said.
    """

    array: Tensor | np.ndarray
    who: str
    inputs: Inputs
    form: Literal["positions", "shape", "last"]
    place: Literal["none", "first", "last"]
    by_output: bool
    words: str

    def read(self, images: Sequence[int], labels: Tensor) -> Tensor:
        """The maps ``(n, L, *positions)`` of the images with these numbers, for their labels ``(n, L)``."""
        rows = np.asarray(images)
        if self.by_output:
            wanted = labels.clamp_min(0).cpu().numpy()
            image, output = _as_index(rows[:, None], self.array), _as_index(wanted, self.array)
            first = self.place == "first"
            maps = as_maps(self.array[image, output] if first else self.array[image, ..., output], self.who)
        else:
            maps = as_maps(self.array[_as_index(rows, self.array)], self.who)
            maps = {"none": maps[:, None], "first": maps, "last": maps.movedim(-1, 1)}[self.place]
            if maps.shape[1] < labels.shape[1]:
                raise InputError(
                    f"{self.who} have {counted(maps.shape[1], 'map')} for each {self.inputs.singular}, but {labels.shape[1]} labels are judged; "
                    "give a map for each label"
                )
            maps = maps[:, : labels.shape[1]]
        if self.form == "last":
            maps = maps.movedim(-1, 2)
        maps = maps if self.form == "positions" else self.inputs.merged_channels(maps)
        return given_maps(maps, self.inputs, self.who)


def _as_index(numbers: Any, array: Tensor | np.ndarray) -> Any:
    return torch.from_numpy(numbers).to(array.device) if isinstance(array, Tensor) else numbers


def as_given(maps: Any, name: str, net: Classifier, count: int, rule: LabelRule) -> Given:
    """The border for maps: what a person hands over for ``count`` images whose labels ``rule`` chooses.

    N is the number of images, L that of the labels judged of each image or of all outputs of the net, and C that of channels:

    - ``(N, *positions)``: one map an image, if each has one label;
    - ``(N, L, *positions)``: ``maps[n, k]`` is the map of ``labels[n, k]``, or of output k if there is one for each output and the labels are
      chosen by a rule or are fewer;
    - attributions of the shape of the input, ``(N, C, H, W)`` or ``(N, H, W, C)``, also with the labels first or last, as SHAP has
      them: channels are summed;
    - ``(N, columns, L)``: SHAP's order for tables;
    - any of the first two on a coarser grid: they are enlarged linearly, like class activation maps;
    - of a table, also a data frame, and the local scores of an EBM: columns and classes that have names are ordered by them, and what was made
      of one column, such as its one-hot columns, is summed: see :mod:`proofmap.methods.by_columns`.
    """
    who, inputs, outputs = f"maps[{name!r}]", net.inputs, len(net.names)
    maps, named, of_shap = by_columns(maps, net, count, who)
    if not isinstance(maps, (Tensor, np.ndarray)):
        maps = as_maps(maps, f"{who} must be given")
    if count == 1 and maps.ndim and len(maps) != 1:
        maps = maps[None]  # the map of a single image
    if not maps.ndim or len(maps) != count:
        raise InputError(
            f"{who} have the shape {tuple(maps.shape)}, but there are {counted(count, inputs.singular)}; give one entry for each "
            f"{inputs.singular}, in their order"
        )
    labels = _columns(rule, net)
    layout = _layout(tuple(maps.shape[1:]), inputs, labels, outputs, of_shap)
    if layout is None:
        raise InputError(
            f"{who} have the shape {tuple(maps.shape)}. {_advice(count, inputs, labels, outputs, rule)}"
        )
    form, place, size = layout
    if form == "shape" and place == "none" and maps.shape[1] == outputs > 1:
        raise InputError(
            f"{who} have the shape {tuple(maps.shape)}, and {outputs} is the number of channels and of the net's outputs; write maps.sum(1) for "
            "attributions, or choose the maps of the labels: maps[range(N), labels]"
        )
    by_output = (
        place != "none" and size == outputs and not (size == labels and rule.kind in ("list", "given"))
    )
    grid = tuple(maps.shape[2 if place == "first" else 1 :])
    words = (
        [f"a map for each of {size} {'outputs' if by_output else 'labels'}"]
        if place == "last" or by_output
        else []
    )
    if form != "positions":
        words.append("attributions whose channels are summed")
    elif place != "last" and grid != inputs.positions:
        words.append(f"maps enlarged from {' x '.join(map(str, grid))}")
    equal = _scan(maps, who, inputs)
    read = [*named, *([f"{tuple(maps.shape)} read as {', '.join(words)}"] if words else [])]
    if equal:
        read.append(f"of {equal} of {counted(count, inputs.singular)} have one value everywhere")
    return Given(maps, who, inputs, form, place, by_output, "; ".join(read))


def _columns(rule: LabelRule, net: Classifier) -> int | None:
    """The number of labels of each image under a rule; 0 if it depends on the image, None if on the true labels."""
    if rule.kind == "true":
        return None
    if rule.kind == "top":
        return 0 if rule.wrong else min(int(rule.number), len(net.label_set))
    return {"list": len(rule.indices), "given": max(map(len, rule.rows), default=0)}.get(rule.kind, 0)


def _layout(
    shape: tuple[int, ...], inputs: Inputs, labels: int | None, outputs: int, of_shap: bool
) -> tuple[Any, Any, int] | None:
    """The form, the place of labels and their number, for the axes after the images: the first that fits; None if none does."""
    own, whole = inputs.positions, inputs.shape
    forms = {"positions": own}
    if whole != own:
        forms |= {"shape": whole, "last": (*whole[1:], whole[0])}
    sizes = [1, outputs] if labels is None else [size for size in (labels, outputs) if size]
    several = [
        (place, size) for size in sizes for place in (("last", "first") if of_shap else ("first", "last"))
    ]
    if labels in (1, None):
        several.insert(0, ("none", 1))
    for (place, size), (form, axes) in product(several, forms.items()):
        if shape == {"none": axes, "first": (size, *axes), "last": (*axes, size)}[place]:
            return form, place, size
    for place, size in several if inputs.has_neighbours else ():
        grid = shape[1:] if place == "first" else shape
        fits = len(grid) == len(own) and all(0 < few <= n for few, n in zip(grid, own, strict=True))
        if fits and (place == "none" or (place == "first" and shape[0] == size)):
            return "positions", place, size
    return None


def _advice(count: int, inputs: Inputs, labels: int | None, outputs: int, rule: LabelRule) -> str:
    """The shapes that would do."""
    own, whole, item = inputs.positions, inputs.shape, inputs.singular
    shapes, one = [f"{(count, outputs, *own)}, a map for each output of the net"], ""
    if labels in (1, None):
        shapes.insert(0, f"{(count, *own)}, one map for each {item}")
        if whole != own:
            shapes.append(f"{(count, *whole)}, attributions whose channels are summed")
    else:
        one = f" The labels {rule} are several of each {item}: if there is one map for each {item}, say which label it is of, as in labels=y, a tensor or array ({count},)."
        if labels:
            shapes.insert(0, f"{(count, labels, *own)}, a map for each label")
    shapes.append(f"{(count, *(own if whole == own else (*whole[1:], whole[0])), outputs)}, as SHAP has them")
    coarser = f" The grid {own} may be coarser." if inputs.has_neighbours else ""
    return f"These would do: {'; '.join(shapes)}.{coarser}{one}"


def _scan(maps: Tensor | np.ndarray, who: str, inputs: Inputs) -> int:
    """The number of images whose maps have one value everywhere. Raises if values are not finite, or if all images are such."""
    equal = 0
    for start in range(0, len(maps), _SCANNED):
        values = as_maps(maps[start : start + _SCANNED], f"{who} must be given").flatten(1)
        low, high = values.aminmax(dim=1)
        bad = ~(low.isfinite() & high.isfinite())
        if bool(bad.any()):
            k = int(bad.nonzero()[0])
            wrong = int((~values[k].isfinite()).sum())
            raise InputError(
                f"{who} have NaN or infinity: {wrong} of {values.shape[1]} values of {inputs.singular} {start + k}, the first such; give finite numbers"
            )
        equal += int((low == high).sum())
    if len(maps) and equal == len(maps):
        raise InputError(
            f"{who} have one value everywhere, {float(low[0]):g} for the last {inputs.singular}s: such maps put the {inputs.position_noun} in no order"
        )
    return equal
