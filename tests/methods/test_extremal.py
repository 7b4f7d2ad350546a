"""Extremal perturbations, masks of Fong and Vedaldi, and DiffMask: against plain loops in float64, and a patch that is found."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Bernoulli, kl_divergence

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.inputs import Series
from proofmap.core.progress import Progress
from proofmap.fills.simple import Median
from proofmap.methods.masks.diffmask import DiffMask, divergence, expected_open, hard_concrete
from proofmap.methods.masks.extremal import ExtremalPerturbation
from proofmap.methods.masks.fong_vedaldi import FongVedaldi
from proofmap.methods.masks.method import add_noise_
from tests.mask_toys import SIZE, gradient_of, lively, logits_of, patch_task, seated, unnormalised
from tests.sessions import bound
from tests.toys import normal, pixels

S = ExtremalPerturbation(
    areas=(0.1, 0.3), step=28.0, sigma=42.0, blur=28.0, levels=4
)  # 2, 3, 2 of 16 columns
CELLS = (6, 8)


def plain_mask(w: Tensor, rows: list[float], columns: list[float]) -> Tensor:
    """smax over cells within 3 of exp(-2 (d / sigma - 1/2)+^2) w at points given in positions; outer cells repeated."""
    out = []
    for y in rows:
        for x in columns:
            places, shares = [], []
            for i in range(int(y // 2) - 3, int(y // 2) + 4):
                for j in range(int(x // 2) - 3, int(x // 2) + 4):
                    d = math.hypot(y - (2 * i + 1), x - (2 * j + 1)) / 3.0
                    places.append(8 * min(5, max(0, i)) + min(7, max(0, j)))
                    shares.append(math.exp(-2 * max(0.0, d - 0.5) ** 2))
            v = w.flatten()[places] * torch.tensor(shares, dtype=w.dtype)
            out.append((v * (20 * v).softmax(dim=0)).sum())
    return torch.stack(out).view(len(rows), len(columns))


def test_masks_are_smooth_maxima_of_their_parameters() -> None:
    problem = bound(S, lively()).problem(lively())
    assert problem.shape.cells == [*CELLS] and problem.shape.reach == [3, 3]
    w = normal(2, 2, *CELLS, seed=3).sigmoid()
    found = problem.shape(w)
    assert found.shape == (2, 2, 12, 16)
    rows, columns = ([k + 0.5 for k in range(n)] for n in SIZE)  # two points per cell: here the positions
    torch.testing.assert_close(found[1, 0], plain_mask(w[1, 0], rows, columns), rtol=0, atol=1e-5)


def test_the_pyramid_and_what_lies_between_its_levels() -> None:
    f, image = lively(), pixels(1, SIZE)
    problem, slots = seated(bound(S, f), image, torch.tensor([0]))
    blurred = []
    for sigma in np.linspace(2, 0, 4):
        x = image[0].double().numpy()
        for axis in (1, 2) if sigma else ():
            x = scipy.ndimage.gaussian_filter1d(
                x, sigma, axis=axis, mode="nearest", radius=math.ceil(4 * sigma)
            )
        blurred.append(torch.from_numpy(x))
    levels = slots["pyramid"].view(3, 4, *SIZE).transpose(0, 1)
    torch.testing.assert_close(unnormalised(f, levels), torch.stack(blurred), rtol=0, atol=1e-5)
    masks = normal(1, 1, *SIZE, seed=2).sigmoid()
    masks[0, 0, 0, :2] = torch.tensor([0.0, 1.0])
    found = unnormalised(f, problem.perturbed(slots["pyramid"], masks, torch.tensor(False))[0, 0])
    for i, j in ((0, 0), (0, 1), (5, 7), (11, 15), (3, 9)):
        level = masks[0, 0, i, j].item() * 3
        below = min(2, int(level))
        share = level - below
        expected = (1 - share) * blurred[below][:, i, j] + share * blurred[below + 1][:, i, j]
        torch.testing.assert_close(found[:, i, j], expected, rtol=0, atol=1e-5)


def test_two_steps_are_those_of_a_plain_loop() -> None:
    f, image, label = lively(), pixels(1, SIZE, seed=1), 2
    s = S.changed(areas=(0.3,))
    problem, slots = seated(bound(s, f), image, torch.tensor([label]))
    w = torch.full(CELLS, 0.5, dtype=torch.float64)
    velocity = torch.zeros_like(w)
    rows, columns = ([k + 0.5 for k in range(n)] for n in SIZE)
    for step in range(2):
        w = w.requires_grad_(True)
        m = plain_mask(w, rows, columns)
        x = problem.perturbed(slots["pyramid"].double(), m[None, None], torch.tensor(False))[0, 0]
        reward = logits_of(f, unnormalised(f, x.flip(-1) if step else x))[label]
        template = (torch.arange(192) >= 192 - 58).double()
        error = (m.flatten().sort().values - template).square().mean()
        (g,) = torch.autograd.grad((300 * 1.014 * error if step else 0.0) - reward, w)
        _, gradient = gradient_of(problem, slots["weights"], slots)
        torch.testing.assert_close(gradient[0, 0].double(), g, rtol=1e-3, atol=1e-4)
        velocity = 0.9 * velocity + 0.1 * g if step else g
        w = (w.detach() - 0.04 * velocity).clamp(0, 1)
        slots["step"] += 1
        problem.move(slots, gradient)
        torch.testing.assert_close(slots["weights"][0, 0].double(), w, rtol=0, atol=1e-4)


def test_areas_are_summed_and_smoothed() -> None:
    f, image = lively(), pixels(1, SIZE)
    s = S.changed(steps=3)
    masks = bound(s, f).each_mask(image, torch.tensor([[1]]), seed=0, progress=Progress())
    assert masks.shape == (1, 1, 2, *SIZE)
    expected = masks.sum(dim=2)[0, 0].double().numpy()
    for axis in (0, 1):
        radius = math.ceil(4 * 0.09 * 12)
        expected = scipy.ndimage.gaussian_filter1d(
            expected, 0.09 * 12, axis=axis, mode="nearest", radius=radius
        )
    found = s(f, image, torch.tensor([[1]]))[0, 0].double()
    torch.testing.assert_close(found, torch.from_numpy(expected), rtol=0, atol=1e-5)


def test_series_are_blurred_by_time_steps_and_masked_by_segments() -> None:
    """Positions are 4 segments of 8 time steps: a mask has one value for all of them, and blur does not know of segments."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 3, bias=False)).eval()
    with torch.no_grad():
        net[1].weight.zero_()[1, 8:16] = 1.0  # label 1 is the second segment of the first channel
    f = Classifier(net, inputs=Series(length=32, mean=(0.0, 0.0), std=(1.0, 1.0), segments=4))
    x = normal(1, 2, 32, seed=1)
    problem, slots = seated(bound(S, f), x, torch.tensor([1]))
    sigma = 28.0 * 32 / 224
    blurred = scipy.ndimage.gaussian_filter1d(
        x[0].double().numpy(), sigma, mode="nearest", radius=math.ceil(4 * sigma)
    )
    levels = slots["pyramid"].view(2, 4, 32)
    torch.testing.assert_close(levels[:, 0].double(), torch.from_numpy(blurred), rtol=0, atol=1e-5)
    masks = torch.tensor([1.0, 0.0, 0.5, 1 / 3]).view(1, 1, 4)
    share = masks[0, 0].repeat_interleave(8) * 3
    below = share.floor().clamp(max=2).long()
    step, part = torch.arange(32), share - below
    expected = (1 - part) * levels[:, below, step] + part * levels[:, below + 1, step]
    found = problem.perturbed(slots["pyramid"], masks, torch.tensor([[[False]]]))
    torch.testing.assert_close(found[0, 0], expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(found[0, 0, :, :8], x[0, :, :8])
    event = torch.zeros(1, 2, 32)
    event[0, 0, 8:16] = 4.0
    maps = S.changed(steps=20, areas=(0.25,), smooth=0.0)(f, event, torch.tensor([[1]]))
    assert maps.shape == (1, 1, 4) and int(maps.argmax()) == 1


# ---- Fong and Vedaldi, DiffMask ------------------------------------------------------------------------------


def plain_blur(m: Tensor, sigma: float) -> Tensor:
    """A Gaussian blur ``(H, W)`` cut at 4 sigma, edges repeated."""
    radius = math.ceil(4 * sigma)
    line = torch.exp(-0.5 * (torch.arange(-radius, radius + 1, dtype=m.dtype) / sigma) ** 2)
    line = line / line.sum()
    padded = F.pad(m[None, None], [radius] * 4, mode="replicate")
    return F.conv2d(F.conv2d(padded, line.view(1, 1, -1, 1)), line.view(1, 1, 1, -1))[0, 0]


@pytest.mark.parametrize("preset", ["original", "pytorch"])
def test_the_loss_is_that_of_a_plain_loop(preset: str) -> None:
    f, images, labels = lively(), pixels(2, SIZE), torch.tensor([2, 0])
    s = FongVedaldi.preset(preset, grid=8)
    problem, slots = seated(bound(s, f), images, labels)
    slots["step"].fill_(5)
    deleted = normal(2, 1, 6, 8, seed=1).sigmoid()
    losses, gradient = gradient_of(problem, deleted, slots)
    keys = streams.step_keys(slots["keys"], slots["step"], 3)
    shifts = streams.integers(keys[:, 0], 2, 5) - 2
    for p in range(2):
        m = (1 - deleted[p, 0].double()).requires_grad_(True)
        x, hidden = images[p].double(), unnormalised(f, slots["hidden 0"][p])
        if preset == "original":
            up = F.interpolate(m[None, None], size=SIZE, mode="bilinear", align_corners=False)[0, 0]
            up = plain_blur(up, 5.0)
            rows = [min(11, max(0, i + int(shifts[p, 0]))) for i in range(12)]
            columns = [min(15, max(0, j + int(shifts[p, 1]))) for j in range(16)]
            x = (up * x + (1 - up) * hidden)[:, rows][:, :, columns]
            weights, reduced = (1e-4, 1e-2), torch.sum
        else:
            up = F.interpolate(m[None, None], size=SIZE, mode="bilinear", align_corners=True)[0, 0]
            noise = add_noise_(torch.zeros_like(images), keys[:, 1], 1.0)[p].double()
            x = up * x + (1 - up) * hidden + 0.2 * torch.tensor(f.std).view(-1, 1, 1) * noise
            weights, reduced = (0.01, 0.2), torch.mean
        rough = reduced((m[1:] - m[:-1]).abs() ** 3) + reduced((m[:, 1:] - m[:, :-1]).abs() ** 3)
        value = logits_of(f, x).softmax(dim=0)[labels[p]]
        loss = value + weights[0] * reduced((1 - m).abs()) + weights[1] * rough
        (expected,) = torch.autograd.grad(loss, m)
        assert losses[p].item() == pytest.approx(loss.item(), rel=1e-4)
        torch.testing.assert_close(gradient[p, 0].double(), -expected, rtol=1e-3, atol=1e-6)


def test_the_first_disc_is_the_smallest_that_takes_the_label_away() -> None:
    f, image = patch_task(3.0)
    ready = bound(FongVedaldi(mask_blur=0.0, grid=16, fill="gray"), f)
    _, slots = seated(ready, image.expand(2, -1, -1, -1), torch.tensor([0, 1]))
    gray = f.blank(1)[0]
    whole, nothing = (f.probabilities(x[None])[0, 0].item() for x in (image[0], gray))
    expected = None
    for k in range(34):
        radius = 170 / 224 * 16 * k / 33
        away = [[math.hypot(i - 5.5, j - 7.5) for j in range(16)] for i in range(12)]
        disc = (torch.tensor(away) < radius).float()
        left = f.probabilities((disc * gray + (1 - disc) * image[0])[None])[0, 0].item()
        if (left - nothing) / (whole - nothing) < 0.01:
            expected = disc
            break
    assert expected is not None and 0 < expected.mean() < 1
    torch.testing.assert_close(slots["weights"][0, 0], expected)
    assert not bool(slots["weights"][1].any())  # gray strengthens label 1: there is nothing to delete


def test_presets_are_the_sources() -> None:
    original, other = FongVedaldi(), FongVedaldi.preset("pytorch")
    assert original == FongVedaldi.preset("original")
    assert (original.steps, original.grid, original.learning_rate, original.beta) == (300, 28, 0.1, 3)
    assert (original.l1, original.tv, original.jitter, original.mask_blur) == (1e-4, 1e-2, 4, 5)
    assert (other.steps, other.l1, other.tv, other.noise, other.penalty) == (500, 0.01, 0.2, 0.2, "mean")
    assert other.corners and other.fill == Median(kernel=11) and other.start == "ones"


# ---- DiffMask ------------------------------------------------------------------------------------------------


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
