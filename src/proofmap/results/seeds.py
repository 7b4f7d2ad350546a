"""How much does a score depend on the seed? Compares evaluations that differ only in the seed.

The interval of a score is over images. It does not say which score another seed would have given. For a method or fill that uses random
numbers (random masks, noise, starting points), the spread over seeds is a second part of the uncertainty.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev

from proofmap.core.deferred import torch
from proofmap.core.errors import InputError
from proofmap.core.text import counted
from proofmap.results.comparability import Entry, shared_metrics, what_differs
from proofmap.results.compare import three_decimals
from proofmap.results.evaluation import Evaluation, Results, evaluation_of
from proofmap.results.tables import Cells, Table, cells_of, metric_with_arrow, metric_words


@dataclass(frozen=True)
class SeedLine:
    """One score of one method over several seeds. Each seed has its own mean over images.

    Attributes:
        value: the average of the seeds' means.
        spread: the standard deviation of the seeds' means; 0 for methods without random numbers.
        least, greatest: the lowest and the highest of the seeds' means.
        per_image: how much the value of one image varies over seeds. For each image the variance over seeds is computed; this is the square
            root of the variances' mean.
        share: ``spread`` divided by half the width of the 95 % interval over images (averaged over seeds). Above about a third, one seed is
            not enough.
        n: the number of images that count with every seed.
    """

    method: str
    metric: str
    higher_is_better: bool
    seeds: int
    value: float
    spread: float
    least: float
    greatest: float
    per_image: float
    share: float
    n: int


@dataclass(frozen=True)
class SeedSpread(Table):
    """The spread over seeds of every score of every method. Prints as a table."""

    lines: tuple[SeedLine, ...]
    notes: tuple[str, ...]

    def find(self, metric: str, method: str) -> SeedLine:
        for line in self.lines:
            if (line.metric, line.method) == (metric, method):
                return line
        raise InputError(f"{method!r} has no score {metric!r} in all of the evaluations")

    def cells(self) -> Cells:
        """Header and one row of cells per method and score."""
        return cells_of(
            self.lines,
            ("metric", lambda line: metric_with_arrow(line.metric, line.higher_is_better)),
            ("method", lambda line: line.method),
            ("mean", lambda line: three_decimals(line.value)),
            ("sd of seeds", lambda line: three_decimals(line.spread)),
            ("least", lambda line: three_decimals(line.least)),
            ("greatest", lambda line: three_decimals(line.greatest)),
            ("sd of an image", lambda line: three_decimals(line.per_image)),
            ("share", lambda line: "-" if math.isnan(line.share) else f"{line.share:.0%}"),
            ("n", lambda line: str(line.n)),
        )

    def records(self) -> list[dict[str, object]]:
        return [asdict(line) for line in self.lines]


ENOUGH = 1 / 3
"""One seed is enough if ``share`` is at most this: adding the spread over seeds to the interval over images widens it by less than 6 %."""


def seed_spread(results: Sequence[Results] | Mapping[str, Results]) -> SeedSpread:
    """The spread over seeds of every score, for the methods that are in all evaluations.

    All evaluations must have the same images, net, labels, methods and metrics, and different seeds.
    """
    given = [evaluation_of(each) for each in (results.values() if isinstance(results, Mapping) else results)]
    if len(given) < 2:
        raise InputError(
            "the spread over seeds needs at least two evaluations with different seeds; run again with another --seed and another --out"
        )
    seeds = [e.settings.get("seed") for e in given]
    if len(set(seeds)) < len(seeds):
        raise InputError(
            f"two evaluations have the same seed; they have {', '.join(map(str, seeds))}. Judge again with another --seed"
        )
    first = given[0]
    if any(set(e.image_names) != set(first.image_names) for e in given):
        raise InputError("the evaluations are of different images; judge the same ones with every seed")
    methods = [r.name for r in first.results if all(r.name in {q.name for q in e.results} for e in given)]
    if not methods:
        raise InputError("no method is in all of the evaluations")
    lines = [line for method in methods for line in _lines(given, method)]
    order = list(dict.fromkeys(line.metric for line in lines))
    lines.sort(key=lambda line: order.index(line.metric))
    return SeedSpread(tuple(lines), tuple(_notes(lines, given, seeds)))


def _lines(evaluations: Sequence[Evaluation], method: str) -> list[SeedLine]:
    entries = [
        Entry(str(e.settings.get("seed")), e, e[method], f"{method} of seed {e.settings.get('seed')}")
        for e in evaluations
    ]
    first, *others = entries
    for other in others:
        if differs := what_differs(first, other, None):
            raise InputError(
                f"{first.name} and {other.name} differ in more than the seed: {'; '.join(differs)}"
            )
    lines = []
    for metric in shared_metrics(first, others[0], None):
        if not all(metric in e.result.values for e in entries):
            continue
        scores = [e.result.score(metric) for e in entries]
        place = {name: i for i, name in enumerate(first.evaluation.image_names)}
        table = torch.stack([e.result.values[metric].double().cpu()[_rows(e, place)] for e in entries])
        known = ~table.isnan().any(dim=0)
        counts = bool(known.any())
        means = table[:, known].mean(dim=1).tolist() if counts else [math.nan] * len(entries)
        variance = float(table[:, known].var(dim=0).mean()) if counts else math.nan
        half = fmean((s.high - s.low) / 2 for s in scores)
        spread = stdev(means) if counts else math.nan
        lines.append(
            SeedLine(
                method=method,
                metric=metric,
                higher_is_better=scores[0].higher_is_better,
                seeds=len(entries),
                value=fmean(means),
                spread=spread,
                least=min(means),
                greatest=max(means),
                per_image=math.sqrt(variance),
                share=spread / half if half > 0 else (0.0 if spread == 0 else math.nan),
                n=int(known.sum()),
            )
        )
    return lines


def _rows(entry: Entry, place: Mapping[str, int]) -> list[int]:
    """The row indices of the entry's images, sorted in the order of the first evaluation. ``place`` maps image names to that order."""
    names = entry.evaluation.image_names
    return sorted(range(len(names)), key=lambda i: place[names[i]])


def _notes(
    lines: Sequence[SeedLine], evaluations: Sequence[Evaluation], seeds: Sequence[object]
) -> list[str]:
    notes = [
        f"{counted(len(evaluations[0]), evaluations[0].inputs.singular)}, seeds {', '.join(map(str, seeds))}; share: the spread over seeds relative to half the "
        "95 % interval over images"
    ]
    loud = [line for line in lines if line.share > ENOUGH]
    if loud:
        names = ", ".join(f"{metric_words(line.metric)} of {line.method}" for line in loud)
        notes.append(
            f"one seed is not enough for {names}: quote the mean over seeds, or let the method draw more"
        )
    return notes
