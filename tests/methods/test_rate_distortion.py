"""Rate-distortion explanations, iGOS++ and the information bottleneck: an exact solution, steps against plain loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Rows
from proofmap.fills import Gray, Images, Noise
from proofmap.methods.masks.iba import IBA, Tail, find_bottleneck
from proofmap.methods.masks.igos import IGOSPlusPlus
from proofmap.methods.masks.method import add_noise_
from proofmap.methods.masks.rate_distortion import RateDistortion
from tests.mask_toys import (
    PATCH,
    SIZE,
    gradient_of,
    lively,
    logits_of,
    patch_task,
    seated,
    unnormalised,
)
from tests.sessions import bound
from tests.toys import MEAN, STD, Counted, drawn, normal, pixels

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


def test_a_score_that_hiding_does_not_change_needs_no_position() -> None:
    f, image = patch_task()
    image[:, :, PATCH[0], PATCH[1]] = 0.5  # the patch is gray, as what is shown behind it
    maps = RateDistortion(grid=16, fill=Gray())(f, image, torch.tensor([[0]]))
    assert float(maps.max()) == 0


# ---- iGOS++ --------------------------------------------------------------------------------------------------


S = IGOSPlusPlus(integration=3, grid=8, tv=2.0, fill="blur")


def plain_objective(
    f: Classifier, image: Tensor, hidden: Tensor, label: int, masks: Tensor, way: list[float], noise: Tensor
) -> Tensor:
    """F for D, I = masks ``(2, h, w)`` in float64, with f(M) as the mean over the way; ``noise`` ``(4, S, *shape)``."""

    def up(m: Tensor) -> Tensor:
        return F.interpolate(m[None, None], size=SIZE, mode="bilinear", align_corners=True)[0, 0]

    def shown(kept: Tensor, extra: Tensor) -> Tensor:
        x = kept * image + (1 - kept) * hidden + extra * torch.tensor(f.std).view(-1, 1, 1)
        return logits_of(f, x).softmax(dim=0)[label]

    d, i = masks
    total = torch.zeros((), dtype=torch.float64)
    for k, s in enumerate(way):
        total = total + shown(s * up(d), noise[0, k]) - shown(1 - s * up(i), noise[1, k])
        total = total + shown(s * up(d * i), noise[2, k]) - shown(1 - s * up(d * i), noise[3, k])
    total = total / (2 * len(way)) + (1 - d * i).abs().mean()
    m, large, looks = d * i, up(d * i), image.mean(dim=0)
    for axis in (0, 1):
        edge = torch.exp(-(looks.diff(dim=axis) ** 2) / 0.1**2)
        total = total + 2.0 * 0.5 * m.diff(dim=axis).square().mean()
        total = total + 2.0 * 0.5 * (edge * large.diff(dim=axis).square()).mean()
    return total


def test_the_direction_is_the_integrated_gradient() -> None:
    f, images, labels = lively(), pixels(2, SIZE), torch.tensor([2, 0])
    problem, slots = seated(bound(S, f), images, labels)
    slots["step"].fill_(4)
    deleted = normal(2, 2, 6, 8, seed=1).sigmoid()
    losses, gradient = gradient_of(problem, deleted, slots)
    keys = streams.step_keys(slots["keys"], slots["step"], 24)[:, :12]
    for p in range(2):
        masks = (1 - deleted[p].double()).requires_grad_(True)
        noise = 0.2 * add_noise_(torch.zeros(12, *images[p].shape), keys[p], 1.0).double()
        hidden = unnormalised(f, slots["hidden 0"][p])
        way = [1 / 3, 2 / 3, 1.0]
        shaped = noise.view(4, 3, 3, *SIZE)
        value = plain_objective(f, images[p].double(), hidden, int(labels[p]), masks, way, shaped)
        (expected,) = torch.autograd.grad(value, masks)
        assert losses[p].item() == pytest.approx(value.item(), rel=1e-4)
        torch.testing.assert_close(gradient[p].double(), -expected, rtol=1e-3, atol=1e-6)


def test_the_line_search_takes_the_longest_step_that_descends_enough() -> None:
    f, images, labels = lively(), pixels(3, SIZE), torch.tensor([2, 0, 1])
    problem, slots = seated(bound(S.changed(l1=1.0), f), images, labels)
    slots["weights"] = normal(3, 2, 6, 8, seed=1).sigmoid()
    _, direction = gradient_of(problem, slots["weights"], slots)
    direction[2] *= -1  # leads up: nothing but the shortest step is left
    with torch.no_grad():
        reached, value = problem.line_search(slots, direction)
    still = torch.zeros(4, 1, 3, *SIZE, dtype=torch.float64)
    taken = []
    for p in range(3):
        x, hidden = images[p].double(), unnormalised(f, slots["hidden 0"][p])
        start, d = slots["weights"][p].double(), direction[p].double()
        before = plain_objective(f, x, hidden, int(labels[p]), 1 - start, [1.0], still)
        alpha = 1000.0
        while True:
            there = (start - alpha * d).clamp(0, 1)
            after = plain_objective(f, x, hidden, int(labels[p]), 1 - there, [1.0], still)
            if after <= before - 1e-4 * alpha * d.square().sum() or alpha * 0.2 < 1e-5:
                break
            alpha *= 0.2
        taken.append(alpha)
        torch.testing.assert_close(reached[p].double(), there, rtol=0, atol=1e-4)
        assert value[p].item() == pytest.approx(after.item(), abs=1e-4)
    assert taken[2] < 5e-5 < 0.1 < max(taken[:2]) and len(S.trials) == 12


@pytest.mark.parametrize("momentum", [False, True])
def test_the_objective_never_rises(momentum: bool) -> None:
    f, image = patch_task()
    s = IGOSPlusPlus(integration=2, grid=8, fill="gray", momentum=momentum)
    problem, slots = seated(bound(s, f), image, torch.tensor([0]))
    values, looked_ahead = [math.inf], False
    for _ in range(6):
        _, gradient = gradient_of(problem, slots["weights"], slots)
        slots["step"] += 1
        with torch.no_grad():
            problem.move(slots, gradient)
            whole = torch.ones(1)
            values.append(problem.objective(slots["reached"][:, None], slots, whole, 0.0).item())
        assert values[-1] == pytest.approx(slots["value"].item(), abs=1e-6)
        looked_ahead |= not torch.equal(slots["reached"], slots["weights"])
    assert all(b <= a + 1e-6 for a, b in pairwise(values))
    assert looked_ahead is momentum


def test_presets_are_the_sources() -> None:
    s = IGOSPlusPlus()
    assert (s.iterations, s.integration, s.grid, s.l1, s.tv, s.noise) == (20, 20, 28, 1, 20, 0.2)
    assert IGOSPlusPlus.preset("command-line").iterations == 15
    readme = IGOSPlusPlus.preset("readme")
    assert (readme.grid, readme.l1, readme.momentum) == (224, 10, True)
    assert s.cost(2).gradient == 2 * 20 * 20 * 4


# ---- the information bottleneck ------------------------------------------------------------------------------


BOTTLENECK = IBA(fill="noise", pool=20, samples=2, steps=3)


class Block(nn.Module):
    """A residual block: what it adds does not carry all that passes."""

    def __init__(self, width: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, stride=stride, padding=1)
        self.relu = nn.ReLU()
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.relu(self.conv(x)) + x[:, :, :: self.stride, :: self.stride])


def residual_net() -> nn.Sequential:
    layers = [nn.Conv2d(3, 4, 3, padding=1), Block(4), Block(4, 2), Block(4, 2), nn.AdaptiveAvgPool2d(1)]
    return drawn(nn.Sequential(*layers, nn.Flatten(), nn.Linear(4, 3)))


def residual(**options: object) -> Classifier:
    return Classifier(residual_net(), size=SIZE, mean=MEAN, std=STD, batch_size=64, **options)  # type: ignore[arg-type]


# ---- the net behind a layer ----------------------------------------------------------------------------------------


def test_the_rest_of_the_net_gives_the_logits_of_the_net() -> None:
    f, images = residual(), pixels(3, SIZE)
    for layer in ("0", "1", "2", "3"):
        tail = Tail(f, layer)
        torch.testing.assert_close(tail(tail.features(images)), f.logits(images), rtol=1e-5, atol=1e-5)


def test_layers_in_front_are_not_run_again() -> None:
    front = Counted(nn.Conv2d(3, 4, 3, padding=1))
    layers = nn.Sequential(front, nn.ReLU(), nn.AdaptiveAvgPool2d((3, 4)), nn.Flatten(), nn.Linear(48, 3))
    f = Classifier(drawn(layers), size=SIZE, batch_size=64)
    tail = Tail(f, "1")
    features = tail.features(pixels(3, SIZE))
    front.tally.reset()
    tail(features)
    assert front.tally.images == 0


@pytest.mark.parametrize("layer, told", [("2.conv", "name another one"), ("nine", "has no layer 'nine'")])
def test_a_layer_that_is_bypassed_is_refused(layer: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        Tail(residual(), layer)


def test_the_bottleneck_is_the_last_way_through_that_is_twice_as_fine() -> None:
    assert find_bottleneck(residual()) == "2"  # 6 x 8, before 3 x 4
    assert find_bottleneck(lively()) == "1"  # 12 x 16, before its pooling to 3 x 4
    with pytest.raises(InputError, match="torch module"):
        find_bottleneck(Classifier(lambda x: x.flatten(1)[:, :3], size=SIZE))
    rows = Rows(columns=5, mean=(0.0,) * 5, std=(1.0,) * 5)
    with pytest.raises(InputError, match="pictures"):
        bound(IBA(fill="noise"), Classifier(nn.Linear(5, 3), inputs=rows))


# ---- the formula ---------------------------------------------------------------------------------------------------


def test_statistics_are_mean_and_deviation_over_the_pool() -> None:
    f = residual()
    ready = bound(BOTTLENECK, f)
    keys = torch.tensor([streams.key_of("iba", k) for k in range(20)])
    drawn_images = bound(Noise(), f)(f.blank(20), keys)
    features = Tail(f, "2").features(drawn_images)
    found = ready.bottleneck()
    torch.testing.assert_close(found.mean, features.mean(dim=0), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.std, features.std(dim=0).clamp_min(0.01), rtol=1e-3, atol=1e-4)


def test_the_loss_is_that_of_a_plain_loop() -> None:
    f, images, labels = residual(), pixels(2, SIZE), torch.tensor([2, 0])
    s = BOTTLENECK.changed(smooth=0.0)
    ready = bound(s, f)
    problem, slots = seated(ready, images, labels)
    usual = ready.bottleneck()
    weights = normal(2, 4, 6, 8, seed=4)
    losses, gradient = gradient_of(problem, weights, slots)
    keys = streams.step_keys(slots["keys"], slots["step"], 2)
    net = f.net
    mean, std = (torch.tensor(v).view(-1, 1, 1) for v in (MEAN, STD))
    for p in range(2):
        a = weights[p].clone().requires_grad_(True)
        r, share = net[:3](((images[p] - mean) / std)[None])[0], a.sigmoid()
        noise = usual.mean + usual.std * add_noise_(torch.zeros_like(weights), keys[p], 1.0)
        z = share * r + (1 - share) * noise
        missed = -net[3:](z).log_softmax(dim=1)[:, labels[p]].mean()
        given = Normal(share * r + (1 - share) * usual.mean, (1 - share) * usual.std)
        loss = missed + 10 * kl_divergence(given, Normal(usual.mean, usual.std)).mean()
        (expected,) = torch.autograd.grad(loss, a)
        assert losses[p].item() == pytest.approx(loss.item(), rel=1e-4)
        torch.testing.assert_close(gradient[p], expected, rtol=1e-2, atol=1e-5)


def test_maps_are_bits_per_position() -> None:
    f, image = residual(), pixels(1, SIZE)
    problem, slots = seated(bound(BOTTLENECK, f), image, torch.tensor([1]))
    bits = (
        problem.information(problem.passed(slots["weights"]), slots["deviation"]).sum()
        / torch.tensor(2.0).log()
    )
    assert problem.finished(slots).sum().item() == pytest.approx(bits.item(), rel=0.02)


# ---- what comes out ------------------------------------------------------------------------------------------------


def test_the_pool_and_the_layer_are_recorded_and_company_does_not_matter() -> None:
    f, images = residual(), pixels(3, SIZE)
    s = BOTTLENECK.changed(fill=Images(source=pixels(6, SIZE, seed=7), crop="none"))
    ready = bound(s, f)
    record = ready.record()
    assert record["layer"] == "2" and record["fill"]["digest"]  # type: ignore[index]
    labels = torch.tensor([[0, 1], [2, 0], [1, 2]])
    together = ready(images, labels)
    torch.testing.assert_close(ready(images[1:2], labels[1:2]), together[1:2], rtol=1e-3, atol=1e-6)
