"""The experiment ``artifacts``: what masks make the net predict for labels that are not in the image.

A mask M hides a part of the image x: x~ = M x + (1 - M) gray. f is the net's probability of a label. The experiment measures, for the top
label and for the other labels, at each weight of the total variation (TV): f of the label on x and on x~, how often the label is the net's
most probable one on x~, the roughness of the mask, and its area.

[settings]
pictured = 4                    # images in the figure

[settings.tvs]                  # rows of the study, without regularisation first, and their weights of the total variation
"TV 0" = 0.0
"TV .01" = 0.01

[settings.study]                # labels = "all", maps = "float32"
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from proofmap.metrics.roughness import Roughness
from proofmap.report.figures.grid import GridFigure
from proofmap.report.figures.learned import artifacts_of
from proofmap.reproduce import study_recipe
from proofmap.reproduce.claims import compared
from proofmap.reproduce.findings import Claim, Findings, Job, PaperTable, score_table
from proofmap.reproduce.rows import study_of
from proofmap.reproduce.stored_maps import StoredMaps
from proofmap.results.statistics import Score, doubles, mean_interval
from proofmap.results.tables import number

MEASURES = {
    "f": "f, whole image",
    "f on x~": "f, masked image",
    "first": "made the first label",
    "roughness": "roughness of the mask",
    "area": "area of the mask",
}
_KINDS = ("other labels", "top label")


def run(job: Job) -> Findings:
    """Learn masks of every label, as a study. Then measure what the net predicts on the masked images."""
    outcome, study = study_recipe.run(job), study_of(job)
    stored = StoredMaps.open(job.folder, study, job.device)
    tvs: Mapping[str, float] = job.settings["tvs"]
    found = {row: {key: _split(value) for key, value in measured(stored, row).items()} for row in tvs}
    return replace(
        outcome,
        tables=(_table(stored, found), *outcome.tables),
        claims=(*_claims(found), *outcome.claims),
        figures=(_figure(stored, tvs, job), *outcome.named_figures.values()),
    )


def measured(stored: StoredMaps, row: str) -> dict[str, Tensor]:
    """For each key of :data:`MEASURES`, the values ``(N, L)`` of every image and label, for the masks of one row of the study."""
    net, masks, labels = stored.classifier.frozen(), stored.maps(row), stored.labels
    masked = net.inputs.composite(masks, stored.images[:, None], net.blank(1)[None])
    seen = net.probabilities(masked.flatten(0, 1)).view(*labels.shape, -1)
    return {
        "f": stored.evaluation.f,
        "f on x~": seen.gather(2, labels[:, :, None])[:, :, 0].cpu(),
        "first": (seen.argmax(dim=2) == labels).float().cpu(),
        "roughness": Roughness().pairs(stored.judged(row)).cpu(),
        "area": masks.flatten(2).mean(dim=2).cpu(),
    }


def _split(values: Tensor) -> dict[str, Tensor]:
    """Split values ``(N, L)`` into those of the top label and those of the other labels, with NaN elsewhere. Label 0 is the top label."""
    top = torch.zeros_like(values, dtype=torch.bool)
    top[:, 0] = True
    return {
        "top label": values.masked_fill(~top, torch.nan),
        "other labels": values.masked_fill(top, torch.nan),
    }


def _table(stored: StoredMaps, found: Mapping[str, Mapping[str, Mapping[str, Tensor]]]) -> PaperTable:
    n, labels = stored.labels.shape
    title = f"Masks of {labels} labels of {n} images; intervals draw images with all their labels"
    rows = {
        (row, kind): [_pooled(key, measures[key][kind]) for key in MEASURES]
        for row, measures in found.items()
        for kind in _KINDS
    }
    return score_table(title, ["method", "labels"], list(MEASURES.values()), rows)


def _pooled(measure: str, values: Tensor) -> Score:
    """The mean of values ``(N, L)`` over all pairs. They lie between 0 and 1, except for roughness."""
    limits = Roughness.limits if measure == "roughness" else (0.0, 1.0)
    low, high = _pooled_interval(values, limits=limits)
    return Score(MEASURES[measure], float(values.nanmean()), low, high, int((~values.isnan()).sum()))


def _claims(found: Mapping[str, Mapping[str, Mapping[str, Tensor]]]) -> Iterator[Claim]:
    """The claims of the figure's caption and of the paper's text, tested on means over the labels of each image."""
    rows = list(found)

    def mean(row: str, measure: str, kind: str) -> Tensor:
        return found[row][measure][kind].nanmean(dim=1)

    fooled = (found[rows[0]]["first"]["other labels"].nan_to_num(0.0) > 0).any(dim=1).float()
    yield compared(
        f"for most images some mask makes a label the first that is not there ({rows[0]})",
        fooled - 0.5,
        f"{number(float(fooled.mean()))} of the images; above one half by",
    )
    for row in rows[1:]:
        yield compared(
            f"total variation makes such masks rarer: {row} against {rows[0]}",
            mean(rows[0], "first", "other labels") - mean(row, "first", "other labels"),
            "the share of other labels made the first falls by",
        )
        yield compared(
            f"total variation lowers what other labels' masks reach: {row} against {rows[0]}",
            mean(rows[0], "f on x~", "other labels") - mean(row, "f on x~", "other labels"),
            "f on the masked image falls by",
        )
    for row in rows:
        yield compared(
            f"masks of other labels are more ragged than those of the top label ({row})",
            mean(row, "roughness", "other labels") - mean(row, "roughness", "top label"),
            "roughness is larger by",
        )


def _figure(stored: StoredMaps, tvs: Mapping[str, float], job: Job) -> GridFigure:
    """The figure of the masks of the first images. If all images have the same labels, each column shows one label."""
    some = slice(job.settings["pictured"])
    labels, order = stored.labels[some].sort(dim=1)
    if not bool((labels == labels[:1]).all()):
        labels, order = stored.labels[some], torch.arange(labels.shape[1]).expand_as(labels)
    maps = {}
    for row, tv in tvs.items():
        own = stored.maps(row)[some]
        maps[tv] = own.gather(1, order.to(own.device)[:, :, None, None].expand_as(own))
    result = stored.evaluation.results[0]
    return artifacts_of(
        stored.classifier,
        stored.images[some],
        labels,
        maps,
        stored.about(),
        thresholds=(result.threshold("e1"), result.threshold("e2")),
        points=stored.points,
        seed=job.seed,
    )


def _pooled_interval(
    values: ArrayLike, *, limits: tuple[float, float] = (-math.inf, math.inf)
) -> tuple[float, float]:
    """The ends of the interval of the mean R over all (image, label) pairs, from ``values`` ``(N, L)``. The interval is over images, not
    over pairs.

        R = sum_i s_i / sum_i c_i,      s_i the sum and c_i the number of image i's values that count

    The labels of one image are not independent of one another, so an interval over pairs would be too narrow. The interval of the
    ratio R is computed as that of the mean of R + (s_i - R c_i) / c, where c is the mean of c_i. The two means differ only in
    second order.
    """
    values = doubles(values)
    sums, counts = np.nansum(values, axis=1), (~np.isnan(values)).sum(axis=1)
    sums, counts = sums[counts > 0], counts[counts > 0]
    if not len(counts):
        return math.nan, math.nan
    with np.errstate(invalid="ignore"):  # infinite values
        ratio = sums.sum() / counts.sum()
        return mean_interval(ratio + (sums - ratio * counts) / counts.mean(), limits=limits)
