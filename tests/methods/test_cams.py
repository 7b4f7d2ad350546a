"""Grad-CAM++, Layer-CAM, and Score-CAM, against other libraries and plain loops; layers of transformers."""

from __future__ import annotations

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
from tests.sessions import bound
from tests.toys import PatchNet, conv_net, drawn, pixels

LABELS = torch.tensor([[0, 3, 1], [2, 1, 0]])
MEAN, STD = (0.5,) * 3, (0.25,) * 3


def small() -> tuple[Classifier, nn.Sequential, Tensor, Tensor]:
    """A classifier, its net, images, and the images as the net sees them."""
    net = conv_net(5)
    images = pixels(2, 16)
    return Classifier(net, size=16, mean=MEAN, std=STD, batch_size=7), net, images, (images - 0.5) / 0.25


def correlation(a: Any, b: Any) -> float:
    return float(np.corrcoef(np.asarray(a).ravel(), np.asarray(b).ravel())[0, 1])


# ---- the maps ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method, theirs",
    [
        (GradCAMPlusPlus(), "GradCAMPlusPlus"),
        (LayerCAM(), "LayerCAM"),
        (ScoreCAM.preset("pytorch-grad-cam"), "ScoreCAM"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_the_maps_are_those_of_pytorch_grad_cam(
    method: Any, theirs: str, pytorch_grad_cam: ModuleType
) -> None:
    """Theirs adds 1e-6 below Grad-CAM++'s fraction, which counts where gradients are small: here they are not."""
    f, net, images, x = small()
    head = net[6]
    assert isinstance(head, nn.Linear)
    with torch.no_grad():
        head.weight *= 20 if theirs == "GradCAMPlusPlus" else 1
    maps = method(f, images, LABELS).numpy()
    targets = pytorch_grad_cam.utils.model_targets.ClassifierOutputTarget
    with getattr(pytorch_grad_cam, theirs)(model=net, target_layers=[net[3]]) as cam:
        for j in range(3):
            expected = cam(x, [targets(int(a)) for a in LABELS[:, j]])
            for ours, other in zip(maps[:, j], expected, strict=True):
                assert correlation(ours, other) > 0.999


def test_small_gradients_change_no_map_of_grad_cam_plus_plus() -> None:
    """alpha tends to one half as gradients shrink, so a net with small logits has the map of Layer-CAM's summed weights."""
    f, net, images, _ = small()
    head = net[6]
    assert isinstance(head, nn.Linear)
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
        out: Tensor = self.head(tokens.mean(dim=1) if self.mean else tokens[:, 0])
        return out


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
    assert found.places == Places(2, tokens, Grid(4, 6, first))


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
        ("vit_tiny_patch16_224", VIT, "blocks.1.norm1", Places(2, 1, Grid(4, 4, 1))),
        ("vit_tiny_patch16_224", {**VIT, "reg_tokens": 4}, "blocks.1.norm1", Places(2, 1, Grid(4, 4, 5))),
        (
            "vit_tiny_patch16_224",
            {**VIT, "class_token": False, "global_pool": "avg"},
            "norm",
            Places(2, 1, Grid(4, 4)),
        ),
        ("deit_tiny_distilled_patch16_224", VIT, "blocks.1.norm1", Places(2, 1, Grid(4, 4, 2))),
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
    assert found.places == Places(2, 1, Grid(4, 4, first))


def test_the_map_of_a_transformer_is_that_of_pytorch_grad_cam(pytorch_grad_cam: ModuleType) -> None:
    """Theirs is told how to reshape the tokens; ours finds it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = CifarViT().eval()
    images = pixels(2, 32)
    maps = GradCAM()(Classifier(net, size=32, batch_size=4), images, LABELS).numpy()
    targets = pytorch_grad_cam.utils.model_targets.ClassifierOutputTarget
    with pytorch_grad_cam.GradCAM(
        model=net,
        target_layers=[net.blocks[5].norm1],
        reshape_transform=lambda t: t[:, 1:].reshape(len(t), 8, 8, -1).permute(0, 3, 1, 2),
    ) as cam:
        for j in range(3):
            expected = cam(images, [targets(int(a)) for a in LABELS[:, j]])
            for ours, other in zip(maps[:, j], expected, strict=True):
                if ours.any() or other.any():
                    assert correlation(ours, other) > 0.999
    assert maps.any()


def test_tokens_in_no_order_are_refused() -> None:
    class Shuffled(PatchNet):
        """Its patches come in an order that is no picture."""

        def forward(self, x: Tensor) -> Tensor:
            order = torch.randperm(20, generator=torch.Generator().manual_seed(0))
            tokens = self.patches(x).flatten(2).transpose(1, 2)[:, order]
            out: Tensor = self.head(self.encoder(tokens).mean(dim=1))
            return out

    with pytest.raises(InputError, match=r"'encoder' mixes tokens.*name a layer"):
        GradCAM()(Classifier(drawn(Shuffled((8, 10))), size=(8, 10)), pixels(1, (8, 10)), torch.tensor([[0]]))


def test_channels_may_be_last_also_where_the_shape_does_not_say_so() -> None:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.turned, self.head = nn.Conv2d(3, 4, 2, 2), nn.Identity(), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.head(self.turned(self.conv(x).permute(0, 2, 3, 1)).mean(dim=(1, 2)))
            return out

    found = find_layer(Classifier(drawn(Last()), size=8))  # (N, 4, 4, 4)
    assert (found.name, found.places) == ("turned", Places(3))
