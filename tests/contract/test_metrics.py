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
    "completeness:base=lerf,target=decision,points=4",
    "insertion:target=margin,points=4",
    "morf:points=4",
    "lerf:points=4,fill=blur",
    "srg:points=4,target=logit",
    "average-drop:share=0.3,fill=noise,draws=2",
    "increase-in-confidence",
    "drop-in-deletion",
    "saliency-metric:delta=0.6,reading=value,piece=largest",
    "saliency-area",
    "saliency-confidence:empty=gray,delta=5",
    "saliency-tiny:delta=2",
    "pointing-game:tolerance=0",
    "energy-inside",
    "box-iou:hit=0.3,delta=1,reading=mean",
    "two-objects",
    "sufficient-region:points=4",
    "contrastive-region:points=4,keeps=label",
    "complete-region:points=4,tolerance=0.5",
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
