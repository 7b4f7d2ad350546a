"""Every registered kind of input, in the variants that differ, keeps the contract of kinds of input."""

from __future__ import annotations

import pytest

from proofmap.core.inputs import KINDS, Inputs, Pictures, Rows, Series, Text
from proofmap.testing import check_inputs
from tests.core.test_columns import customers, one_hot
from tests.toys import toy_tokens

VARIANTS: dict[str, Inputs] = {
    "pictures": Pictures(size=(4, 5), mean=(0.5, 0.4, 0.3), std=(0.25, 0.2, 0.3)),
    "gray pictures": Pictures(size=(4, 5), mean=(0.5,), std=(0.25,)),
    "series": Series(length=12, mean=(1.0, -2.0), std=(3.0, 0.5)),
    "series with segments": Series(
        length=10, mean=(1.0, -2.0), std=(3.0, 0.5), names=("left", "right"), rate=100.0, segments=4
    ),
    "rows": Rows(columns=3, mean=(0.0, 1.0, 2.0), std=(1.0, 2.0, 3.0), names=("a", "b", "c")),
    "a table": Rows.of(customers()),
    "a table with groups": Rows.of(one_hot(), groups={"city": ["city_Ulm", "city_Bonn", "city_Köln"]}),
    "text": Text(length=4, width=8),
    "tokens": toy_tokens(4),
}


@pytest.mark.parametrize("inputs", VARIANTS.values(), ids=VARIANTS)
def test_inputs(inputs: Inputs) -> None:
    check_inputs(inputs)


def test_every_kind_of_ours_is_among_them() -> None:
    ours = {name for name in KINDS if KINDS[name].__module__.startswith("proofmap.")}
    assert {inputs.kind for inputs in VARIANTS.values()} == ours
