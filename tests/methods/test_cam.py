"""Class activation maps, against pytorch-grad-cam and plain loops; the layer found by itself, also in transformers."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.methods import make_method
from proofmap.methods.cams import GradCAM, GradCAMPlusPlus, LayerCAM, ScoreCAM, find_layer
from proofmap.methods.probe import Grid, Places
from proofmap.models.cifar_vit import CifarViT
from proofmap.models.efficientnet_lite import VARIANTS, EfficientNetLite
from proofmap.models.resnets import CifarResNet
from tests.sessions import bound
from tests.toys import PatchNet, conv_net, drawn, pixels

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
            return self.head(features.mean(dim=(2, 3)))

    assert find_layer(Classifier(WithDecoder(), size=8)).name == "body"


def test_the_attention_of_a_transformer_is_no_spatial_map() -> None:
    class Attentive(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches, self.keys, self.head = nn.Conv2d(3, 8, 4, stride=4), nn.Identity(), nn.Linear(8, 4)

        def forward(self, x: Tensor) -> Tensor:
            tokens = self.patches(x).flatten(2).transpose(1, 2)
            heads = tokens.unflatten(2, (2, 4)).transpose(1, 2)  # (N, 2 heads, 16 tokens, 4)
            return self.head(self.keys(heads).transpose(1, 2).flatten(2).mean(dim=1))

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
        return self.body(x)


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


def theirs(library: ModuleType, kind: str, net: nn.Module, layer: nn.Module, x: Tensor, **how: Any) -> Any:
    """The maps ``(N, L, H, W)`` of pytorch-grad-cam: scaled to [0, 1] for each image and label, through OpenCV's resize."""
    target = library.utils.model_targets.ClassifierOutputTarget
    with getattr(library, kind)(model=net, target_layers=[layer], **how) as cam:
        return np.stack([cam(x, [target(int(a)) for a in column]) for column in LABELS.T], axis=1)


def test_the_maps_are_those_of_pytorch_grad_cam_after_enlarging_and_scaling(
    known: tuple[Classifier, nn.Module, str], pytorch_grad_cam: ModuleType
) -> None:
    f, net, layer = known
    images = pixels(2, f.size)
    maps = GradCAM()(f, images, LABELS).numpy()
    low, high = (end(axis=(2, 3), keepdims=True) for end in (maps.min, maps.max))
    scaled = (maps - low) / np.maximum(high - low, 1e-7)
    expected = theirs(pytorch_grad_cam, "GradCAM", net, module_named(net, layer), (images - 0.5) / 0.25)
    np.testing.assert_allclose(scaled, expected, atol=2e-3)
    assert np.ptp(maps) > 0


def test_a_named_layer_is_used() -> None:
    f, images, labels = Classifier(conv_net(), size=8), pixels(1, 8), torch.tensor([[0]])
    assert not torch.equal(GradCAM(layer="1")(f, images, labels), GradCAM()(f, images, labels))
    assert torch.equal(GradCAM(layer="3")(f, images, labels), GradCAM()(f, images, labels))


# ---- Grad-CAM++, Layer-CAM and Score-CAM ---------------------------------------------------------------------


MEAN, STD = (0.5,) * 3, (0.25,) * 3


def small() -> tuple[Classifier, nn.Sequential, Tensor, Tensor]:
    """A classifier, its net, images, and the images as the net sees them."""
    net = conv_net(5)
    images = pixels(2, 16)
    return Classifier(net, size=16, mean=MEAN, std=STD, batch_size=7), net, images, (images - 0.5) / 0.25


def assert_alike(ours: Tensor, expected: np.ndarray) -> None:
    """Each map is the other one but for scale and for what OpenCV rounds."""
    assert ours.any()
    for one, other in zip(
        ours.flatten(0, 1).flatten(1).numpy(), expected.reshape(-1, ours[0, 0].numel()), strict=True
    ):
        assert not (one.any() or other.any()) or np.corrcoef(one, other)[0, 1] > 0.999


# ---- the maps ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method, kind",
    [
        (GradCAMPlusPlus(), "GradCAMPlusPlus"),
        (LayerCAM(), "LayerCAM"),
        (ScoreCAM.preset("pytorch-grad-cam"), "ScoreCAM"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_the_maps_are_those_of_pytorch_grad_cam(method: Any, kind: str, pytorch_grad_cam: ModuleType) -> None:
    """Theirs adds 1e-6 below Grad-CAM++'s fraction, which counts where gradients are small: here they are not."""
    f, net, images, x = small()
    with torch.no_grad():
        net[6].weight *= 20 if kind == "GradCAMPlusPlus" else 1
    assert_alike(method(f, images, LABELS), theirs(pytorch_grad_cam, kind, net, net[3], x))


def test_small_gradients_change_no_map_of_grad_cam_plus_plus() -> None:
    """alpha tends to one half as gradients shrink, so a net with small logits has the map of Layer-CAM's summed weights."""
    f, net, images, _ = small()
    head = net[6]
    with torch.no_grad():
        head.weight *= 1e-6
    with torch.no_grad():
        activations = net[:4]((images - 0.5) / 0.25)
    weights = head.weight[LABELS].detach().relu()
    expected = torch.einsum("nlk,nkhw->nlhw", weights, activations).relu()
    ready = bound(GradCAMPlusPlus(), f)
    ours = ready.low_resolution(images, LABELS)
    torch.testing.assert_close(ours / ours.max(), expected / expected.max(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("spec", ["score-cam", "score-cam:preset=released"])
def test_score_cam_is_its_definition(spec: str) -> None:
    """One channel at a time, one label at a time."""
    f, net, images, x = small()
    maps = make_method(spec)(f, images, LABELS)
    with torch.no_grad():
        for i in range(2):
            activations = net[:4](x[i : i + 1])[0]
            for j, label in enumerate(LABELS[i]):
                scores = []
                for channel in activations:
                    mask = F.interpolate(channel[None, None], 16, mode="bilinear", align_corners=False)
                    mask = (mask - mask.min()) / (mask.max() - mask.min()).clamp_min(1e-12)
                    logits = net(x[i : i + 1] * mask)[0]
                    scores.append(logits[label] if spec == "score-cam" else logits.softmax(0)[label])
                weights = torch.stack(scores)
                weights = weights.softmax(0) if spec == "score-cam" else weights
                low = (weights[:, None, None] * activations).sum(0).relu()
                expected = F.interpolate(low[None, None], 16, mode="bilinear", align_corners=False)[0, 0]
                torch.testing.assert_close(maps[i, j], expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", [GradCAM, ScoreCAM])
def test_what_works_in_place_behind_the_layer_does_not_change_the_map(kind: Any) -> None:
    first, second = (drawn(conv_net(4), seed=3) for _ in range(2))
    second[3] = nn.ReLU(inplace=True)
    maps = [
        kind(layer="2")(Classifier(net, size=16, batch_size=4), pixels(2, 16), LABELS)
        for net in (first, second)
    ]
    assert float(maps[0].std()) > 0
    assert torch.equal(*maps)


# ---- transformers ------------------------------------------------------------------------------------------


class Encoder(nn.Module):
    """A plain transformer of torch on patches of 4x4, with tokens of its own before and behind the patches."""

    def __init__(
        self,
        *,
        batch_first: bool = True,
        norm_first: bool = True,
        front: int = 1,
        back: int = 0,
        mean: bool = False,
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, 4)
        self.front, self.back = torch.zeros(1, front, 8), torch.zeros(1, back, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=batch_first, norm_first=norm_first)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(8, 4)
        self.batch_first, self.mean = batch_first, mean

    def forward(self, x: Tensor) -> Tensor:
        own = [part.expand(len(x), -1, -1) for part in (self.front, self.back)]
        tokens = torch.cat([own[0], self.patches(x).flatten(2).transpose(1, 2), own[1]], dim=1)
        if self.batch_first:
            tokens = self.encoder(tokens)
        else:
            tokens = self.encoder(tokens.transpose(0, 1)).transpose(0, 1)
        return self.head(tokens.mean(dim=1) if self.mean else tokens[:, 0])


@pytest.mark.parametrize(
    "options, layer, first",
    [
        ({}, "encoder.layers.1.norm1", 1),
        ({"batch_first": False}, "encoder.layers.1.norm1", 1),
        ({"norm_first": False}, "encoder.layers.0", 1),
        ({"front": 5}, "encoder.layers.1.norm1", 5),
        ({"front": 1, "back": 4}, "encoder.layers.1.norm1", 1),
        ({"front": 0, "mean": True}, "encoder", 0),
        ({"front": 0, "mean": True, "batch_first": False}, "encoder", 0),
    ],
    ids=str,
)
def test_tokens_of_torch_are_put_into_their_places(options: dict[str, Any], layer: str, first: int) -> None:
    """A class token reads the patches through the last attention: behind it their gradient is zero."""
    found = find_layer(Classifier(drawn(Encoder(**options)), size=(16, 24)))
    tokens = 1 if options.get("batch_first", True) else 0
    assert (found.name, found.channels) == (layer, 8)
    assert found.places == Places(2, tokens, Grid((4, 6), first))


VIT = {"img_size": 32, "patch_size": 8, "embed_dim": 24, "depth": 2, "num_heads": 2, "num_classes": 5}
SWIN = {
    "img_size": 32,
    "window_size": 4,
    "embed_dim": 8,
    "depths": (1, 1),
    "num_heads": (1, 2),
    "num_classes": 5,
}


@pytest.mark.parametrize(
    "name, options, layer, places",
    [
        ("vit_tiny_patch16_224", VIT, "blocks.1.norm1", Places(2, 1, Grid((4, 4), 1))),
        ("vit_tiny_patch16_224", {**VIT, "reg_tokens": 4}, "blocks.1.norm1", Places(2, 1, Grid((4, 4), 5))),
        (
            "vit_tiny_patch16_224",
            {**VIT, "class_token": False, "global_pool": "avg"},
            "norm",
            Places(2, 1, Grid((4, 4))),
        ),
        ("deit_tiny_distilled_patch16_224", VIT, "blocks.1.norm1", Places(2, 1, Grid((4, 4), 2))),
        ("swin_tiny_patch4_window7_224", SWIN, "norm", Places(3)),
    ],
)
def test_tokens_of_timm_are_put_into_their_places(
    timm: ModuleType, name: str, options: dict[str, Any], layer: str, places: Places
) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        f = Classifier(timm.create_model(name, **options), size=32, batch_size=4)
    found = find_layer(f)
    assert (found.name, found.places) == (layer, places)


@pytest.mark.parametrize("kind", ["ViT", "Dinov2WithRegisters", "Swin"])
def test_tokens_of_hugging_face_are_put_into_their_places(transformers: ModuleType, kind: str) -> None:
    from proofmap.classifier.stated import LogitsOf

    small = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    swin = {"embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2], "window_size": 4}
    options = {
        **(swin if kind == "Swin" else small),
        "image_size": 32,
        "patch_size": 4 if kind == "Swin" else 8,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = getattr(transformers, f"{kind}Config")(**options, num_labels=5)
        net = getattr(transformers, f"{kind}ForImageClassification")(config)
    found = find_layer(Classifier(LogitsOf(net), size=32, batch_size=4))
    first = {"ViT": 1, "Dinov2WithRegisters": 5, "Swin": 0}[kind]
    assert found.places == Places(2, 1, Grid((4, 4), first))


def test_the_map_of_a_transformer_is_that_of_pytorch_grad_cam(pytorch_grad_cam: ModuleType) -> None:
    """Theirs is told how to reshape the tokens; ours finds it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = CifarViT().eval()
    images = pixels(2, 32)
    maps = GradCAM()(Classifier(net, size=32, batch_size=4), images, LABELS)
    how = {"reshape_transform": lambda t: t[:, 1:].reshape(len(t), 8, 8, -1).permute(0, 3, 1, 2)}
    assert_alike(maps, theirs(pytorch_grad_cam, "GradCAM", net, net.blocks[5].norm1, images, **how))


def test_tokens_in_no_order_are_refused() -> None:
    class Shuffled(PatchNet):
        """Its patches come in an order that is no picture."""

        def forward(self, x: Tensor) -> Tensor:
            order = torch.randperm(20, generator=torch.Generator().manual_seed(0))
            tokens = self.patches(x).flatten(2).transpose(1, 2)[:, order]
            return self.head(self.encoder(tokens).mean(dim=1))

    with pytest.raises(InputError, match=r"'encoder' mixes tokens.*name a layer"):
        GradCAM()(Classifier(drawn(Shuffled((8, 10))), size=(8, 10)), pixels(1, (8, 10)), torch.tensor([[0]]))


def test_channels_may_be_last_also_where_the_shape_does_not_say_so() -> None:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.turned, self.head = nn.Conv2d(3, 4, 2, 2), nn.Identity(), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.turned(self.conv(x).permute(0, 2, 3, 1)).mean(dim=(1, 2)))

    found = find_layer(Classifier(drawn(Last()), size=8))  # (N, 4, 4, 4)
    assert (found.name, found.places) == ("turned", Places(3))
