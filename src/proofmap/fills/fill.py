"""The interface of fills. A fill decides what the hidden positions of an input show.

A :class:`Fill` is a description: it holds only settings, and fills with equal settings are equal. ``fill.prepare(classifier)``
returns a :class:`ReadyFill`. The prepared fill is called with inputs ``(N, *shape)`` and stream keys ``(N,)``, the seeds of the
random numbers for each input. It returns backgrounds ``(N, *shape)`` in the input's units. The same input and key give the same
background. The record, which is stored with results, comes from the prepared fill. Two prepared fills are equal if their records
are.
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
    """Whether different keys give different backgrounds. If not, one draw is enough."""
    reads_mask: ClassVar[bool] = False
    """Whether backgrounds depend on which positions are shown. Games and metrics can use such a fill, methods cannot."""
    takes: ClassVar[type[Inputs]] = Inputs  # type: ignore[type-abstract]
    """The kind of inputs that the fill can be used with."""

    @classmethod
    def make(cls, spec: Any) -> Fill:
        return make_plugin(FILLS, Fill, spec)

    def prepare(self, classifier: Classifier) -> ReadyFill:
        """The fill prepared for this classifier's inputs. A fill with a state, such as a pool of images, returns a subclass of
        :class:`ReadyFill`.
        """
        self.check_inputs(classifier.inputs)
        return ReadyFill(self, classifier.inputs)

    def check_inputs(self, inputs: Inputs) -> None:
        """Raise an error if the fill cannot be used with these inputs."""
        if not isinstance(inputs, self.takes):
            raise InputError(
                f"the fill {self.name} is for {self.takes.noun}, and the net takes {inputs.noun}; use one of {', '.join(inputs.fills)}"
            )

    def backgrounds(self, images: Tensor, keys: Tensor, inputs: Inputs) -> Tensor:
        """Backgrounds ``(N, *shape)`` for inputs ``(N, *shape)`` and stream keys ``(N,)``."""
        raise NotImplementedError(f"{type(self).__name__} defines neither backgrounds() nor prepare()")

    def backgrounds_behind(self, images: Tensor, keys: Tensor, keep: Tensor, inputs: Inputs) -> Tensor:
        """Backgrounds ``(N, *shape)`` while the positions ``keep`` ``(N, *positions)``, boolean, are shown. A fill that depends on
        what is shown overrides this method.
        """
        return self.backgrounds(images, keys, inputs)

    def record(self, inputs: Inputs) -> dict[str, object]:
        """The record that is stored with results: the settings, where defaults that depend on the inputs are replaced by their
        values.
        """
        return self.settings()


FILLS: Registry[Fill] = Registry("fill", "proofmap.fills", prepare=settings_class)
"""The registered fills, by name."""


@dataclass(frozen=True, eq=False)
class ReadyFill(Ready):
    """A fill prepared for one classifier's inputs. It is called with inputs and stream keys, and returns backgrounds."""

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
        found = self.compute(private_copy(images), private_copy(keys))
        return self._checked(found, "backgrounds(images, keys, inputs)", images)

    def behind(self, images: Tensor, keys: Tensor, keep: Tensor) -> Tensor:
        """Backgrounds ``(N, *shape)`` while the positions ``keep`` ``(N, *positions)``, boolean, are shown. The fill gets copies of
        its arguments.
        """
        if not self.fill.reads_mask:
            return self(images, keys)
        images, keys, keep = (private_copy(x) for x in (images, keys, keep))
        found = self.fill.backgrounds_behind(images, keys, keep, self.inputs)
        return self._checked(found, "backgrounds_behind(images, keys, keep, inputs)", images)

    def _checked(self, found: object, call: str, images: Tensor) -> Tensor:
        """What a fill returned. Raises :class:`InputError` if it is not backgrounds ``(N, *shape)``."""
        floats = isinstance(found, Tensor) and found.is_floating_point() >= images.is_floating_point()
        if isinstance(found, Tensor) and floats and found.shape == images.shape:
            return found
        what = f"{type(found).__name__}"
        if isinstance(found, Tensor):
            what = f"{found.dtype} of shape {tuple(found.shape)}"
        raise InputError(
            f"the fill {self.plugin.name}: {call} must return a torch.Tensor of floats of the shape {tuple(images.shape)} of the "
            f"{self.inputs.noun}, not {'None' if found is None else what}"
        )

    def compute(self, images: Tensor, keys: Tensor) -> Tensor:
        """Backgrounds ``(N, *shape)`` for images and stream keys. A fill with a state, such as a pool of images, overrides this
        method in a subclass.
        """
        return self.fill.backgrounds(images, keys, self.inputs)

    def record(self) -> dict[str, object]:
        return self.fill.record(self.inputs)


@dataclass(frozen=True, eq=False)
class ReadyBehind(ReadyFill):
    """A prepared fill whose backgrounds depend on the mask (:meth:`behind`). ``recorded`` is its record, made when the fill is
    prepared.
    """

    recorded: dict[str, object]

    def compute(self, images: Tensor, keys: Tensor) -> Tensor:
        """Backgrounds ``(N, *shape)`` when all positions are hidden."""
        nothing = images.new_zeros((len(images), *self.inputs.positions), dtype=torch.bool)
        return self.behind(images, keys, nothing)

    def record(self) -> dict[str, object]:
        return dict(self.recorded)


def make_fill(fill: str | Fill) -> Fill:
    """A fill from its name, which may be followed by settings (``blur:sigma=3``) or a source (``images:FOLDER``), or from
    ``FILE.py:CLASS``. A :class:`Fill` is returned unchanged.

    >>> from proofmap.fills import make_fill
    >>> make_fill("blur:sigma=3")
    Blur(sigma=3.0, kernel=11, border=None)
    """
    return Fill.make(fill)


def title_of(model: Any) -> str:
    """The name of a model for a record: the text itself if ``model`` is text, otherwise the name of the function or class."""
    return model if isinstance(model, str) else str(getattr(model, "__qualname__", type(model).__name__))


def rounded(values: Tensor) -> list[float]:
    """The values as a list, rounded to six digits for a record."""
    return [round(value, 6) for value in values.tolist()]
