"""Extremal perturbations: parametrisation, pyramid, ranked area and descent against plain loops; areas that are reached."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy
import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core.inputs import Series
from proofmap.core.progress import Progress
from proofmap.methods.masks.extremal import ExtremalPerturbation
from tests.mask_toys import SIZE, gradient_of, in_and_out, lively, logits_of, patch_task, seated, unnormalised
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
    assert problem.shape.cells == [*CELLS] and problem.shape.reach == 3
    w = normal(2, 2, *CELLS, seed=3).sigmoid()
    found = problem.shape(w)
    assert found.shape == (2, 2, 12, 16)
    rows, columns = ([k + 0.5 for k in range(n)] for n in SIZE)  # two points per cell: here the positions
    torch.testing.assert_close(found[1, 0], plain_mask(w[1, 0], rows, columns), rtol=0, atol=1e-5)


def test_a_parameter_of_one_makes_a_mask_of_one_around_it() -> None:
    problem = bound(S, lively()).problem(lively())
    w = torch.zeros(1, 1, *CELLS)
    w[0, 0, 3, 4] = 1.0
    mask = problem.masks(w)[0, 0]
    assert mask[6:8, 8:10].min() > 0.95 and mask[0, 0] == 0 and mask.max() <= 1
    constant = problem.masks(torch.full((1, 1, *CELLS), 0.5))
    assert float(constant.max() - constant.min()) < 1e-6  # no place is preferred before the net is asked


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


def test_the_area_error_is_that_of_the_sorted_mask() -> None:
    problem = bound(S, lively()).problem(lively())
    points = normal(2, 2, 12, 16, seed=4).sigmoid()
    found = problem.area_errors(points)
    for p in range(2):
        for k, ones in enumerate((19, 58)):  # of 192 points
            template = [0.0] * (192 - ones) + [1.0] * ones
            ordered = sorted(points[p, k].flatten().tolist())
            expected = sum((a - b) ** 2 for a, b in zip(ordered, template, strict=True)) / 192
            assert found[p, k].item() == pytest.approx(expected, rel=1e-5)


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


def test_the_patch_is_found_and_the_area_is_kept() -> None:
    f, image = patch_task(4.0)
    area = 30 / 192
    s = S.changed(areas=(area,), blur=56.0, smooth=0.0, steps=120)
    maps = s(f, image, torch.tensor([[0]]))
    inside, outside = in_and_out(maps)
    assert inside > 0.65 and outside < 0.15
    assert maps.mean().item() == pytest.approx(area, abs=0.06)


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
