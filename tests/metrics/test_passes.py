"""A metric that reads the map of the first label alone plays one map an image; insertion curves are kept for every label."""

from __future__ import annotations

import pytest
import torch

import proofmap as pm
from proofmap.metrics import Judged
from proofmap.session import Session
from tests.golden.passes import of_metrics
from tests.toys import conv_classifier, pixels

IMAGES, LABELS, STEPS = 3, 3 + 2 + 1, 31
"""Those of the golden records: 31 of the 32 points of a curve show a part of the image."""
MORE_THAN_INSERTION = {
    "deletion": IMAGES * STEPS,
    "srg": 2 * IMAGES * STEPS,
    "class-sensitivity": 0,
    "sufficient-region": 0,  # reads the insertion curve
    "proof-size": IMAGES * (STEPS + 1),  # and the fill alone, of which it reads something else
    "average-drop": IMAGES,  # one step; the fill alone is that of insertion
    "li-completeness": IMAGES * 9 + IMAGES,  # nine levels, and f
    "saliency-metric:delta=0.5": IMAGES,
    "merlin-arthur-soundness": LABELS + 2 * IMAGES,  # all labels: one step, the fill alone, the net's answer
    "the default metrics": IMAGES * STEPS + IMAGES,  # deletion, and f of all labels for best effort
}


def test_passes_are_made_for_the_maps_that_are_read() -> None:
    found = of_metrics([name for name in ("insertion", *MORE_THAN_INSERTION) if "default" not in name])
    assert found["insertion"] >= LABELS * STEPS
    more = {name: passes - found["insertion"] for name, passes in found.items() if name != "insertion"}
    assert more == MORE_THAN_INSERTION


@pytest.mark.parametrize("spec", ["deletion", "srg", "sufficient-region", "li-soundness", "average-drop"])
def test_the_value_is_that_of_the_first_label_among_all(spec: str) -> None:
    f, x, labels = conv_classifier(8), pixels(3, 8), torch.tensor([[2, 0], [1, -1], [0, 2]])
    metric = pm.make_metric(spec)
    judged = Judged(Session(f), x, labels, torch.rand(3, 2, 8, 8, generator=torch.Generator().manual_seed(1)))
    values, pairs = metric.measure(judged)
    every = metric.pairs(judged)
    assert every is not None and pairs is not None
    torch.testing.assert_close(values, every[:, 0], equal_nan=True)
    torch.testing.assert_close(pairs[:, 0], values, equal_nan=True)
    assert bool(pairs[:, 1].isnan().all())
