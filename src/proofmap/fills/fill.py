"""What a fill is: a description of what hidden positions show, and the fill prepared for one classifier.

A :class:`Fill` is settings and compares by them. ``fill.prepare(classifier)`` returns a :class:`ReadyFill`, which maps
inputs ``(N, *shape)`` and stream keys ``(N,)`` to backgrounds ``(N, *shape)`` in the input's units, the same for
the same key. Records of results come from the prepared fill, and two prepared fills are equal if their records are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs
from proofmap.core.registry import Registry
from proofmap.core.tensors import private_copy
from proofmap.plugins.settings import Plugin, Ready, settings_class
from proofmap.plugins.specs import make_plugin


@dataclass(frozen=True, kw_only=True)
class Fill(Plugin):
    """The description of a fill. A subclass defines :meth:`backgrounds`."""

    noun = "fill"
    random: ClassVar[bool] = False
    """Whether different keys give different backgrounds; if not, one draw is enough."""
    reads_mask: ClassVar[bool] = False
    """Whether backgrounds depend on which positions are shown; such a fill is for judging, not for methods."""
    takes: ClassVar[type[Inputs]] = Inputs  # type: ignore[type-abstract]
    """The kind of inputs that the fill has a meaning for."""

    @classmethod
    def make(cls, spec: Any) -> Fill:
        return make_plugin(FILLS, Fill, spec)

    def prepare(self, classifier: Classifier) -> ReadyFill:
        """The fill prepared for this classifier's inputs. A fill with a state, such as a pool, returns a subclass."""
        self.check_inputs(classifier.inputs)
        return ReadyFill(self, classifier.inputs)

    def check_inputs(self, inputs: Inputs) -> None:
        """Raise if the fill has no meaning for these inputs."""
        if not isinstance(inputs, self.takes):
            raise InputError(
                f"the fill {self.name} is for {self.takes.noun}, and the net takes {inputs.noun}; use one of {', '.join(inputs.fills)}"
            )

    def backgrounds(self, images: Tensor, keys: Tensor, inputs: Inputs) -> Tensor:
        """Backgrounds ``(N, *shape)`` for inputs ``(N, *shape)`` and stream keys ``(N,)``."""
        raise NotImplementedError(f"{type(self).__name__} defines neither backgrounds() nor prepare()")

    def backgrounds_behind(self, images: Tensor, keys: Tensor, keep: Tensor, inputs: Inputs) -> Tensor:
        """Backgrounds if the positions ``keep`` ``(N, *positions)``, boolean, are shown. For a fill that depends on what is shown."""
        return self.backgrounds(images, keys, inputs)

    def record(self, inputs: Inputs) -> dict[str, object]:
        """The record of results: the settings, with defaults that depend on the inputs filled in."""
        return self.settings()


FILLS: Registry[Fill] = Registry("fill", "proofmap.fills", prepare=settings_class)
"""The registered fills, by name."""


@dataclass(frozen=True, eq=False)
class ReadyFill(Ready):
    """A fill for one classifier's inputs; called with inputs and stream keys."""

    fill: Fill
    inputs: Inputs

    @property
    def plugin(self) -> Fill:
        return self.fill

    @property
    def random(self) -> bool:
        return self.fill.random

    def __call__(self, images: Tensor, keys: Tensor) -> Tensor:
        """Backgrounds ``(N, *shape)``. The fill gets copies of its arguments, so it may change them."""
        return self.compute(private_copy(images), private_copy(keys))

    def behind(self, images: Tensor, keys: Tensor, keep: Tensor) -> Tensor:
        """Backgrounds while the positions ``keep`` ``(N, *positions)``, boolean, are shown. The fill gets copies of its arguments."""
        if not self.fill.reads_mask:
            return self(images, keys)
        images, keys, keep = (private_copy(x) for x in (images, keys, keep))
        return self.fill.backgrounds_behind(images, keys, keep, self.inputs)

    def compute(self, images: Tensor, keys: Tensor) -> Tensor:
        """Backgrounds from images and keys; a fill with a state, such as a pool, overrides it in a subclass."""
        return self.fill.backgrounds(images, keys, self.inputs)

    def record(self) -> dict[str, object]:
        return self.fill.record(self.inputs)


@dataclass(frozen=True, eq=False)
class ReadyBehind(ReadyFill):
    """A prepared fill whose backgrounds depend on the mask (:meth:`behind`). Its record is made when it is prepared."""

    recorded: dict[str, object]

    def compute(self, images: Tensor, keys: Tensor) -> Tensor:
        """What hidden positions show if nothing is shown."""
        nothing = images.new_zeros((len(images), *self.inputs.positions), dtype=torch.bool)
        return self.behind(images, keys, nothing)

    def record(self) -> dict[str, object]:
        return dict(self.recorded)


def make_fill(fill: str | Fill) -> Fill:
    """A fill from its name, with settings as in ``blur:sigma=3``, from ``images:FOLDER`` or ``FILE.py:CLASS``, or unchanged if it
    is a fill.

    >>> from proofmap.fills import make_fill
    >>> make_fill("blur:sigma=3")
    Blur(sigma=3.0, kernel=11, border=None)
    """
    return Fill.make(fill)


def title_of(model: Any) -> str:
    """The text of a spec, or the name of an object."""
    return model if isinstance(model, str) else str(getattr(model, "__qualname__", type(model).__name__))


def rounded(values: Tensor) -> list[float]:
    """Values rounded for a record."""
    return [round(value, 6) for value in values.tolist()]
