"""Completeness and soundness as other authors define them. The names of the metrics name the authors.

**Li et al.**: is what a map marks predictive, and is what is predictive marked? Both are about one label and about the values of a
map. If the papers leave a choice, this follows their released code. That code averages over a dataset; here each image has its own value.

**Merlin-Arthur classifiers**, for a net and a method that were not trained together. Arthur (the net) sees only a few positions. Merlin
(the method, run for the right label) shows positions that should convince him. Morgana (the method, run for wrong labels) shows
positions that should fool him. A method is a weak Morgana: ``belief-mask:target=strongest``, ``greedy-insertion`` and
``adversarial-soundness`` are stronger.

**Sum to logit**: completeness as attribution methods mean it. The values of a map add up to the difference between the label's logit
for the input and for the fill.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.labels import NO_LABEL
from proofmap.core.tensors import exact
from proofmap.fills import Fill, Gray
from proofmap.methods.method import Cost
from proofmap.metrics import scores
from proofmap.metrics.areas import GameMetric
from proofmap.metrics.games import GAMES, Game
from proofmap.metrics.judged import Judged
from proofmap.metrics.metric import METRICS, Metric
from proofmap.plugins.settings import setting
from proofmap.session import Session


@GAMES.register
class KeptGame(Game):
    """The top s positions are shown. The value that is read is 1 for the net's answer (its most probable label) and 0 for other
    labels.

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
    """The smallest share s of positions such that the net gives the label at s and at every larger share tried.

    With a random fill the label counts as the answer if it is the answer in more than half of the draws. The value of an image is
    that of its first label. It is NaN if this label is not the answer for the whole image.
    """

    name = "proof-size"
    plays = KeptGame
    reads = "first"
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


REFERENCE = "Li, Zhang, Kawaguchi, Khakzar, Bischl and Rezaei, TMLR 2024"


@METRICS.register
class LiSoundness(GameMetric):
    """The share of the shown attribution that raised the label's probability, while the map's top positions are shown step by step.

        mean over steps i of  (A_i - F_i) / A_i,      F_i = sum of (A_j - A_j-1) over the steps j < i with p_j - p_j-1 <= threshold,

    where A_i is the sum of the map (its part above zero) over the positions shown at step i, and p_i is the label's probability at
    step i, with p_0 = 0. The value of an image is that of its first label. It is NaN for a map without positive values.
    ``curve=road`` imputes as the authors do.
    """

    name = "li-soundness"
    reads = "first"
    higher_is_better = True
    limits = (0.0, 1.0)
    description = "share of the attribution shown that raised the label (Li et al.: one label)"
    reference = REFERENCE
    threshold: float = setting(
        0.01, "a step counts as false if it raises the label's probability by at most this", least=0, most=1
    )

    def pairs(self, judged: Judged) -> Tensor:
        curves = self.curves(judged)
        there = curves.counts > 0
        counts, p = curves.counts[there].to(judged.maps.device), curves.probabilities[..., there]
        shown = exact(_positive(judged.maps).sort(dim=2, descending=True).values).cumsum(dim=2)
        shown = shown[..., counts - 1]  # (N, L, S)
        none = torch.zeros_like(shown[..., :1])
        added = shown - torch.cat([none, shown[..., :-1]], dim=2)
        rise = p - torch.cat([torch.zeros_like(p[..., :1]), p[..., :-1]], dim=2)
        false = torch.where(rise <= self.threshold, added, 0.0).cumsum(dim=2)
        before = torch.cat([none, false[..., :-1]], dim=2)
        ratio = ((shown - before) / shown).mean(dim=2)  # 0 / 0 where there is no attribution
        return ratio.float().masked_fill(judged.labels == NO_LABEL, torch.nan)


@METRICS.register
class LiCompleteness(Metric):
    """What is lost when everything that a map marks above a threshold is hidden:

        mean over t = 1/T .. (T-1)/T of  f(x, a) - f(x with every position of M >= t max M hidden, a)

    Positions are hidden by their value, not by their rank, so a map that marks more positions hides more. The value of an image is that
    of its first label.
    """

    name = "li-completeness"
    reads = "first"
    higher_is_better = True
    limits = (-1.0, 1.0)
    description = "what the label loses when all that a map marks above a threshold is hidden (Li et al.)"
    reference = REFERENCE
    levels: int = setting(
        10, "number T of levels; thresholds are 1/T to (T - 1)/T of the map's maximum", least=2
    )
    fill: Fill = setting(Gray(), "what hidden positions show; the authors use road")

    def prepare(self, session: Session) -> None:
        self.fill.prepare(session)

    def cost(self, labels: int, method: Cost | None) -> Cost:
        return Cost(forward=labels * (self.levels - 1))

    def pairs(self, judged: Judged) -> Tensor:
        return judged.once(self, lambda: self._lost(judged))

    def _lost(self, judged: Judged) -> Tensor:
        marked = _positive(judged.maps)
        marked = marked / marked.amax(dim=2, keepdim=True).clamp_min(torch.finfo(marked.dtype).tiny)
        judging = judged.session.judging()
        keys = judged.keys((self.name,))[:, 0]

        def left(image: Tensor, place: Tensor, level: Tensor) -> Tensor:
            keep = marked[image, place] < ((level + 1) / self.levels)[:, None]
            keep, x = keep.view(-1, *judged.inputs.positions), judged.images[image]
            masked = judged.inputs.composite(keep, x, self.fill.behind(judging, x, keys[image], keep))
            return judged.f_of(masked, image, place)

        return judged.f - judged.over_pairs(left, self.levels - 1, self.name).mean(dim=2)


def _positive(maps: Tensor) -> Tensor:
    """The positive part of maps ``(N, L, n)``: the evidence for the label."""
    return maps.flatten(2).clamp_min(0)


class MerlinArthur(Metric):
    """Base class of the two Merlin-Arthur metrics. The settings say how much is shown, and over which fill."""

    higher_is_better = True
    limits = (0.0, 1.0)
    reference = "Waeldchen et al., AISTATS 2024 (Merlin-Arthur classifiers)"
    share: float = setting(
        0.2, "share of the positions, the map's top ones, that the net (Arthur) sees", above=0, most=1
    )
    fill: Fill = setting(Gray(), "what hidden positions show")
    draws: int = setting(10, "number of backgrounds to average over, if the fill is random", least=1)

    @cached_property
    def game(self) -> Game:
        return KeptGame(fill=self.fill, points=1, within=(0.0, self.share), draws=self.draws)

    def games(self) -> tuple[Game, ...]:
        return (self.game,)

    def convinced(self, judged: Judged) -> Tensor:
        """How often ``(N, L)``, over the draws of the fill, Arthur (the net) gives a label when it sees only the top of the label's
        map.
        """
        return judged.play(self.game).probabilities[..., -1]

    def right(self, judged: Judged) -> Tensor:
        """Which labels ``(N, L)`` are right: the true labels, or the net's own answer if the truth is unknown."""
        own = judged.labels == judged.top2[0][:, :1]
        return torch.where(judged.knows_truth[:, None], judged.is_true, own)


@METRICS.register
class MerlinArthurCompleteness(MerlinArthur):
    """1 if the net gives the right label when it sees only the top ``share`` of that label's map; otherwise 0.

    The mean over images is the share of images on which Merlin convinces the net. NaN if the right label was not judged. If an image
    has several true labels, the value is 1 if Merlin convinces the net of every true label that was judged.
    """

    name = "merlin-arthur-completeness"
    description = "how often the top of the right label's map alone makes the net say it"

    def values(self, judged: Judged) -> Tensor:
        return scores.worst_case(self.convinced(judged).masked_fill(~self.right(judged), torch.nan))


@METRICS.register
class MerlinArthurSoundness(MerlinArthur):
    """1 if, for every wrong label, the net does not give that label when it sees only the top ``share`` of the label's map; otherwise 0.

    The mean over images is the share of images on which Morgana fails. With a random fill, the value is 1 minus the largest share of
    draws in which a wrong label is given. NaN where no wrong label was judged.
    """

    name = "merlin-arthur-soundness"
    description = "how often no wrong label's map, its top alone, makes the net say that label"

    def values(self, judged: Judged) -> Tensor:
        return scores.worst_case((1 - self.convinced(judged)).masked_fill(self.right(judged), torch.nan))


@METRICS.register
class SumToLogit(Metric):
    """The error of the sum, relative to what is to be explained:

        | sum of M_a - (F(x, a) - F(x', a)) |  /  | F(x, a) - F(x', a) |

    F is the logit, or f itself, and x' the fill in place of the input. The error is zero if the map satisfies the axiom that the papers on
    integrated gradients, Shapley values and layer-wise relevance call completeness, summation to delta or efficiency. The value of
    an image is the mean over its labels; pairs with | F(x, a) - F(x', a) | < 1e-6 do not count. Only maps whose values have the units of F
    can do well; a rescaled map is not worse as a proof. Captum calls the numerator the convergence delta.
    """

    name = "sum-to-logit"
    higher_is_better = False
    limits = (0.0, float("inf"))
    description = "how far a map's values are from adding up to what the label gained"
    reference = "Sundararajan et al. 2017 (completeness axiom)"
    quantity: Literal["logit", "probability"] = setting(
        "logit",
        "what the map's values must add up to: the change of the label's logit, or of its probability",
    )
    fill: Fill = setting(Gray(), "the input without information, from which the change is measured")

    def prepare(self, session: Session) -> None:
        self.fill.prepare(session)

    def cost(self, labels: int, method: Cost | None) -> Cost:
        return Cost(forward=2)

    def pairs(self, judged: Judged) -> Tensor:
        return judged.once(self, lambda: self._errors(judged))

    def from_pairs(self, judged: Judged, pairs: Tensor) -> Tensor:
        return pairs.nanmean(dim=1)

    def _errors(self, judged: Judged) -> Tensor:
        keys = judged.keys((self.name,))[:, 0]
        without = self.fill(judged.session.judging(), judged.images, keys)
        read = judged.classifier.logits if self.quantity == "logit" else judged.classifier.probabilities
        gained = (read(judged.images) - read(without)).gather(1, judged.labels.clamp_min(0))
        error = (exact(judged.maps.flatten(2)).sum(dim=2) - gained).abs() / gained.abs()
        unknown = (judged.labels == NO_LABEL) | (gained.abs() < 1e-6)
        return error.float().masked_fill(unknown, torch.nan)
