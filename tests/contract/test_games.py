"""Every registered game, in the variants that differ, keeps the contract of games."""

from __future__ import annotations

import pytest

from proofmap.metrics import GAMES, make_game
from proofmap.testing import check_game

VARIANTS = [
    "insertion",
    "insertion:points=all,ties=center",
    "insertion:curve=rise",
    "insertion:fill=noise,points=5,draws=3,ties=random",
    "insertion:curve=road",
    "kept:points=6",
    "deletion",
    "deletion:curve=released",
    "insertion:target=log-probability,points=6",
    "lerf",
    "soft-insertion",
    "blurred-insertion:blur=1",
    "soft-insertion:share=0.3,ties=random",
    "soft-insertion:fill=noise,draws=2",
    "deletion:within=0.2:0.6,fill=gray(color=0:0.5:1)",
]


@pytest.mark.parametrize("spec", VARIANTS)
def test_game(spec: str) -> None:
    check_game(make_game(spec))


def test_every_game_of_ours_is_among_them() -> None:
    ours = {name for name in GAMES if GAMES[name].__module__.startswith("proofmap.")}
    assert {make_game(spec).name for spec in VARIANTS} == ours
