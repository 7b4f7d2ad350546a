"""Checkpoints in the layouts of Dabkowski and Gal and of Phang et al., with random weights, against plain forward passes."""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core.errors import ProofmapError
from proofmap.methods import make_method
from tests.toys import drawn, pixels

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CHANNELS, LABELS, SIDE = (4, 6, 8, 12), 5, 64
"""Of the four stages, the finest first. ResNet-50 has 256, 512, 1024 and 2048."""


class Stages(nn.Module):
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
        logits: Tensor = self.fc(self.stages(x)[-1].mean(dim=(2, 3)))
        return logits


def net_and_classifier() -> tuple[Stages, Classifier]:
    net = drawn(Stages(), seed=1)
    return net, Classifier(net, size=SIDE, mean=MEAN, std=STD)


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
    state: dict[str, dict[str, Tensor]], net: Stages, x: Tensor, labels: Tensor, confidence: float
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


def test_the_published_layouts_have_the_shapes_of_a_resnet_50() -> None:
    shapes = {
        f"{name}.{key}": tuple(tensor.shape)
        for name, part in dabkowski((256, 512, 1024, 2048), 1000, 64).items()
        for key, tensor in part.items()
    }
    assert shapes["up2.upsampler.0.0.weight"] == (1024, 2048, 3, 3)
    assert shapes["up2.follow_up.conv1.weight"] == (64, 256 + 1024, 1, 1)
    assert shapes["up0.follow_up.residual_transformer.weight"] == (64, 64 + 256, 1, 1)
    assert shapes["to_saliency_chans.weight"] == (2, 64, 1, 1) and shapes["selector_module.weight"] == (
        1000,
        2048,
    )
    masker = phang((256, 512, 1024, 2048), 64)
    assert masker["conv1x1_4.0.weight"].shape == (64, 2048, 1, 1) and masker["final.0.weight"].shape == (
        1,
        128,
        3,
        3,
    )


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
    s, mean, std = phang(), torch.tensor(MEAN).view(3, 1, 1), torch.tensor(STD).view(3, 1, 1)
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
        drawn(Stages(), seed=1), size=SIDE, mean=MEAN, std=STD, names=[f"label {k}" for k in range(LABELS)]
    )
    files: list[tuple[str, Any, str, str]] = [
        ("real-time-saliency", {"a": 1}, "", "no 'selector_module.weight'"),
        ("real-time-saliency", cut, "", "no 'selector_module.weight'"),
        ("real-time-saliency", lacking, "", "does not fit the net RealTimeNet: missing up.1.mix.4.weight"),
        ("real-time-saliency", dabkowski(labels=7), "", "masks for 7 labels, and Stages has 5"),
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
            "does not fit the net Stages: .*; write encoder=net",
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
