"""Can a person read a map? The roughness of its top part, and whether its proof survives if details that nobody sees are blurred."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL
from proofmap.core.ranking import keep_top, rank
from proofmap.methods.grids import enlarged, smoothing
from proofmap.metrics.areas import GameMetric
from proofmap.metrics.games import GAMES, Game, InsertionGame
from proofmap.metrics.judged import Judged
from proofmap.metrics.metric import METRICS, Metric
from proofmap.metrics.proof_scores import E1, E2
from proofmap.metrics.scores import completeness, soundness, worst_case
from proofmap.plugins.settings import setting
from proofmap.session import Session

_CELLS = 56
_BLUR = f"standard deviation of the Gaussian, in cells; a cell is 1/{_CELLS} of the longest side, and at least one position"


@METRICS.register
class Roughness(Metric):
    """The length of the border of a map's top share, relative to the border of one square (in one dimension: one piece, in three: one cube) of the same size.

        roughness = |{pairs of neighbours of which exactly one is shown}| / (4 sqrt(shown positions))

    About 1 for a single clean region (less where it touches the edge of the picture), 3 for a few ragged ones, tens for
    scattered pixels. The value of an image is the mean over its labels. Raggedness is neither right nor wrong; a map that
    proves something but cannot be read is of little use to a person.
    """

    name = "roughness"
    higher_is_better = False
    limits = (0.0, float("inf"))
    description = "border of the top 20 %, relative to that of one square: how ragged a map is"
    share: float = setting(
        0.2, "share of the positions, the map's top ones, whose border is measured", above=0, most=1
    )

    def pairs(self, judged: Judged) -> Tensor:
        if not judged.inputs.has_neighbours:
            raise InputError(
                f"roughness needs neighbours; {judged.inputs.noun} have none, so leave this metric out"
            )
        maps = judged.maps.flatten(0, 1)
        rough = Roughness.of_masks(keep_top(maps, self.share)).view(judged.labels.shape)
        return rough.masked_fill(judged.labels == NO_LABEL, torch.nan)

    def from_pairs(self, judged: Judged, pairs: Tensor) -> Tensor:
        return pairs.nanmean(dim=1)

    @staticmethod
    def of_masks(shown: Tensor) -> Tensor:
        """The relative length ``(P,)`` of the border of boolean masks ``(P, *positions)``; 0 for an empty mask.

        >>> one = torch.zeros(1, 6, 6, dtype=torch.bool)
        >>> one[0, 1:5, 1:5] = True
        >>> Roughness.of_masks(one), Roughness.of_masks(torch.eye(6, dtype=torch.bool)[None])
        (tensor([1.]), tensor([2.0412]))
        """
        axes = tuple(range(1, shown.ndim))
        border = torch.stack([shown.diff(dim=axis).sum(dim=axes) for axis in axes]).sum(dim=0)
        size = shown.sum(dim=axes).clamp_min(1).float()
        long = max(1, sum(side > 1 for side in shown.shape[1:]))
        unit = 2 * long * size ** ((long - 1) / long)
        return border / unit


@GAMES.register
class BlurredInsertionGame(InsertionGame):
    """The insertion game with a blurred map: its ranks are averaged over neighbours, and the top s positions of the result are shown.

    Ranks are blurred, not values, so that only the order of a map counts, as in every game. At the border, the outermost ranks are repeated.
    """

    name = "blurred-insertion"
    description = "the insertion game, with the map's ranks blurred first"
    reference = ""
    blur: float = setting(0.5, _BLUR, above=0)

    def prepare(self, session: Session) -> None:
        inputs = session.inputs
        if not inputs.has_neighbours:
            raise InputError(
                f"{self.name} needs neighbours to blur a map; {inputs.noun} have none, so take the game insertion, and leave the metric "
                "blur-survival out"
            )
        super().prepare(session)

    def order(self, maps: Tensor, keys: Tensor) -> Tensor:
        sides = maps.shape[1:]
        sigma = self.blur * max(max(sides) / _CELLS, 1.0)
        highest_first = super().order(maps, keys).view(maps.shape).to(torch.float32)
        blurs = [smoothing(side, sigma, device=maps.device) for side in sides]
        return rank(-enlarged(highest_first, blurs), ties=self.ties, keys=keys)


@METRICS.register
class BlurSurvival(GameMetric):
    """How much of a proof is left if its map is blurred by half a cell, 2 pixels of 224. A person does not see such a change.

        survival = min(b / m, 1)

    m is the worst case over labels of min(completeness, soundness), and b the same with a blurred map
    (:class:`BlurredInsertionGame`). A value near 0 means that the proof is in the fine grain of the map. The value says nothing
    about how good the proof is: a map that proves nothing survives. Read it beside completeness and soundness.
    """

    name = "blur-survival"
    higher_is_better = True
    limits: ClassVar[tuple[float, float]] = (0.0, 1.0)
    description = (
        "worst completeness or soundness if the map is blurred by half a cell, relative to that as it is"
    )
    e1: float = setting(0.01, E1, least=0, most=1)
    e2: float = setting(0.001, E2, least=0, most=1)
    blur: float = setting(0.5, _BLUR, above=0)

    def games(self) -> tuple[Game, ...]:
        return self.game, BlurredInsertionGame(blur=self.blur, **self.curve())

    def values(self, judged: Judged) -> Tensor:
        whole, blurred = (
            worst_case(torch.minimum(completeness(c.auc, c.h, self.e1), soundness(c.auc, c.h, self.e2)))
            for c in map(judged.play, self.games())
        )
        return (blurred / whole).clamp_max(1.0)  # 0 / 0: does not count
