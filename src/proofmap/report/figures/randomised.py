"""Maps of the net beside those of the same net with layers drawn anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.report.figures.grid import GridFigure, shown, shown_photo
from proofmap.report.pictures import input_word, overlay

TRAINED, ANEW = "trained", "drawn anew"


@dataclass(frozen=True, eq=False)
class RandomisedMaps(GridFigure):
    """A row per image; for each method its map of the net as it is, and of the net drawn anew."""

    name: ClassVar[str] = "randomised-maps"
    layers: str = ""

    def about(self) -> str:
        return (
            f"Maps of the top label of each {self.noun}: of the net as it is, and after {self.layers} was drawn anew. Maps that come from "
            f"what the net has learned fall apart. Below each {self.noun}: its top label and f."
        )


def randomised_maps(
    classifier: Classifier,
    images: Tensor,
    labels: Tensor,
    maps: Mapping[str, tuple[Tensor, Tensor]],
    *,
    layers: str,
    settings: str,
) -> RandomisedMaps:
    """The figure of maps that were made already.

    Args:
        labels: the label of each image, ``(N,)``.
        maps: for each method its maps ``(N, *positions)`` before and after.
        layers: what was drawn anew, in words.
    """
    inputs = classifier.inputs
    f = classifier.frozen().probabilities(images).gather(1, labels[:, None])[:, 0].tolist()
    rows = []
    for i, (label, p) in enumerate(zip(labels.tolist(), f, strict=True)):
        pictures = [shown(overlay(images[i], both[k][i], inputs)) for both in maps.values() for k in (0, 1)]
        rows.append((shown_photo(images[i], inputs, classifier.names[label], p), *pictures))
    first: Sequence[int] = [1 + 2 * k for k in range(len(maps))]
    return RandomisedMaps(
        headings=(input_word(inputs), *([TRAINED, ANEW] * len(maps))),
        rows=tuple(rows),
        settings=settings,
        gaps=tuple(first),
        spans=tuple((column, column + 1, name) for column, name in zip(first, maps, strict=True)),
        noun=input_word(inputs),
        positions=inputs.position_noun,
        layers=layers,
    )
