"""Trained maskers: their nets and losses against plain loops, what their files say, and which nets they refuse."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from benchmarks.maskers.objective import TrainingBatch, TrainingRecipe
from benchmarks.maskers.published import PhangFix, RealTimeObjective
from benchmarks.maskers.train import KINDS, Training, train_masker
from proofmap import InputError
from proofmap.classifier import Classifier
from proofmap.methods import make_method
from proofmap.methods.maskers.nets import PhangNet, RealTimeNet, resized
from proofmap.methods.maskers.trained import Encoder, Scale, read_header
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


def recipe(kind: str, **changes: Any) -> TrainingRecipe:
    usual = {"steps": 4, "batch": 3, "learning_rate": 1e-3, "width": 4, "seed": 0}
    return TrainingRecipe(kind=kind, **{**usual, **changes})


def training(kind: str, truth: Tensor | None = None, **changes: Any) -> Training:
    return Training(recipe(kind, **changes), conv_classifier(), pixels(6, 8), truth)


def batch_of(made: Training, step: int = 0) -> TrainingBatch:
    return made.batch(step)


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


def test_scales_of_efficientnet_are_those_of_its_stages() -> None:
    f = load_classifier("efficientnet-lite0", pretrained=False)
    found = [(s.layer, s.channels, s.size[0]) for s in Scale.all_of(f, most=4)]
    assert found == [("head", 1280, 7), ("blocks.10", 112, 14), ("blocks.4", 40, 28), ("blocks.2", 24, 56)]


def test_layers_that_cannot_be_read_are_refused() -> None:
    with pytest.raises(InputError, match="no layer of this net has one"):
        Scale.all_of(linear_classifier(), most=4)
    with pytest.raises(InputError, match="wraps a function"):
        Scale.all_of(Classifier(lambda x: x.mean(dim=(2, 3)), size=4), most=4)


def test_features_are_what_the_layers_give() -> None:
    f, x = conv_classifier(), pixels(2, 8)
    net = f.net
    assert isinstance(net, nn.Sequential)
    scales = Scale.all_of(f, most=4)
    features, logits = Encoder(f, scales)(x)
    normalised = (x - torch.tensor(f.mean).view(3, 1, 1)) / torch.tensor(f.std).view(3, 1, 1)
    torch.testing.assert_close(features, [net[:4](normalised), net[:2](normalised)])
    torch.testing.assert_close(logits, net(normalised))


# ---- nets -------------------------------------------------------------------------------------------------------


def test_the_real_time_net_gates_the_top_features_by_the_label() -> None:
    torch.manual_seed(0)
    net = RealTimeNet([5, 4, 3], labels=7, width=2).eval()
    features = [torch.rand(2, 5, 3, 3), torch.rand(2, 4, 6, 6), torch.rand(2, 3, 11, 11)]
    labels = torch.tensor([[0, 6, 3], [2, 2, 5]])
    masks = net(features, labels, 0.5)
    assert masks.shape == (2, 3, 11, 11)
    assert bool(((masks >= 0) & (masks <= 1)).all())
    for i, j in ((0, 1), (1, 2)):
        code = net.selector.weight[labels[i, j]]
        gated = net.norms[0](features[0])[i].clone()
        for y in range(3):
            for x in range(3):
                gated[:, y, x] *= torch.sigmoid((gated[:, y, x] * code).sum() - 0.5)
        flow = gated[None]
        for step, beside in zip(net.up, features[1:], strict=True):
            flow = step(flow, beside[i : i + 1])  # fresh statistics: mean 0, deviation 1
        a, b = net.saliency(flow)[0].abs()
        torch.testing.assert_close(masks[i, j], a / (a + b))


def test_masks_are_enlarged_as_torch_does_it() -> None:
    masks = torch.rand(2, 3, 4, 5)
    expected = F.interpolate(masks, size=(9, 12), mode="bilinear", align_corners=False)
    torch.testing.assert_close(resized(masks, (9, 12)), expected)
    torch.testing.assert_close(
        resized(masks, (9, 12), nearest=True), F.interpolate(masks, size=(9, 12), mode="nearest")
    )


def test_the_phang_net_mixes_two_scales() -> None:
    torch.manual_seed(0)
    net = PhangNet([5, 4], (8, 8), width=3).eval()
    features = [torch.rand(2, 5, 2, 2), torch.rand(2, 4, 4, 4)]
    wide = [
        F.interpolate(reduce(x), size=(8, 8), mode="bilinear", align_corners=False)
        for reduce, x in zip(net.reduce, features, strict=True)
    ]
    torch.testing.assert_close(net(features), net.mask(torch.cat(wide, dim=1)).sigmoid())


# ---- losses -----------------------------------------------------------------------------------------------------


def says(f: Classifier, image: Tensor) -> list[float]:
    return f.log_f(f(image[None]))[0].tolist()


def roughness(mask: Tensor) -> float:
    rows, columns = mask.shape
    total = 0.0
    for y in range(rows):
        for x in range(columns):
            own = float(mask[y, x])
            total += (own - float(mask[y + 1, x])) ** 2 if y + 1 < rows else 0.0
            total += (own - float(mask[y, x + 1])) ** 2 if x + 1 < columns else 0.0
            total += 0.3 * own**2 * ((y == 0) + (y == rows - 1) + (x == 0) + (x == columns - 1))
    return total / 2


def test_the_loss_of_real_time_saliency_is_its_four_terms() -> None:
    made = training("dabkowski", torch.tensor([0, 1, 2, 3, 0, 1]), steps=2, batch=5)
    objective = made.objective
    assert isinstance(objective, RealTimeObjective)
    batch = batch_of(made, 1)
    assert objective.selecting(0) and not objective.selecting(1)
    with torch.no_grad():
        loss = float(objective.loss(batch))
        asked = objective.asked(batch, 0.3)
        masks = resized(objective.net(batch.features, asked[:, None])[:, 0], (8, 8))
        preserved = objective.composites(batch, masks, "preserved")
        destroyed = objective.composites(batch, 1 - masks, "destroyed")
    assert set((asked == batch.labels).tolist()) == {True, False}
    expected = 0.0
    for i in range(5):
        label, real = int(batch.labels[i]), bool(asked[i] == batch.labels[i])
        leads = []
        for image in (preserved[i], destroyed[i]):
            log_f = says(made.classifier, image)
            leads.append(log_f.pop(label) - max(log_f))
        kept, gone = (
            (max(0, 1 - leads[0]), max(0, leads[1] + 5))
            if real
            else (max(0, leads[0] + 1), max(0, 1 - leads[1]))
        )
        small = sum((m + 0.0005) ** 0.3 for m in masks[i].flatten().tolist()) / 64
        expected += (gone + 0.3 * kept + 8 * small + 0.005 * roughness(masks[i])) / 5
    assert loss == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("kind, outside", [("phang-fix", 10.0), ("phang-ca", 15.0)])
def test_the_loss_of_phang_is_that_of_inside_and_outside(kind: str, outside: float) -> None:
    made = training(kind, torch.tensor([0, 1, 2, 3, 0, 1]), batch=5)
    objective, batch = made.objective, batch_of(made)
    assert isinstance(objective, PhangFix)
    loss = float(PhangFix.loss(objective, batch).detach())
    masks = resized(objective.net(batch.features)[:, 0], (8, 8), nearest=True).detach()
    gray = made.classifier.gray.view(3, 1, 1)
    expected = 0.0
    for i in range(5):
        label, m = int(batch.labels[i]), masks[i]
        clean = says(made.classifier, batch.images[i])
        inside = says(made.classifier, batch.images[i] * m + gray * (1 - m))
        out = says(made.classifier, batch.images[i] * (1 - m) + gray * m)
        right = clean.index(max(clean)) == label
        kept, lost = inside.index(max(inside)) == label, out.index(max(out)) != label
        expected += -inside[label] - max(0.0, kept - float(m.mean()))
        expected += sum(math.exp(v) * v for v in out) * right
        expected += -outside * max(0.0, (right and lost) - float(m.mean())) + 0.002 * roughness(m)
    assert loss == pytest.approx(expected / 5, rel=1e-4)


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
