"""How pictures draw hidden positions: in the colour that the net saw there, if it was one colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from proofmap.core.inputs import Inputs, Pictures
from proofmap.fills import FILLS
from proofmap.results.evaluation import Evaluation

Colour = tuple[int, int, int]
PLAIN: Colour = (219, 219, 219)
"""Drawn if the fill is not one colour."""


@dataclass(frozen=True)
class Hidden:
    """The colour of hidden positions in pictures, and what the net saw there, in words."""

    colour: Colour
    words: str


def hidden_of(evaluation: Evaluation) -> Hidden:
    """How to draw what hidden positions showed in the insertion game."""
    inputs, settings = evaluation.inputs, evaluation.results[0].insertion.settings
    colour, positions = settings.get("color"), inputs.position_noun
    if isinstance(inputs, Pictures) and isinstance(colour, Sequence):
        return Hidden(
            drawn_colour(inputs, colour),
            f"Hidden {positions} have the colour that the net saw there.",
        )
    fill = str(settings.get("fill", "unknown"))
    about = f" ({FILLS[fill].description})" if fill in FILLS else ""
    return Hidden(
        PLAIN,
        f"Hidden {positions} are drawn in light gray; the net saw the fill {fill} there{about}.",
    )


def drawn_colour(inputs: Inputs, colour: Sequence[float]) -> Colour:
    """A colour, one value per channel of the inputs, as pictures show it."""
    whole = inputs.per_channel(torch.tensor([float(v) for v in colour])).expand(inputs.shape)
    red, green, blue = inputs.picture(whole)[0, 0].tolist()
    return red, green, blue
