"""The experiment ``curves``: the net's probability while the pixels of learned masks are shown one after another, with several fills.

A fill gives the values of hidden pixels. The masks come from a study of the top two labels. The insertion game, which shows pixels in the
order of a mask, is then played on the masks with each fill. The figure has the mean curves, and the table has the areas under the curves: a
large area for the top label means that the mask is complete, a small area for the second label means that it is sound.

[settings.lines]                # rows of the study from the least regularised on, and what the figure calls them
"TV 0" = "0"
"TV .1" = ".1"

[settings.panels]               # what the figure calls a fill, and the study's metric of the insertion game with it
gray = "insertion, gray"
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from proofmap.metrics.areas import GameMetric
from proofmap.metrics.curves import Curves
from proofmap.report.figures.curves import TVCurves
from proofmap.reproduce import study_recipe
from proofmap.reproduce.claims import compared
from proofmap.reproduce.findings import Claim, Findings, Job, PaperTable, score_table
from proofmap.reproduce.rows import study_of
from proofmap.reproduce.stored_maps import StoredMaps
from proofmap.results.statistics import Score
from proofmap.results.tables import signed
from proofmap.study import Study

CurvesByPanel = Mapping[str, Mapping[str, Curves]]
"""Insertion curves of N images and two labels, by fill and row."""
LABELS = ("top label", "second label")


def run(job: Job) -> Findings:
    """Learn the masks, as a study. Then play the insertion game with each fill."""
    outcome, study = study_recipe.run(job), study_of(job)
    stored = StoredMaps.open(job.folder, study, job.device)
    found = played(stored, study, job.settings["lines"], job.settings["panels"])
    return replace(
        outcome,
        tables=(areas_table(stored, found), *outcome.tables),
        claims=(*area_claims(found), *outcome.claims),
        figures=(figure(stored, found, job.settings["lines"]), *outcome.named_figures.values()),
    )


def played(stored: StoredMaps, study: Study, rows: Sequence[str], panels: Mapping[str, str]) -> CurvesByPanel:
    """Play the insertion game on the maps of these rows, once for each fill in ``panels``, and return the curves by fill and row.

    ``panels`` has for each fill the name of the study's metric whose game is played.
    """
    metrics = study.named_metrics()
    found: dict[str, dict[str, Curves]] = {}
    for fill, name in panels.items():
        metric = metrics[name]
        assert isinstance(metric, GameMetric), "the recipe names a metric of the insertion game"
        found[fill] = {row: stored.judged(row).play(metric.game) for row in rows}
    return found


def areas_table(stored: StoredMaps, found: CurvesByPanel) -> PaperTable:
    """A table of the mean area under the curve, by row, label and fill."""
    columns = [(place, fill) for place in range(len(LABELS)) for fill in found]
    names = [f"{LABELS[place]}, {fill}" for place, fill in columns]
    rows = {
        (row,): [
            Score(name, higher_is_better=place == 0, limits=(0.0, 1.0)).over(found[fill][row].auc[:, place])
            for name, (place, fill) in zip(names, columns, strict=True)
        ]
        for row in next(iter(found.values()))
    }
    title = f"Areas under the curves, {len(stored.evaluation)} images"
    return score_table(title, ["method"], names, rows)


def area_claims(found: CurvesByPanel) -> Iterator[Claim]:
    """The paper's claims about the curves. They compare the most regularised row with the least regularised row, and the first two fills."""
    for fill, lines in found.items():
        names = list(lines)
        first, last = names[0], names[-1]
        down = (lines[first].auc - lines[last].auc).cpu()
        yield compared(
            f"total variation makes it harder to find a mask for the second label, {fill} behind",
            down[:, 1],
            f"its area falls from {first} to {last} by",
        )
        yield compared(
            f"it costs the top label less than it takes from the second, {fill} behind",
            down[:, 1] - down[:, 0],
            f"the top label's area changes by {signed(-float(down[:, 0].mean()))}, and the second's falls more, by",
        )
    if len(found) > 1:
        (one, lines), (other, others) = list(found.items())[:2]
        for row in lines:
            yield compared(
                f"{other} behind is more pessimistic than {one} ({row})",
                (lines[row].auc - others[row].auc)[:, 0].cpu(),
                "the top label's area is smaller by",
            )


def figure(stored: StoredMaps, found: CurvesByPanel, lines: Mapping[str, str]) -> TVCurves:
    """The paper's figure, with a row of panels per label and a panel per fill."""
    named = {fill: {lines[row]: curves for row, curves in own.items()} for fill, own in found.items()}
    return TVCurves.of(named, stored.about(), stored.classifier.inputs.position_noun)
