"""Soft stability: how often the net's answer stays the same if further cells are shown besides the map's top cells, with a certificate."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.batching import in_batches
from proofmap.core.labels import NO_LABEL
from proofmap.core.ranking import rank
from proofmap.fills import Fill, Gray
from proofmap.methods.method import Cost
from proofmap.methods.perturbation.regions import Regions, cut, exact
from proofmap.metrics.context import Judged
from proofmap.metrics.games import Game, ReadyGame
from proofmap.metrics.metric import METRICS, Metric
from proofmap.plugins.settings import setting


@METRICS.register
class SoftStability(Metric):
    """tau_r = Pr [ the answer to x with S' shown is the answer to x with S shown ],

    where S is the top ``share`` of the cells of a grid by the label's map, and S' is drawn evenly from all sets that hold S and at most
    r = ``radius`` further cells. The value is the share of N = floor(ln(2 / delta) / (2 eps^2)) + 1 draws in which the answer stays; by
    Hoeffding's inequality it is within eps of tau_r with probability 1 - delta, for each image and label.

    The answer is the most probable label, or, for a net with independent outputs, whether the label's probability is at least .5.
    The value of an image is that of its first label. A meaningless map can be stable, too: read it together with insertion.
    """

    name = "soft-stability"
    higher_is_better = True
    limits = (0.0, 1.0)
    description = (
        "how often the answer stays when cells are added at random to those a map shows, with a certificate"
    )
    reference = "Jin et al., NeurIPS 2025 (soft stability certificates)"

    share: float = setting(0.25, "of the cells that the map shows", above=0, most=1)
    radius: int = setting(16, "cells that may be added", least=1)
    cells: int = setting(196, "about how many cells the input is cut into; a table has its columns", least=2)
    eps: float = setting(0.1, "how far the value may be from the truth", above=0, most=1)
    delta: float = setting(0.1, "how often it may be farther", above=0, most=1)
    fill: Fill = setting(Gray(), "what hidden positions show; a random fill is drawn once for each image")

    @property
    def samples(self) -> int:
        """The number of draws that the certificate needs.

        >>> SoftStability().samples
        150
        """
        return math.floor(math.log(2 / self.delta) / (2 * self.eps**2)) + 1

    def cost(self, labels: int, method: Cost | None) -> Cost:
        return Cost(forward=labels * (self.samples + 1))

    def record(self, games: Mapping[Game, ReadyGame]) -> dict[str, object]:
        certificate = f"within {self.eps:g} of the truth with probability {1 - self.delta:g} for each image, from {self.samples} draws"
        return {**super().record(games), "samples": self.samples, "certificate": certificate}

    def pairs(self, judged: Judged) -> Tensor:
        return judged.once(self, lambda: self._stays(judged))

    @torch.no_grad()
    def _stays(self, judged: Judged) -> Tensor:
        regions = cut(judged.images, judged.inputs, self.cells, "grid", 10.0)
        image, place = (judged.labels != NO_LABEL).nonzero().unbind(dim=1)
        shown = shown_cells(
            judged.maps[image, place], Regions(regions.index[image], regions.count), self.share
        )
        labels = judged.labels[image, place]
        keys = streams.pair_keys(
            judged.images,
            zip(image.tolist(), labels.tolist(), strict=True),
            judged.seed,
            self.name,
        )
        answers = self._answers(judged, regions, image, labels, shown, keys)
        stays = (answers[:, 1:] == answers[:, :1]).float().mean(dim=1)
        values = torch.full(judged.labels.shape, torch.nan, device=judged.labels.device)
        values[image, place] = stays
        return values

    def _answers(
        self, judged: Judged, regions: Regions, image: Tensor, labels: Tensor, shown: Tensor, keys: Tensor
    ) -> Tensor:
        """The answers ``(P, 1 + samples)`` of P pairs: to what the map shows, then to each draw with more."""
        each, classifier = self.samples + 1, judged.classifier
        fill = self.fill.prepare(classifier)
        fill_keys = streams.image_keys(judged.images, judged.seed, self.name, "fill")
        answers = torch.empty(len(image) * each, dtype=torch.long, device=image.device)
        with judged.progress.task(self.name, len(answers)) as task:

            def run(start: int, stop: int) -> None:
                job = torch.arange(start, stop, device=image.device)
                pair, draw = job // each, job % each
                more = added_cells(shown[pair], self.radius, streams.step_keys(keys[pair], draw, 1)[:, 0])
                keep = regions.keep(image[pair], torch.where(draw[:, None] == 0, shown[pair], more))
                x = judged.images[image[pair]]
                masked = judged.inputs.composite(keep, x, fill.behind(x, fill_keys[image[pair]], keep))
                answers[start:stop] = answer(classifier, classifier(masked), labels[pair])
                task.advance(stop - start)

            in_batches(run, len(answers), classifier.batches[0], item="masked image")
        return answers.view(-1, each)


def shown_cells(maps: Tensor, regions: Regions, share: float) -> Tensor:
    """Which cells ``(P, K)`` are the top share by the mean rank of their positions under maps ``(P, *positions)``."""
    ranks, index = rank(maps).to(torch.int64), regions.index.flatten(1)
    total = torch.zeros(len(maps), regions.count, dtype=torch.int64, device=maps.device)
    mean = total.scatter_add(1, index, ranks) / regions.sizes().clamp_min(1)
    return rank(-mean) < max(1, round(share * regions.count))


def added_cells(shown: Tensor, radius: int, keys: Tensor) -> Tensor:
    """Sets ``(B, K)`` drawn evenly from those that hold ``shown`` ``(B, K)`` and at most ``radius`` further cells.

    There are C(h, k) sets with k of the h hidden cells. First k is drawn in proportion to this number, then the k cells.
    """
    hidden = (~shown).sum(dim=1)
    k = exact(torch.arange(radius + 1, device=shown.device).float())
    h = exact(hidden.float())[:, None]
    ways = torch.lgamma(h + 1) - torch.lgamma(k + 1) - torch.lgamma((h - k).clamp_min(0) + 1)
    chance = ways.masked_fill(k > h, -torch.inf).softmax(dim=1).cumsum(dim=1)
    u = streams.uniform(keys, shown.shape[1] + 1)
    count = (exact(u[:, :1]) >= chance[:, :-1]).sum(dim=1, keepdim=True)
    order = u[:, 1:].masked_fill(shown, torch.inf).argsort(dim=1, stable=True).argsort(dim=1)
    return shown | (order < torch.minimum(count, hidden[:, None]))


def answer(classifier: Classifier, logits: Tensor, labels: Tensor) -> Tensor:
    """The net's answer ``(B,)`` to logits ``(B, A)``: its first label, or whether it says yes to the label."""
    log_f = classifier.log_f(logits)
    if classifier.independent:
        return (log_f.gather(1, labels[:, None])[:, 0].exp() >= 0.5).long()
    members = torch.tensor(classifier.label_set, device=logits.device)
    return members[log_f[:, members].argmax(dim=1)]
