"""The experiment ``sanity``: do maps change if the last layer of the net is randomised, as in the paper, and then further layers?

[settings]
order = "cascading"             # the last layer alone, then more of them; "last": nothing else
groups = 3                      # number of steps in which layers are randomised
pictured = 3                    # images in the figure
rows = ["TV 0"]                 # the paper's own, about which it says something

[settings.study]                # net, data and methods; its images and labels

The paper judges by eye: the maps are "less visually coherent". Here this is measured by the roughness of the top 30 % of a map
(:class:`~proofmap.metrics.roughness.Roughness`), and the difference is taken map by map.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor

from proofmap.checking import sanity_checks
from proofmap.classifier import Classifier
from proofmap.core.ranking import keep_top
from proofmap.metrics.roughness import Roughness
from proofmap.report.figures.grid import GridCell, GridFigure
from proofmap.report.figures.sanity import sanity_figure
from proofmap.report.pictures import overlay
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
from proofmap.results.randomisation import BAR, FLOOR, Order, SanityChecks
from proofmap.results.statistics import Score

SHARE = 0.3
Maps = Mapping[str, tuple[Tensor, Tensor]]
"""For each row, the maps ``(N, *positions)`` of the top label before and after the last layer is randomised."""


def run(job: Job) -> Findings:
    """Compare maps before and after randomisation: their similarity, their roughness, and a figure of both."""
    settings, here = job.settings, draw_sample(job)
    kept: dict[tuple[str, int], Tensor] = {}

    def keep(row: str, step: int, maps: Tensor) -> None:
        if step <= 1:  # the net as it is, and with its last layer randomised
            kept[row, step] = maps[:, 0]

    checks = sanity_checks(
        here.classifier,
        here.images,
        methods=[{"method": method, "name": row} for row, method in here.methods.items()],
        labels=settings["study"]["labels"],
        orders=[settings["order"]],
        groups=settings["groups"],
        on_maps=keep,
        seed=job.seed,
        progress=job.progress,
    )
    maps = {row: (kept[row, 0], kept[row, 1]) for row in here.methods}
    pictured = settings["pictured"]
    grid = _randomised_maps(
        here.classifier,
        here.images[:pictured],
        here.labels[:pictured, 0],
        {row: (a[:pictured], b[:pictured]) for row, (a, b) in maps.items() if row in settings["rows"]},
        layers="the last layer",
        settings=f"Settings: {checks.notes[0].partition(';')[0]}.",
    )
    rough = dict(_roughness(maps))
    header, rows = checks.tables()[0]
    similar = PaperTable(
        "Maps before and after layers were randomised: 1 where they stay as they are",
        tuple(header),
        tuple(map(tuple, rows)),
        tuple(
            {"method": line.method, "layers": layers, "score": line.measure}
            | {"value": line.value, "low": line.low, "high": line.high, "n": line.n}
            for line, layers in (
                *((line, line.layers) for line in checks.lines),
                *((line, FLOOR) for line in checks.floors),
            )
        ),
    )
    return Findings(
        (_roughness_table(rough), similar),
        tuple(_claims(checks, rough, settings["rows"], settings["order"])),
        (grid, sanity_figure(checks)),
        (*job.left_out(), *checks.notes),
        work=WorkDone(len(here.images), here.labels.shape[1], _passes(here, checks)),
    )


def _roughness(maps: Maps) -> Iterator[tuple[str, tuple[Tensor, Tensor]]]:
    for row, both in maps.items():
        before, after = (Roughness.of_masks(keep_top(some, SHARE)).double().cpu() for some in both)
        yield row, (before, after)


def _roughness_table(rough: Mapping[str, tuple[Tensor, Tensor]]) -> PaperTable:
    rows = {
        (row, when): [Score("roughness", higher_is_better=False, limits=Roughness.limits).over(values)]
        for row, both in rough.items()
        for when, values in zip(("trained", "randomised"), both, strict=True)
    }
    title = f"Roughness of the top {SHARE:.0%} of the maps"
    return score_table(title, ["method", "layers"], ["roughness"], rows)


def _claims(
    checks: SanityChecks, rough: Mapping[str, tuple[Tensor, Tensor]], rows: list[str], order: Order
) -> Iterator[Claim]:
    for row in rows:
        before, after = rough[row]
        yield compared(
            f"{row}: maps are less coherent once the last layer is randomised", after - before, "roughness"
        )
    for row in rows:
        line = checks.find(row, order, 1, "rank")
        yield Claim(
            f"{row}: they are other maps, with a rank correlation below {BAR:g}",
            True if line.high < BAR else False if line.low > BAR else None,
            f"rank correlation {line}, n = {line.n}",
        )


def _passes(here: Sample, checks: SanityChecks) -> int:
    """The number of passes: each row makes maps for the trained net and for each randomised net."""
    nets = 1 + len({(line.order, line.step) for line in checks.lines})
    costs = [method.cost(here.labels.shape[1]) for method in here.methods.values()]
    each = sum(cost.forward + cost.gradient for cost in costs if cost is not None)
    return nets * each * len(here.images)


def _randomised_maps(
    classifier: Classifier,
    images: Tensor,
    labels: Tensor,
    maps: Mapping[str, tuple[Tensor, Tensor]],
    *,
    layers: str,
    settings: str,
) -> GridFigure:
    """The figure of maps before and after layers of the net were randomised. The maps are given.

    Args:
        labels: the label of each image, ``(N,)``.
        maps: for each method its maps ``(N, *positions)`` before and after the layers were randomised.
        layers: the randomised layers, in words.
        settings: the end of the caption.
    """
    inputs = classifier.inputs
    f = classifier.frozen().probabilities(images).gather(1, labels[:, None])[:, 0].tolist()
    rows = []
    for i, (label, p) in enumerate(zip(labels.tolist(), f, strict=True)):
        pictures = [
            GridCell.of(overlay(images[i], both[k][i], inputs)) for both in maps.values() for k in (0, 1)
        ]
        rows.append((GridCell.photo(images[i], inputs, classifier.names[label], p), *pictures))
    first, noun = tuple(1 + 2 * k for k in range(len(maps))), inputs.singular
    return GridFigure(
        name="randomised-maps",
        about=f"Maps of the top label of each {noun}: of the net as it is, and after {layers} was randomised. Maps that come from "
        f"what the net has learned fall apart. Below each {noun}: its top label and f.",
        headings=(noun, *(["trained", "randomised"] * len(maps))),
        rows=tuple(rows),
        settings=settings,
        gaps=first,
        spans=tuple((column, column + 1, name) for column, name in zip(first, maps, strict=True)),
    )
