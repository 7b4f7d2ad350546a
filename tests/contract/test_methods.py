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
    "smooth-grad:samples=2",
    "smooth-grad:preset=captum,samples=2,statistic=variance",
    "integrated-gradients:steps=40",
    "guided-backprop",
    "rect-grad",
    "lrp",
    "lrp:preset=epsilon-alpha2-beta1-flat,biases=ignore",
    "contrastive-lrp",
    "contrastive-lrp:dual=negated",
    "deep-lift",
    "deep-lift:baseline=noise",
    "grad-cam",
    "top-label:gradient-x-input",
    "top-label:random:per_label=true",
    LEARNED,
    f"{LEARNED},masks=2,objective=nll",
    "top-label:" + LEARNED,
    "belief-mask:passes=8,grid=4,fills=gray+noise",
    "belief-mask:passes=8,grid=4,fills=blur,target=strongest",
]


@pytest.mark.parametrize("check", check_method.checks, ids=str)
@pytest.mark.parametrize("spec", VARIANTS)
def test_method(spec: str, check: Check[Method]) -> None:
    check(make_method(spec))


def test_every_registered_method_is_among_them() -> None:
    assert {spec.partition(":")[0] for spec in VARIANTS} == set(METHODS)
