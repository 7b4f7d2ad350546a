"""Methods against the weakest and the strongest proof: by hand, by a plain loop, and where something is missing."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import proofmap as pm
from proofmap.core.errors import InputError
from proofmap.results.bounds import bounds
from proofmap.study import run_study
from tests.command import run as command
from tests.study.studies import toy_study
from tests.toys import conv_classifier, pixels

NAN = math.nan
LOG2 = math.log(2)
Table = Sequence[Sequence[float]]


def with_areas(
    f: Table, weakest: Table, strongest: Table, methods: Mapping[str, Table], **options: Any
) -> pm.Evaluation:
    """An evaluation whose f and areas ``(N, L)`` are these; NaN in f is a place without a label."""
    believed = torch.tensor(f)
    labels = torch.arange(believed.shape[1]).expand_as(believed).masked_fill(believed.isnan(), -1)
    found = pm.evaluate(conv_classifier(8, 4), pixels(len(f), 8), methods=["random"], labels="all", **options)
    areas = {"one end": weakest, "other end": strongest, **methods}
    targets = {"one end": "weakest", "other end": "strongest"}
    results = []
    for name, values in areas.items():
        first = found.results[0]
        curves = dataclasses.replace(first.insertion, auc=torch.tensor(values), f=believed, labels=labels)
        settings = {"method": "belief-mask", "target": targets.get(name, "f")}
        results.append(
            dataclasses.replace(first, name=name, settings=settings, label_free=False, insertion=curves)
        )
    return dataclasses.replace(found, results=tuple(results), f=believed, labels=labels)


def by_hand() -> pm.Evaluation:
    """Five pairs; in order: f above A, lo above f, no label; hi below f, f below e2, f below e1 and hi below f."""
    return with_areas(
        f=[[0.8, 0.1, NAN], [0.8, 1e-4, 0.005]],
        weakest=[[0.1, 0.2, NAN], [0.1, 5e-4, 1e-4]],
        strongest=[[0.9, 0.5, NAN], [0.4, 0.3, 0.002]],
        methods={"mine": [[0.4, 0.4, NAN], [0.2, 0.004, 0.002]]},
    )


# ---- the numbers -------------------------------------------------------------------------------------------------


def test_overshoot_shortfall_and_choice_by_hand() -> None:
    found = bounds(by_hand()).find("mine")
    # over: 0, log(.4 / .1), -, 0, log(.004 / e2), 0; of the second, lo = .2 forces a half
    assert found.overshoot.value == pytest.approx(4 / 5 * LOG2, abs=1e-6) and found.overshoot.n == 5
    assert found.overshoot_by_choice.value == pytest.approx(3 / 5 * LOG2, abs=1e-6)
    # under, where f >= e1: log(.8 / .4), 0, log(.8 / .2); of the last, hi = .4 forces a half
    assert found.shortfall.value == pytest.approx(LOG2, abs=1e-6) and found.shortfall.n == 3
    assert found.shortfall_by_choice.value == pytest.approx(2 / 3 * LOG2, abs=1e-6)


def test_f_is_matchable_between_the_bounds_floors_counted() -> None:
    found = bounds(by_hand())
    assert found.matchable.value == pytest.approx(3 / 5) and found.matchable.n == 5
    assert (found.forced_over, found.forced_under) == (1, 1)
    assert "on .60 [.00, 1.00] of 5 pairs; even the weakest proof is too strong on 1, even" in found.notes[0]


@pytest.mark.parametrize("thresholds", ["paper", "released", "appendix"])
def test_the_table_is_that_of_a_plain_loop(thresholds: str) -> None:
    generator = torch.Generator().manual_seed(3)
    f, weakest, strongest, mine, other = (
        10.0 ** (-4 * torch.rand(6, 4, generator=generator)) for _ in range(5)
    )
    mine[2, 1] = weakest[0, 3] = other[5] = NAN
    evaluation = with_areas(
        f.tolist(),
        weakest.tolist(),
        strongest.tolist(),
        {"mine": mine.tolist(), "other": other.tolist()},
        metrics=pm.default_metrics(thresholds),
    )
    e1, e2 = dataclasses.astuple(pm.metrics.thresholds(thresholds))
    over, over_choice, under, under_choice = [], [], [], []
    matched, below, above = [], 0, 0
    for i in range(6):
        for j in range(4):
            b, one, two, a, o = (float(t[i, j]) for t in (f, weakest, strongest, mine, other))
            if math.isnan(one):
                continue
            there = [v for v in (one, two, a, o) if not math.isnan(v)]
            lo, hi = min(there), max(there)
            matched.append(lo <= max(b, e2) and (hi >= b or b < e1))
            if math.isnan(a):
                continue
            below, above = below + (a < one), above + (a > two)
            over.append(max(0, math.log(a) - math.log(max(b, e2))))
            over_choice.append(max(0, math.log(a) - max(math.log(max(b, e2)), math.log(lo))))
            if b >= e1:
                proved = math.log(max(a, e1)) if e1 else math.log(a)
                under.append(max(0, math.log(b) - proved))
                under_choice.append(max(0, min(math.log(b), math.log(hi)) - proved))
    result = bounds(evaluation)
    found = result.find("mine")
    for score, expected in (
        (found.overshoot, over),
        (found.overshoot_by_choice, over_choice),
        (found.shortfall, under),
        (found.shortfall_by_choice, under_choice),
        (result.matchable, matched),
    ):
        assert score.n == len(expected) and score.value == pytest.approx(
            sum(expected) / len(expected), abs=1e-6
        )
        assert score.low <= score.value <= score.high
    assert (found.below_weakest, found.above_strongest) == (below, above) and below and above


def test_a_bound_that_another_method_beats_is_widened_and_said() -> None:
    evaluation = with_areas(
        f=[[0.5, 0.5]],
        weakest=[[0.3, 0.6]],
        strongest=[[0.6, 0.7]],
        methods={"low": [[0.1, 0.2]], "high": [[0.9, 0.65]], "lower": [[0.05, 0.65]]},
    )
    notes = bounds(evaluation).notes
    assert "the weakest proof was beaten on 2 pairs, whose bound was widened: low on 2, lower on 1" in notes
    assert "the strongest proof was beaten on 1 pair, whose bound was widened: high on 1" in notes
    assert bounds(evaluation).matchable.value == 1.0  # .5 lies in [.2, .7] only since "low" got there
    assert not any("beaten" in note for note in bounds(by_hand()).notes)


def test_pairs_without_a_bound_do_not_count_and_are_said() -> None:
    evaluation = with_areas(
        f=[[0.5, 0.2], [0.5, 0.2]],
        weakest=[[0.1, 0.1], [NAN, NAN]],  # an unfinished run
        strongest=[[0.9, 0.9], [0.9, 0.9]],
        methods={"mine": [[0.5, 0.2], [0.9, 0.9]], "nothing": [[NAN, NAN], [0.9, 0.9]]},
    )
    found = bounds(evaluation)
    assert found.find("mine").overshoot.n == 2 and found.find("mine").overshoot.value == 0
    assert "2 of 4 pairs lack a bound and do not count" in found.notes
    assert found.find("nothing").overshoot.n == 0 and found.cells()[1][1][1:] == ["-"] * 4
    assert json.loads(found.json())["methods"][1]["overshoot"]["value"] is None


# ---- on a net ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def judged() -> pm.Evaluation:
    ends = [f"belief-mask:passes=30,fills=gray,target={target}" for target in ("strongest", "weakest")]
    methods = ["gradient-x-input", *ends, "random"]
    return pm.evaluate(conv_classifier(8, 4), pixels(4, 8), methods=methods, labels="top3")


def test_the_lines_below_say_what_the_table_depends_on(judged: pm.Evaluation) -> None:
    told = bounds(judged).table()
    for words in (
        "target=weakest (passes 30, grid 56, fills gray); belief-mask",
        "found, not proven",
        "4 images, labels top3, softmax over all outputs, model Sequential, seed 0",
        "e1 = 0.01, e2 = 0.001; insertion curve: fill gray, 32 points",
    ):
        assert words in told
    assert "another insertion curve" not in told
    blurred = dict(judged.results[0].insertion.settings, fill="blur")
    results = [
        dataclasses.replace(r, insertion=dataclasses.replace(r.insertion, settings=blurred))
        for r in judged.results
    ]
    assert "another insertion curve" in bounds(dataclasses.replace(judged, results=tuple(results))).table()


# ---- what is missing ---------------------------------------------------------------------------------------------


def only(evaluation: pm.Evaluation, *targets: str) -> pm.Evaluation:
    results = tuple(r for r in evaluation.results if r.settings["target"] in targets)
    return dataclasses.replace(evaluation, results=results)


@pytest.mark.parametrize(
    "targets, message",
    [
        (("f",), r"--methods belief-mask:target=weakest,belief-mask:target=strongest to add them"),
        (("f", "weakest"), r"need belief-mask:target=strongest as well as other methods.* to add it$"),
        (("weakest", "strongest"), "only the bounds were judged; .* grad-cam"),
    ],
)
def test_what_is_missing_is_named(targets: tuple[str, ...], message: str) -> None:
    evaluation = only(by_hand(), *targets)
    with pytest.raises(InputError, match=message):
        bounds(evaluation)


def test_areas_of_different_curves_and_bounds_of_no_pair_are_refused() -> None:
    evaluation = by_hand()
    first, *others = evaluation.results
    blurred = dataclasses.replace(
        first, insertion=dataclasses.replace(first.insertion, settings={"fill": "blur"})
    )
    with pytest.raises(InputError, match="different insertion curves"):
        bounds(dataclasses.replace(evaluation, results=(blurred, *others)))
    with pytest.raises(InputError, match="no pair has both bounds yet"):
        bounds(with_areas([[0.5, 0.2]], [[NAN, 0.1]], [[0.9, NAN]], {"mine": [[0.5, 0.5]]}))


# ---- the command -------------------------------------------------------------------------------------------------


def test_the_command_tells_what_to_add_and_then_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study, run = toy_study(tmp_path, 3, methods=["gradient", "random"], maps="none"), tmp_path / "run"
    run_study(study, run)
    before = sorted(run.rglob("*"))
    assert command(monkeypatch, "compare", "--by", "bounds", str(run)) == 2
    told = capsys.readouterr()
    missing = "--methods belief-mask:target=weakest,belief-mask:target=strongest"
    assert missing in told.err and not told.out and sorted(run.rglob("*")) == before
    ends = [f"belief-mask:passes=6,fills=gray,target={target}" for target in ("weakest", "strongest")]
    run_study(dataclasses.replace(study, methods=ends), run)
    capsys.readouterr()
    assert command(monkeypatch, "compare", "--by", "bounds", str(run)) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:3]] == ["gradient", "random"]
    assert command(monkeypatch, "compare", "--by", "bounds", str(run), "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["matchable"]["n"] == 9
    assert command(monkeypatch, "compare", "--by", "bounds", str(run), "--format", "pdf") == 2
