"""How much of a proof is the outline of what is shown: the map is played on another input, which has nothing of the label."""

from __future__ import annotations

import torch
from torch import Tensor

from proofmap.core import streams
from proofmap.fills import Images
from proofmap.methods.method import Cost
from proofmap.metrics import scores
from proofmap.metrics.areas import GameMetric
from proofmap.metrics.judged import Judged
from proofmap.metrics.metric import METRICS
from proofmap.plugins.settings import setting
from proofmap.session import Session


@METRICS.register
class Outline(GameMetric):
    """The share of a map's area that remains if the map is played on another input x' that has nothing of the label:

        outline(x, a) = min( AUC(x', a, M) / AUC(x, a, M), 1 )

    M is the map of x and a. Of ``others`` random inputs, x' is the one whose largest f(x', a) over the labels is the least. 0 is best: then all of
    the proof is in what the positions show. 1: the shape of what is shown proves the label, whatever is in it. The value of an image is
    the largest of its labels. A label counts if AUC(x, a, M) >= e1 and
    f(x', a) <= most AUC(x, a, M).
    """

    name = "outline"
    higher_is_better = False
    limits = (0.0, 1.0)
    description = (
        "share of the area that remains if the map is played on an input that has nothing of the label"
    )
    reference = "Jethani et al. 2021; Puli et al. 2024 (STRIPE-X): maps that encode a label"
    others: int = setting(4, "random inputs from which x' is chosen", least=1)
    e1: float = setting(0.01, "labels whose area on the input itself is below e1 do not count", above=0)

    most: float = setting(0.1, "labels whose f on x' is above this part of the area do not count", above=0)

    def prepare(self, session: Session) -> None:
        super().prepare(session)
        session.prepare(Images())

    def cost(self, labels: int, method: Cost | None) -> Cost | None:
        if self.points == "all":
            return None  # it depends on the number of positions
        draws = self.game.backgrounds
        return Cost(forward=labels * self.points * draws + draws + self.others)

    def pairs(self, judged: Judged) -> Tensor:
        own = self.curves(judged)
        session, safe = judged.session.judging(), judged.labels.clamp_min(0)
        found, least = judged.images, torch.full_like(own.auc[:, 0], torch.inf)
        f = torch.full_like(own.f, torch.inf)
        for k in range(self.others):
            keys = streams.image_keys(judged.images, session.seed, "outline", k)
            drawn = Images()(session, judged.images, keys)
            each = judged.classifier.probabilities(drawn).gather(1, safe)
            each = each.masked_fill(own.f.isnan(), 0.0)
            better = each.amax(dim=1) < least
            found = drawn.where(better.view(-1, *[1] * (drawn.ndim - 1)), found)
            f, least = each.where(better[:, None], f), each.amax(dim=1).minimum(least)
        other = Judged(session, found, judged.labels, judged.maps).play(self.game, matrix=False)
        counts = (own.auc >= self.e1) & (f <= self.most * own.auc)
        return (other.auc / own.auc).clamp_max(1.0).masked_fill(~counts, torch.nan)

    def from_pairs(self, judged: Judged, pairs: Tensor) -> Tensor:
        return -scores.worst_case(-pairs)
