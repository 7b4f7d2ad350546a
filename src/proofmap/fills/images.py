"""Random images as backgrounds: the paper's distractors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from proofmap.core import streams
from proofmap.core.inputs import Pictures, TextInputs
from proofmap.core.text import counted
from proofmap.fills.fill import FILLS, Fill
from proofmap.fills.simple import Noise
from proofmap.plugins.settings import setting
from proofmap.session import Role, Session

if TYPE_CHECKING:
    from proofmap.data.distractors import Pool

Crop = Literal["random", "none"]
_OWN = "own"


@FILLS.register
class Images(Fill):
    """Random images: the paper's distractors, drawn with replacement from a fixed pool.

    ``source`` is one of: ``"own"``, the other images of the study, with sample photographs or noise if these are few
    (:mod:`proofmap.data.distractors`); ``"samples"``, crops of the photographs inside scikit-image; a folder; a list of files; an
    array or tensor of images; or a dataset of Proofmap, as an object or as text (``cifar10:FOLDER[train]``). An
    image is never its own distractor. Own images are used as the net sees them. For other sources, ``crop="random"`` makes random
    resized crops and flips, as the paper's code prepared its pool; with ``crop="none"``, images that already have the input's size
    are used unchanged. ``size`` is the number of pictures in the pool. For inputs other than pictures, the source is ``"own"``, or
    an array or tensor ``(M, *shape)``.

    ``part`` separates learning from judging: methods draw from one half of the sources and metrics from the other, whatever else is in the
    study. The content of a source decides its half (:func:`proofmap.data.distractors.in_part`). The record says which part was drawn from: ``all``
    if there are too few sources.
    """

    name = "images"
    description = "random images from a pool: the paper's distractors"
    random = True
    revision = 3
    source: Any = setting(
        _OWN,
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
        """Whether the source is the default ``own``."""
        return _is_own(self.source)

    def prepare(self, session: Session) -> None:
        super().prepare(session)
        self.drawn_from(session)

    def backgrounds(self, session: Session, images: Tensor, keys: Tensor) -> Tensor:
        pool, inputs = self.drawn_from(session), session.inputs
        words = streams.random_words(keys, 1)[:, 0]
        if isinstance(inputs, TextInputs):  # which may be shorter than those of the pool
            missing = pool.values.shape[-1] - images.shape[-1]
            padded = torch.nn.functional.pad(images, (0, missing)) if missing else images
            drawn = pool.values[pool.drawn(padded, words, inputs)]
            return inputs.of_others(images, drawn.to(images.dtype))
        drawn = pool.values[pool.drawn(images, words, inputs)].to(images.dtype)
        return drawn / 255.0 if pool.values.dtype == torch.uint8 else drawn

    def record(self, session: Session) -> dict[str, object]:
        pool = self.drawn_from(session)
        return {**self.settings(), "part": pool.part, "pool": pool.text, "digest": pool.digest}

    def drawn_from(self, session: Session) -> Pool:
        """The pool of images from which backgrounds are drawn in this session. Texts of all lengths have one pool."""
        session = session.whole or session
        key = self, self._asked_part(session)
        return session.pool(key, lambda: self._image_pool(session))

    def _image_pool(self, session: Session) -> Pool:
        # here, when it is first needed: datasets take a while to import
        from proofmap.data.distractors import Distractors, Pool

        inputs, part, source = session.inputs, self._asked_part(session), self._source(session)
        photographs = isinstance(inputs, Pictures) and inputs.channels == 3 and not inputs.unlimited
        no_photos = len(inputs.positions) > 1 and not photographs
        if no_photos if _is_own(source) else bool(getattr(source, "is_noise", False)):
            keys = torch.tensor([streams.key_of(self.seed, "noise", part, i) for i in range(self.size)])
            made = Pool.of(Noise().backgrounds(session, inputs.blank(self.size), keys), inputs, part)
            text = f"{counted(len(made.marks), 'picture')} of noise, as there are no other {inputs.noun}"
        else:
            # a study may have few rows: if no pool was named, the examples that came with the inputs are used
            examples = inputs.examples if _is_own(source) or isinstance(source, Distractors) else None
            given = source if examples is None else examples
            made = Pool.build(given, inputs, size=self.size, crop=self.crop, seed=self.seed, part=part)
            text = f"{len(made.marks)} of the {inputs.noun} that describe the {inputs.position_noun}"
            text = made.described(source, inputs.noun) if examples is None else text
        if made.part != part:
            text += ", too few to learn on one half and judge on the other"
        return made.moved(session.net.device, text)

    def _source(self, session: Session) -> Any:
        """Where images come from in this session: the session's own source, if the fill names none and there is one."""
        own = session.source() if self.is_usual else None
        return self.source if own is None else own

    def _asked_part(self, session: Session) -> Role:
        return session.role if self.part == "auto" else self.part

    def settings(self) -> dict[str, object]:
        return {**super().settings(), "source": self._source_text()}

    def _source_text(self) -> str:
        if isinstance(self.source, (str, Path)):
            return str(self.source)
        return _OWN if type(self.source).__name__ == "Distractors" else type(self.source).__name__

    def changes(self) -> list[str]:
        """The changed settings, without a source that cannot be written as text, such as an array."""
        has_text = isinstance(self.source, (str, Path))
        return [part for part in super().changes() if has_text or not part.startswith("source=")]

    def _identity(self) -> tuple[object, ...]:
        parts = self.source if isinstance(self.source, tuple) else (self.source,)
        plain = all(isinstance(part, (str, Path)) for part in parts)
        return (self.source if plain else id(self.source), self.size, self.crop, self.seed, self.part)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())


def _is_own(source: Any) -> bool:
    return isinstance(source, str) and source == _OWN
