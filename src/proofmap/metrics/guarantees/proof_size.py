"""The size of a proof: the share of positions, best first, at which the net predicts the label, and keeps predicting it as more are
shown.
"""

from __future__ import annotations

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.metrics.areas import GameMetric
from proofmap.metrics.context import Judged
from proofmap.metrics.games import GAMES, Game
from proofmap.metrics.metric import METRICS


@GAMES.register
class KeptGame(Game):
    """The top s positions are shown. The target is 1 for the net's answer and 0 for other labels.

    If outputs are independent, every label with a probability of at least .5 is an answer.
    """

    name = "kept"
    description = "the top positions are shown; read is whether the label is the net's answer"
    reference = "Carter et al. 2019; ReX"

    def shown(self, ranks: Tensor, count: Tensor) -> Tensor:
        return ranks < count

    def read(self, classifier: Classifier, logits: Tensor) -> Tensor:
        f = classifier.log_f(logits).exp()
        if classifier.independent:
            return (f >= 0.5).to(f)
        members = torch.tensor(classifier.label_set, device=f.device)
        first = members[f[:, members].argmax(dim=1)]
        return torch.zeros_like(f).scatter(1, first[:, None], 1.0)


@METRICS.register
class ProofSize(GameMetric):
    """The smallest share s of the positions for which the label is the net's answer at s and at all larger shares tried.

    With a random fill the label counts as the answer if it is the answer in more than half of the draws. The value of an image is that of its
    first label; NaN if the label is not the answer for the whole image.
    ``conformal-bound`` turns the sizes of many images into a share that is enough for 95 % of such images.
    """

    name = "proof-size"
    plays = KeptGame
    higher_is_better = False
    limits = (0.0, 1.0)
    description = "smallest share of positions, best first, from which on the label is the net's answer"
    reference = "Carter et al. 2019 (sufficient input subsets)"

    def pairs(self, judged: Judged) -> Tensor:
        curves = self.curves(judged)
        kept = curves.probabilities > 0.5
        stays = kept.flip(2).long().cumprod(dim=2).sum(dim=2)  # how many of the last steps
        shares = (curves.counts / curves.positions).to(curves.probabilities)
        first = (kept.shape[2] - stays).clamp_max(kept.shape[2] - 1)
        return shares[first].masked_fill((stays == 0) | curves.f.isnan(), torch.nan)
