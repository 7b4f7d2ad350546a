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
]
ADAPTED = {
    "captum:NoiseTunnel(attribution_method=InputXGradient,nt_samples=2)": "captum",
    "pytorch-grad-cam:GradCAM": "pytorch_grad_cam",
    "torch-cam:GradCAMpp": "torchcam",
}
"""Methods of other libraries, and the fixture that imports each library."""


@pytest.mark.parametrize("check", check_method.checks, ids=str)
@pytest.mark.parametrize("spec", VARIANTS)
def test_method(spec: str, check: Check[Method]) -> None:
    check(make_method(spec))


@pytest.mark.parametrize("check", check_method.checks, ids=str)
@pytest.mark.parametrize("spec", ADAPTED)
def test_method_of_another_library(spec: str, check: Check[Method], request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(ADAPTED[spec])
    check(make_method(spec))


def test_every_registered_method_is_among_them() -> None:
    assert {spec.partition(":")[0] for spec in (*VARIANTS, *ADAPTED)} == set(METHODS)
