"""``classifier.as_module()``: what other libraries are given in place of the classifier."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from proofmap.classifier import Classifier
from tests.toys import MEAN, STD, conv_classifier, conv_net, pixels


def test_it_takes_what_the_classifier_takes_and_its_softmax_is_f() -> None:
    f, images = conv_classifier(8), pixels(3, 8)
    module = f.as_module()
    assert isinstance(module, nn.Module) and not module.training
    torch.testing.assert_close(module(images).detach(), f.logits(images))
    torch.testing.assert_close(module(images).softmax(dim=1).detach(), f.probabilities(images))


def test_the_label_set_counts() -> None:
    f, images = conv_classifier(8).restricted([0, 2]), pixels(3, 8)
    logits = f.as_module()(images).detach()
    assert (logits[:, [1, 3]] == -torch.inf).all()
    torch.testing.assert_close(logits.softmax(dim=1), f.probabilities(images))
    whole = conv_classifier(8).restricted([0, 2], renormalise=False)
    torch.testing.assert_close(whole.as_module()(images).detach(), whole.logits(images))


@pytest.mark.parametrize("outputs", ["probabilities", "sigmoid", "sigmoid-probabilities"])
def test_what_the_net_returns_becomes_logits(outputs: str) -> None:
    end = {
        "probabilities": nn.Softmax(dim=1),
        "sigmoid": nn.Identity(),
        "sigmoid-probabilities": nn.Sigmoid(),
    }
    net = nn.Sequential(conv_net(), end[outputs])
    f = Classifier(net, size=8, mean=MEAN, std=STD, outputs=outputs)  # type: ignore[arg-type]
    images = pixels(2, 8)
    torch.testing.assert_close(f.as_module()(images).detach(), f.logits(images))


def test_a_function_is_wrapped_too() -> None:
    net = conv_net()
    f, images = Classifier(lambda x: net(x), size=8), pixels(2, 8)
    torch.testing.assert_close(f.as_module()(images).detach(), f.logits(images))


def test_layers_have_their_names_and_gradients_though_weights_ask_for_none() -> None:
    module = conv_classifier(8).as_module()
    layer = dict(module.named_modules())["net.3"]
    assert layer is module.net[3]  # type: ignore[index]
    seen: list[torch.Tensor] = []
    layer.register_forward_hook(lambda _, __, output: seen.append(output))
    (gradient,) = torch.autograd.grad(module(pixels(2, 8))[:, 1].sum(), seen[0])
    assert gradient.abs().sum() > 0
    assert all(weight.grad is None and not weight.requires_grad for weight in module.parameters())


def test_it_is_differentiable_in_the_images_that_ask_for_it() -> None:
    f, images = conv_classifier(8), pixels(2, 8).requires_grad_(True)
    (found,) = torch.autograd.grad(f.as_module()(images)[:, 1].sum(), images)
    (expected,) = torch.autograd.grad(f(images)[:, 1].sum(), images)
    torch.testing.assert_close(found, expected)
    with torch.no_grad():
        assert not f.as_module()(pixels(2, 8)).requires_grad


def test_nothing_done_to_it_reaches_the_net_or_the_classifier() -> None:
    net = conv_net().train()
    before = copy.deepcopy(net.state_dict())
    f, images = Classifier(net, size=8), pixels(2, 8)
    expected, module = f.logits(images), f.as_module()
    module.train()
    module.net[0].register_forward_hook(lambda *_: None)  # type: ignore[index,operator,union-attr]
    with torch.no_grad():
        for weight in module.parameters():
            weight.zero_()
    assert net.training and all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    assert not any(m._forward_hooks for m in [*net.modules(), *f.net.modules()])  # type: ignore[union-attr]
    assert torch.equal(f.logits(images), expected)
    assert torch.equal(f.as_module()(images).detach(), expected), "each call gives a fresh one"
