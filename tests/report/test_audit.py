"""An audit passes what reaches its bars, and says which number it looked at."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace

import pytest

import proofmap as pm
from proofmap.core.errors import InputError
from proofmap.results.audit import audit
from tests.report.test_compare import judged, with_values

FEW = {"m": {"completeness": [0.95, 0.75, 0.85, 0.85], "cost": [0.1, 0.3, 0.2, 0.2]}}


def test_the_mean_or_the_whole_interval_must_reach_the_bar() -> None:
    found = with_values(FEW, lower=["cost"])
    assert audit(found, min_completeness=0.85).passes  # reaching is enough
    assert not audit(found, min_completeness=0.85, use="interval").passes
    assert audit(found, min_completeness=0.75, use="interval").passes
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
    assert {line.method for line in audit(judged(), min_soundness=0.5, method="random").lines} == {"random"}
    with pytest.raises(InputError, match="no method 'lime'"):
        audit(judged(), min_soundness=0.5, method="lime")


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


def test_nonsense_is_refused() -> None:
    found = judged()
    with pytest.raises(InputError, match="needs a bar"):
        audit(found)
    with pytest.raises(InputError, match="no score is named 'speed'"):
        audit(found, bars={"speed": 1.0})
    with pytest.raises(InputError, match="use must be one of mean, interval"):
        audit(found, min_soundness=0.5, use="low")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="must be a number"):
        audit(found, min_soundness=math.nan)


def test_all_forms_say_the_same() -> None:
    found: pm.Evaluation = judged()
    result = audit(found, min_soundness=0.5, min_best_effort=0.1)
    record = json.loads(result.json())
    assert record["passes"] == result.passes and record["use"] == "mean"
    assert record["lines"] == [line.record() for line in result.lines]
    rows = list(csv.DictReader(result.csv().splitlines()))
    lines = (*result.lines, *result.controls)
    assert [row["passes"] == "True" for row in rows] == [line.passes for line in lines]
    assert len(result.markdown().splitlines()) == 2 + len(lines)
    assert record["controls"] == [line.record() for line in result.controls] and len(result.controls) == 4


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


def test_a_control_that_misses_a_bar_is_as_it_should_be() -> None:
    result = audit(with_control(NOISE), min_completeness=0.8, min_soundness=0.8)
    assert result.passes and [line.method for line in result.lines] == ["m", "m"]
    assert [line.passes for line in result.controls] == [False, True]
    assert "control: fails: the mean is 0.1000" in str(result) and result.notes == ()


@pytest.mark.parametrize("method", [None, "m"])
def test_a_control_that_reaches_every_bar_fails_the_audit(method: str | None) -> None:
    """As with pictures normalised in the wrong units, where noise scores 1, 1, 1; or with a bar for soundness alone."""
    perfect = audit(with_control(GOOD), min_completeness=0.8, min_soundness=0.8, method=method)
    alone = audit(with_control(NOISE), min_soundness=0.8, method=method)
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
        assert result.passes and not result.controls and "no control: judge random" in str(result)


def test_a_control_that_is_named_is_held_against_the_bars() -> None:
    result = audit(with_control(NOISE), min_completeness=0.8, method="noise")
    assert not result.passes and not result.controls and "1 of 1 bars missed" in str(result)
