"""Metrics from text and from tables: what a study file says is what is judged."""

from __future__ import annotations

from typing import ClassVar

import pytest
from torch import Tensor

import proofmap as pm
from proofmap.fills import Blur
from proofmap.metrics import METRICS, Insertion, Judged, Metric, make_metric
from proofmap.metrics.areas import Deletion
from proofmap.metrics.proof_scores import Soundness
from tests.toys import conv_classifier, pixels


def test_every_setting_of_the_text_reaches_the_metric() -> None:
    metric = make_metric(
        "soundness:thresholds=released,e2=0.25,curve=released,fill=blur,points=7,ties=random"
    )
    told = {"e2": 0.25, "points": 7, "rule": "right", "ties": "random"}
    assert metric == Soundness(fill=Blur(), **told)
    assert told.items() <= metric.settings().items()
    assert make_metric("insertion:points=all").settings()["points"] == "all"
    assert make_metric("deletion:curve=rise") == Deletion(
        points=28, rule="trapezoid"
    )  # gray, as RISE plays it
    assert make_metric("insertion:curve=rise") == Insertion(fill=Blur(), points=28, rule="trapezoid")
    assert make_metric("insertion:within=0.2:0.6") == Insertion(within=(0.2, 0.6))


def test_a_table_says_the_same_as_text() -> None:
    options = {"thresholds": "appendix", "points": 9}
    text = make_metric("completeness:thresholds=appendix,points=9")
    assert make_metric({"metric": "completeness", **options}) == text


@pytest.mark.parametrize(
    "spec, told",
    [
        ("soundnes", "Did you mean 'soundness'"),
        ("soundness:e3=1", "no setting 'e3'. Its settings are: thresholds, curve, fill"),
        ("soundness:e2=much", "e2 must be a number"),
        ("insertion:curve=steep", "no curve 'steep'; known are paper, released"),
        ("insertion:points=0", "points must be"),
        ("insertion:fill=foam", "no fill is named"),
    ],
)
def test_what_cannot_be_read_is_told(spec: str, told: str) -> None:
    with pytest.raises(pm.InputError, match=told):
        make_metric(spec)


def test_a_metric_of_ones_own_is_built_from_its_fields() -> None:
    class Brightness(Metric):
        name: ClassVar[str] = "brightness-of-the-test"
        higher_is_better: ClassVar[bool] = True
        description: ClassVar[str] = "mean of the image"
        scale: float = 1.0

        def values(self, judged: Judged) -> Tensor:
            return self.scale * judged.images.mean(dim=(1, 2, 3))

    METRICS.register(Brightness)
    metric = make_metric("brightness-of-the-test:scale=2")
    images = pixels(3, 8)
    found = pm.evaluate(conv_classifier(8), images, methods=["random"], metrics=[metric])
    assert found.results[0].values[metric.name] == pytest.approx(2 * images.mean(dim=(1, 2, 3)))
