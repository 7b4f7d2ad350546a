"""An audit passes what reaches its bars, and says which number it looked at."""

from __future__ import annotations

import csv
import json
import math

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
    assert not result.passes and len(result.lines) == 2 * len(found.results)
    assert [line.passes for line in result.lines] == [True, False] * len(found.results)
    assert "audit failed: 3 of 6 bars missed" in str(result)


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
    assert [row["passes"] == "True" for row in rows] == [line.passes for line in result.lines]
    assert len(result.markdown().splitlines()) == 2 + len(result.lines)
