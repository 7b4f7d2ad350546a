"""A metric of one's own that returns something else than it should: the message names the metric and the form that is expected."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import proofmap as pm
from proofmap.metrics import Insertion, Judged, Metric
from proofmap.metrics.reliability import RankingAgreement
from tests.toys import conv_classifier, pixels

N, LABELS = 4, 3


def own(**attributes: Any) -> Metric:
    described = {"name": "own", "description": "for tests", "higher_is_better": True}
    return type("Own", (Metric,), {**described, **attributes})()


def giving(found: Callable[[Judged], object], **attributes: Any) -> Metric:
    return own(values=lambda self, judged: found(judged), **attributes)


def evaluated(*metrics: Metric) -> pm.Evaluation:
    return pm.evaluate(
        conv_classifier(8), pixels(N, 8), methods=["random", "gradient"], metrics=list(metrics), labels="top3"
    )


@pytest.mark.parametrize(
    "found, told",
    [
        (lambda judged: 0.5, "not float"),
        (lambda judged: [0.5] * N, "not list"),
        (lambda judged: None, "not None"),
        (lambda judged: np.zeros(N), "not ndarray"),
        (lambda judged: torch.zeros(N, dtype=torch.complex64), "not torch.complex64"),
        (lambda judged: torch.zeros(2), r"not of shape \(2,\)"),
        (lambda judged: torch.zeros(()), r"not of shape \(\)"),
        (lambda judged: torch.zeros(N, 2), r"not of shape \(4, 2\)$"),
        (
            lambda judged: judged.f,
            r"not of shape \(4, 3\). Values per label belong into pairs\(judged\)",
        ),
        (lambda judged: torch.full((N,), math.inf), "finite, or NaN"),
    ],
)
def test_values_have_one_form(found: Callable[[Judged], object], told: str) -> None:
    with pytest.raises(
        pm.InputError,
        match=r"the metric own: values\(judged\) must return a torch.Tensor .* of shape \(4,\)",
    ) as error:
        evaluated(giving(found))
    with pytest.raises(pm.InputError, match=told):
        raise error.value


@pytest.mark.parametrize("found, told", [(0.5, "not float"), (torch.zeros(N), r"not of shape \(4,\)$")])
def test_pairs_have_one_form(found: object, told: str) -> None:
    for more in ({}, {"__call__": lambda self, judged: torch.zeros(N)}):
        with pytest.raises(pm.InputError, match=rf"own: pairs\(judged\) must .* of shape \(4, 3\).*{told}"):
            evaluated(own(pairs=lambda self, judged: found, **more))


def test_values_from_pairs_have_the_same_form() -> None:
    metric = own(pairs=lambda self, judged: judged.f, from_pairs=lambda self, judged, pairs: pairs)
    with pytest.raises(pm.InputError, match=r"own: from_pairs\(judged, pairs\) must .* of shape \(4,\)"):
        evaluated(metric)


def test_values_lie_inside_the_limits_up_to_rounding() -> None:
    with pytest.raises(
        pm.InputError, match=r"the metric own: .* returned 1\.5, .* between its limits 0 and 1"
    ):
        evaluated(giving(lambda judged: torch.full((N,), 1.5), limits=(0.0, 1.0)))
    near = giving(lambda judged: torch.tensor([1 + 1e-6, 0.5, 0.0, math.nan]), limits=(0.0, 1.0))
    assert evaluated(near).results[0].scores[0].n == 3


def test_a_metric_that_plays_its_own_game_keeps_its_own_limits() -> None:
    assert type("Margin", (Insertion,), {"limits": (-math.inf, math.inf)})().limits == (-math.inf, math.inf)
    assert Insertion(target="margin").limits == (-math.inf, math.inf)


def test_whole_numbers_booleans_and_values_with_a_gradient_are_taken() -> None:
    for found in (torch.arange(N), torch.arange(N) > 1, torch.arange(N).float().requires_grad_()):
        metric = giving(lambda judged, found=found: found)
        assert evaluated(metric).results[0].scores[0].value == pytest.approx(
            float(found.detach().double().mean())
        )


@pytest.mark.parametrize("attributes", [{}, {"higher_is_better": None}])
def test_the_direction_is_required(attributes: dict[str, object]) -> None:
    kind = type("Own", (Metric,), {"name": "own", "description": "for tests", **attributes})
    with pytest.raises(
        pm.InputError, match=r"the metric own must .* higher_is_better = True, or False, in class Own"
    ):
        evaluated(kind())


def test_numbers_of_a_run_have_one_form() -> None:
    metric = type("Own", (RankingAgreement,), {"name": "own", "over_run": lambda self, run: 0.5})()
    with pytest.raises(
        pm.InputError, match=r"the metric own: over_run\(run\) must return a list of RunValue"
    ):
        evaluated(pm.make_metric("insertion:points=4"), metric)
