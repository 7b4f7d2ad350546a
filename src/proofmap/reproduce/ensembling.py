"""The experiment ``ensembling``: K masks are learned together, and each of them alone must make the net predict the label.

[settings]
ks = [1, 2, 4]
share = 0.3                     # of the positions that a mask shows
pictured = 4                    # images in the figure

[settings.study]                # net, data, images; its one method is the learned mask, whose K is varied

The paper asks that each mask validates the label alone, and that the masks are as disjoint as possible. Both are measured:

    alone     the net's probability f of the label if only the top ``share`` of one mask is shown on gray; the weakest of the K masks counts
    overlap   |A and B| / |A| for the top positions A and B of two masks, as a mean over pairs; it is ``share`` for random masks
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.ranking import keep_top
from proofmap.methods.masks.learned import LearnedMask
from proofmap.report.figures.learned import masks_by_k
from proofmap.reproduce.claims import compared
from proofmap.reproduce.findings import (
    Claim,
    Findings,
    Job,
    PaperTable,
    WorkDone,
    score_table,
)
from proofmap.reproduce.rows import Sample, draw_sample
from proofmap.results.statistics import Score
from proofmap.results.tables import number
from proofmap.session import Session

MaskScores = Mapping[str, Tensor]
"""For one K, by name, values ``(N,)`` of the images: the lowest f of a mask alone, the mean f, and the overlap (NaN for a single mask)."""


def run(job: Job) -> Findings:
    """Compute a row for each K, a row for random positions, and a figure with the masks of some images."""
    settings, here = job.settings, draw_sample(job)
    ks, share = settings["ks"], settings["share"]
    (method,) = here.methods.values()
    if not isinstance(method, LearnedMask):
        raise InputError("ensembling is about learned masks: its one method must be learned-mask")
    masks = {k: _masks(here, replace(method, masks=k), job) for k in ks}
    found = {k: _found(here, own, share) for k, own in masks.items()}
    chance = _probability_alone(here, _noise(here, job.seed), share)[:, 0]
    f = here.classifier.frozen().probabilities(here.images).gather(1, here.labels[:, :1])[:, 0].cpu()
    figure = masks_by_k(
        here.classifier,
        here.images[: settings["pictured"]],
        ks=ks,
        share=share,
        method=method,
        masks=masks,
        seed=job.seed,
    )
    passes = sum(ks) * method.steps * method.distractors * len(here.images)
    return Findings(
        (_table(found, chance, f, share),),
        tuple(_claims(found, chance, share)),
        (figure,),
        (
            *job.left_out(),
            "in the released code all K masks start equal and stay so, bit by bit; here a small random start tells them apart",
        ),
        work=WorkDone(len(here.images), 1, passes),
    )


def _masks(here: Sample, method: LearnedMask, job: Job) -> Tensor:
    """The masks ``(N, K, *positions)`` of the top label."""
    session = Session(here.classifier, seed=job.seed, progress=job.progress)
    return method.each_mask(session, here.images, here.labels[:, :1])[:, 0]


def _found(here: Sample, masks: Tensor, share: float) -> MaskScores:
    alone = _probability_alone(here, masks, share)
    scores = {"weakest mask": alone.amin(dim=1), "mean mask": alone.mean(dim=1)}
    return {**scores, "overlap": overlap(masks, share)}


def overlap(masks: Tensor, share: float) -> Tensor:
    """The overlap ``(N,)`` of K masks ``(N, K, *positions)``: the share of top positions that two masks have in common, as a mean over pairs.

    >>> left, right = torch.eye(2)[:, None, None]  # two masks of a picture of one row and two columns
    >>> overlap(torch.stack([left, left], 1), 0.5), overlap(torch.stack([left, right], 1), 0.5)
    (tensor([1.], dtype=torch.float64), tensor([0.], dtype=torch.float64))
    """
    n, k = masks.shape[:2]
    top = keep_top(masks.flatten(0, 1), share).view(n, k, -1).double()
    both = top @ top.mT / top.sum(dim=2).clamp_min(1)[:, :, None]
    others = ~torch.eye(k, dtype=torch.bool, device=masks.device)
    return both.masked_fill(~others, torch.nan).flatten(1).nanmean(dim=1).cpu()


@torch.no_grad()
def _probability_alone(here: Sample, masks: Tensor, share: float) -> Tensor:
    """The probability f ``(N, K)`` of the first label if only the top positions of each mask are shown on gray."""
    classifier, fast = here.classifier, here.classifier.frozen()
    columns = []
    for k in range(masks.shape[1]):
        seen = classifier.inputs.composite(
            keep_top(masks[:, k], share), here.images, classifier.blank(len(masks))
        )
        columns.append(fast.probabilities(seen).gather(1, here.labels[:, :1])[:, 0])
    return torch.stack(columns, dim=1).double().cpu()


def _noise(here: Sample, seed: int) -> Tensor:
    """A random map for each image, as one mask: ``(N, 1, *positions)``."""
    keys = streams.image_keys(here.images, seed, "positions at random")
    inputs = here.classifier.inputs
    return streams.normal(keys, inputs.count).view(len(here.images), 1, *inputs.positions)


def _table(found: Mapping[int, MaskScores], chance: Tensor, f: Tensor, share: float) -> PaperTable:
    rows = {
        (f"K = {k}",): [_mean(name, values) for name, values in some.items()] for k, some in found.items()
    }
    rows[("positions at random",)] = [_mean("weakest mask", chance)]
    rows[("whole image",)] = [_mean("weakest mask", f)]
    title = f"f of the top label when {share:.0%} of the positions are shown on gray, {len(f)} images"
    return score_table(title, ["method"], ["the weakest mask", "mean of masks", "overlap"], rows)


def _claims(found: Mapping[int, MaskScores], chance: Tensor, share: float) -> Iterator[Claim]:
    for k, some in found.items():
        says = f"K = {k}: even the weakest mask shows the label by itself, better than positions at random"
        yield compared(says, some["weakest mask"] - chance, "f is larger by")
    for k, some in found.items():
        if k > 1:
            says = f"K = {k}: the masks are more disjoint than if they were drawn at random"
            yield compared(
                says, share - some["overlap"], f"the overlap, {number(share)} at random, is smaller by"
            )


def _mean(name: str, values: Tensor) -> Score:
    return Score(name, limits=(0.0, 1.0)).over(values)
