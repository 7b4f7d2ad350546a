"""Grad-CAM, against pytorch-grad-cam and torch-cam; the layer found by itself; one pass of the backbone."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.methods.cams import GradCAM, find_layer
from proofmap.models.efficientnet_lite import VARIANTS, EfficientNetLite
from proofmap.models.resnets import CifarResNet
from tests.toys import conv_net, drawn, pixels

LABELS = torch.tensor([[0, 3, 1], [2, 1, 0]])


def vgg_like() -> nn.Module:
    """Rectifiers that work in place, pooling between convolutions, a head of several layers."""
    features = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 8, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
    )
    head = nn.Sequential(
        nn.Flatten(), nn.Linear(8 * 16, 12), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(12, 5)
    )
    return drawn(nn.Sequential(features, head), 2)


def bottlenecks() -> nn.Module:
    """A ResNet-164 with two blocks in each stage: its layers, in a tenth of the time."""
    net = CifarResNet(164, 5)
    net.layer1, net.layer2, net.layer3 = net.layer1[:2], net.layer2[:2], net.layer3[:2]
    return net


def resnet18(torchvision: ModuleType, timm: ModuleType) -> nn.Module:
    net: nn.Module = torchvision.models.resnet18(num_classes=5)
    return net.eval()


def timm_resnet18(torchvision: ModuleType, timm: ModuleType) -> nn.Module:
    net: nn.Module = timm.create_model("resnet18", num_classes=5)
    return net.eval()


NETS: dict[str, tuple[Callable[..., nn.Module], int, str]] = {
    "small": (lambda *hubs: conv_net(5), 16, "3"),
    "vgg": (lambda *hubs: vgg_like(), 16, "0"),
    "cifar-resnet20": (lambda *hubs: CifarResNet(20, 5), 32, "layer3"),
    "cifar-resnet164": (lambda *hubs: bottlenecks(), 32, "layer3"),
    "efficientnet-lite0": (lambda *hubs: drawn(EfficientNetLite(VARIANTS[0], 5)), 64, "head"),
    "torchvision-resnet18": (resnet18, 64, "layer4"),
    "timm-resnet18": (timm_resnet18, 64, "layer4"),
}


@pytest.fixture(params=NETS, scope="module")
def known(
    request: pytest.FixtureRequest, torchvision: ModuleType, timm: ModuleType
) -> tuple[Classifier, nn.Module, str]:
    """A classifier, the net inside it, and the name of the layer that its map is read from."""
    make, size, layer = NETS[request.param]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = make(torchvision, timm).eval()
    f = Classifier(net, size=size, mean=(0.5,) * 3, std=(0.25,) * 3, batch_size=4)
    return f, net, layer


def module_named(net: nn.Module, name: str) -> nn.Module:
    return dict(net.named_modules())[name]


# ---- the layer ---------------------------------------------------------------------------------------------


def test_the_layer_is_found(known: tuple[Classifier, nn.Module, str]) -> None:
    f, _, layer = known
    assert find_layer(f).name == layer


def test_a_layer_beside_the_way_to_the_logits_is_passed_over() -> None:
    class WithDecoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.decoder = conv_net()[:4], nn.Conv2d(12, 3, 1)
            self.head = nn.Linear(12, 4)

        def forward(self, x: Tensor) -> Tensor:
            features = self.body(x)
            self.decoder(features)
            out: Tensor = self.head(features.mean(dim=(2, 3)))
            return out

    assert find_layer(Classifier(WithDecoder(), size=8)).name == "body"


def test_the_attention_of_a_transformer_is_no_spatial_map() -> None:
    class Attentive(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches, self.keys, self.head = nn.Conv2d(3, 8, 4, stride=4), nn.Identity(), nn.Linear(8, 4)

        def forward(self, x: Tensor) -> Tensor:
            tokens = self.patches(x).flatten(2).transpose(1, 2)
            heads = tokens.unflatten(2, (2, 4)).transpose(1, 2)  # (N, 2 heads, 16 tokens, 4)
            out: Tensor = self.head(self.keys(heads).transpose(1, 2).flatten(2).mean(dim=1))
            return out

    assert find_layer(Classifier(Attentive(), size=16)).name == "patches"


def test_a_net_without_a_spatial_layer_is_told() -> None:
    f = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(48, 8), nn.ReLU(), nn.Linear(8, 3)), size=4)
    with pytest.raises(InputError, match=r"no layer has a spatial map \(N, C, h, w\)"):
        GradCAM()(f, pixels(1, 4), torch.tensor([[0]]))


class Branched(nn.Module):
    """With a layer that never runs, one that runs for nothing, one that gives a pair, and one without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.body = conv_net()
        self.unused, self.aside, self.pair = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1), Pair()
        self.fixed = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        self.aside(x)
        self.pair(x)
        self.fixed(x.detach())
        out: Tensor = self.body(x)
        return out


class Pair(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x


@pytest.mark.parametrize(
    "layer, told",
    [
        ("body.9", "the net has no layer 'body.9'; its last layers are .*fixed"),
        ("unused", "layer 'unused' does not run when the net does"),
        ("aside", "the logits do not depend on layer 'aside'"),
        ("pair", "layer 'pair' gives tuple, not a spatial map"),
        ("fixed", "the logits do not depend on layer 'fixed'"),
        ("body.6", r"layer 'body.6' gives \(N, 4\), not a spatial map"),
    ],
)
def test_a_layer_that_cannot_serve_is_told(layer: str, told: str) -> None:
    f = Classifier(Branched(), size=8)
    with pytest.raises(InputError, match=told):
        GradCAM(layer=layer)(f, pixels(1, 8), torch.tensor([[0]]))
    assert isinstance(f.net, nn.Module) and not any(m._forward_hooks for m in f.net.modules())


# ---- the map -----------------------------------------------------------------------------------------------


def test_the_maps_are_those_of_pytorch_grad_cam_after_enlarging_and_scaling(
    known: tuple[Classifier, nn.Module, str], pytorch_grad_cam: ModuleType
) -> None:
    """Theirs come scaled to [0, 1] per image, through OpenCV's resize."""
    f, net, layer = known
    images = pixels(2, f.size)
    maps = GradCAM()(f, images, LABELS).numpy()
    assert np.ptp(maps) > 0
    targets = pytorch_grad_cam.utils.model_targets.ClassifierOutputTarget
    with pytorch_grad_cam.GradCAM(model=net, target_layers=[module_named(net, layer)]) as cam:
        for j in range(3):
            theirs = cam((images - 0.5) / 0.25, [targets(int(a)) for a in LABELS[:, j]])
            for ours, other in zip(maps[:, j], theirs, strict=True):
                scaled = (ours - ours.min()) / max(float(ours.max() - ours.min()), 1e-7)
                np.testing.assert_allclose(scaled, other, atol=2e-3)


def test_grad_cam_is_its_formula() -> None:
    """After global pooling the gradient is the same everywhere, so the weights are those of the head over h w."""
    net = conv_net()
    f, images, labels = Classifier(net, size=8), pixels(2, 8), torch.tensor([[0, 1, 2, 3]] * 2)
    activations = net[:4](images)
    head = net[6]
    assert isinstance(head, nn.Linear)
    low = torch.einsum("ak,nkhw->nahw", head.weight, activations).relu() / 16
    expected = F.interpolate(low, size=(8, 8), mode="bilinear", align_corners=False)
    torch.testing.assert_close(GradCAM()(f, images, labels), expected.detach(), rtol=1e-4, atol=1e-6)


def test_a_named_layer_is_used() -> None:
    f, images, labels = Classifier(conv_net(), size=8), pixels(1, 8), torch.tensor([[0]])
    assert not torch.equal(GradCAM(layer="1")(f, images, labels), GradCAM()(f, images, labels))
    assert torch.equal(GradCAM(layer="3")(f, images, labels), GradCAM()(f, images, labels))


def test_where_tokens_are_mixed_behind_the_last_picture_the_layer_must_be_named() -> None:
    class Mixing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches, self.mix, self.head = (
                nn.Conv2d(3, 8, 4, stride=4),
                nn.Linear(16, 16),
                nn.Linear(8, 4),
            )

        def forward(self, x: Tensor) -> Tensor:
            tokens = self.patches(x).flatten(2)  # (N, 8, 16 places)
            out: Tensor = self.head(self.mix(tokens).mean(dim=2))
            return out

    f = Classifier(Mixing(), size=16)
    with pytest.raises(InputError, match=r"'mix' mixes tokens.*name a layer"):
        GradCAM()(f, pixels(1, 16), torch.tensor([[0]]))
    assert GradCAM(layer="patches")(f, pixels(1, 16), torch.tensor([[0]])).shape == (1, 1, 16, 16)
