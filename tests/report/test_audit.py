"""An audit passes what reaches its bars, and says which number it looked at."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import asdict, replace
from typing import Any

import pytest

import proofmap as pm
from proofmap.core.errors import InputError
from proofmap.results.audit import audit
from tests.report.test_compare import judged, with_values
from tests.toys import linear_classifier

FEW = {"m": {"completeness": [0.95, 0.75, 0.85, 0.85], "cost": [0.1, 0.3, 0.2, 0.2]}}


def test_the_mean_or_the_whole_interval_must_reach_the_bar() -> None:
    found = with_values(FEW, lower=["cost"])
    assert audit(found, min_completeness=0.85).passes  # reaching is enough
    assert not audit(found, min_completeness=0.85, use="interval").passes
    assert audit(found, min_completeness=0.72, use="interval").passes
    assert "the whole 95 % interval counts" in audit(found, min_completeness=0.7, use="interval").table()
    assert "the mean counts" in audit(found, min_completeness=0.7).table()


def test_where_lower_is_better_the_bar_is_a_greatest_value() -> None:
    found = with_values(FEW, lower=["cost"])
    assert audit(found, bars={"cost": 0.21}).passes and not audit(found, bars={"cost": 0.19}).passes
    assert not audit(found, bars={"cost": 0.21}, use="interval").passes


def test_one_missed_bar_fails_the_audit_and_is_named() -> None:
    found = judged()
    result = audit(found, min_completeness=0.0, min_soundness=1.1)
    assert not result.passes and [line.method for line in result.lines] == ["gradient-x-input"] * 2
    assert [line.passes for line in result.lines] == [True, False]
    assert "audit failed: 1 of 2 bars missed (" in str(result)


def test_only_named_methods_are_held_to_the_bars() -> None:
    assert {line.method for line in audit(judged(), min_soundness=0.5, methods="random").lines} == {"random"}


@pytest.mark.parametrize("use", ["mean", "interval"])
def test_a_score_that_no_image_counts_for_fails(use: str) -> None:
    found = with_values({"m": {"completeness": [math.nan, math.nan]}})
    (line,) = audit(found, min_completeness=0.0, use=use).lines  # type: ignore[arg-type]
    assert not line.passes and line.reason == "no image counts"
    assert json.loads(audit(found, min_completeness=0.0).json())["lines"][0]["value"] is None


def test_one_image_has_a_mean_but_no_interval() -> None:
    found = with_values({"m": {"completeness": [0.9]}})
    assert audit(found, min_completeness=0.8).passes
    (line,) = audit(found, min_completeness=0.8, use="interval").lines
    assert line.reason == "one image has no interval"


@pytest.mark.parametrize("n, passes", [(19, False), (20, True)])
def test_equal_values_pass_by_their_interval_from_twenty_images_on(n: int, passes: bool) -> None:
    found = with_values({"m": {"completeness": [1.0] * n}}, limits=(0.0, 1.0))
    assert audit(found, min_completeness=0.8).passes
    result = audit(found, min_completeness=0.8, use="interval")
    assert result.passes == passes and f"{n} equal values" in result.table()
    assert passes or result.lines[0].reason == "19 equal values give no interval; 20 are needed"
    assert not audit(found, bars={"completeness": 1.1}, use="interval").passes


@pytest.mark.parametrize(
    "asked, told",
    [
        ({}, "needs a bar"),
        ({"bars": {"speed": 1.0}}, "no score is named 'speed'"),
        ({"min_soundness": 0.5, "use": "low"}, "use must be one of mean, interval"),
        ({"min_soundness": math.nan}, "must be a number"),
        ({"min_soundness": 0.5, "methods": "lime"}, "no method 'lime'"),
    ],
)
def test_nonsense_is_refused(asked: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        audit(judged(), **asked)


def test_all_forms_say_the_same() -> None:
    found: pm.Evaluation = judged()
    result = audit(found, min_soundness=0.5, min_best_effort=0.1)
    record = json.loads(result.json())
    assert record["passes"] == result.passes and record["use"] == "mean"
    no_drop = {"value_against": None, "difference": None}
    assert record["lines"] == [{**asdict(line), **no_drop} for line in result.lines]
    rows = list(csv.DictReader(result.csv().splitlines()))
    lines = (*result.lines, *result.controls)
    assert [row["passes"] == "True" for row in rows] == [line.passes for line in lines]
    assert sum(line.startswith("|") for line in result.markdown().splitlines()) == 2 + len(lines)
    assert (
        record["controls"] == [{**asdict(line), **no_drop} for line in result.controls]
        and len(result.controls) == 4
    )


# ---- controls ---------------------------------------------------------------------------------------------------

GOOD = {"completeness": [0.9, 0.9], "soundness": [0.9, 0.9]}
NOISE = {"completeness": [0.1, 0.1], "soundness": [1.0, 1.0]}


def with_control(control: dict[str, list[float]], **changes: object) -> pm.Evaluation:
    """A method, and noise beside it under another name: it is known by what it is."""
    found = with_values({"m": GOOD, "noise": control})
    m = replace(found.results[0], label_free=False, settings={"method": "gradient"})
    noise = found.results[1]
    noise = replace(noise, **{"label_free": True, "settings": {"method": "random"}, **changes})  # type: ignore[arg-type]
    return replace(found, results=(m, noise))


@pytest.mark.parametrize("name", ["random", "centered-gaussian", "edges"])
def test_a_control_that_misses_a_bar_is_as_it_should_be(name: str) -> None:
    control = with_control(NOISE, settings={"method": name})
    result = audit(control, min_completeness=0.8, min_soundness=0.8)
    assert result.passes and [line.method for line in result.lines] == ["m", "m"]
    assert [line.passes for line in result.controls] == [False, True]
    verdicts = [row[-1] for row in result.tables()[0][1]]
    assert verdicts == ["passes", "passes", "control: misses it", "control: reaches it"]
    assert "a control knows nothing of the net, so it must miss at least one bar; each does" in result.notes
    assert not any("no control" in note or "reaches every bar" in note for note in result.notes)


@pytest.mark.parametrize("method", [None, "m"])
def test_a_control_that_reaches_every_bar_fails_the_audit(method: str | None) -> None:
    """As with pictures normalised in the wrong units, where noise scores 1, 1, 1; or with a bar for soundness alone."""
    perfect = audit(with_control(GOOD), min_completeness=0.8, min_soundness=0.8, methods=method)
    alone = audit(with_control(NOISE), min_soundness=0.8, methods=method)
    for result in (perfect, alone):
        assert not result.passes and result.too_good == ("noise",)
        assert all(line.passes for line in result.lines)
        assert "the control noise reaches every bar" in str(result) and "mean, std" in str(result)
        assert "audit failed: noise passes, which knows nothing of the net" in str(result)
        assert json.loads(result.json())["passes"] is False


def test_without_a_control_the_audit_says_so_and_may_pass() -> None:
    by_label = audit(with_control(GOOD, label_free=False), min_completeness=0.8)
    none = audit(with_values({"m": GOOD}), min_completeness=0.8)
    for result in (by_label, none):
        assert result.passes and not result.controls and "no control was judged" in str(result)


def test_a_control_that_is_named_is_held_against_the_bars() -> None:
    result = audit(with_control(NOISE), min_completeness=0.8, methods="noise")
    assert not result.passes and not result.controls and "1 of 1 bar missed" in str(result)


# ---- against another run ------------------------------------------------------------------------------------------

BEFORE = {"m": {"completeness": [0.9, 0.8, 0.7, 0.9], "cost": [0.2, 0.2, 0.1, 0.3]}}


def changed(by: float, metric: str = "completeness") -> pm.Evaluation:
    """The same images, one score moved by so much on every image."""
    values = {name: [v + by * (name == metric) for v in column] for name, column in BEFORE["m"].items()}
    return with_values({"m": values}, lower=["cost"])


def before() -> pm.Evaluation:
    return with_values(BEFORE, lower=["cost"])


@pytest.mark.parametrize(
    "metric, by, passes",
    [
        ("completeness", -0.04, True),
        ("completeness", -0.05, True),
        ("completeness", -0.06, False),
        ("completeness", +0.5, True),
        ("cost", +0.04, True),
        ("cost", +0.06, False),
        ("cost", -0.5, True),
    ],
)
def test_no_score_may_get_worse_by_more_than_allowed(metric: str, by: float, passes: bool) -> None:
    result = audit(changed(by, metric), against=before(), max_drop=0.05)
    assert result.passes == passes and [line.metric for line in result.drops] == ["completeness", "cost"]
    (line,) = [line for line in result.drops if line.metric == metric]
    assert line.passes == passes and line.n == 4
    assert (line.difference, line.low, line.high) == pytest.approx((by, by, by), abs=1e-6)
    if not passes:
        assert f"worse by {abs(by):.4f}" in str(result) and "1 of 2 bars missed" in str(result)


def test_a_drop_is_paired_over_the_images_that_both_count() -> None:
    now = with_values({"m": {"completeness": [0.1, 0.9, math.nan, 0.5]}})
    then = with_values({"m": {"completeness": [math.nan, 0.8, 0.2, 0.7]}})
    (line,) = audit(now, against=then, max_drop=0.05).drops
    assert line.n == 2 and line.difference == pytest.approx(-0.05) and line.passes
    assert (line.value, line.value_against) == pytest.approx((0.7, 0.75))
    apart = audit(replace(now, image_names=("a", "photo-1", "b", "photo-3")), against=then, max_drop=0.5)
    assert "2 images in both runs, of 4 now and 4 before; only these count" in str(apart)
    with pytest.raises(InputError, match="no image of the same name"):
        audit(replace(now, image_names=("a", "b", "c", "d")), against=then, max_drop=0.5)
    nowhere = with_values({"m": {"completeness": [0.5, math.nan, math.nan, math.nan]}})
    (line,) = audit(nowhere, against=then, max_drop=0.5).drops
    assert not line.passes and line.reason == "no image counts in both runs"
    nothing = with_values({"m": {"completeness": [math.nan] * 4}})
    result = audit(now, against=nothing, max_drop=0.0)
    assert result.passes and "passes: it counted nothing before" in str(result)


def test_the_whole_interval_of_a_drop_may_be_asked_for() -> None:
    now = with_values({"m": {"completeness": [0.9, 0.6, 0.7, 0.9]}})
    then = with_values({"m": {"completeness": [0.9, 0.8, 0.7, 0.9]}})
    assert audit(now, against=then, max_drop=0.05).passes
    result = audit(now, against=then, max_drop=0.05, use="interval")
    assert not result.passes and "by the interval's end it is worse by" in str(result)


def test_what_one_run_lacks_is_refused_in_either_direction() -> None:
    two = with_values({"m": BEFORE["m"], "n": BEFORE["m"]}, lower=["cost"])
    less = with_values({"m": {"completeness": BEFORE["m"]["completeness"]}})
    with pytest.raises(InputError, match="the other run has no method 'n', only m"):
        audit(two, against=before(), max_drop=0.1)
    with pytest.raises(InputError, match="this run has no method 'n', only m"):
        audit(before(), against=two, max_drop=0.1)
    assert audit(two, against=before(), max_drop=0.1, methods="m").passes
    for now, then in ((before(), less), (less, before())):
        with pytest.raises(InputError, match="m do not share a metric 'cost'; they share completeness"):
            audit(now, against=then, max_drop=0.1)
    result = audit(before(), against=less, max_drop={"completeness": 0.1})
    assert result.passes and [line.metric for line in result.drops] == ["completeness"]
    with pytest.raises(InputError, match="belong together"):
        audit(before(), against=before())
    with pytest.raises(InputError, match="at least 0, not -1"):
        audit(before(), against=before(), max_drop=-1)


def test_other_nets_are_the_purpose_and_other_rules_are_refused() -> None:
    """Another net's gray is another colour; other labels or thresholds would make the numbers other numbers."""
    ours = judged(f=linear_classifier(4, 3, seed=1, mean=(0.4, 0.4, 0.4)))
    result = audit(ours, against=judged(), max_drop=1.0)
    assert result.passes and {line.method for line in result.drops} == {"gradient-x-input"}
    with pytest.raises(InputError, match="labels is all and top2"):
        audit(ours, against=judged(labels="top2"), max_drop=1.0)
    with pytest.raises(
        InputError, match=r"completeness has e1 = 0.01 and 0.3\. Use the same settings for both$"
    ):
        audit(ours, against=judged(metrics=["completeness:e1=0.3"]), max_drop={"completeness": 1.0})
