"""Completeness and soundness of Merlin-Arthur classifiers, for a net and a method that were not trained together.

Arthur (the net) sees only a few positions. Merlin (the method, asked for the right label) shows him those that should convince
him; Morgana (the method, asked for wrong labels) those that should fool him. A method is a weak Morgana: ``belief-mask:target=strongest`` and
``greedy-insertion`` as methods are stronger ones, and so is ``adversarial-soundness``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from proofmap.fills import Fill, Gray
from proofmap.metrics import proof
from proofmap.metrics.context import Judged
from proofmap.metrics.games import Game
from proofmap.metrics.guarantees.proof_size import KeptGame
from proofmap.metrics.metric import METRICS, Metric
from proofmap.plugins.settings import setting


@dataclass(frozen=True, kw_only=True)
class MerlinArthur(Metric):
    """What both have: how much is shown, and over which fill."""

    higher_is_better: ClassVar[bool] = True
    limits: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Waeldchen et al., AISTATS 2024 (Merlin-Arthur classifiers)"
    share: float = setting(0.2, "of the positions that Arthur sees", above=0, most=1)
    fill: Fill = setting(Gray(), "what hidden positions show")
    draws: int = setting(10, "backgrounds that are averaged over, for a random fill", least=1)

    @property
    def game(self) -> Game:
        return KeptGame(fill=self.fill, points=1, within=(0.0, self.share), draws=self.draws)

    def games(self) -> tuple[Game, ...]:
        return (self.game,)

    def convinced(self, judged: Judged) -> Tensor:
        """How often Arthur answers each label ``(N, L)`` when he sees the top of its map."""
        return judged.play(self.game).probabilities[..., -1]

    def right(self, judged: Judged) -> Tensor:
        """Which labels ``(N, L)`` are right: the true ones, and the net's own answer where the truth is not known."""
        own = judged.labels == judged.top2[0][:, :1]
        return torch.where(judged.knows_truth[:, None], judged.is_true, own)


@METRICS.register
@dataclass(frozen=True, kw_only=True)
class MerlinArthurCompleteness(MerlinArthur):
    """1 where the net, shown only the top ``share`` of the right label's map, gives the right label; else 0.

    The mean over images is the share of images on which Merlin convinces. NaN where the right label was not judged. An image with
    several true labels counts 1 if Merlin convinces of each one that was judged.
    """

    name: ClassVar[str] = "merlin-arthur-completeness"
    kind: ClassVar[str] = "merlin-arthur-completeness"
    description: ClassVar[str] = "how often the top of the right label's map alone makes the net say it"

    def __call__(self, judged: Judged) -> Tensor:
        return proof.worst_case(self.convinced(judged).masked_fill(~self.right(judged), torch.nan))


@METRICS.register
@dataclass(frozen=True, kw_only=True)
class MerlinArthurSoundness(MerlinArthur):
    """1 where no wrong label's map makes the net, shown only its top ``share``, give that label; else 0.

    The mean over images is the share of images on which Morgana fools nobody. With a random fill: 1 less the largest share of draws in
    which a label is given. NaN where no wrong label was judged.
    """

    name: ClassVar[str] = "merlin-arthur-soundness"
    kind: ClassVar[str] = "merlin-arthur-soundness"
    description: ClassVar[str] = "how often no wrong label's map, its top alone, makes the net say that label"

    def __call__(self, judged: Judged) -> Tensor:
        return proof.worst_case((1 - self.convinced(judged)).masked_fill(self.right(judged), torch.nan))
