"""Fong and Vedaldi's masks: the loss and whole runs against plain loops in float64, the disc, a patch that is found."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proofmap.core import streams
from proofmap.fills.simple import Median
from proofmap.methods import make_method
from proofmap.methods.masks.fong_vedaldi import FongVedaldi, FongVedaldiProblem
from proofmap.methods.masks.method import add_noise_
from tests.mask_toys import SIZE, gradient_of, in_and_out, lively, logits_of, patch_task, seated, unnormalised
from tests.sessions import bound
from tests.toys import normal, pixels


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


def test_a_run_is_adam_on_the_formula() -> None:
    f, image = lively(), pixels(1, SIZE, seed=2)
    s = FongVedaldi.preset("pytorch", steps=6, grid=8, noise=0.0)
    found = s(f, image, torch.tensor([[1]]))[0, 0]
    hidden = bound(Median(), f)(image, torch.zeros(1, dtype=torch.long))[0].double()
    m = torch.ones(1, 1, 6, 8, dtype=torch.float64, requires_grad=True)
    first, second = torch.zeros_like(m), torch.zeros_like(m)
    for t in range(1, 7):
        up = nn.functional.interpolate(m, size=SIZE, mode="bilinear", align_corners=True)[0, 0]
        value = logits_of(f, up * image[0] + (1 - up) * hidden).softmax(dim=0)[1]
        rough = m.diff(dim=2).abs().pow(3).mean() + m.diff(dim=3).abs().pow(3).mean()
        (g,) = torch.autograd.grad(value + 0.01 * (1 - m).abs().mean() + 0.2 * rough, m)
        first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g * g
        step = 0.1 * (first / (1 - 0.9**t)) / ((second / (1 - 0.999**t)).sqrt() + 1e-8)
        m = (m - step).clamp(0, 1).detach().requires_grad_(True)
    up = nn.functional.interpolate(m.detach(), size=SIZE, mode="bilinear", align_corners=True)[0, 0]
    assert found.max() > 0.1
    torch.testing.assert_close(found.double(), 1 - up, rtol=0, atol=2e-3)


def test_the_first_disc_is_the_smallest_that_takes_the_label_away() -> None:
    f, image = patch_task(3.0)
    ready = bound(FongVedaldi(mask_blur=0.0, grid=16, fill="gray"), f)
    problem, slots = seated(ready, image.expand(2, -1, -1, -1), torch.tensor([0, 1]))
    assert isinstance(problem, FongVedaldiProblem)
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


@pytest.mark.parametrize("options", ["preset=pytorch,steps=40", "jitter=0,mask_blur=1,steps=40,l1=0.003"])
def test_the_patch_is_found(options: str) -> None:
    f, image = patch_task()
    inside, outside = in_and_out(
        make_method(f"fong-vedaldi:{options},grid=16,fill=gray")(f, image, torch.tensor([[0]]))
    )
    assert inside > 0.8 and outside < 0.3


def test_presets_are_the_sources() -> None:
    original, other = FongVedaldi(), FongVedaldi.preset("pytorch")
    assert original == FongVedaldi.preset("original")
    assert (original.steps, original.grid, original.learning_rate, original.beta) == (300, 28, 0.1, 3)
    assert (original.l1, original.tv, original.jitter, original.mask_blur) == (1e-4, 1e-2, 4, 5)
    assert (other.steps, other.l1, other.tv, other.noise, other.penalty) == (500, 0.01, 0.2, 0.2, "mean")
    assert other.corners and other.fill == Median(kernel=11) and other.start == "ones"
