"""The numbers are those that were recorded: ``python -m tests.golden.write`` wrote them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.golden import record
from tests.golden.cases import CASES

OF_THE_FIRST_LABEL = (
    *(
        "deletion",
        "morf",
        "lerf",
        "srg",
        "average-drop",
        "increase-in-confidence",
        "proof-size",
        "sufficient-region",
    ),
    *("li-soundness", "li-completeness", "saliency-metric", "saliency-area", "saliency-confidence"),
)
"""Metrics that read the map of each image's first label alone. They were recorded when they also had values for the other labels."""


GONE: dict[str, dict[str, Any]] = {
    "belief-mask": {"tolerance": 0.0},
    "belief-order": {"patches": 0},
    "edges": {"sigma": 0.0},
    "extremal-perturbation": {"variant": "preserve"},
    "smooth-grad": {"statistic": "mean"},
}
"""Settings that methods had when they were recorded, at the values at which they did nothing."""

NEW: dict[str, dict[str, Any]] = {"belief-mask": {"copies": 0.0}}
"""Settings that methods did not have when they were recorded, at the values at which they do nothing."""


SPELT = {"options: --methods, --threads, --thresholds)": "options: --method, --methods, --threads)"}
"""Texts that name options, since each option of methods has the spelling with and without s."""


def first_alone(recorded: Any) -> Any:
    """The record, in which metrics that read the first label have no values for other labels, and methods only the settings of today."""
    if isinstance(recorded, list):
        return [first_alone(each) for each in recorded]
    if isinstance(recorded, str):
        return next((recorded.replace(old, new) for old, new in SPELT.items() if old in recorded), recorded)
    if not isinstance(recorded, dict):
        return recorded
    found = {key: first_alone(value) for key, value in recorded.items()}
    if isinstance(pairs := found.get("pairs"), dict):
        for name, rows in pairs.items():
            if re.match(r"[a-z]+(-[a-z]+)*", name)[0] in OF_THE_FIRST_LABEL:
                pairs[name] = [[row[0], *[None] * (len(row) - 1)] for row in rows]
    name = str(found.get("method"))
    gone, new = GONE.get(name, {}), NEW.get(name, {})
    return {key: value for key, value in found.items() if key not in gone or value != gone[key]} | new


@pytest.mark.parametrize("name", CASES)
def test_the_numbers_are_those_that_were_recorded(name: str) -> None:
    case = CASES[name]
    if case.missing:
        pytest.skip(f"needs {', '.join(case.missing)}")
    found = list(record.differences(case.record(), first_alone(record.read(name)), case.tolerances))
    assert not found, f"{len(found)} differences in {name}:\n" + "\n".join(found[:20])


def test_there_is_a_case_for_every_record() -> None:
    assert {path.stem for path in record.RECORDS.glob("*.json")} == {*CASES}
