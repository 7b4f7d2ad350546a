"""The numbers are those that were recorded: ``python -m tests.golden.write`` wrote them."""

from __future__ import annotations

import pytest

from tests.golden import record
from tests.golden.cases import CASES


@pytest.mark.parametrize("name", CASES)
def test_the_numbers_are_those_that_were_recorded(name: str) -> None:
    case = CASES[name]
    if case.missing:
        pytest.skip(f"needs {', '.join(case.missing)}")
    found = list(record.differences(case.record(), record.read(name), case.tolerances))
    assert not found, f"{len(found)} differences in {name}:\n" + "\n".join(found[:20])


def test_there_is_a_case_for_every_record() -> None:
    assert {path.stem for path in record.RECORDS.glob("*.json")} == {*CASES}
