"""iGOS++: the objective, its integrated gradient and the line search against plain loops; a patch that is found."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.methods.masks.igos import IGOSPlusPlus
from proofmap.methods.masks.method import add_noise_
from tests.mask_toys import SIZE, gradient_of, lively, logits_of, patch_task, seated, unnormalised
from tests.sessions import bound
from tests.toys import normal, pixels

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
