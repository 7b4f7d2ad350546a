"""Every registered metric, in the variants that differ, keeps the contract of metrics."""

from __future__ import annotations

import pytest

from proofmap.metrics import METRICS, make_metric
from proofmap.testing import check_metric

VARIANTS = [
    "completeness",
    "completeness:thresholds=released,curve=restricted",
    "soundness:points=8",
    "soundness:fill=noise,points=4,draws=2",
    "best-effort:points=8",
    "best-effort:e1=0.2,curve=rise,points=8",
    "insertion:points=8",
    "insertion:points=all,ties=random",
    "deletion:points=8",
    "deletion:curve=released",
    "completeness:base=lerf,target=decision,points=4",
    "insertion:target=margin,points=4",
    "morf:points=4",
    "lerf:points=4,fill=blur",
    "srg:points=4,target=logit",
    "average-drop:share=0.3,fill=noise,draws=2",
    "increase-in-confidence",
    "saliency-metric:delta=0.6,reading=value,piece=largest",
    "saliency-area",
    "saliency-confidence:empty=gray,delta=5",
    "pointing-game:tolerance=0",
    "energy-inside",
    "box-iou:hit=0.3,delta=1,reading=mean",
    "two-objects",
    "two-objects:by=energy",
    "sufficient-region:points=4",
    "adversarial-soundness:passes=24,points=4,search=greedy",
    pytest.param("adversarial-soundness:passes=20,points=4,search=mask", marks=pytest.mark.slow),
    "proof-size",
    "proof-size:fill=noise,points=4,draws=3",
    "class-sensitivity:points=8",
    "completeness:top=2,points=8",
    "peak:points=4",
    "peak:q=0.9,points=8",
    "peak-soundness:points=4",
    "reach:points=4",
    "steadiness:points=4",
    "steadiness:factor=2,s0=0.3,points=4",
    "second-soundness:points=8",
    "soundness:top=1,points=8",
    "li-completeness:levels=4",
    "li-soundness:points=6",
    "merlin-arthur-completeness",
    "merlin-arthur-soundness:share=0.5",
    "captum-infidelity:samples=3",
    "captum-sensitivity:samples=2",
    "sum-to-logit",
    "sum-to-logit:quantity=probability",
    "inter-method",
    "inter-rater",
    "internal-consistency",
    "randomisation:layers=last,similarity=ssim",
    "randomisation:similarity=abs-rank,samples=2",
    "ranking-agreement",
    "roughness",
    "roughness:share=0.5",
    "blur-survival:points=4",
]


@pytest.mark.parametrize("spec", VARIANTS)
def test_metric(spec: str) -> None:
    check_metric(make_metric(spec))


def test_every_metric_of_ours_is_among_them() -> None:
    ours = {name for name in METRICS if METRICS[name].__module__.startswith("proofmap.")}
    assert {make_metric(spec).name for spec in VARIANTS if isinstance(spec, str)} == ours
