"""SmoothGrad and integrated gradients, against Captum, plain loops, and nets whose answer is known."""

from __future__ import annotations

import warnings
from types import ModuleType

import pytest
import torch
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
    gap,
    sums_over_points,
)
from proofmap.methods.gradients.plain import Gradient, GradientInput, input_gradients
from tests.methods.test_gradients import LABELS, NETS, deeper_net, normalised
from tests.sessions import bound
from tests.toys import MEAN, STD, conv_net, linear_classifier, pixels


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


def test_noise_changes_nothing_where_the_gradient_is_the_same_everywhere() -> None:
    f, images = linear_classifier(4, 4), pixels(3, 4)
    smooth = SmoothGrad(samples=3)(f, images, LABELS)
    torch.testing.assert_close(smooth, Gradient()(f, images, LABELS), rtol=1e-4, atol=1e-6)


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


def test_they_add_up_to_the_change_of_the_logit() -> None:
    f, images = classifier(deeper_net()), pixels(3, 8)
    sums = IntegratedGradients(steps=200)(f, images, LABELS).sum(dim=(2, 3))
    change = f.logits(images) - f.logits(f.blank(3))
    assert gap(sums, change, LABELS) < 0.01


def test_too_few_steps_are_told_with_the_gap() -> None:
    f, images = classifier(deeper_net()), pixels(3, 8)
    with pytest.warns(UserWarning, match=r"off by \d+% of it; take more steps"):
        IntegratedGradients(steps=1, rule="right")(f, images, LABELS)


def test_a_linear_net_needs_one_step() -> None:
    f, images = linear_classifier(4, 4), pixels(3, 4)
    maps = IntegratedGradients(steps=1)(f, images, LABELS)
    torch.testing.assert_close(maps, GradientInput()(f, images, LABELS), rtol=1e-4, atol=1e-5)


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
