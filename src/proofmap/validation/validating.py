"""``validate``: the tests of metrics, one function for each.

ladder        a map against the same map made worse (ladder.py): is the better one scored better? Ties count half
blind spots   the same on a net that does not see a random half of the positions: a map's mass is moved into that half, or out of it again
code          a map against one that proves the label by its outline, drawn on purpose (encoder.py)
outline       per method: how much of the area remains if its map is played on another input (the metric outline)
detail        per metric: the score of a map blurred or moved by so little that a person does not see it, less that of the map
fills         do two fills order the same two methods in opposite ways, decided by paired intervals? Which fill gets blind spots right?
noise         the same maps with another seed (other random images) and with twice the points; how many images a difference needs
off the data  how far composites lie from other inputs of the data, in the features of the net
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.features import features
from proofmap.classifier.kernels import outside_inference_mode
from proofmap.classifier.raw import as_classifier
from proofmap.core import streams
from proofmap.core.errors import InputError, ProofmapError
from proofmap.core.labels import NO_LABEL, LabelRule, Labels
from proofmap.core.progress import Progress
from proofmap.core.ranking import keep_top
from proofmap.core.text import counted
from proofmap.data.distractors import Distractors
from proofmap.data.given import ImagesLike, Subjects, Truth, as_subjects
from proofmap.fills import Fill
from proofmap.fills.fill import make_fill
from proofmap.methods.method import default_method, make_method
from proofmap.metrics.metric import Metric, RunMetric
from proofmap.metrics.outline import Outline
from proofmap.plugins.settings import setting_names
from proofmap.plugins.specs import split_specs
from proofmap.results.compare import decided_signs, images_needed
from proofmap.results.statistics import Doubles
from proofmap.results.validation import Measured, Validation, pooled, rightly_ordered
from proofmap.session import Session
from proofmap.study.opened import prepare_study
from proofmap.study.study import Study
from proofmap.validation.encoder import codes
from proofmap.validation.ladder import BLIND, DETAIL, KEPT, LADDER, Places, heights, reordered
from proofmap.validation.trial import Table, Trial, coarse, marked

TESTS = ("ladder", "blind spots", "code", "outline", "detail", "fills", "noise", "off the data")
_TOPS = (0.01, 0.05, 0.1, 0.25)
_SHOWN = (0.1, 0.3, 0.6)
_BLOCK = 64


@outside_inference_mode()
def validate(
    net: Any,
    images: ImagesLike,
    *,
    metrics: Any = None,
    methods: Any = None,
    labels: Labels = "top2+wrong",
    tests: Sequence[str] = TESTS,
    fills: Sequence[str | Fill] = (),
    judge: Any = None,
    points: int = 6,
    draws: int = 2,
    truth: Truth | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Validation:
    """Put metrics to tests whose answer is known, on this net and these images: see :mod:`proofmap.validation.validating`.

    A few dozen images are enough. The maps of the first method are made worse in known steps, so its maps should be good ones.

    Args:
        net, images, labels, truth, seed: as :func:`proofmap.evaluate` takes them.
        metrics: a metric or a list of metrics; :func:`default_metrics` by default. Curves with the default number of points are played with
            ``points``.
        methods: a method or a list of methods. By default Grad-CAM (``belief-order`` for texts, rows and models without gradients),
            ``gradient-x-input`` (if there are gradients) and ``random``.
        tests: the tests to make, of ``TESTS``.
        fills: the fills to compare; by default up to two of those that suit the inputs.
        judge: another net of the same inputs and labels, such as one that was tuned on masked inputs: does it order methods in another way?
        draws: the number of halves that are hidden from the net, each from another part of the images.
    """
    if unknown := [test for test in tests if test not in TESTS]:
        raise InputError(f"there is no test {unknown[0]!r}; the tests are {', '.join(TESTS)}")
    if points < 2 or draws < 1:
        raise InputError("points must be at least 2, and draws at least 1")
    classifier = as_classifier(net, images)
    if classifier.own_given > 1:
        raise InputError("a validation takes a net whose given inputs are the same for all images")
    rule = LabelRule.parse(labels, classifier.names, classifier.inputs.singular)
    given = list(as_subjects(images, classifier, rule, seed=seed, truth=truth, block_size=_BLOCK))
    blocks = [whole[k : k + _BLOCK] for whole in given for k in range(0, len(whole), _BLOCK)]
    everything = torch.cat([block.images for block in blocks])
    if len(everything) < 2:
        raise InputError(f"a validation needs two {classifier.inputs.noun} or more, better 24; there is one")
    study = Study(methods=_several(methods, make_method) or default_methods(classifier), seed=seed)
    opened = prepare_study(study, classifier, lambda: Distractors.from_images(everything, classifier.inputs))
    named = Study(metrics=_several(metrics, lambda each: each)).named_metrics()
    played = {name: coarse(m, points) for name, m in named.items() if not isinstance(m, RunMetric)}
    trial = Trial(opened.session, opened.methods, played, rule, progress)
    tables = Table(len(everything))
    first = 0
    for block in blocks:
        _measure(trial, tables, block, list(range(first, first + len(block))), tests, draws, points)
        first += len(block)
    lines = [*_known_lines(trial, tables), *_method_lines(trial, tables), *_noise_lines(trial, tables)]
    others = () if judge is None else (as_classifier(judge, images),)
    if "fills" in tests:
        lines += _fill_lines(trial, blocks, _usable(trial.session, fills), others, draws)
    if "off the data" in tests:
        lines += _off_lines(trial, blocks, everything, _usable(trial.session, fills))
    settings = {
        **classifier.settings(),
        "fingerprint": classifier.fingerprint(),
        "images": len(everything),
        "labels": str(rule),
        "methods": list(opened.methods),
        "points": points,
        "tests": list(tests),
        "seed": seed,
    }
    inputs = classifier.inputs
    notes = (
        f"{counted(len(everything), inputs.singular)}, labels {rule}, {classifier.name}, maps of {next(iter(opened.methods))}, curves of {points} "
        f"points, seed {seed}; shares of pairs in the right order, with 95 % intervals over {inputs.noun}; .5 is chance",
    )
    metrics_found = {name: trial.untested.get(name, "") for name in played}
    return Validation(tuple(lines), metrics_found, settings, notes)


def default_methods(classifier: Classifier) -> list[str]:
    """The methods of a validation if none are named: one whose maps are good and cheap, one that is worse, and noise."""
    usual = default_method(classifier)
    good = "grad-cam" if usual == "belief-mask" else usual
    return [good, *(["gradient-x-input"] if classifier.differentiable else []), "random"]


def expected_passes(
    classifier: Classifier,
    images: int,
    metrics: Any = None,
    methods: int = 3,
    labels: int = 4,
    points: int = 6,
) -> int:
    """About how many passes of the net a validation makes, without those of the methods."""
    named = Study(metrics=_several(metrics, lambda each: each)).named_metrics()
    all_labels: dict[Any, int] = {}
    for metric in (coarse(m, points) for m in named.values()):
        for game in metric.games():
            width = labels if metric.reads == "all" else 1
            all_labels[game] = max(width, all_labels.get(game, 0))
    count = classifier.inputs.count
    each = sum(game.passes(count) * width for game, width in all_labels.items())
    one = sum(game.passes(count) for game in all_labels)
    steps = len(LADDER) + (len(DETAIL) if classifier.inputs.has_neighbours else -2)
    maps = methods + steps + 1 + len(BLIND) + 1 + 2
    total: int = images * (maps * each + (methods + len(BLIND) + 1) * one + methods * labels * points + 40)
    return total


def _several(given: Any, make: Callable[[Any], Any]) -> list[Any]:
    """One or several plug-ins, or their specs in one text, as a list."""
    several = split_specs(given) if isinstance(given, str) else given
    if several is None:
        return []
    return [make(each) for each in (several if isinstance(several, Sequence) else [several])]


# ---- measuring one block -----------------------------------------------------------------------------------------------


def _measure(
    trial: Trial,
    table: Table,
    block: Subjects,
    places: list[int],
    tests: Sequence[str],
    draws: int,
    points: int,
) -> None:
    session, base = trial.session, next(iter(trial.methods))
    outline = {"outline of maps": coarse(Outline(), points)} if "outline" in tests else {}
    for name, method in trial.methods.items():
        own = trial.maps(session, method, block)
        if name == base:
            maps = own = _kept(session, block, own)
        table.put(
            "whole", name, trial.values(session, block, own, metrics={**trial.metrics, **outline}), places
        )
    for test, steps in (("ladder", LADDER), ("detail", DETAIL)):
        if test in tests:
            for step, values in trial.steps(session, block, maps, steps).items():
                table.put(test, step, values, places)
    table.put("counts", "ladder", trial.believed(session, block), places)
    if "code" in tests and session.net.differentiable and session.inputs.lengths(block.images) is None:
        for name, some, own in _coded(trial, block, maps):
            table.put(
                "code", name, trial.values(session, some, own, metrics={**trial.metrics, **outline}), places
            )
    if "noise" in tests:
        finer = {name: _finer(metric) for name, metric in trial.metrics.items()}
        finer = {name: metric for name, metric in finer.items() if metric != trial.metrics[name]}
        drawn = {name: metric for name, metric in trial.metrics.items() if _draws(metric)}
        if drawn:
            other = session.like(seed=session.seed + 1)
            table.put("noise", "other seed", trial.values(other, block, maps, metrics=drawn), places)
        if finer:
            table.put("noise", "twice the points", trial.values(session, block, maps, metrics=finer), places)
    if "blind spots" in tests:
        for draw, some, at in _parts(block, places, draws):
            _measure_blind(trial, table, some, at, draw, base)


def _kept(session: Session, block: Subjects, maps: Tensor) -> Tensor:
    """The base method's maps, without equal values, so that steps change nothing but the order."""
    return Places(session.inputs, block.images, block.labels, maps, session.seed).after(KEPT)[0]


def _parts(block: Subjects, places: list[int], draws: int) -> Iterator[tuple[int, Subjects, list[int]]]:
    """The part of a block that each half is hidden from."""
    for draw in range(draws):
        own = [k for k, place in enumerate(places) if place % draws == draw]
        if own:
            yield draw, block[own], [places[k] for k in own]


def _measure_blind(
    trial: Trial, table: Table, block: Subjects, places: list[int], draw: int, base: str
) -> None:
    """Maps of the net that does not see a half of the positions: where they point, and the base method's maps with mass moved into and out of it."""
    session, half = trial.blind(draw)
    sub = trial.relabelled(session.net, block)
    lengths = session.inputs.lengths(block.images)
    for name, method in trial.methods.items():
        try:
            own = trial.maps(session, method, sub)
        except ProofmapError:  # such as a method that looks into the net in a way that the wrapper hides
            if name == base:
                raise
            continue
        for share in _TOPS:
            there = marked(own[:, :1], half, share, lengths).numpy()
            table.put("blind spots of methods", f"top {100 * share:g} %", {name: there}, places)
        if name == base:
            own = _kept(session, sub, own)
            table.put("counts", "blind", trial.believed(session, sub), places)
            table.put("blind", "whole", trial.values(session, sub, own), places)
            for step, values in trial.steps(session, sub, own, BLIND, half).items():
                table.put("blind", step, values, places)


def _coded(trial: Trial, block: Subjects, maps: Tensor) -> Iterator[tuple[str, Subjects, Tensor]]:
    """The images with their first and last label: with the maps that they have, and with codes, which have the same values."""
    last = (block.labels != NO_LABEL).sum(dim=1) - 1
    chosen = torch.stack([torch.zeros_like(last), last.clamp_min(0)], dim=1)
    chosen = chosen if block.labels.shape[1] > 1 else chosen[:, :1]
    rows = torch.arange(len(block), device=maps.device)[:, None]
    some = replace(block, labels=block.labels[rows, chosen], f=None)
    own = maps[rows, chosen]
    made = codes(
        trial.session, block.images.repeat_interleave(chosen.shape[1], 0), some.labels.flatten().clamp_min(0)
    )
    yield "whole", some, own
    yield "code", some, reordered(own.flatten(0, 1), heights(made)).view_as(own)


def _finer(metric: Metric) -> Metric:
    points = getattr(metric, "points", None)
    return metric.changed(points=2 * points) if isinstance(points, int) else metric


def _draws(metric: Metric) -> bool:
    """Whether a metric's values may depend on the seed."""
    fill = getattr(metric, "fill", None)
    return not isinstance(fill, Fill) or fill.random or isinstance(metric, Outline)


# ---- from values to lines ----------------------------------------------------------------------------------------------


def _outcomes(trial: Trial, table: Table, name: str) -> dict[tuple[str, str], Doubles]:
    """Whether a metric orders the pair of each step rightly ``(N,)``, by test and step."""
    base, higher = next(iter(trial.methods)), trial.metrics[name].higher_is_better
    whole = {"ladder": table.get("whole", base, name), "code": table.get("code", "whole", name)}
    pairs = {
        (test, step): (whole[test], table.get(test, step, name))
        for test, step in table.columns
        if test in whole and step != "whole"
    }
    pairs |= {("blind spots", words): pair for words, pair in _blind_pairs(table, "blind", name).items()}
    found = {}
    for (test, step), pair in pairs.items():
        counts = table.get("counts", "blind" if test == "blind spots" else "ladder", "")
        right = counts * rightly_ordered(*pair, higher_is_better=higher)
        if not np.isnan(right).all():
            found[test, step] = right
    return found


def _blind_pairs(table: Table, test: str, name: str) -> dict[str, tuple[Doubles, Doubles]]:
    """The better and the worse values of a metric on blind nets: mass is moved into the blind half, and a half of it out again."""
    whole, (_, half, most) = table.get(test, "whole", name), BLIND
    found = {
        str(step): (whole, table.get(test, step, name))
        for step in BLIND
        if (test, str(step)) in table.columns
    }
    return {**found, f"half out of {most}": (table.get(test, half, name), table.get(test, most, name))}


def _known_lines(trial: Trial, table: Table) -> Iterator[Measured]:
    """The tests with a known answer, for every metric, and how far metrics agree on them."""
    every = {name: _outcomes(trial, table, name) for name in trial.metrics}
    for name, outcomes in every.items():
        for test in dict.fromkeys(test for test, _ in outcomes):
            steps = {step: values for (own, step), values in outcomes.items() if own == test}
            if test != "code":
                yield from (Measured.over(test, name, step, values) for step, values in steps.items())
            yield pooled(test, name, "all", list(steps.values()))
        if outcomes:
            yield pooled("all known", name, "all", list(outcomes.values()))
    for a in every:
        for b in every:
            both = [1 - np.abs(values - every[b][key]) for key, values in every[a].items() if key in every[b]]
            if both and a != b:
                yield pooled("agreement", a, b, both)


def _method_lines(trial: Trial, table: Table) -> Iterator[Measured]:
    """Where methods point on a blind net, and the outline of their maps and of the code."""
    for name in trial.methods:
        for (test, step), columns in table.columns.items():
            if test == "blind spots of methods" and name in columns:
                yield Measured.over(test, name, step, columns[name])
    for title, key in [*((name, ("whole", name)) for name in trial.methods), ("a code", ("code", "code"))]:
        columns = table.columns.get(key, {})
        if "outline of maps" in columns:
            yield Measured.over("outline", title, "all", columns["outline of maps"])


def _noise_lines(trial: Trial, table: Table) -> Iterator[Measured]:
    """The change of scores with details, seeds and points, and the smallest difference of two methods that n images show."""
    base = next(iter(trial.methods))
    for name, metric in trial.metrics.items():
        whole = table.get("whole", base, name)
        low, high = metric.limits
        for test, step in table.columns:
            if test in ("detail", "noise") and name in table.columns[test, step]:
                change = table.get(test, step, name) - whole
                change = np.abs(change) if test == "noise" else change
                yield Measured.over(test, name, step, change, (low - high, high - low))
        pairs = [
            table.get("whole", a, name) - table.get("whole", b, name)
            for a, b in combinations(trial.methods, 2)
        ]
        spreads = [float(np.nanstd(d, ddof=1)) for d in pairs if np.isfinite(d).sum() > 2]
        if spreads and (spread := float(np.median(spreads))) > 0:
            n = max(int(np.isfinite(d).sum()) for d in pairs)
            z = NormalDist().inv_cdf(0.975) + NormalDist().inv_cdf(0.8)
            yield Measured(
                "noise", name, "least difference", z * spread / math.sqrt(n), math.nan, math.nan, n
            )
            needed = images_needed(0.05, spread) or math.nan
            yield Measured("noise", name, "images for .05", needed, math.nan, math.nan, n)


# ---- fills, and other judges -------------------------------------------------------------------------------------------


def _usable(session: Session, asked: Sequence[str | Fill]) -> dict[str, Fill]:
    """The fills that are compared, by name: those asked for, or up to two that can be used, fills without random numbers first."""
    inputs = session.inputs
    names = [name for name in inputs.fills if name != inputs.same_as_gray]
    candidates = [make_fill(each) for each in (asked or names)]
    found = {}
    for fill in candidates if asked else sorted(candidates, key=lambda fill: fill.random):
        try:
            session.judging().prepare(fill)
        except ProofmapError:
            if asked:
                raise
            continue
        found[fill.title()] = fill
    return dict(list(found.items())[: None if asked else 2])


def _fill_lines(
    trial: Trial,
    blocks: Sequence[Subjects],
    fills: Mapping[str, Fill],
    judges: Sequence[Classifier],
    draws: int,
) -> Iterator[Measured]:
    """How often two fills, or two judges, order the same two methods in opposite ways; and the share of blind spots that each fill gets right."""
    session, base = trial.session, next(iter(trial.methods))
    filled = {name: m for name, m in trial.metrics.items() if "fill" in setting_names(type(m))}
    chosen = {name: m for name, m in filled.items() if m.kind in ("insertion", "deletion")} or filled
    if not chosen:
        return
    judged = {
        name: {k: m.changed(fill=fill, draws=2) for k, m in chosen.items()} for name, fill in fills.items()
    }
    views = {name: (session, own) for name, own in judged.items()}
    views |= {f"judge {net.name}": (session.for_net(net), chosen) for net in judges}
    count = sum(map(len, blocks))
    values, blind = Table(count), Table(count)
    start = 0
    for block in blocks:
        places = list(range(start, start + len(block)))
        start += len(block)
        one = replace(block, labels=block.labels[:, :1], f=None)
        for name, method in trial.methods.items():
            maps = trial.maps(session, method, block)[:, :1]
            for view, (own, metrics) in views.items():
                values.put(view, name, trial.values(own, one, maps, metrics=metrics), places)
        for draw, some, at in _parts(block, places, draws):
            near, half = trial.blind(draw)
            sub = trial.relabelled(near.net, some)
            maps = _kept(near, sub, trial.maps(near, trial.methods[base], sub))[:, :1]
            sub = replace(sub, labels=sub.labels[:, :1])
            blind.put("counts", "blind", trial.believed(near, sub), at)
            for view, metrics in judged.items():
                blind.put(view, "whole", trial.values(near, sub, maps, metrics=metrics), at)
                for step, found in trial.steps(near, sub, maps, BLIND, half, metrics).items():
                    blind.put(view, step, found, at)
    pairs = list(combinations(trial.methods, 2))
    signs = {view: _signs(values, view, list(chosen), pairs) for view in views}
    for a in views:
        for b in views:
            both = [(s, t) for s, t in zip(signs[a], signs[b], strict=True) if s and t]
            if a != b:
                opposite = sum(s != t for s, t in both) / len(both) if both else math.nan
                yield Measured("fills", a, f"against {b}", opposite, math.nan, math.nan, len(both))
    for view in judged:
        right = []
        for name, metric in chosen.items():
            for pair in _blind_pairs(blind, view, name).values():
                counts = blind.get("counts", "blind", "")
                right.append(counts * rightly_ordered(*pair, higher_is_better=metric.higher_is_better))
        yield pooled("fills and blind spots", view, "all", right)


def _signs(values: Table, view: str, metrics: Sequence[str], pairs: Sequence[tuple[str, str]]) -> list[int]:
    """For each metric and pair of methods: which one is better, 1, -1, or 0 if that is undecided."""
    found: list[int] = []
    for name in metrics:
        columns = [values.get(view, a, name) - values.get(view, b, name) for a, b in pairs]
        if columns:
            found += decided_signs(np.stack(columns, axis=1))
    return found


# ---- off the data ------------------------------------------------------------------------------------------------------


@torch.no_grad()
def _off_lines(
    trial: Trial, blocks: Sequence[Subjects], everything: Tensor, fills: Mapping[str, Fill]
) -> Iterator[Measured]:
    """The distance of composites (10, 30 and 60 % shown) to the nearest other input in the net's features, relative to that of the whole input."""
    session = trial.session
    if session.inputs.lengths(everything) is not None:
        return
    known = features(session.net, everything)
    apart = torch.cdist(known, known).fill_diagonal_(torch.inf).amin(dim=1)
    method = next(iter(trial.methods.values()))
    found: dict[str, list[Tensor]] = {name: [] for name in fills}
    start = 0
    for block in blocks:
        maps = trial.maps(session, method, block)[:, 0]
        own = torch.arange(start, start + len(block), device=known.device)
        start += len(block)
        for name, fill in fills.items():
            keys = streams.image_keys(block.images, session.seed, "off the data")
            away = []
            for share in _SHOWN:
                keep = keep_top(maps, share)
                hidden = fill.behind(session.judging(), block.images, keys, keep)
                shown = features(session.net, session.inputs.composite(keep, block.images, hidden))
                distance = torch.cdist(shown, known)
                distance[torch.arange(len(own)), own] = torch.inf
                away.append(distance.amin(dim=1))
            found[name].append(torch.stack(away).mean(dim=0) / apart[own].clamp_min(1e-9))
    for name, parts in found.items():
        yield Measured.over("off the data", name, "all", torch.cat(parts).cpu(), (0.0, math.inf))
