"""Guided backpropagation and RectGrad, against Captum and a loop over the layers, in modules, functions and methods."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.methods.gradients.plain import GradientInput, GuidedBackprop, RectGrad
from tests.methods.test_gradients import LABELS, NETS, normalised
from tests.toys import MEAN, STD, conv_net, drawn, pixels


def classifier(net: nn.Module) -> Classifier:
    return Classifier(net, size=8, mean=MEAN, std=STD)


class Functional(nn.Module):
    """The layers of a sequential net, with its rectifiers called in one of many ways."""

    def __init__(self, rectify: str) -> None:
        super().__init__()
        self.layers, self.rectify = conv_net(), rectify
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self._rectified(self.layers[0](x))
        x = self._rectified(self.layers[2](x))
        out: Tensor = self.layers[6](x.mean(dim=(2, 3)))
        return out

    def _rectified(self, x: Tensor) -> Tensor:
        return {
            "one module for all": lambda: self.relu(x),
            "F.relu": lambda: F.relu(x),
            "method": lambda: x.relu(),
            "clamp": lambda: x.clamp(min=0),
            "clamp_min": lambda: torch.clamp_min(x, 0),
            "clamp twice": lambda: x.clamp(0, 1e9),
            "threshold": lambda: F.threshold(x, 0, 0),
            "F.relu6": lambda: F.relu6(x),
            "clamp to 6": lambda: x.clamp(0, 6),
        }[self.rectify]()


RELUS = ["one module for all", "F.relu", "method", "clamp", "clamp_min", "clamp twice", "threshold"]


@pytest.mark.parametrize("net", NETS)
def test_guided_backprop_is_captums_for_every_label(net: str, captum: ModuleType) -> None:
    inner, images = NETS[net](), pixels(3, 8)
    maps = GuidedBackprop()(classifier(inner), images, LABELS)
    theirs = captum.GuidedBackprop(NETS[net]())
    for j in range(4):
        with pytest.warns(UserWarning, match="backward hooks"):
            values = theirs.attribute(normalised(images).requires_grad_(True), target=j)
        torch.testing.assert_close(maps[:, j], values.abs().amax(dim=1), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rectify", RELUS)
@pytest.mark.parametrize("method", [GuidedBackprop(), RectGrad(quantile=0.9)], ids=lambda m: m.name)
def test_it_does_not_matter_how_a_net_rectifies(rectify: str, method: GuidedBackprop) -> None:
    images = pixels(3, 8)
    expected = method(classifier(conv_net()), images, LABELS)
    found = method(classifier(Functional(rectify)), images, LABELS)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    assert not torch.allclose(found, GradientInput()(classifier(conv_net()), images, LABELS), rtol=0.1)


def rect_grad_by_hand(image: Tensor, label: int, quantile: float, top: float) -> Tensor:
    """conv_net's RectGrad of one normalised image ``(3, 8, 8)``, layer by layer, times the input."""
    net = conv_net()
    z1 = net[0](image[None])
    a1 = z1.clamp(0, top)
    z2 = net[2](a1)
    a2 = z2.clamp(0, top)
    r = (net[6].weight[label][None, :, None, None] / (z2.shape[2] * z2.shape[3])).expand_as(z2)
    for a, z, below, conv in ((a2, z2, a1, net[2]), (a1, z1, image[None], net[0])):
        importance = a * r
        tau = importance.flatten().sort().values[int(quantile * (importance.numel() - 1))].clamp_min(0)
        r = r * (importance > tau) * (z < top)  # a limit from above has no slope
        r = torch.nn.grad.conv2d_input(below.shape, conv.weight, r, stride=conv.stride, padding=1)
    return (r * image).sum(dim=1)[0].detach()


@pytest.mark.parametrize("quantile", [0.0, 0.5, 0.98])
@pytest.mark.parametrize("rectify, top", [("F.relu", 1e9), ("F.relu6", 6.0), ("clamp to 6", 6.0)])
def test_rect_grad_is_what_a_loop_over_the_layers_gives(quantile: float, rectify: str, top: float) -> None:
    loud = Classifier(Functional(rectify), size=8, mean=MEAN, std=(0.05,) * 3)
    images = pixels(2, 8)
    maps = RectGrad(quantile=quantile)(loud, images, LABELS[:2])
    shifted = (images - torch.tensor(MEAN).view(3, 1, 1)) / 0.05
    with torch.no_grad():
        assert float(conv_net()[:4](shifted).max()) > 6, "else ReLU6 would not be told from ReLU"
    for i, image in enumerate(shifted):
        for j in range(4):
            expected = rect_grad_by_hand(image, j, quantile, top)
            torch.testing.assert_close(maps[i, j], expected, rtol=1e-3, atol=1e-5)


def test_without_a_threshold_rect_grad_is_guided_backprop_times_input() -> None:
    images, f = pixels(2, 8), classifier(conv_net())
    without = RectGrad(quantile=0.0, times_input=False, channels="max")(f, images, LABELS[:2])
    torch.testing.assert_close(without, GuidedBackprop()(f, images, LABELS[:2]), rtol=1e-4, atol=1e-6)


def test_a_small_layer_keeps_its_most_important_unit() -> None:
    from proofmap.core.inputs import Rows

    net = drawn(nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)), seed=1)
    f = Classifier(net, inputs=Rows(columns=3, mean=(0,) * 3, std=(1,) * 3))
    assert RectGrad()(f, torch.ones(1, 3), torch.tensor([[0, 1]])).abs().amax(dim=2).max() > 0
