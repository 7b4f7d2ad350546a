"""The CIFAR nets: shapes of the papers, keys of the published weights, accuracy on real images."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, fx, nn

from proofmap.classifier import Classifier
from proofmap.data.arrays import load_cifar
from proofmap.models import load_classifier
from proofmap.models.cifar_vit import Attention, CifarViT, classifier_arguments
from proofmap.models.resnets import CifarResNet, PaddedShortcut, read_cifar
from tests.toys import drawn, pixels


@pytest.mark.parametrize(
    "depth, millions", [(20, 0.27), (32, 0.46), (44, 0.66), (56, 0.85), (110, 1.73), (164, 1.70)]
)
def test_the_sizes_are_the_published_ones(depth: int, millions: float) -> None:
    with torch.device("meta"):
        parameters = sum(weight.numel() for weight in CifarResNet(depth).parameters())
    assert round(parameters / 1e6, 2) == millions


def test_option_a_takes_every_second_pixel_and_adds_empty_channels_on_both_sides() -> None:
    x = torch.rand(2, 16, 7, 8)
    y = PaddedShortcut(16, 32)(x)
    assert y.shape == (2, 32, 4, 4)
    assert torch.equal(y[:, 8:24], x[:, :, ::2, ::2])
    assert y[:, :8].count_nonzero() == y[:, 24:].count_nonzero() == 0


def test_nets_can_be_traced_and_no_activation_serves_twice() -> None:
    for depth in (20, 164):
        net = CifarResNet(depth).eval()
        traced, x = fx.symbolic_trace(net), torch.randn(2, 3, 32, 32)
        with torch.no_grad():
            torch.testing.assert_close(traced(x), net(x))
        calls = [n.target for n in traced.graph.nodes if n.op == "call_module"]
        assert len(calls) == len(set(calls))


def test_resnet_164_has_the_keys_of_the_papers_checkpoint() -> None:
    with torch.device("meta"):
        keys = CifarResNet(164, num_classes=100).state_dict()
    shapes = {key: tuple(value.shape) for key, value in keys.items()}
    assert shapes["conv1.weight"] == (16, 3, 3, 3)
    assert shapes["layer1.0.downsample.0.weight"] == (64, 16, 1, 1)
    assert shapes["layer1.0.downsample.1.running_var"] == (64,)
    assert shapes["layer3.17.conv2.weight"] == (64, 64, 3, 3)
    assert shapes["layer3.17.bn3.weight"] == (256,)
    assert shapes["fc.weight"] == (100, 256)
    assert "layer3.18.conv1.weight" not in shapes
    assert "layer2.1.downsample.0.weight" not in shapes


@pytest.mark.parametrize("depth", [20, 32, 44, 56])
def test_the_public_weights_fill_the_net_strictly(data: Path, depth: int) -> None:
    state = read_cifar(data / "weights" / f"cifar10_resnet{depth}.safetensors")
    with torch.device("meta"):
        net = CifarResNet(depth)
    wanted = {key for key in net.state_dict() if not key.endswith("num_batches_tracked")}
    assert state.keys() == wanted


@pytest.mark.parametrize("depth, accuracy", [(20, 0.917), (56, 0.934)])
def test_the_published_accuracy_is_reached_on_test_images(data: Path, depth: int, accuracy: float) -> None:
    f = load_classifier(
        f"cifar10-resnet{depth}@{data / 'weights'}/cifar10_resnet{depth}.safetensors", batch_size=50
    )
    images, labels = load_cifar(data / "cifar-10-batches-py" / "test_batch")
    found = (f.top(images[:200], 1)[:, 0] == labels[:200]).float().mean().item()
    assert found == pytest.approx(accuracy, abs=0.04)  # two standard errors of 200 images


def test_the_weights_of_resnet_164_in_the_package_are_right_on_real_pictures(data: Path) -> None:
    images, labels = load_cifar(data / "cifar-10-batches-py" / "test_batch")
    f = load_classifier("cifar10-resnet164", batch_size=50)
    assert float((f.logits(images[:100]).argmax(dim=1) == labels[:100]).float().mean()) > 0.9


# ---- the small vision transformer ----


def random_net() -> CifarViT:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return CifarViT().eval()


def test_attention_is_that_of_torch() -> None:
    ours, theirs = drawn(Attention(8, 2)), nn.MultiheadAttention(8, 2, batch_first=True).eval()
    pairs = {"in_proj_weight": ours.qkv.weight, "in_proj_bias": ours.qkv.bias}
    pairs |= {"out_proj.weight": ours.proj.weight, "out_proj.bias": ours.proj.bias}
    theirs.load_state_dict(pairs)
    x: Tensor = torch.rand(2, 5, 8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(ours(x), theirs(x, x, x)[0], rtol=1e-4, atol=1e-5)


def test_the_frozen_view_is_the_same_function() -> None:
    f, images = Classifier(random_net(), **classifier_arguments(), batch_size=4), pixels(3, 32)
    torch.testing.assert_close(f.frozen().logits(images), f.logits(images), rtol=1e-3, atol=1e-4)


def test_the_weights_in_the_package_are_right_on_real_pictures(data: Path) -> None:
    images, labels = load_cifar(data / "cifar-10-batches-py" / "test_batch")
    f = load_classifier("cifar10-vit", batch_size=100)
    assert float((f.logits(images[:300]).argmax(dim=1) == labels[:300]).float().mean()) > 0.72
