"""Every registered metric, in the variants that differ, keeps the contract of metrics."""

from __future__ import annotations

import pytest

from proofmap.metrics import METRICS, Metric, make_metric
from proofmap.testing import Check, check_metric

VARIANTS = [
    "completeness",
    "completeness:thresholds=released,curve=restricted",
    "soundness",
    "soundness:fill=noise,points=4,draws=2",
    "best-effort",
    "best-effort:e1=0.2,curve=rise",
    "insertion",
    "insertion:points=all,ties=random",
    "deletion",
    "deletion:curve=released",
    "inter-method",
    "inter-rater",
    "internal-consistency",
    "complexity-rise",
    "randomisation:layers=last,similarity=ssim",
    "randomisation:similarity=abs-rank,samples=2",
    "ranking-agreement",
    "roughness",
    "roughness:share=0.5",
]


@pytest.mark.parametrize("check", check_metric.checks, ids=str)
@pytest.mark.parametrize("spec", VARIANTS)
def test_metric(spec: str, check: Check[Metric]) -> None:
    check(make_metric(spec))


def test_every_metric_of_ours_is_among_them() -> None:
    ours = {name for name in METRICS if METRICS[name].__module__.startswith("proofmap.")}
    assert {make_metric(spec).name for spec in VARIANTS} == ours
