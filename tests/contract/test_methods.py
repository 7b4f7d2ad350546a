"""Every registered method, in the variants that differ, keeps the contract of methods."""

from __future__ import annotations

from pathlib import Path

import pytest

from proofmap.methods import METHODS, Method, make_method, train_masker
from proofmap.testing import Check, check_method
from proofmap.testing.nets import PICTURES, classifier_of, values

MASKERS = "MASKERS"
"""Stands for the folder of maskers that were trained on the contract's net."""
LEARNED = "learned-mask:steps=4,scale=2,fill=noise"
VARIANTS = [
    "random",
    "random:per_label=true",
    "centered-gaussian",
    "gradient",
    "gradient-x-input",
    "grad-cam",
    "top-label:gradient-x-input",
    "top-label:random:per_label=true",
    LEARNED,
    f"{LEARNED},masks=2,objective=nll",
    "top-label:" + LEARNED,
    "belief-mask:passes=8,grid=4,fills=gray+noise",
    "belief-mask:passes=8,grid=4,fills=blur,target=strongest",
    f"real-time-saliency:weights={MASKERS}/dabkowski.safetensors",
    f"real-time-saliency:preset=released,weights={MASKERS}/dabkowski.safetensors",
    f"phang-masker:weights={MASKERS}/phang-ca.safetensors",
    f"phang-masker:variant=fix,weights={MASKERS}/phang-fix.safetensors",
    f"belief-masker:weights={MASKERS}/belief.safetensors",
]


@pytest.fixture(scope="session")
def maskers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One masker of each kind, after two steps."""
    folder = tmp_path_factory.mktemp("maskers")
    f, x = classifier_of(PICTURES), values(PICTURES, 6)
    for kind in ("dabkowski", "phang-fix", "phang-ca", "belief"):
        train_masker(kind, f, x, out=folder / f"{kind}.safetensors", steps=2, batch=4, width=4)
    return folder


@pytest.mark.parametrize("check", check_method.checks, ids=str)
@pytest.mark.parametrize("spec", VARIANTS)
def test_method(spec: str, check: Check[Method], request: pytest.FixtureRequest) -> None:
    if MASKERS in spec:
        spec = spec.replace(MASKERS, str(request.getfixturevalue("maskers")))
    check(make_method(spec))


def test_every_registered_method_is_among_them() -> None:
    assert {spec.partition(":")[0] for spec in VARIANTS} == set(METHODS)
