"""A comparison says which method is better only where the images say so, and refuses what does not compare."""

from __future__ import annotations

import csv
import dataclasses
import functools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import proofmap as pm
from proofmap.core.errors import InputError
from proofmap.results.compare import Comparison, compare, images_needed
from proofmap.results.statistics import Score
from proofmap.study import run_study
from tests.study.studies import toy_study
from tests.toys import conv_classifier, linear_classifier, pixels

ANY = (-math.inf, math.inf)
METHODS = ("gradient-x-input", "random", "centered-gaussian")


def judged(n: int = 6, *, methods: Sequence[str] = METHODS, **options: Any) -> pm.Evaluation:
    """What methods score on small images; without options it is found once for all tests."""
    return evaluated(n, methods=methods, **options) if options else usual(n, tuple(methods))


@functools.cache
def usual(n: int, methods: tuple[str, ...]) -> pm.Evaluation:
    return evaluated(n, methods=methods)


def evaluated(
    n: int, *, methods: Sequence[str], start: int = 0, f: pm.Classifier | None = None, **options: Any
) -> pm.Evaluation:
    names = [f"photo-{i}" for i in range(start, n)]
    options = {"labels": "all", **options}
    return pm.evaluate(
        f or linear_classifier(4, 3), pixels(n, 4)[start:], methods=methods, names=names, **options
    )


def with_values(
    values: dict[str, dict[str, list[float]]],
    lower: Sequence[str] = (),
    limits: tuple[float, float] = ANY,
) -> pm.Evaluation:
    """An evaluation whose per-image values are these, by method and metric."""
    n = len(next(iter(next(iter(values.values())).values())))
    found = judged(n, methods=["gradient"] * len(values))
    results = []
    for (method, metrics), result in zip(values.items(), found.results, strict=True):
        tensors = {name: torch.tensor(v) for name, v in metrics.items()}
        scores = tuple(
            Score(k, higher_is_better=k not in lower, limits=limits).over(v) for k, v in tensors.items()
        )
        results.append(dataclasses.replace(result, name=method, values=tensors, scores=scores))
    return dataclasses.replace(found, results=tuple(results))


# ---- the numbers -------------------------------------------------------------------------------------------


def test_a_difference_is_the_mean_over_the_images_both_count() -> None:
    nan = math.nan
    found = with_values({"a": {"m": [0.9, 0.5, nan, 0.7]}, "b": {"m": [0.4, 0.6, 0.3, nan]}})
    d = compare(found).find("m", "b", "a")
    assert d.n == 2
    assert d.difference == pytest.approx((0.4 - 0.9 + 0.6 - 0.5) / 2)
    assert (d.value, d.baseline_value) == pytest.approx((0.5, 0.7))
    assert d.wins == 0.5


@pytest.mark.parametrize(
    "lower, verdicts", [((), ("better", "worse")), (("m",), ("worse", "better"))], ids=["higher", "lower"]
)
def test_the_verdict_knows_which_way_is_better(lower: Sequence[str], verdicts: tuple[str, str]) -> None:
    low, high = [0.1, 0.2, 0.15, 0.3, 0.2, 0.25], [0.5, 0.7, 0.6, 0.65, 0.8, 0.7]
    found = with_values({"low": {"m": low}, "high": {"m": high}}, lower)
    assert compare(found, baseline="low").find("m", "high", "low").verdict == verdicts[0]
    assert compare(found, baseline="high").find("m", "low", "high").verdict == verdicts[1]


def test_infinite_values_are_compared_without_a_warning() -> None:
    """They cancel on an image where both methods have them."""
    inf = math.inf
    (both,) = compare(with_values({"a": {"m": [inf, 2.0, 3.0]}, "b": {"m": [inf, 1.0, 1.0]}})).differences
    assert (abs(both.difference), both.n) == (1.5, 2)
    (one,) = compare(with_values({"a": {"m": [-inf, 2.0, 3.0]}, "b": {"m": [0.0, 1.0, 1.0]}})).differences
    assert math.isinf(one.difference) and math.isnan(one.low)


def test_what_goes_either_way_is_undecided_and_so_is_a_single_image() -> None:
    mixed = with_values({"a": {"m": [0.0, 1.0, 0.0, 1.0]}, "b": {"m": [1.0, 0.0, 1.0, 0.0]}})
    assert compare(mixed).differences[0].verdict == "undecided"
    one = compare(with_values({"a": {"m": [0.0]}, "b": {"m": [1.0]}}))
    assert one.differences[0].verdict == "undecided" and math.isnan(one.differences[0].low)
    assert "95 % interval" in one.table() and json.loads(one.json())["differences"][0]["low"] is None


def test_pairing_finds_what_unpaired_intervals_hide() -> None:
    """Images differ by 1, methods by .01: the scores' own intervals overlap, the paired one leaves zero out."""
    base = [i / 10 for i in range(10)]
    better = [v + 0.01 + 0.001 * (i % 3) for i, v in enumerate(base)]
    found = with_values({"a": {"m": base}, "b": {"m": better}})
    a, b = (r.score("m") for r in found.results)
    assert b.low < a.high
    assert compare(found).differences[0].verdict == "better"


def test_an_interval_ends_at_the_largest_possible_difference_and_the_verdict_stays() -> None:
    spread = {"a": {"m": [1.0, 1.0, 0.0]}, "b": {"m": [0.0, 0.0, 1.0]}}
    free, cut = (compare(with_values(spread, limits=limits)).differences[0] for limits in (ANY, (0.0, 1.0)))
    assert free.low < -1 and free.high > 1 and (cut.low, cut.high) == (-1.0, 1.0)
    clear = {"a": {"m": [0.5] * 8}, "b": {"m": [0.75] * 8}}
    free, cut = (compare(with_values(clear, limits=limits)).differences[0] for limits in (ANY, (0.0, 1.0)))
    assert cut == free and cut.verdict == "better"


def test_a_difference_below_the_numerical_error_of_a_curve_is_never_decided() -> None:
    base = [i / 10 for i in range(10)]
    found = with_values({"a": {"m": base}, "b": {"m": [v + 0.0009 + 0.00001 * (v > 0.5) for v in base]}})
    exact = compare(found)
    assert exact.differences[0].verdict == "better", "a metric that reads no curve has no such error"
    scores = [tuple(dataclasses.replace(s, settings={"points": 28}) for s in r.scores) for r in found.results]
    of_curves = found.replaced(
        results=tuple(dataclasses.replace(r, scores=s) for r, s in zip(found.results, scores, strict=True))
    )
    compared = compare(of_curves)
    (d,) = compared.differences
    assert (d.verdict, d.images_needed) == ("undecided", None) and d.corrected_p < 0.05
    assert any("smaller than the numerical error of an AUC" in note for note in compared.notes)
    assert not any("numerical error" in note for note in exact.notes)


# ---- who is compared with whom -----------------------------------------------------------------------------


def pairs(comparison: Comparison) -> set[tuple[str, str]]:
    return {(d.method, d.baseline) for d in comparison.differences}


def test_all_pairs_or_all_against_one() -> None:
    found = judged()
    a, b, c = METHODS
    assert pairs(compare(found)) == {(b, a), (c, a), (c, b)}
    assert pairs(compare(found, baseline="random")) == {(a, b), (c, b)}
    assert [d.metric for d in compare(found, baseline=a, metrics=["soundness"]).differences] == [
        "soundness"
    ] * 2


def test_methods_without_a_common_metric_are_refused_with_what_each_was_judged_by() -> None:
    first = with_values({"a": {"soundness": [0.5, 0.6]}, "b": {"insertion": [0.5, 0.6]}})
    with pytest.raises(InputError, match=r"share no metric .*: a by soundness; b by insertion"):
        compare(first)


def test_only_the_named_methods_are_compared() -> None:
    found = judged()
    a, b, c = METHODS
    assert pairs(compare(found, methods=[c, a])) == {(c, a)}
    assert pairs(compare(found, methods=[c], baseline=b)) == {(c, b)}
    runs = {"old": found, "new": judged(seed=1)}
    assert pairs(compare(runs, methods=[a, c])) == {(f"new/{a}", f"old/{a}"), (f"new/{c}", f"old/{c}")}
    assert pairs(compare(runs, methods=[f"new/{c}"], baseline=f"old/{a}")) == {(f"new/{c}", f"old/{a}")}


def test_runs_are_matched_by_method_and_image_name() -> None:
    first, second = judged(6), judged(8, start=2, methods=["random", "gradient"], seed=1)
    found = compare({"old": first, "new": second})
    assert pairs(found) == {("new/random", "old/random")}
    d = found.find("insertion", "new/random", "old/random")
    assert d.n == 4
    ours, theirs = second["random"].values["insertion"][:4], first["random"].values["insertion"][2:]
    assert d.difference == pytest.approx(float((ours - theirs).mean()))
    assert any("share 4 images, of 6 and 6" in note for note in found.notes)
    against = compare({"old": first, "new": second}, baseline="old/random")
    assert ("new/gradient", "old/random") in pairs(against) and len(pairs(against)) == 4


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: compare({}), "nothing to compare"),
        (lambda: compare(judged(methods=["random"])), "judge a second method"),
        (lambda: compare(judged(), baseline="lime"), "no method 'lime'"),
        (lambda: compare(judged(), methods=["lime"]), "no method 'lime'"),
        (
            lambda: compare(judged(), methods=["random"]),
            "name a baseline .a method, or run/method. or more methods",
        ),
        (lambda: compare(judged(), metrics=["speed"]), "do not share a metric 'speed'"),
        (lambda: compare({"a": judged(2), "b": judged(4, start=2)}), "no image of the same name"),
        (
            lambda: compare({"a": judged(methods=["random"]), "b": judged(methods=["gradient"])}),
            "name a baseline",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


# ---- numbers that cannot be compared ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other, message",
    [
        (lambda: judged(f=conv_classifier(4, 3)), "model is Sequential and Linear"),
        (lambda: judged(labels="top2"), "labels is top2 and all"),
        (lambda: judged(metrics=pm.default_metrics("released")), "completeness has e1 = 0.1 and 0.01"),
        (lambda: judged(metrics=pm.default_metrics(curve="released")), "insertion has points = 28 and 32"),
        (lambda: judged(f=linear_classifier(4, 3, seed=7), labels=[0, 1, 2]), "labels is"),
    ],
)
def test_runs_that_were_judged_otherwise_are_refused_with_what_differs(other: Any, message: str) -> None:
    runs = {"a": judged(), "b": other()}
    with pytest.raises(InputError, match=message):
        compare(runs)
    found = compare(runs, allow_mismatch=True)
    assert any("differ" in note for note in found.notes) and found.differences


def test_equal_settings_do_not_hide_other_weights_or_pictures() -> None:
    labels = [0, 1, 2]
    a, b = judged(labels=labels), judged(f=linear_classifier(4, 3, seed=7), labels=labels)
    with pytest.raises(InputError, match="f of image 'photo-0' differs by"):
        compare({"a": a, "b": b})
    renamed = dataclasses.replace(a, image_names=tuple(reversed(a.image_names)))
    with pytest.raises(InputError, match="another image"):
        compare({"a": a, "b": renamed})


def test_settings_that_were_stored_and_read_again_are_the_same_settings() -> None:
    a = judged()
    b = dataclasses.replace(a, settings=json.loads(json.dumps(dict(a.settings))))
    assert all(d.difference == 0 for d in compare({"a": a, "b": b}).differences)


# ---- forms -------------------------------------------------------------------------------------------------


def test_all_forms_say_the_same() -> None:
    found = compare(judged(), baseline="random")
    records = [d.record() for d in found.differences]
    assert json.loads(found.json())["differences"] == records
    rows = list(csv.DictReader(found.csv().splitlines()))
    assert [float(r["difference"]) for r in rows] == [d.difference for d in found.differences]
    assert len(found.table().splitlines()) == 1 + len(records) + len(found.notes)
    assert {line.count("|") for line in found.markdown().splitlines()[: 2 + len(records)]} == {14}
    assert str(found) == found.table()


def test_a_verdict_needs_the_sign_test_too() -> None:
    """Of five images all on one side, random signs do the same once in sixteen: the interval alone is too sure."""
    low, high = [0.1, 0.2, 0.15, 0.3, 0.2], [0.5, 0.7, 0.6, 0.65, 0.8]
    found = compare(with_values({"low": {"m": low}, "high": {"m": high}}), baseline="low").find(
        "m", "high", "low"
    )
    assert found.low > 0 and found.p > 0.05 and found.verdict == "undecided"


# ---- how sure ----------------------------------------------------------------------------------------------


def test_five_images_can_never_decide_and_the_table_says_so() -> None:
    values = [0.1, 0.2, 0.15, 0.3, 0.2, 0.25]
    five = compare(with_values({"a": {"m": values[:5]}, "b": {"m": [v + 0.3 for v in values[:5]]}}))
    assert any(
        note.startswith(
            "5 images can never decide one of 1 line: the smallest possible corrected p is .062. Judge 6"
        )
        for note in five.notes
    )
    six = compare(with_values({"a": {"m": values}, "b": {"m": [v + 0.3 for v in values]}}))
    assert not any("never decide" in note for note in six.notes)
    assert six.differences[0].verdict == "better"


def test_p_is_corrected_for_the_number_of_lines_and_the_verdict_goes_by_it() -> None:
    values = [0.1, 0.2, 0.15, 0.3, 0.2, 0.25]
    better = [v + 0.3 + 0.01 * i for i, v in enumerate(values)]
    alone = compare(with_values({"a": {"m": values}, "b": {"m": better}})).differences[0]
    both = compare(with_values({"a": {"m": values, "k": values}, "b": {"m": better, "k": better}}))
    beside = both.find("m", "b", "a")
    assert alone.p == beside.p == alone.corrected_p == 1 / 32
    assert (alone.verdict, beside.verdict) == ("better", "undecided")
    assert beside.corrected_p == 1 / 16 and beside.low > 0
    assert any(
        "6 images can never decide one of 2 lines: the smallest possible corrected p is .062" in note
        and "Judge 7 images or more" in note
        for note in both.notes
    )


def test_theimages_needed_are_those_of_the_difference_found_or_of_the_one_asked_for() -> None:
    a = [0.1, 0.4, 0.2, 0.5, 0.3, 0.6, 0.2, 0.1]
    b = [0.3, 0.2, 0.3, 0.6, 0.2, 0.7, 0.3, 0.1]
    found = with_values({"a": {"m": a}, "b": {"m": b}})
    d = torch.tensor(b).double() - torch.tensor(a).double()
    line, asked = compare(found).differences[0], compare(found, detect=0.01).differences[0]
    assert line.images_needed == images_needed(float(d.mean()), float(d.std()))
    assert asked.images_needed == images_needed(0.01, float(d.std()))
    assert asked.images_needed > line.images_needed > 8 and line.verdict == "undecided"
    same = compare(with_values({"a": {"m": a}, "b": {"m": a}})).differences[0]
    assert same.images_needed is None and compare(found).table().splitlines()[0].split("  ")[-1] == "verdict"
    for wrong in (0.0, -0.1, math.nan):
        with pytest.raises(InputError, match="detect must be a difference above 0"):
            compare(found, detect=wrong)


def test_a_proof_a_run_and_an_outcome_are_compared_as_their_evaluations_are(tmp_path: Path) -> None:
    outcome = run_study(toy_study(tmp_path, 3, methods=("gradient", "random")), tmp_path / "run")
    with pm.Run(tmp_path / "run") as run:
        expected = compare(run.evaluation()).json()
        assert compare(run).json() == compare(outcome).json() == expected
        proof = pm.Proof(run.evaluation())
    assert compare(proof).json() == expected
    assert compare({"a": proof, "b": outcome}).differences[0].difference == 0
    with pytest.raises(InputError, match="an Evaluation, a Run or a Proof is needed, not str"):
        compare("runs/first")  # type: ignore[arg-type]
