"""RISE against a plain loop; it stops when converged, and labels cost nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.methods.perturbation.rise import RISE, disagreement
from tests.toys import PICTURES, classifier_of, pixels, values

LABELS = torch.tensor([[0, 2, 1], [1, 3, 0]])


def mask_of(key: Tensor, size: tuple[int, int], grid: int, shown: float) -> Tensor:
    """One mask as the paper makes it: a grid enlarged to one cell more than the input, cut out at a random shift."""
    bits = (streams.uniform(key, grid * grid) < shown).float().view(1, 1, grid, grid)
    cells = [-(-side // grid) for side in size]
    large = F.interpolate(bits, size=[(grid + 1) * cell for cell in cells], mode="bilinear")[0, 0]
    y, x = (int(streams.integers(key, 1, cell, start=grid * grid + k)) for k, cell in enumerate(cells))
    return large[y : y + size[0], x : x + size[1]]


@pytest.mark.parametrize("coverage", [True, False])
def test_it_is_a_ten_line_loop(coverage: bool) -> None:
    f, images, n = classifier_of(PICTURES), values(PICTURES, 2), 30
    maps = RISE(masks=n, grid=3, shown=0.4, coverage=coverage)(f, images, LABELS, seed=5)
    gray = f.gray.view(3, 1, 1)
    for i in range(2):
        key = streams.image_keys(images[i : i + 1], 5, "rise")
        total, masks = torch.zeros(4, 8, 10), torch.zeros(8, 10)
        for k in range(n):
            mask = mask_of(streams.step_keys(key, torch.tensor([k]), 1)[0, 0], (8, 10), 3, 0.4)
            total += f.probabilities((gray + mask * (images[i] - gray))[None])[0].view(-1, 1, 1) * mask
            masks += mask
        expected = total / (masks.clamp_min(1e-6) if coverage else n * 0.4)
        torch.testing.assert_close(maps[i], expected[LABELS[i]], rtol=1e-3, atol=1e-5)


def test_masks_show_the_share_they_are_asked_for_and_are_never_kept() -> None:
    keys = streams.step_keys(torch.tensor([1]).expand(4000), torch.arange(4000), 1)[:, 0]
    masks = RISE(shown=0.3).random_masks(keys, PICTURES)
    assert masks.shape == (4000, 8, 10) and masks.min() >= 0 and masks.max() <= 1
    assert masks.mean().item() == pytest.approx(0.3, abs=0.01)


class Spot(nn.Module):
    """One label looks at the upper left corner, one at nothing, one against the corner."""

    def forward(self, x: Tensor) -> Tensor:
        corner = x[:, :, :4, :4].mean(dim=(1, 2, 3))
        return torch.stack([6 * corner, torch.zeros_like(corner), -6 * corner], dim=1)


def spot_classifier(batch_size: int = 128) -> Classifier:
    return Classifier(Spot(), size=8, batch_size=batch_size)


def test_it_stops_when_two_halves_of_the_masks_agree_and_the_map_is_then_near_the_true_one() -> None:
    f, images = spot_classifier(), 0.5 + pixels(2, 8) / 2
    labels = torch.tensor([[0], [0]])
    long = RISE(masks=3000, tolerance=0, grid=3)(f, images, labels, seed=1)
    for tolerance in (0.2, 0.02):
        short = RISE(masks=3000, tolerance=tolerance, grid=3)(f, images, labels)
        for i in range(2):
            r = np.corrcoef(short[i].flatten(), long[i].flatten())[0, 1]
            assert r > 1 - tolerance
    assert not torch.equal(short, long)


def test_less_tolerance_takes_more_masks_up_to_all_of_them() -> None:
    class Counting(nn.Module):
        seen = 0

        def forward(self, x: Tensor) -> Tensor:
            Counting.seen += len(x)
            out: Tensor = Spot()(x)
            return out

    f, images = Classifier(Counting(), size=8, batch_size=250), 0.5 + pixels(1, 8) / 2
    f.frozen()  # which looks at the net
    taken = []
    for tolerance in (0.5, 0.001, 0.0):
        Counting.seen = 0
        RISE(masks=2000, tolerance=tolerance, grid=3)(f, images, torch.tensor([[0]]))
        taken.append(Counting.seen)
    assert taken[0] == 500 < taken[1] <= taken[2] == 2000


def test_disagreement_is_what_spearman_and_brown_say() -> None:
    halves = torch.stack([pixels(1, 9).flatten(), pixels(1, 9, seed=1).flatten() + pixels(1, 9).flatten()])
    r = np.corrcoef(halves.numpy())[0, 1]
    assert disagreement(halves).item() == pytest.approx(1 - 2 * r / (1 + r), abs=1e-5)
