"""ROAD's imputation: a batched solve that equals SciPy's sparse one, and pytorch-grad-cam's."""

from __future__ import annotations

import importlib
from types import ModuleType

import numpy as np
import pytest
import scipy
import torch
from torch import Tensor

from proofmap.core import streams
from proofmap.fills.road import Road, impute
from proofmap.metrics import deletion
from tests.sessions import bound
from tests.toys import SERIES, classifier_of, conv_classifier, pixels, values

NEIGHBOURS = {(i, j): 1 / 12 if i and j else 1 / 6 for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j}


def solved(x: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The system of one picture ``(C, H, W)`` as a sparse matrix, solved by SciPy."""
    height, width = known.shape
    places = [tuple(p) for p in np.argwhere(~known)]
    number = {p: k for k, p in enumerate(places)}
    matrix, right = scipy.sparse.lil_matrix((len(places), len(places))), np.zeros((len(places), len(x)))
    for k, (i, j) in enumerate(places):
        for (di, dj), w in NEIGHBOURS.items():
            p = (i + di, j + dj)
            if not (0 <= p[0] < height and 0 <= p[1] < width):
                continue
            matrix[k, k] += w
            if known[p]:
                right[k] += w * x[:, p[0], p[1]]
            else:
                matrix[k, number[p]] -= w
    found = x.copy()
    answer = scipy.sparse.linalg.spsolve(matrix.tocsc(), right).reshape(len(places), -1)
    for k, (i, j) in enumerate(places):
        found[:, i, j] = answer[k]
    return found


def masks(size: tuple[int, int]) -> Tensor:
    """Scattered pixels, a large hole in the middle, and one known corner."""
    scattered = pixels(1, size, channels=1, seed=2)[0, 0] > 0.8
    hole = torch.ones(size, dtype=torch.bool)
    hole[2:-2, 3:-1] = False
    corner = torch.zeros(size, dtype=torch.bool)
    corner[0, 0] = True
    return torch.stack([scattered, hole, corner])


@pytest.mark.parametrize("size", [(20, 31), (32, 32)])
def test_the_batched_solve_is_scipys(size: tuple[int, int]) -> None:
    x, known = pixels(3, size), masks(size)
    found = impute(x, known)
    for i in range(3):
        expected = solved(x[i].double().numpy(), known[i].numpy())
        assert np.abs(found[i].numpy() - expected).max() < 1e-3  # a quarter of a step of 8-bit pixels


def test_it_solves_the_system_of_pytorch_grad_cam(pytorch_grad_cam: ModuleType) -> None:
    road = importlib.import_module("pytorch_grad_cam.metrics.road")
    x, known = pixels(1, (16, 16)), masks((16, 16))[0]
    matrix, right = road.NoisyLinearImputer.setup_sparse_system(
        known.float().numpy(), x[0].numpy(), road.neighbors_weights
    )
    theirs = torch.from_numpy(scipy.sparse.linalg.spsolve(matrix.tocsc(), right)).float().t()
    torch.testing.assert_close(impute(x, known[None])[0][:, ~known], theirs, atol=1e-3, rtol=0)


def test_what_is_known_stays_and_nothing_known_is_gray_with_noise() -> None:
    f, x = conv_classifier(12), pixels(2, 12)
    fill, keys = bound(Road(), f), streams.image_keys(x, "test")
    known = masks((12, 12))[:2]
    assert torch.equal(impute(x, known).masked_select(known[:, None]), x.masked_select(known[:, None]))
    away = fill(x, keys) - f.gray.view(3, 1, 1)
    assert 0.008 < float(away.std()) < 0.012
    shown = fill.behind(x, keys, known) - impute(x, known)
    assert float(shown.abs().max()) < 0.06


def test_a_series_with_one_gap_is_a_straight_line() -> None:
    f = classifier_of(SERIES)
    x = values(SERIES, 1)
    known = torch.ones(1, 12, dtype=torch.bool)
    known[:, 3:8] = False
    found = bound(Road(noise=1e-9), f).behind(x, streams.image_keys(x, "test"), known)
    line = x[:, :, 2:3] + (x[:, :, 8:9] - x[:, :, 2:3]) * torch.arange(1, 6) / 6
    torch.testing.assert_close(found[:, :, 3:8], line, atol=1e-3, rtol=1e-3)


def test_the_deletion_game_is_played_on_imputed_pictures() -> None:
    f, x, labels = conv_classifier(12), pixels(2, 12), torch.tensor([[0], [1]])
    heat = pixels(2, 12, channels=1, seed=4)
    found = deletion(f, x, heat, labels, curve="road")
    ready, keys = bound(Road(), f), streams.image_keys(x, 0, "curve fill", 0)
    ranks = (-heat.flatten(2)).argsort(dim=2).argsort(dim=2)[:, 0]
    for step in (3, 7):
        keep = (ranks >= found.counts[step]).view(2, 12, 12)
        composite = torch.where(keep[:, None], x, ready.behind(x, keys, keep))
        expected = f.probabilities(composite).gather(1, labels)
        torch.testing.assert_close(found.probabilities[:, :, step], expected, atol=1e-5, rtol=1e-4)
