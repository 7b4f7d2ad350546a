"""The information bottleneck: its formula, the net behind a layer, statistics of a pool; bits where the net looks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Rows
from proofmap.fills import Images, Noise
from proofmap.methods.masks.iba import IBA, Tail, find_bottleneck
from proofmap.methods.masks.method import add_noise_
from tests.mask_toys import SIZE, gradient_of, lively, seated
from tests.sessions import bound
from tests.toys import MEAN, STD, Counted, drawn, normal, pixels

S = IBA(fill="noise", pool=20, samples=2, steps=3)


class Block(nn.Module):
    """A residual block: what it adds does not carry all that passes."""

    def __init__(self, width: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, stride=stride, padding=1)
        self.relu = nn.ReLU()
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.relu(self.relu(self.conv(x)) + x[:, :, :: self.stride, :: self.stride])
        return out


def residual_net() -> nn.Sequential:
    layers = [nn.Conv2d(3, 4, 3, padding=1), Block(4), Block(4, 2), Block(4, 2), nn.AdaptiveAvgPool2d(1)]
    return drawn(nn.Sequential(*layers, nn.Flatten(), nn.Linear(4, 3)))


def residual(**options: object) -> Classifier:
    return Classifier(residual_net(), size=SIZE, mean=MEAN, std=STD, batch_size=64, **options)  # type: ignore[arg-type]


# ---- the net behind a layer ----------------------------------------------------------------------------------------


def test_the_rest_of_the_net_gives_the_logits_of_the_net() -> None:
    f, images = residual(), pixels(3, SIZE)
    for layer in ("0", "1", "2", "3"):
        tail = Tail(f, layer)
        torch.testing.assert_close(tail(tail.features(images)), f.logits(images), rtol=1e-5, atol=1e-5)


def test_layers_in_front_are_not_run_again() -> None:
    front = Counted(nn.Conv2d(3, 4, 3, padding=1))
    layers = nn.Sequential(front, nn.ReLU(), nn.AdaptiveAvgPool2d((3, 4)), nn.Flatten(), nn.Linear(48, 3))
    f = Classifier(drawn(layers), size=SIZE, batch_size=64)
    tail = Tail(f, "1")
    features = tail.features(pixels(3, SIZE))
    front.tally.reset()
    tail(features)
    assert front.tally.images == 0


def test_a_layer_that_is_bypassed_is_refused() -> None:
    with pytest.raises(InputError, match="name another one"):
        Tail(residual(), "2.conv")
    with pytest.raises(InputError, match="has no layer 'nine'"):
        Tail(residual(), "nine")


def test_the_bottleneck_is_the_last_way_through_that_is_twice_as_fine() -> None:
    assert find_bottleneck(residual()) == "2"  # 6 x 8, before 3 x 4
    assert find_bottleneck(lively()) == "1"  # 12 x 16, before its pooling to 3 x 4
    with pytest.raises(InputError, match="torch module"):
        find_bottleneck(Classifier(lambda x: x.flatten(1)[:, :3], size=SIZE))
    rows = Rows(columns=5, mean=(0.0,) * 5, std=(1.0,) * 5)
    with pytest.raises(InputError, match="pictures"):
        bound(IBA(fill="noise"), Classifier(nn.Linear(5, 3), inputs=rows))


# ---- the formula ---------------------------------------------------------------------------------------------------


def test_information_is_the_divergence_of_two_normals() -> None:
    problem = bound(S, residual()).problem(residual())
    passed, features = normal(4, 6, 8, seed=1).sigmoid(), normal(4, 6, 8, seed=2)
    mean, std = problem.mean, problem.std
    given = Normal(passed * features + (1 - passed) * mean, (1 - passed) * std)
    expected = kl_divergence(given, Normal(mean, std))
    found = problem.information(passed[None], ((features - mean) / std)[None])[0]
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


def test_statistics_are_mean_and_deviation_over_the_pool() -> None:
    f = residual()
    ready = bound(S, f)
    keys = torch.tensor([streams.key_of("iba", k) for k in range(20)])
    drawn_images = bound(Noise(), f)(f.blank(20), keys)
    features = Tail(f, "2").features(drawn_images)
    found = ready.bottleneck()
    torch.testing.assert_close(found.mean, features.mean(dim=0), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.std, features.std(dim=0).clamp_min(0.01), rtol=1e-3, atol=1e-4)


def test_the_loss_is_that_of_a_plain_loop() -> None:
    f, images, labels = residual(), pixels(2, SIZE), torch.tensor([2, 0])
    s = S.changed(smooth=0.0)
    ready = bound(s, f)
    problem, slots = seated(ready, images, labels)
    usual = ready.bottleneck()
    weights = normal(2, 4, 6, 8, seed=4)
    losses, gradient = gradient_of(problem, weights, slots)
    keys = streams.step_keys(slots["keys"], slots["step"], 2)
    net = f.net
    assert isinstance(net, nn.Sequential)
    mean, std = (torch.tensor(v).view(-1, 1, 1) for v in (MEAN, STD))
    for p in range(2):
        a = weights[p].clone().requires_grad_(True)
        r, share = net[:3](((images[p] - mean) / std)[None])[0], a.sigmoid()
        noise = usual.mean + usual.std * add_noise_(torch.zeros_like(weights), keys[p], 1.0)
        z = share * r + (1 - share) * noise
        missed = -net[3:](z).log_softmax(dim=1)[:, labels[p]].mean()
        given = Normal(share * r + (1 - share) * usual.mean, (1 - share) * usual.std)
        loss = missed + 10 * kl_divergence(given, Normal(usual.mean, usual.std)).mean()
        (expected,) = torch.autograd.grad(loss, a)
        assert losses[p].item() == pytest.approx(loss.item(), rel=1e-4)
        torch.testing.assert_close(gradient[p], expected, rtol=1e-2, atol=1e-5)


def test_maps_are_bits_per_position() -> None:
    f, image = residual(), pixels(1, SIZE)
    problem, slots = seated(bound(S, f), image, torch.tensor([1]))
    bits = (
        problem.information(problem.passed(slots["weights"]), slots["deviation"]).sum()
        / torch.tensor(2.0).log()
    )
    assert problem.finished(slots).sum().item() == pytest.approx(bits.item(), rel=0.02)


# ---- what comes out ------------------------------------------------------------------------------------------------


def test_the_pool_and_the_layer_are_recorded_and_company_does_not_matter() -> None:
    f, images = residual(), pixels(3, SIZE)
    s = S.changed(fill=Images(source=pixels(6, SIZE, seed=7), crop="none"))
    ready = bound(s, f)
    record = ready.record()
    assert record["layer"] == "2" and record["fill"]["digest"]  # type: ignore[index]
    labels = torch.tensor([[0, 1], [2, 0], [1, 2]])
    together = ready(images, labels)
    torch.testing.assert_close(ready(images[1:2], labels[1:2]), together[1:2], rtol=1e-3, atol=1e-6)
