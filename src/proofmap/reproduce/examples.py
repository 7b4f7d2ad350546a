"""The experiment ``examples``: single images that a rule chooses, each with the mask of its own label and of another one.

[settings]
figure = "artifact"             # or "desk"
least_own = 0.99                # the net gives the image's own label at least this f ...
most_other = 1e-5               # ... and the other label at most this f

[settings.pairs]                # an image of this true label, and the other label whose mask is shown
ship = "cat"

[settings.tvs]                  # for "artifact": rows of the study, and their weights of the total variation
"TV .01" = 0.01

[settings.areas]                # what the paper prints: the areas of the own and of the other label
ship = [0.94, 0.18]

[settings.study]                # net, data and methods; its images and labels follow from the pairs

Images are tried in the study's random order, and the first one of each pair that fits is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import torch

from proofmap.core.errors import InputError
from proofmap.core.labels import label_index
from proofmap.data.dataset import random_choice
from proofmap.data.loader import load_blocks
from proofmap.report.figures.drawing import Figure
from proofmap.report.figures.learned import artifacts_of
from proofmap.report.figures.masks import desk_of
from proofmap.reproduce import study_recipe
from proofmap.reproduce.findings import Findings, Job, PaperTable
from proofmap.reproduce.rows import study_of
from proofmap.reproduce.stored_maps import StoredMaps
from proofmap.results.sharing import shared
from proofmap.results.tables import number
from proofmap.study.opened import open_study

BLOCK = 64
"""Number of images that are tried together."""


_Example = tuple[str, int, int]
"""The name of an image, and the indices of its true label and of another label."""


def run(job: Job) -> Findings:
    """Choose the images, judge the masks of all labels as a study, and show each image with its two labels."""
    chosen = choose_examples(job)
    labels = list(dict.fromkeys(a for _, *both in chosen for a in both))
    study = {**job.settings["study"], "labels": labels}
    study["images"] = {"names": list(dict.fromkeys(image for image, *_ in chosen))}
    own = replace(job, settings={**job.settings, "study": study}, images=None)
    outcome = study_recipe.run(own)
    stored = StoredMaps.open(job.folder, study_of(own), job.device)
    return replace(
        outcome,
        tables=(_areas(stored, chosen, job.settings.get("areas", {})), *outcome.tables),
        figures=_figures(stored, chosen, own),
        notes=(_rule(job), *outcome.notes),
    )


def choose_examples(job: Job) -> list[_Example]:
    """For each pair of labels, the first image in the study's random order whose probabilities fit. Raises if no image fits."""
    study, settings = study_of(job), job.settings
    opened = open_study(study, device=job.device)
    dataset, classifier = opened.data, opened.classifier
    order = random_choice(dataset.names, len(dataset), seed=study.images.seed)
    chosen = []
    for first, second in settings["pairs"].items():
        own, other = (label_index(name, classifier.names) for name in (first, second))
        candidates = [i for i in order if dataset.truth(i) == own]
        for block in load_blocks(dataset, classifier, candidates, block_size=BLOCK):
            images = classifier.check_images(block.images)
            f = classifier.frozen().probabilities(images)
            fits = (f[:, own] >= settings["least_own"]) & (f[:, other] <= settings["most_other"])
            places = torch.nonzero(fits)[:, 0].tolist()
            if places:
                chosen.append((dataset.names[block.indices[places[0]]], own, other))
                break
        else:
            raise InputError(
                f"no image of {first!r} has f >= {settings['least_own']:g} for it and f <= {settings['most_other']:g} for {second!r}: "
                f"{len(candidates)} were tried. Use more images of this label, or another net"
            )
    return chosen


def _rule(job: Job) -> str:
    settings = job.settings
    pairs = ", ".join(f"{own} ({other})" for own, other in settings["pairs"].items())
    return (
        f"images of {pairs}: the first in random order with f >= {settings['least_own']:g} for the label and f <= "
        f"{settings['most_other']:g} for the one in parentheses; single images decide nothing"
    )


def _areas(
    stored: StoredMaps, chosen: list[_Example], printed: Mapping[str, tuple[float, float]]
) -> PaperTable:
    """A table with the probability f of each image's two labels, and the area under the insertion curve of their masks, for each method."""
    evaluation, rows = stored.evaluation, []
    records: list[dict[str, object]] = []
    for result, (image, *both) in product(evaluation.results, chosen):
        i, own = evaluation.image_names.index(image), evaluation.label_names[both[0]]
        for place, label in enumerate(both):
            j, name = evaluation.labels[i].tolist().index(label), evaluation.label_names[label]
            f, area = float(evaluation.f[i, j]), float(result.insertion.auc[i, j])
            paper = printed[own][place] if own in printed else None
            beside = "" if paper is None else f" (paper {number(paper)})"
            rows.append((result.name, image, name, number(f), f"{number(area)}{beside}"))
            what = {"method": result.name, "image": image, "label": name, "score": "area"}
            records.append({**what, "value": area, "f": f, "n": 1, "paper": "" if paper is None else paper})
    header = ("method", "image", "label", "f", "area under the mask")
    return PaperTable("Areas of the right label and of another", header, rows, records)


def _figures(stored: StoredMaps, chosen: list[_Example], job: Job) -> dict[str, Figure]:
    evaluation = shared(stored.evaluation)
    places = [evaluation.image_names.index(image) for image, *_ in chosen]
    columns = [
        [evaluation.labels[i].tolist().index(label) for label in both]
        for i, (_, *both) in zip(places, chosen, strict=True)
    ]
    if job.settings["figure"] == "desk":
        found = [desk_of(evaluation, i, places=own) for i, own in zip(places, columns, strict=True)]
        names = ["desk-photo"] if len(found) == 1 else [f"desk-photo-{k + 1}" for k in range(len(found))]
        return dict(zip(names, found, strict=True))
    table = torch.tensor([both for _, *both in chosen], device=stored.classifier.device)
    maps = {
        tv: torch.stack([stored.maps(row)[i, own] for i, own in zip(places, columns, strict=True)])
        for row, tv in job.settings["tvs"].items()
    }
    first = evaluation.results[0]
    figure = artifacts_of(
        stored.classifier,
        stored.images[places],
        table,
        maps,
        stored.about(),
        thresholds=(first.threshold("e1"), first.threshold("e2")),
        points=stored.points,
        seed=job.seed,
    )
    return {figure.name: figure}
