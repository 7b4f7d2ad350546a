"""The interface of fills. A fill decides what the hidden positions of an input show.

A :class:`Fill` is a frozen dataclass of settings. It is called with a session, inputs ``(N, *shape)`` and stream keys ``(N,)``, the
seeds of the random numbers for each input, and returns backgrounds ``(N, *shape)`` in the input's units. The same input and key give
the same background. What a fill finds or builds for a net, such as a pool of images, is kept by the session.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs
from proofmap.core.registry import Registry
from proofmap.core.tensors import private_copy
from proofmap.plugins.settings import Plugin
from proofmap.plugins.specs import make_plugin
from proofmap.session import Session


class Fill(Plugin):
    """The settings of a fill. A subclass defines :meth:`backgrounds`, or :meth:`backgrounds_behind` if it ``reads_mask``."""

    noun = "fill"
    random: ClassVar[bool] = False
    """Whether different keys give different backgrounds. If not, one draw is enough."""
    reads_mask: ClassVar[bool] = False
    """Whether backgrounds depend on which positions are shown. Games, metrics, perturbation methods and ``fido`` can use such a fill."""
    takes: ClassVar[type[Inputs]] = Inputs  # type: ignore[type-abstract]
    """The kind of inputs that the fill can be used with."""

    @classmethod
    def make(cls, spec: Any) -> Fill:
        return make_plugin(FILLS, Fill, spec)

    def prepare(self, session: Session) -> None:
        """Find or build what the fill needs, and raise an error if it cannot be used with this net."""
        self.check_inputs(session.inputs)

    def check_inputs(self, inputs: Inputs) -> None:
        """Raise an error if the fill cannot be used with these inputs."""
        if not isinstance(inputs, self.takes):
            raise InputError(
                f"the fill {self.name} is for {self.takes.noun}, and the net takes {inputs.noun}; use one of {', '.join(inputs.fills)}"
            )

    def __call__(self, session: Session, images: Tensor, keys: Tensor) -> Tensor:
        """Backgrounds ``(N, *shape)``. The fill gets copies of its arguments, so it may change them."""
        found = self.backgrounds(session, private_copy(images), private_copy(keys))
        return self._checked(found, "backgrounds(session, images, keys)", images, session.inputs)

    def behind(self, session: Session, images: Tensor, keys: Tensor, keep: Tensor) -> Tensor:
        """Backgrounds ``(N, *shape)`` while the positions ``keep`` ``(N, *positions)``, boolean, are shown. The fill gets copies of
        its arguments.
        """
        if not self.reads_mask:
            return self(session, images, keys)
        images, keys, keep = (private_copy(x) for x in (images, keys, keep))
        found = self.backgrounds_behind(session, images, keys, keep)
        return self._checked(found, "backgrounds_behind(session, images, keys, keep)", images, session.inputs)

    def backgrounds(self, session: Session, images: Tensor, keys: Tensor) -> Tensor:
        """Backgrounds ``(N, *shape)`` for inputs ``(N, *shape)`` and stream keys ``(N,)``. For a fill that depends on what is shown, those
        behind an input of which nothing is shown.
        """
        if not self.reads_mask:
            raise NotImplementedError(f"{type(self).__name__} defines no backgrounds()")
        nothing = images.new_zeros((len(images), *session.inputs.positions), dtype=torch.bool)
        return self.backgrounds_behind(session, images, keys, nothing)

    def backgrounds_behind(self, session: Session, images: Tensor, keys: Tensor, keep: Tensor) -> Tensor:
        """Backgrounds ``(N, *shape)`` while the positions ``keep`` ``(N, *positions)``, boolean, are shown, for a fill that depends on
        them.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no backgrounds_behind()")

    def _checked(self, found: object, call: str, images: Tensor, inputs: Inputs) -> Tensor:
        """What a fill returned. Raises :class:`InputError` if it is not backgrounds ``(N, *shape)``."""
        given = type(found).__name__
        if isinstance(found, Tensor):
            if found.shape == images.shape and found.is_floating_point() >= images.is_floating_point():
                return found
            given = f"{found.dtype} of shape {tuple(found.shape)}"
        raise InputError(
            f"the fill {self.name}: {call} must return a torch.Tensor of floats of the shape {tuple(images.shape)} of the "
            f"{inputs.noun}, not {given}"
        )

    def record(self, session: Session) -> dict[str, object]:
        """The record that is stored with results: the settings, and what was found or built for the net."""
        return self.settings()


FILLS: Registry[Fill] = Registry("fill", "proofmap.fills")
"""The registered fills, by name."""


def make_fill(fill: str | Fill) -> Fill:
    """A fill from its name, which may be followed by settings (``blur:sigma=3``) or a source (``images:FOLDER``), or from
    ``FILE.py:CLASS``. A :class:`Fill` is returned unchanged.

    >>> from proofmap.fills import make_fill
    >>> make_fill("blur:sigma=3")
    Blur(sigma=3.0, kernel=11, border=None)
    """
    return Fill.make(fill)


def rounded(values: Tensor) -> list[float]:
    """The values as a list, rounded to six digits for a record."""
    return [round(value, 6) for value in values.tolist()]
