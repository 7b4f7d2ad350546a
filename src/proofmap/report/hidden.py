"""What pictures draw where positions are hidden: the colour that the net saw there, where it was one colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from proofmap.core.inputs import Inputs, Pictures
from proofmap.fills import FILLS
from proofmap.results.records import EvaluationRecord

Colour = tuple[int, int, int]
PLAIN: Colour = (219, 219, 219)
"""Drawn where what was hidden cannot be drawn as one colour."""


@dataclass(frozen=True)
class Hidden:
    """The colour of hidden positions in pictures, and in words what the net saw there."""

    colour: Colour
    words: str


def hidden_of(evaluation: EvaluationRecord) -> Hidden:
    """What hidden positions showed in the insertion game whose curve is drawn."""
    inputs, settings = evaluation.inputs, evaluation.results[0].insertion.settings
    colour, positions = settings.get("color"), inputs.position_noun
    if isinstance(inputs, Pictures) and isinstance(colour, Sequence):
        return Hidden(
            drawn_colour(inputs, colour),
            f"Hidden {positions} have the colour that the net saw in their place.",
        )
    fill = str(settings.get("fill", "unknown"))
    about = f" ({FILLS[fill].description})" if fill in FILLS else ""
    return Hidden(
        PLAIN,
        f"Hidden {positions} are drawn light gray; in their place the net saw the fill {fill}{about}.",
    )


def drawn_colour(inputs: Inputs, colour: Sequence[float]) -> Colour:
    """A colour, one value per channel, as a picture of the inputs shows it."""
    whole = inputs.per_channel(torch.tensor([float(v) for v in colour])).expand(inputs.shape)
    red, green, blue = inputs.picture(whole)[0, 0].tolist()
    return red, green, blue
