"""Tables of scores next to the numbers printed in the paper. [settings.paper."ROW"] has the printed numbers of a row by metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from proofmap.core.text import counted
from proofmap.methods.method import Method
from proofmap.reproduce.findings import PaperTable, score_cell
from proofmap.reproduce.rows import FLOORS, by_epsilons
from proofmap.results.evaluation import Evaluation
from proofmap.results.sharing import without_folders
from proofmap.results.statistics import score_numbers
from proofmap.results.tables import number


def score_tables(evaluation: Evaluation, settings: Mapping[str, Any]) -> list[PaperTable]:
    """A table of all scores, and one more table for each metric that is judged at several thresholds."""
    several, paper = by_epsilons(settings), settings.get("paper", {})
    apart = {name for names in several.values() for name in names}
    all_names = [score.name for score in evaluation.results[0].scores]
    title = f"{evaluation.settings['model']}, {counted(len(evaluation), 'image')}, labels {evaluation.settings['labels']}"
    plain = [name for name in all_names if name not in apart]
    made = [_table(evaluation, title, {name: name for name in plain}, paper)] if plain else []
    for metric, names in several.items():
        floor = FLOORS[evaluation.results[0].score(names[0]).kind]
        headers = {
            name: f"{preset}, {floor} = {pair[floor]:g}"
            for name, (preset, pair) in zip(names, settings["epsilons"].items(), strict=True)
        }
        printed = {
            row: {name: cells[metric] for name in names if metric in cells} for row, cells in paper.items()
        }
        made.append(_table(evaluation, f"{metric}: {title}", headers, printed))
    return made


def _table(
    evaluation: Evaluation, title: str, headers: Mapping[str, str], paper: Mapping[str, Mapping[str, float]]
) -> PaperTable:
    rows, records = [], []
    for result in evaluation.results:
        printed = paper.get(result.name, {})
        rows.append((result.name, *(score_cell(result.score(name), printed.get(name)) for name in headers)))
        for name in headers:
            score = result.score(name)
            cells = {"method": result.name, "score": name, **score_numbers(score)}
            records.append({**cells, "paper": printed.get(name, "")})
    return PaperTable(title, ("method", *headers.values()), rows, records)


def epsilon_table(evaluation: Evaluation, settings: Mapping[str, Any]) -> PaperTable | None:
    """A table of how far the results at each pair of thresholds are from the printed numbers, on average over the printed rows.

    A printed row may be interpreted in several ways, each of which is a row here: "Gradient x Input" and "Gradient x Input, unsigned". The
    printed row counts once, with the mean distance over its interpretations.
    """
    several, paper = by_epsilons(settings), settings.get("paper", {})
    there = {result.name: result for result in evaluation.results}
    away: dict[str, dict[str, float]] = {}
    rows_used = 0
    for metric, names in several.items():
        for preset, name in zip(settings["epsilons"], names, strict=True):
            gaps: dict[str, list[float]] = {}
            for row, cells in paper.items():
                if row in there and metric in cells:
                    first = row.partition(",")[0]
                    printed = first if first in paper else row
                    gaps.setdefault(printed, []).append(abs(there[row].score(name).value - cells[metric]))
            if gaps:
                away.setdefault(metric, {})[preset] = fmean(map(fmean, gaps.values()))
                rows_used = max(rows_used, len(gaps))
    if not away:
        return None
    header = ("thresholds", "e1", "e2", *away)
    rows = [
        (preset, f"{pair['e1']:g}", f"{pair['e2']:g}", *(number(away[metric][preset]) for metric in away))
        for preset, pair in settings["epsilons"].items()
    ]
    records = [
        {"thresholds": preset, **pair, **{f"{metric}_away": away[metric][preset] for metric in away}}
        for preset, pair in settings["epsilons"].items()
    ]
    title = (
        f"How far from the printed numbers each pair of thresholds is, mean of {counted(rows_used, 'row')}"
    )
    return PaperTable(title, header, rows, records)


def distances(evaluation: Evaluation, settings: Mapping[str, Any]) -> Sequence[tuple[float, str, str]]:
    """The distance of each printed number from the score found here, as (distance, row, metric), for metrics at a single threshold."""
    there = {result.name: result for result in evaluation.results}
    several = by_epsilons(settings)
    return [
        (abs(there[row].score(metric).value - printed), row, metric)
        for row, cells in settings.get("paper", {}).items()
        for metric, printed in cells.items()
        if row in there and metric not in several
    ]


def rows_table(evaluation: Evaluation, methods: Mapping[str, Method]) -> PaperTable:
    """A table with the settings of each row, and the seconds for making and judging its maps. Settings that all rows of a method share are
    listed once, at the end."""
    shared = shared_changes([methods[result.name] for result in evaluation.results])
    rows, records = [], []
    for result in evaluation.results:
        method = methods[result.name]
        own = [change for change in method.changes() if change not in shared.get(method.name, ())]
        what = (
            f"{method.name}{':' if own else ''}{','.join(own)}" if method.name in shared else method.title()
        )
        rows.append((result.name, without_folders(what), f"{result.seconds:.1f}"))
        records.append({"method": result.name, "what": without_folders(method.title())})
    rows += [(f"every {name}", without_folders(",".join(changes)), "") for name, changes in shared.items()]
    return PaperTable("What each row is", ("method", "what", "seconds"), rows, records)


def shared_changes(methods: Sequence[Method]) -> dict[str, list[str]]:
    """Method name -> the settings that differ from their defaults and that all rows of this method share, for methods with several rows."""
    named: dict[str, list[list[str]]] = {}
    for method in methods:
        named.setdefault(method.name, []).append(method.changes())
    found = {
        name: [change for change in each[0] if all(change in other for other in each)]
        for name, each in named.items()
        if len(each) > 1
    }
    return {name: changes for name, changes in found.items() if changes}
