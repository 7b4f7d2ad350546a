"""Sobol' indices and HSIC against their definitions, written out. Where a cell is a pixel, maps are the cells' values."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.methods import HSIC, Sobol, make_method
from proofmap.methods.grids import upsampling
from proofmap.methods.perturbation import sensitivity
from proofmap.testing.nets import normal
from tests.toys import conv_classifier, counted_classifier, linear_classifier, pixels

SIZE = 4
LABELS = torch.tensor([[0, 2, 1], [1, 3, 0]])


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The points that were drawn."""
    kept: list[Tensor] = []
    draw = sensitivity.quasi_random

    def noted(*arguments: object) -> Tensor:
        kept.append(draw(*arguments))  # type: ignore[arg-type]
        return kept[-1]

    monkeypatch.setattr(sensitivity, "quasi_random", noted)
    return kept


def said(f: Classifier, image: Tensor, masks: Tensor) -> np.ndarray:
    """f of an image under masks ``(n, pixels)``, ``(n, A)``."""
    gray = f.gray.view(3, 1, 1)
    shown = gray + masks.view(-1, 1, SIZE, SIZE) * (image - gray)
    found: np.ndarray = f.probabilities(shown).double().numpy()
    return found


def test_sobol_is_jansens_estimator_on_the_same_points(drawn: list[Tensor]) -> None:
    f, images = conv_classifier(SIZE), pixels(2, SIZE)
    maps = Sobol(grid=SIZE, designs=8)(f, images, LABELS)
    for i in range(2):
        a, b = drawn[0][i].split(SIZE * SIZE, dim=1)
        y = said(f, images[i], a)
        for cell in range(SIZE * SIZE):
            c = a.clone()
            c[:, cell] = b[:, cell]
            expected = ((y - said(f, images[i], c)) ** 2).mean(axis=0) / (2 * y.var(axis=0, ddof=1))
            found = maps[i].flatten(1)[:, cell].numpy()
            np.testing.assert_allclose(found, expected[LABELS[i].numpy()], rtol=1e-2, atol=1e-4)


def test_on_a_linear_net_sobol_indices_are_the_shares_of_the_variance() -> None:
    f, images = linear_classifier(SIZE), pixels(1, SIZE)
    maps = Sobol(grid=SIZE, designs=512, quantity="logit")(f, images, LABELS[:1])
    x = (images[0] - f.gray.view(3, 1, 1)) / torch.tensor(f.std).view(3, 1, 1)
    weight = f.net.weight.detach().view(4, 3, SIZE, SIZE)[LABELS[0]]  # type: ignore[union-attr,operator]
    variance = (weight * x).sum(dim=1).square()
    expected = variance / variance.sum(dim=(1, 2), keepdim=True)
    torch.testing.assert_close(maps[0], expected, rtol=0.1, atol=0.01)


@pytest.mark.parametrize("bandwidth", ["median", "distances"])
def test_hsic_is_the_trace_of_centred_kernels(drawn: list[Tensor], bandwidth: str) -> None:
    f, images, n = conv_classifier(SIZE), pixels(2, SIZE), 31  # odd: the middle value is the median
    maps = HSIC(grid=SIZE, samples=n, bandwidth=bandwidth)(f, images, LABELS)  # type: ignore[arg-type]
    center = np.eye(n) - 1 / n
    for i in range(2):
        z = (drawn[0][i] < 0.5).double()
        y = said(f, images[i], z.float())
        for j, label in enumerate(LABELS[i].tolist()):
            apart = np.abs(y[:, None, label] - y[None, :, label])
            width = np.median(y[:, label]) if bandwidth == "median" else np.sort(apart.ravel())[n * n // 2]
            kernel = np.exp(-(apart**2) / (2 * width**2))
            for cell in range(SIZE * SIZE):
                k = 0.5 - (z[:, None, cell] - z[None, :, cell]).numpy() ** 2
                expected = np.trace(k @ center @ kernel @ center) / (n - 1) ** 2
                assert maps[i, j].flatten()[cell].item() == pytest.approx(expected, rel=1e-2, abs=1e-6)


@pytest.mark.parametrize("spec", ["sobol:designs=64", "hsic:samples=400"])
def test_the_cells_that_a_label_depends_on_stand_out(spec: str) -> None:
    def corner(x: Tensor) -> Tensor:
        seen = 4 * x[:, :, :2, :2].mean(dim=(1, 2, 3))
        return torch.stack([seen, -seen], dim=1)

    f, images = Classifier(corner, size=8), 0.5 + pixels(1, 8) / 2
    maps = make_method(f"{spec},grid=4")(f, images, torch.tensor([[0, 1]]))
    assert maps[0].flatten(1).argmax(dim=1).tolist() == [0, 0]
    assert maps[0, 0, 0, 0] > 10 * maps[0, 0, 4:, 4:].mean()


def test_cells_are_enlarged_linearly() -> None:
    f, images = conv_classifier(8), pixels(1, 8)
    maps = Sobol(grid=2, designs=4)(f, images, LABELS[:1])
    up = upsampling(2, 8)
    torch.testing.assert_close(maps, up @ maps[..., ::7, ::7] @ up.T)


@pytest.mark.parametrize("spec", ["sobol:designs=4", "hsic:samples=20"])
def test_a_net_that_ignores_the_input_gets_a_constant_map(spec: str) -> None:
    f = Classifier(lambda x: torch.zeros(len(x), 3), size=8)
    maps = make_method(spec)(f, pixels(1, 8), torch.tensor([[1]]))
    assert maps.amax() - maps.amin() < 1e-5


def test_sobol_indices_of_an_unlikely_label_are_those_of_a_likely_one() -> None:
    a, c = normal(2, 8, 3), normal(2, 8, 5, 3, seed=1)
    torch.testing.assert_close(sensitivity.jansen(1e-24 * a, 1e-24 * c), sensitivity.jansen(a, c))


def test_what_varies_by_rounding_alone_has_no_sobol_indices() -> None:
    a, c = 1 + 1e-7 * normal(2, 8, 3), 1 + 1e-7 * normal(2, 8, 5, 3, seed=1)
    assert sensitivity.jansen(a, c).count_nonzero() == 0


def test_the_cost_is_what_goes_through_the_net_whatever_the_labels() -> None:
    f, tally = counted_classifier(size=SIZE)
    f.frozen()  # which looks at the net
    for spec, passes in (("sobol:grid=2,designs=4", 4 * 5), ("hsic:samples=9", 9)):
        ready = make_method(spec).prepare(f)
        for labels in (torch.tensor([[0]]), torch.tensor([[0, 1, 2, 3]])):
            tally.reset()
            ready(pixels(1, SIZE), labels)
            assert tally.images == passes == ready.cost(labels.shape[1]).forward  # type: ignore[union-attr]


def test_the_settings_of_the_sources() -> None:
    assert (Sobol().grid, Sobol().designs) == (8, 32)
    assert (HSIC.preset("paper").grid, HSIC.preset("paper").samples) == (7, 1500)


def test_more_cells_than_the_sequence_has_dimensions_are_refused() -> None:
    f = Classifier(lambda x: torch.zeros(len(x), 2), size=120)
    with pytest.raises(InputError, match=r"at most 21201 .* lower grid"):
        Sobol(grid=120)(f, pixels(1, 120), torch.tensor([[0]]))
