"""Gradients of the logit, along paths and through rectifiers, against Captum, finite differences and loops over layers."""

from __future__ import annotations

import warnings
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.progress import ProgressTask
from proofmap.fills import make_fill
from proofmap.methods import make_method
from proofmap.methods.gradients.paths import (
    Each,
    IntegratedGradients,
    SmoothGrad,
    sums_over_points,
)
from proofmap.methods.gradients.plain import (
    Channels,
    Gradient,
    GradientInput,
    GuidedBackprop,
    RectGrad,
    input_gradients,
)
from tests.sessions import bound
from tests.toys import MEAN, STD, conv_net, drawn, linear_classifier, pixels

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
@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("channels", ["sum", "mean", "max"])
def test_gradients_are_captums_for_every_label(
    net: str, absolute: bool, channels: Channels, captum: ModuleType
) -> None:
    """The sign is dropped channel by channel, before the channels become one value."""
    inner, images = NETS[net](), pixels(3, 8)
    f = Classifier(inner, size=8, mean=MEAN, std=STD)
    for kind, oracle in (
        (Gradient, captum.Saliency(inner).attribute),
        (GradientInput, captum.InputXGradient(inner).attribute),
    ):
        method = kind(absolute=absolute, channels=channels)
        assert method.signed is not absolute
        maps, options = method(f, images, LABELS), {"abs": False} if kind is Gradient else {}
        for j in range(4):
            theirs = oracle(normalised(images).requires_grad_(True), target=j, **options)
            theirs = theirs.abs() if absolute else theirs
            reduced = {"sum": theirs.sum(1), "mean": theirs.mean(1), "max": theirs.amax(1)}[channels]
            torch.testing.assert_close(maps[:, j], reduced, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "spec",
    [
        "gradient-x-input",
        "integrated-gradients:steps=1",
        "deep-lift",
        "occlusion:window=1,stride=1,quantity=logit",
    ],
)
def test_on_a_linear_net_each_pixel_has_what_it_adds(spec: str) -> None:
    f, images = linear_classifier(4, 4), pixels(3, 4)
    terms = f.net.weight.detach().view(4, 3, 4, 4) * normalised(images)[:, None]
    torch.testing.assert_close(make_method(spec)(f, images, LABELS), terms.sum(dim=2), rtol=1e-4, atol=1e-5)


def test_a_net_that_gives_probabilities_is_followed_through_their_logarithm() -> None:
    """d log p_a = d z_a - sum_b p_b d z_b."""
    net, images, labels = conv_net(), pixels(1, 8), torch.tensor([[1]])
    f = Classifier(nn.Sequential(net, nn.Softmax(dim=1)), size=8, outputs="probabilities")
    logits = Classifier(net, size=8)
    every = input_gradients(logits, images, torch.arange(4)[None])
    p = logits.probabilities(images).view(1, 4, 1, 1, 1)
    expected = (every[:, 1] - (p * every).sum(dim=1)).abs().amax(dim=1)
    torch.testing.assert_close(Gradient()(f, images, labels)[:, 0], expected, rtol=1e-3, atol=1e-5)


# ---- along a path, and over noise ----------------------------------------------------------------------------


def classifier(net: nn.Module, **options: object) -> Classifier:
    return Classifier(net, **{"size": 8, "mean": MEAN, "std": STD, **options})  # type: ignore[arg-type]


def noisy_copies(images: Tensor, samples: int, sigma: float, *, of_range: bool, seed: int = 0) -> Tensor:
    """Normalised noisy copies ``(samples, N, ...)``, one by one."""
    x, keys = normalised(images), streams.image_keys(images, seed, "smooth-grad")
    copies = []
    for k in range(samples):
        own = streams.step_keys(keys, torch.full_like(keys, k), 1)[:, 0]
        noise = streams.normal(own, x[0].numel()).view_as(x)
        spread = torch.stack([one.max() - one.min() if of_range else torch.ones(()) for one in x])
        copies.append(x + sigma * spread.view(-1, 1, 1, 1) * noise)
    return torch.stack(copies)


# ---- SmoothGrad ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("net", NETS)
def test_smooth_grad_is_the_mean_of_captums_maps_of_the_noisy_copies(net: str, captum: ModuleType) -> None:
    inner, images = NETS[net](), pixels(3, 8)
    f = classifier(inner)
    saliency, product = captum.Saliency(inner), captum.InputXGradient(inner)
    far = noisy_copies(images, 5, 1.0, of_range=False)
    near = noisy_copies(images, 4, 0.15, of_range=True)
    maps = {
        "captum": SmoothGrad.preset("captum")(f, images, LABELS),
        "gupta": SmoothGrad.preset("gupta")(f, images, LABELS),
        "unsigned": SmoothGrad.preset("gupta", of="absolute-gradient-x-input")(f, images, LABELS),
        "smilkov": SmoothGrad(samples=4)(f, images, LABELS),
    }
    for j in range(4):
        slopes = [saliency.attribute(x.clone().requires_grad_(True), target=j, abs=False) for x in far]
        products = [product.attribute(x.clone().requires_grad_(True), target=j) for x in far]
        signed = torch.stack(
            [saliency.attribute(x.clone().requires_grad_(True), target=j, abs=False) for x in near]
        )
        expected = {
            "captum": torch.stack(slopes).abs().mean(dim=0).amax(dim=1),
            "gupta": torch.stack(products).mean(dim=0).sum(dim=1),
            "unsigned": torch.stack(products).abs().mean(dim=0).amax(dim=1),
            "smilkov": signed.mean(dim=0).abs().amax(dim=1),
        }
        for name, theirs in expected.items():
            torch.testing.assert_close(maps[name][:, j], theirs, rtol=1e-3, atol=1e-4, msg=name)


@pytest.mark.parametrize("batch_size", [1, 5, 64])
def test_points_may_be_spread_over_batches_that_end_in_the_middle_of_an_image(batch_size: int) -> None:
    """As they are when memory runs out on the way."""
    f, images = classifier(conv_net(), batch_size=batch_size), pixels(3, 8)

    def points(image: Tensor, point: Tensor) -> tuple[Tensor, Each]:
        return images[image] * (1 + point.view(-1, 1, 1, 1)), lambda gradient: gradient

    sums = sums_over_points(f, LABELS, 3, points, ProgressTask())
    expected = sum(input_gradients(f.frozen(), images * (1 + k), LABELS) for k in range(3))
    torch.testing.assert_close(sums, expected, rtol=1e-4, atol=1e-6)


# ---- integrated gradients ------------------------------------------------------------------------------------

CAPTUM_RULES = {"gauss-legendre": "gausslegendre", "right": "riemann_right", "middle": "riemann_middle"}


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("rule", CAPTUM_RULES)
@pytest.mark.parametrize("baseline", ["gray", "gray:color=0", "blur:sigma=2,kernel=5"])
def test_integrated_gradients_are_captums(net: str, rule: str, baseline: str, captum: ModuleType) -> None:
    inner, images = NETS[net](), pixels(3, 8)
    f = classifier(inner)
    method = make_method({"method": "integrated-gradients", "rule": rule, "steps": 20, "baseline": baseline})
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the maps of")
        maps = method(f, images, LABELS)
    start = normalised(bound(make_fill(baseline), f)(images, torch.zeros(3, dtype=torch.int64)))
    theirs = captum.IntegratedGradients(inner)
    for j in range(4):
        values = theirs.attribute(normalised(images), start, target=j, n_steps=20, method=CAPTUM_RULES[rule])
        torch.testing.assert_close(maps[:, j], values.sum(1).float(), rtol=1e-3, atol=1e-5)


def test_too_few_steps_are_told_with_the_gap() -> None:
    f, images = classifier(deeper_net()), pixels(3, 8)
    with pytest.warns(UserWarning, match=r"off by \d+% of it; take more steps"):
        IntegratedGradients(steps=1, rule="right")(f, images, LABELS)


def test_random_baselines_are_averaged() -> None:
    f, images = linear_classifier(4, 4), pixels(2, 4)
    noise = bound(make_fill("noise"), f)
    maps = IntegratedGradients(baseline=noise.thing, steps=1, draws=3)(f, images, LABELS[:2])
    keys = [streams.image_keys(images, 0, way, "integrated-gradients") for way in range(3)]
    start = torch.stack([noise(images, key) for key in keys]).mean(dim=0)
    _, std = (torch.tensor(v).view(3, 1, 1) for v in (MEAN, STD))
    weights = f.net.weight.view(4, 3, 4, 4) / std  # type: ignore[union-attr, operator]
    expected = (weights * (images - start)[:, None]).sum(dim=2)
    torch.testing.assert_close(maps, expected, rtol=1e-4, atol=1e-5)


# ---- both ----------------------------------------------------------------------------------------------------


# ---- through rectifiers --------------------------------------------------------------------------------------


class Functional(nn.Module):
    """The layers of a sequential net, with its rectifiers called in one of many ways."""

    def __init__(self, rectify: str) -> None:
        super().__init__()
        self.layers, self.rectify = conv_net(), rectify
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self._rectified(self.layers[0](x))
        x = self._rectified(self.layers[2](x))
        return self.layers[6](x.mean(dim=(2, 3)))

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


def test_a_small_layer_keeps_its_most_important_unit() -> None:
    from proofmap.core.inputs import Rows

    net = drawn(nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)), seed=1)
    f = Classifier(net, inputs=Rows(columns=3, mean=(0,) * 3, std=(1,) * 3))
    assert RectGrad()(f, torch.ones(1, 3), torch.tensor([[0, 1]])).abs().amax(dim=2).max() > 0
