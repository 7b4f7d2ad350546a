"""Every registered method, in the variants that differ, keeps the contract of methods."""

from __future__ import annotations

import pytest

from proofmap.methods import METHODS, Method, make_method
from proofmap.testing import Check, check_method

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
    "occlusion",
    "occlusion:window=3,stride=2,fill=noise,quantity=logit",
    "rise:masks=40,grid=3",
    "rise:masks=600,grid=2,tolerance=0.5,fill=none",
    "lime:samples=40,regions=9",
    "shapley:orders=3,regions=6,fill=noise",
    "shapley:orders=2,regions=6,superpixels=grid",
    "kernel-shap:samples=30,regions=6",
    "sobol:designs=4,grid=3",
    "hsic:samples=40,grid=3",
    "greedy-insertion:regions=6",
    "greedy-insertion:regions=9,candidates=3,fill=noise",
]


@pytest.mark.parametrize("check", check_method.checks, ids=str)
@pytest.mark.parametrize("spec", VARIANTS)
def test_method(spec: str, check: Check[Method]) -> None:
    check(make_method(spec))


def test_every_registered_method_is_among_them() -> None:
    assert {spec.partition(":")[0] for spec in VARIANTS} == set(METHODS)
