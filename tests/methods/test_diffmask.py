"""DiffMask: gates, divergence and dual ascent against plain formulas; a patch that is found, a belief that is kept."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Bernoulli, kl_divergence

from proofmap.core import streams
from proofmap.methods.masks.diffmask import DiffMask, divergence, expected_open, hard_concrete
from tests.mask_toys import SIZE, gradient_of, in_and_out, lively, logits_of, patch_task, seated, unnormalised
from tests.sessions import bound
from tests.toys import normal, pixels


def test_gates_are_open_as_often_as_expected() -> None:
    weights = torch.linspace(-4, 4, 9)
    u = streams.uniform(torch.tensor(streams.key_of("gates")), 9 * 20_000).view(-1, 9)
    gates = hard_concrete(weights, u)
    torch.testing.assert_close((gates > 0).float().mean(dim=0), expected_open(weights), rtol=0, atol=0.01)
    assert bool((gates == 0).any()) and bool((gates == 1).any()) and gates.min() >= 0 and gates.max() <= 1


def test_the_divergence_is_that_of_two_coins() -> None:
    f, q = torch.tensor([0.01, 0.3, 0.5, 0.99]), torch.tensor([0.2, 0.3, 0.9, 0.4])
    expected = kl_divergence(Bernoulli(f), Bernoulli(q))
    torch.testing.assert_close(divergence(f, q.log()), expected, rtol=1e-4, atol=1e-6)
    assert divergence(torch.tensor(1.0), torch.tensor(-math.inf)).isfinite()


def test_two_steps_of_loss_and_multiplier_are_those_of_a_plain_loop() -> None:
    f, images, labels = lively(), pixels(2, SIZE), torch.tensor([2, 0])
    s = DiffMask(grid=8, samples=2, fill="blur", dual_start=3.0, dual_rate=0.7)
    problem, slots = seated(bound(s, f), images, labels)
    price = [3.0, 3.0]
    for step in range(2):
        slots["step"].fill_(step)
        weights = normal(2, 1, 6, 8, seed=5 + step)
        keys = streams.step_keys(slots["keys"], slots["step"], 4)
        losses, gradient = gradient_of(problem, weights, slots)
        for p in range(2):
            own = weights[p, 0].double().requires_grad_(True)
            believed = float(f.probabilities(images[p : p + 1])[0, labels[p]])
            apart: Tensor = torch.zeros((), dtype=torch.float64)
            for k in range(2):
                u = streams.uniform(keys[p, k], 48).view(6, 8).double()
                z = ((own + (u / (1 - u)).log()) / (2 / 3)).sigmoid() * 1.2 - 0.1
                up = F.interpolate(z.clamp(0, 1)[None, None], size=SIZE, mode="bilinear")[0, 0]
                x = up * images[p] + (1 - up) * unnormalised(f, slots["hidden 0"][p])
                q = logits_of(f, x).softmax(dim=0)[labels[p]]
                left, right = (
                    believed * (believed / q).log(),
                    (1 - believed) * ((1 - believed) / (1 - q)).log(),
                )
                apart = apart + (left + right) / 2
            shut = 2 / 3 * math.log(0.1 / 1.1)
            loss = (own - shut).sigmoid().mean() + price[p] * (apart - 0.05)
            price[p] = max(0.0, price[p] + 0.7 * (apart.item() - 0.05))
            (expected,) = torch.autograd.grad(loss, own)
            assert losses[p].item() == pytest.approx(loss.item(), rel=1e-3, abs=1e-4)
            torch.testing.assert_close(gradient[p, 0].double(), expected, rtol=2e-3, atol=1e-6)
            assert slots["lambda"][p].item() == pytest.approx(price[p], rel=1e-3)


def test_the_patch_is_found_and_belief_is_kept_within_the_margin() -> None:
    f, image = patch_task()
    maps = DiffMask(grid=16, fill="gray", margin=0.02)(f, image, torch.tensor([[0]]))
    inside, outside = in_and_out(maps)
    assert inside > 0.7 and outside < 0.05
    kept = f.inputs.composite((maps[:, 0] > 0.5).float(), image, f.blank(1))
    q, believed = f.log_f(f.logits(kept))[:, 0], f.probabilities(image)[:, 0]
    assert divergence(believed, q).item() < 0.05


def test_a_label_that_needs_no_proof_gets_no_gates() -> None:
    f, image = patch_task()
    maps = DiffMask(grid=16, fill="gray", margin=3.0, steps=60)(f, image, torch.tensor([[0]]))
    assert maps.max() < 0.2  # gray alone is within so wide a margin
