"""Every registered fill, in the variants that differ, keeps the contract of fills."""

from __future__ import annotations

import pytest

from proofmap.fills import FILLS, Fill, Images, make_fill
from proofmap.fills.infill import Infill
from proofmap.fills.rows import ClassMedian, NearRows
from proofmap.testing import check_fill, inputs
from tests.toys import PICTURES, ROWS, SERIES, TEXT, toy_tokens, values

VARIANTS: list[str | Fill] = [
    "gray",
    "gray:color=0:0.5:1",
    "gray:color=0.2:0.3",
    "blur",
    "blur:sigma=1,kernel=3",
    "blur:sigma=50,kernel=51,border=edge",
    "median",
    "median:kernel=3",
    "noise",
    "noise:sigma=0.5",
    "road",
    "time-reversal",
    "time-shift",
    "mask",
    "unknown",
    "delete",
    "closed",
    "zero",
    "mean-embedding",
    Infill(net=lambda images, holes: images * (1 - holes) + images.mean(dim=(2, 3), keepdim=True) * holes),
    Images(source=values(PICTURES, 5, seed=1), crop="none"),
    Images(source=values(PICTURES, 5, seed=1), size=8),
    Images(source=values(SERIES, 5, seed=1)),
    Images(source=values(TEXT, 5, seed=1)),
    NearRows(source=values(ROWS, 9, seed=1)),
    ClassMedian(source=values(ROWS, 9, seed=1)),
]


@pytest.fixture(autouse=True)
def tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "TRIED", [*inputs.TRIED, toy_tokens(5)])


@pytest.mark.parametrize("spec", VARIANTS, ids=lambda spec: spec if isinstance(spec, str) else spec.title())
def test_fill(spec: str | Fill) -> None:
    check_fill(make_fill(spec))


def test_every_fill_of_ours_is_among_them() -> None:
    ours = {name for name in FILLS if FILLS[name].__module__.startswith("proofmap.")}
    assert {make_fill(spec).name for spec in VARIANTS} == ours
