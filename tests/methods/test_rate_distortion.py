"""Rate-distortion explanations: the exact solution of a linear net, one step against a plain loop, a patch that is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.fills import Gray, Noise
from proofmap.methods.masks.rate_distortion import RateDistortion
from tests.mask_toys import (
    PATCH,
    SIZE,
    gradient_of,
    in_and_out,
    lively,
    logits_of,
    patch_task,
    seated,
    unnormalised,
)
from tests.sessions import bound
from tests.toys import normal, pixels

SIDE, SIGMA = 4, 0.05


def linear() -> tuple[Classifier, Tensor]:
    """A linear net with two labels, and an image far from the limits of pixels, so that noise around gray is not clipped."""
    layer = nn.Linear(3 * SIDE * SIDE, 2)
    with torch.no_grad():
        layer.weight.copy_(normal(2, 3 * SIDE * SIDE, seed=2))
        layer.weight[0, : SIDE * SIDE : 5] = 0  # in one channel of some positions
        layer.weight.view(2, 3, -1)[:, :, 3] = 0  # a position that the net does not see
    f = Classifier(nn.Sequential(nn.Flatten(), layer).eval(), size=SIDE, mean=(0.5,) * 3, std=(0.25,) * 3)
    return f, 0.5 + 0.2 * (pixels(1, (SIDE, SIDE)) - 0.5)


def exact(f: Classifier, image: Tensor, label: int, noise: float, rate: float) -> Callable[[Any], Any]:
    """The objective of s ``(positions,)`` on a linear net, and its gradient.

    With t = 1 - s, the score changes by sum t (c - e), with c what a position adds beyond gray and e its noise, of variance v, so
    D = ((sum t c)^2 + sum t^2 v) / 2.
    """
    weights = f.net[1].weight[label].detach().double().view(3, -1).numpy() / 0.25  # type: ignore[index,union-attr]
    c = (weights * (image[0].double().flatten(1).numpy() - 0.5)).sum(axis=0)
    v = ((weights * SIGMA) ** 2).sum(axis=0)

    def value(s: Any) -> Any:
        t, whole = 1 - s, ((1 - s) * c).sum()
        return (
            (whole**2 + (t**2 * v).sum()) / 2 / noise + rate * s.mean(),
            rate / len(s) - (whole * c + t * v) / noise,
        )

    return value


@pytest.mark.parametrize("label, rate", [(0, 0.05), (1, 0.3)])
def test_on_a_linear_net_it_is_the_exact_solution(label: int, rate: float) -> None:
    f, image = linear()
    method = RateDistortion(steps=150, samples=8, grid=SIDE, rate=rate, fill=Noise(sigma=SIGMA))
    _, slots = seated(bound(method, f), image, torch.tensor([label]))
    value = exact(f, image, label, float(slots["noise"]), rate)
    best = scipy.optimize.minimize(
        value, np.full(SIDE * SIDE, 0.5), jac=True, bounds=[(0, 1)] * SIDE**2, tol=1e-12
    )
    assert best.success and np.ptp(best.x) > 0.5, "the solution has something to find"
    found = method(f, image, torch.tensor([[label]]))[0, 0].double().flatten().numpy()
    assert best.x[3] == found[3] == 0  # the net does not see this position
    assert value(found)[0] < best.fun + 0.01
    assert np.corrcoef(found, best.x)[0, 1] > 0.98


def test_the_distortion_of_noise_alone_is_its_expectation() -> None:
    f, image = linear()
    score = f(image)[0, 1] - f(f.blank(1))[0, 1]
    _, slots = seated(bound(RateDistortion(fill="gray"), f), image, torch.tensor([1]))
    assert float(slots["noise"]) == pytest.approx(float(score.square() / 2), rel=1e-4)
    weights = f.net[1].weight[1].detach() / 0.25  # type: ignore[index,union-attr]
    expected = float(score.square() + (weights * SIGMA).square().sum()) / 2
    images = image.expand(200, -1, -1, -1) + 1e-6 * torch.arange(200.0).view(
        -1, 1, 1, 1
    )  # other draws for each
    _, slots = seated(
        bound(RateDistortion(fill=Noise(sigma=SIGMA)), f), images, torch.ones(200, dtype=torch.long)
    )
    assert float(slots["noise"].mean()) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("score", ["logit", "probability"])
def test_a_step_is_that_of_a_plain_loop(score: str) -> None:
    f, images, labels = lively(), pixels(2, SIZE), torch.tensor([2, 0])
    s = RateDistortion(grid=8, samples=3, rate=0.7, score=score)
    problem, slots = seated(bound(s, f), images, labels)
    slots["step"].fill_(5)
    weights = normal(2, 1, 6, 8, seed=5).sigmoid()
    losses, gradient = gradient_of(problem, weights, slots)
    keys = streams.step_keys(slots["keys"], slots["step"], 3)
    noise = bound(Noise(), f)

    def h(x: Tensor, label: Tensor) -> Tensor:
        logits = logits_of(f, x)
        return (logits if score == "logit" else logits.softmax(dim=0))[label]

    for p in range(2):
        own = weights[p, 0].double().requires_grad_(True)
        up = F.interpolate(own[None, None], size=SIZE, mode="bilinear")[0, 0]
        whole = h(images[p].double(), labels[p])
        apart: Tensor = torch.zeros((), dtype=torch.float64)
        for k in range(3):
            hidden = noise(images[p : p + 1], keys[p, k : k + 1])[0].double()
            apart = apart + (whole - h(up * images[p] + (1 - up) * hidden, labels[p])).square() / 6
        loss = apart / slots["noise"][p].double() + 0.7 * up.mean()
        (expected,) = torch.autograd.grad(loss, own)
        assert losses[p].item() == pytest.approx(loss.item(), rel=1e-4)
        torch.testing.assert_close(gradient[p, 0].double(), expected, rtol=2e-3, atol=1e-6)
    assert unnormalised(f, slots["seen"]).sub(images).abs().max() < 1e-5


def test_the_patch_is_found_and_a_higher_rate_shows_less() -> None:
    f, image = patch_task()
    little, more = (
        RateDistortion(steps=60, grid=16, rate=rate)(f, image, torch.tensor([[0]])) for rate in (0.3, 2.0)
    )
    inside, outside = in_and_out(little)
    assert inside > 0.6 and outside < 0.15 and more.mean() < little.mean()


def test_a_score_that_hiding_does_not_change_needs_no_position() -> None:
    f, image = patch_task()
    image[:, :, PATCH[0], PATCH[1]] = 0.5  # the patch is gray, as what is shown behind it
    maps = RateDistortion(grid=16, fill=Gray())(f, image, torch.tensor([[0]]))
    assert float(maps.max()) == 0
