"""Random images as backgrounds: the paper's distractors."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs, Pictures, TextInputs
from proofmap.core.text import counted
from proofmap.fills.fill import FILLS, Fill, ReadyFill
from proofmap.fills.simple import Noise
from proofmap.plugins.settings import Plugin, setting, settings_of

if TYPE_CHECKING:
    from proofmap.data.pool import Part, Pool

Crop = Literal["random", "none"]
OWN, SAMPLES = "own", "samples"
AnyPlugin = TypeVar("AnyPlugin", bound=Plugin)


@FILLS.register
@dataclass(frozen=True, kw_only=True, eq=False)
class Images(Fill):
    """Random images: the paper's distractors, drawn with replacement from a fixed pool.

    ``source`` is one of: ``"own"``, the other images of the study, with sample photographs or noise if these are few
    (:mod:`proofmap.data.distractors`); ``"samples"``, crops of the photographs inside scikit-image; a folder; a list of files; an
    array or tensor of images; or a dataset, as an object (items may be (image, label)) or as text (``cifar10:FOLDER[train]``). An
    image is never its own distractor. Own images are used as the net sees them. For other sources, ``crop="random"`` makes random
    resized crops and flips, as the paper's code prepared its pool; with ``crop="none"``, images that already have the input's size
    are used unchanged. ``size`` is the number of pictures in the pool. For inputs other than pictures, the source is ``"own"``, or
    an array or tensor ``(M, *shape)``.

    ``part`` separates learning from judging: methods draw from one half of the sources and metrics from the other, whatever else is in the
    study. The content of a source decides its half (:func:`proofmap.data.pool.in_part`). The record says which part was drawn from: ``all``
    if there are too few sources.
    """

    name = "images"
    description = "random images from a pool: the paper's distractors"
    random = True
    revision = 3
    _pools: ClassVar[Pools | None] = None
    """The pools of the session that this fill is bound to; None outside a session."""
    source: Any = setting(
        OWN,
        "where images come from: own (the study's other images), samples (crops of scikit-image's photographs), a folder, or a dataset",
        main=True,
    )
    size: int = setting(256, "number of pictures in the pool from which backgrounds are drawn", least=1)
    crop: Crop = setting(
        "random",
        "random: pictures are randomly cropped, resized and flipped; none: resized and cropped in the middle; own images are used as the net sees them",
    )
    seed: int = setting(0, "seed for the choice of pictures and for the random crops")
    part: Literal["auto", "all", "learn", "judge"] = setting(
        "auto",
        "which sources are used; auto: in a study, one half for methods (learn) and the other for metrics (judge), else all",
    )

    @property
    def is_usual(self) -> bool:
        """Whether the source is the default ``own``, and no session has replaced it yet."""
        return isinstance(self.source, str) and self.source == OWN

    def prepare(self, classifier: Classifier) -> ReadyImages:
        from proofmap.data import distractors  # when it is first needed: datasets take a while to import

        inputs, device = classifier.inputs, classifier.device
        self.check_inputs(inputs)
        built = {} if self._pools is None else self._pools.built
        if (self, inputs, device) in built:
            return built[self, inputs, device]
        if isinstance(inputs, TextInputs) and inputs.whole is not None:
            found = self.prepare(classifier.at_length(inputs.whole))
            return dataclasses.replace(found, inputs=inputs)
        pool = self._pool(inputs)
        digest = hashlib.blake2b(np.ascontiguousarray(pool.pictures.numpy()).tobytes(), digest_size=8)
        own = self._draws_examples(inputs)
        noise = f"{counted(len(pool.marks), 'picture')} of noise, as there are no other {inputs.noun}"
        pool_text = (
            noise if self._is_noise(inputs) else distractors.describe_pool(pool, self.source, inputs.noun)
        )
        if own:
            pool_text = f"{len(pool.marks)} of the {inputs.noun} that describe the {inputs.position_noun}"
        if pool.part != self._asked_part:
            pool_text += ", too few to learn on one half and judge on the other"
        made = self._made(
            ReadyImages(
                self,
                inputs,
                pool.pictures.to(device),
                pool.marks.to(device),
                digest.hexdigest(),
                pool_text,
                pool.part,
            ),
            classifier,
        )
        if isinstance(inputs, TextInputs):
            made = ReadyTexts(**vars(made))
        built[self, inputs, device] = made
        return made

    def _made(self, ready: ReadyImages, classifier: Classifier) -> ReadyImages:
        """The prepared fill, given a plain one with its pool. A fill that does more than draw from the pool returns a subclass."""
        return ready

    def _draws_examples(self, inputs: Inputs) -> bool:
        """Whether the pool consists of the examples that came with the inputs. The examples are used if no pool was named, because
        a study may have few rows.
        """
        own = self.is_usual or type(self.source).__name__ == "Distractors"
        return own and inputs.examples is not None

    @property
    def _asked_part(self) -> Part:
        """The part set by :meth:`Pools.bind`. A fill that is used outside a session draws from all sources."""
        return "all" if self.part == "auto" else self.part

    def _pool(self, inputs: Inputs) -> Pool:
        from proofmap.data import distractors, pool

        part = self._asked_part
        if self._is_noise(inputs):
            return self._noise(inputs, part)
        options: dict[str, Any] = {"size": self.size, "crop": self.crop, "seed": self.seed, "part": part}
        source = inputs.examples if self._draws_examples(inputs) else self.source
        if isinstance(source, distractors.Distractors):
            return source.pool(inputs, **options)
        if isinstance(inputs, Pictures):
            return pool.build_pool(SAMPLES if self.is_usual else self.source, inputs, **options)
        if isinstance(source, (str, Path)):
            several = f"several {inputs.noun}, or " if self.is_usual else ""
            raise InputError(
                f"distractors for {inputs.noun} need {several}source = an array "
                f"(M, {', '.join(map(str, inputs.shape))}), not {self.source!r}; or use another fill"
            )
        values = inputs.check(torch.as_tensor(source).float())
        marks = pool.mark(values, inputs)
        part = part if pool.can_be_halved(marks) else "all"
        order = streams.permutations(torch.tensor(streams.key_of(self.seed, "pool order")), len(values))
        order = order[pool.in_part(marks[order], part)][: self.size]
        return pool.Pool(values[order], marks[order], part)

    def _is_noise(self, inputs: Inputs) -> bool:
        """Whether the pool is noise, because there are no other images and the net does not take photographs."""
        if self.is_usual:
            return isinstance(inputs, Pictures) and inputs.channels != 3
        return bool(getattr(self.source, "is_noise", False))

    def _noise(self, inputs: Inputs, part: Part) -> Pool:
        """Pictures of independent noise around the net's gray (:class:`~proofmap.fills.Noise`), different for each part."""
        from proofmap.data import pool

        keys = torch.tensor([streams.key_of(self.seed, "noise", part, i) for i in range(self.size)])
        values = Noise().backgrounds(inputs.blank(self.size), keys, inputs)
        pictures = (values * pool.LEVELS).round().to(torch.uint8)
        return pool.Pool(pictures, pool.mark(pictures / pool.LEVELS, inputs), part)

    def settings(self) -> dict[str, object]:
        return {**super().settings(), "source": self._source_text()}

    def _source_text(self) -> str:
        if isinstance(self.source, (str, Path)):
            return str(self.source)
        return OWN if type(self.source).__name__ == "Distractors" else type(self.source).__name__

    def changes(self) -> list[str]:
        """The changed settings, without a source that cannot be written as text, such as an array."""
        has_text = isinstance(self.source, (str, Path))
        return [part for part in super().changes() if has_text or not part.startswith("source=")]

    def _identity(self) -> tuple[object, ...]:
        plain = isinstance(self.source, (str, Path)) or (
            isinstance(self.source, tuple) and all(isinstance(item, (str, Path)) for item in self.source)
        )
        return (self.source if plain else id(self.source), self.size, self.crop, self.seed, self.part)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())


@dataclass(frozen=True, eq=False)
class ReadyImages(ReadyFill):
    """A prepared fill with its pool of images on the device: bytes for pictures, floats for other inputs.

    ``marks`` identify the sources of the pool by their content, and ``digest`` identifies the whole pool. ``pool_text`` describes
    the images in words. ``part`` is the part of the sources that the pool was drawn from.
    """

    pool: Tensor
    marks: Tensor
    digest: str
    pool_text: str
    part: Part

    def compute(self, images: Tensor, keys: Tensor) -> Tensor:
        drawn = self.pool[self._drawn(images, streams.random_words(keys, 1)[:, 0])].to(images.dtype)
        return drawn / 255.0 if self.pool.dtype == torch.uint8 else drawn

    def _drawn(self, images: Tensor, words: Tensor) -> Tensor:
        """The index of one picture of the pool for each image, chosen by a random 32-bit number (``words``). Pictures made from the image itself
        are skipped.
        """
        from proofmap.data.pool import mark

        size, sources = len(self.pool), len(self.marks)
        other = mark(images, self.inputs)[:, None] != self.marks
        allowed = other.sum(dim=1)
        if self._is_one_image and not bool(allowed.all()):
            raise InputError(
                "the pool of random images contains only the explained image; name a pool with other images"
            )
        rounds, rest = divmod(size, sources)  # picture k is from source k % sources
        left = (words * (rounds * allowed + other[:, :rest].sum(dim=1))) >> 32
        turn, within = left // allowed, left % allowed
        return turn * sources + torch.searchsorted(other.cumsum(dim=1), within[:, None] + 1)[:, 0]

    @cached_property
    def _is_one_image(self) -> bool:
        """Whether all sources are the same image."""
        return len(self.marks.unique()) == 1

    def record(self) -> dict[str, object]:
        return {**self.fill.settings(), "part": self.part, "pool": self.pool_text, "digest": self.digest}


@dataclass(frozen=True, eq=False)
class ReadyTexts(ReadyImages):
    """Words of other texts, drawn from a pool of whole texts. The inputs may be shorter than the texts of the pool."""

    def compute(self, images: Tensor, keys: Tensor) -> Tensor:
        inputs = self.inputs
        assert isinstance(inputs, TextInputs)
        missing = self.pool.shape[-1] - images.shape[-1]
        padded = torch.nn.functional.pad(images, (0, missing)) if missing else images
        drawn = self.pool[self._drawn(padded, streams.random_words(keys, 1)[:, 0])]
        return inputs.of_others(images, drawn.to(images.dtype))


class Pools:
    """The random images of one session: the default source for fills that name no source, and every pool built so far.

    ``find`` returns the session's own source of random images. It is called once, when a fill first needs the source; before that,
    ``source`` is None. Equal pools are built once.
    """

    def __init__(self, find: Callable[[], Any]) -> None:
        self._find = find
        self.source: Any = None
        self.built: dict[tuple[Images, Inputs, torch.device], ReadyImages] = {}

    def bind(self, plugin: AnyPlugin, part: Part | None = None) -> AnyPlugin:
        """A copy of a plug-in in which every fill of random images without a source gets the session's source and a part of it.

        If ``part`` is None, it depends on the plug-in that uses the fill: ``learn`` for a method, ``judge`` for a metric or a game.
        """

        def bound(fill: Images, by_role: Part) -> Images:
            if fill.is_usual:
                if self.source is None:
                    found = self._find()
                    self.source = OWN if found is None else found
                fill = fill.changed(source=self.source)
            fill = fill.changed(part=(part or by_role) if fill.part == "auto" else fill.part)
            object.__setattr__(fill, "_pools", self)
            return fill

        return _with_images(plugin, bound, "all")


def uses_default_pool(plugin: Plugin) -> bool:
    """Whether a plug-in draws random images without naming a source."""
    if isinstance(plugin, Images):
        return plugin.is_usual
    return any(map(uses_default_pool, plugin._members()))


_ROLES: dict[str, Part] = {"method": "learn", "metric": "judge", "game": "judge"}


def _with_images(plugin: AnyPlugin, change: Callable[[Images, Part], Images], role: Part) -> AnyPlugin:
    """A copy of a plug-in with ``change`` applied to every fill of random images inside it. ``change`` also gets the part of the
    sources (``learn`` or ``judge``) that belongs to the plug-in that uses the fill.
    """
    if isinstance(plugin, Images):
        return change(plugin, role)  # type: ignore[return-value]
    role = _ROLES.get(plugin.noun, role)

    def changed(value: Any) -> Any:
        if isinstance(value, tuple):
            several = tuple(map(changed, value))
            return several if any(a is not b for a, b in zip(several, value, strict=True)) else value
        return _with_images(value, change, role) if isinstance(value, Plugin) else value

    values = {info.name: getattr(plugin, info.name) for info in settings_of(type(plugin))}
    changes = {name: new for name, old in values.items() if (new := changed(old)) is not old}
    return dataclasses.replace(plugin, **changes) if changes else plugin  # type: ignore[type-var]


def pools_in(record: Mapping[str, Any]) -> dict[str, str]:
    """The pools of random images in a record of results: a dict from the description of each pool to the part of the sources that
    it was drawn from. The part is empty in old records.
    """
    own = "fill" in record and "pool" in record
    found = {str(record["pool"]): str(record.get("part", ""))} if own else {}
    values = (item for value in record.values() for item in (value if isinstance(value, list) else [value]))
    for item in values:
        if isinstance(item, Mapping):
            found |= pools_in(item)
    return found
