"""Gradients of the logit, against Captum, finite differences, and a net whose gradient is its weights."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.methods.gradients.plain import Channels, Gradient, GradientInput, input_gradients
from tests.toys import MEAN, STD, Linear, conv_net, drawn, linear_classifier, pixels

LABELS = torch.tensor([[0, 1, 2, 3]] * 3)


def deeper_net() -> nn.Sequential:
    """With batch-norms, which the frozen view folds, and all kinds of layers behind each other."""
    net = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1, bias=False),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Conv2d(6, 6, 3, stride=2, groups=2, padding=1),
        nn.Tanh(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(24, 4),
    )
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d) and module.running_mean is not None:
            module.running_mean.copy_(torch.linspace(-0.5, 0.5, 6))
    return drawn(net, 3)


def normalised(images: Tensor) -> Tensor:
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (MEAN, STD))
    return (images - mean) / std


NETS = {"convolutions": conv_net, "batch-norms": deeper_net}


@pytest.mark.parametrize("net", NETS)
def test_gradient_is_captums_saliency_for_every_label(net: str, captum: ModuleType) -> None:
    inner, images = NETS[net](), pixels(3, 8)
    maps = Gradient()(Classifier(inner, size=8, mean=MEAN, std=STD), images, LABELS)
    saliency = captum.Saliency(inner)
    for j in range(4):
        theirs = saliency.attribute(normalised(images).requires_grad_(True), target=j, abs=True)
        torch.testing.assert_close(maps[:, j], theirs.amax(dim=1), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("channels", ["sum", "max"])
def test_gradients_are_signed_or_not_as_captums_abs_says(
    absolute: bool, channels: Channels, captum: ModuleType
) -> None:
    """The sign is dropped channel by channel, before the channels become one value."""
    inner, images = conv_net(), pixels(3, 8)
    f = Classifier(inner, size=8, mean=MEAN, std=STD)
    methods = [
        Gradient(absolute=absolute, channels=channels),
        GradientInput(absolute=absolute, channels=channels),
    ]
    maps = [method(f, images, LABELS) for method in methods]
    assert all(method.signed is not absolute for method in methods)
    saliency, product = captum.Saliency(inner), captum.InputXGradient(inner)
    for j in range(4):
        slopes = saliency.attribute(normalised(images).requires_grad_(True), target=j, abs=absolute)
        products = product.attribute(normalised(images).requires_grad_(True), target=j)
        for found, theirs in zip(maps, (slopes, products.abs() if absolute else products), strict=True):
            reduced = theirs.sum(dim=1) if channels == "sum" else theirs.amax(dim=1)
            torch.testing.assert_close(found[:, j], reduced, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("channels", ["sum", "mean", "max"])
def test_gradient_x_input_is_captums_for_every_label(
    net: str, channels: Channels, captum: ModuleType
) -> None:
    inner, images = NETS[net](), pixels(3, 8)
    maps = GradientInput(channels=channels)(Classifier(inner, size=8, mean=MEAN, std=STD), images, LABELS)
    product = captum.InputXGradient(inner)
    for j in range(4):
        theirs = product.attribute(normalised(images).requires_grad_(True), target=j)
        reduced = {"sum": theirs.sum(1), "mean": theirs.mean(1), "max": theirs.amax(1)}[channels]
        torch.testing.assert_close(maps[:, j], reduced, rtol=1e-4, atol=1e-6)


def test_gradient_x_input_of_a_linear_net_sums_to_the_logit() -> None:
    """The *other* completeness, of attributions: here they add up to the logit less its bias."""
    f, images = linear_classifier(4, 4), pixels(3, 4)
    assert isinstance(f.net, Linear)
    sums = GradientInput()(f, images, LABELS).sum(dim=(2, 3))
    torch.testing.assert_close(sums, f.logits(images) - f.net.bias, rtol=1e-4, atol=1e-5)


def test_the_gradient_of_a_linear_net_is_its_weights() -> None:
    f, images = linear_classifier(4, 4), pixels(3, 4)
    assert isinstance(f.net, Linear)
    weights = f.net.weight.view(4, 3, 4, 4).abs().amax(dim=1)
    for map_ in Gradient()(f, images, LABELS):
        torch.testing.assert_close(map_, weights, rtol=1e-5, atol=1e-6)


def test_gradients_in_pixel_units_are_finite_differences() -> None:
    f = Classifier(conv_net().double(), size=8, mean=MEAN, std=STD)
    x, labels = pixels(1, 8), torch.tensor([[1, 3]])
    gradient = input_gradients(f, x, labels)[0]
    for c, i, j in [(0, 0, 0), (1, 3, 5), (2, 7, 2)]:
        up, down = x.double().clone(), x.double().clone()
        up[0, c, i, j] += 1e-3
        down[0, c, i, j] -= 1e-3
        slope = (f(up) - f(down))[0, labels[0]] / 2e-3
        torch.testing.assert_close(gradient[:, c, i, j].float(), slope.float(), rtol=0.02, atol=1e-3)


def test_a_net_that_gives_probabilities_is_followed_through_their_logarithm() -> None:
    """d log p_a = d z_a - sum_b p_b d z_b."""
    net, images, labels = conv_net(), pixels(1, 8), torch.tensor([[1]])
    f = Classifier(nn.Sequential(net, nn.Softmax(dim=1)), size=8, outputs="probabilities")
    logits = Classifier(net, size=8)
    every = input_gradients(logits, images, torch.arange(4)[None])
    p = logits.probabilities(images).view(1, 4, 1, 1, 1)
    expected = (every[:, 1] - (p * every).sum(dim=1)).abs().amax(dim=1)
    torch.testing.assert_close(Gradient()(f, images, labels)[:, 0], expected, rtol=1e-3, atol=1e-5)
