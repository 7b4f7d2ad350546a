"""Evaluations of nets that take no pictures: a series of two channels, and a row of a table.

A linear net does not see how its positions are laid out. So a net of pictures of two channels and 4 x 6 pixels is also one
of series of 24 steps, with the same numbers, and one of 2 x 3 gray pixels is also one of rows of six columns.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

import proofmap as pm
from proofmap.core.inputs import Inputs, Rows, Series
from tests.toys import linear_classifier, normal

SERIES = Series(length=24, mean=(0.5, 0.5), std=(0.25, 0.25))
ROWS = Rows(columns=6, mean=(0.5,) * 6, std=(0.25,) * 6)
LABELS = ("calm", "rising", "falling")
_AS_PICTURES = {SERIES: (2, (4, 6)), ROWS: (1, (2, 3))}


def evaluated(inputs: Inputs, n: int = 2) -> pm.Evaluation:
    """Two methods judged on ``n`` inputs: what each position adds to the label's logit, and one map for all labels."""
    channels, size = _AS_PICTURES[inputs]
    values = normal(n, *inputs.shape, seed=2)
    if inputs.has_neighbours:
        values = values.cumsum(dim=-1) / 2  # smooth, so that a drawing of it can be read
    given = (0.5 + 0.25 * values).clamp(0, 1)
    middle = {"mean": (0.5,) * channels, "std": (0.25,) * channels}
    f = linear_classifier(size, len(LABELS), strength=0.3, names=list(LABELS), **middle)
    weight = f.net.weight.detach().view(len(LABELS), channels, *size)

    def contribution(classifier: pm.Classifier, x: Tensor, labels: Tensor) -> Tensor:
        return (weight[labels] * (x - 0.5)[:, None]).sum(dim=2)

    pictures = given.view(n, channels, *size)
    found = pm.evaluate(f, pictures, methods=[contribution, "random"], labels="all")
    results = [replace(r, maps=r.maps.view(*r.maps.shape[:2], *inputs.positions)) for r in found.results]
    settings = {k: v for k, v in found.settings.items() if k not in ("size", "resize", "interpolation")}
    return replace(found, results=tuple(results), images=given, settings={**settings, **inputs.record()})
