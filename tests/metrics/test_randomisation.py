"""Nets randomised, similarities against scikit-image and scipy, the metrics that compare maps by them, and axioms."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import scipy
import skimage
import torch
from torch import Tensor, nn

import proofmap as pm
from proofmap.checking import _grouped
from proofmap.classifier.randomised import layers_of, randomised
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.metrics import Judged
from proofmap.metrics.axioms import (
    PLACES,
    RESPONSES,
    REWRITTEN,
    SIZE,
    OnePixel,
    Small,
    check_axioms,
)
from proofmap.metrics.axioms import classifier_of as net_of_axioms
from proofmap.metrics.randomisation import Randomisation, ssim
from proofmap.session import Session
from tests.command import run
from tests.sessions import bound
from tests.toys import ROWS, classifier_of, conv_classifier, conv_net, normal, pixels, values

# ---- similarities -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(40, 33), (11, 25)])
def test_ssim_is_scikit_images(shape: tuple[int, int]) -> None:
    a, b = normal(3, *shape).sigmoid().double(), normal(3, *shape, seed=1).sigmoid().double()
    b = 0.5 * a + 0.5 * b
    theirs = [
        skimage.metrics.structural_similarity(
            x.numpy(),
            y.numpy(),
            data_range=1.0,
            gaussian_weights=True,
            sigma=1.5,
            use_sample_covariance=False,
        )
        for x, y in zip(a, b, strict=True)
    ]
    assert ssim(a, b).tolist() == pytest.approx(theirs, abs=1e-9)
    assert ssim(a, a).tolist() == pytest.approx([1.0] * 3)


def test_similarities_are_those_of_their_definitions() -> None:
    a, b = normal(4, 12, 13), normal(4, 12, 13, seed=1)
    rank = [
        scipy.stats.spearmanr(x.flatten(), y.flatten()).statistic
        for x, y in zip(a.numpy(), b.numpy(), strict=True)
    ]
    size = [
        scipy.stats.spearmanr(np.abs(x).flatten(), np.abs(y).flatten()).statistic
        for x, y in zip(a.numpy(), b.numpy(), strict=True)
    ]
    assert Randomisation.compared(a, b, "rank").tolist() == pytest.approx(rank, abs=1e-9)
    assert Randomisation.compared(a, b, "abs-rank").tolist() == pytest.approx(size, abs=1e-9)
    assert (
        Randomisation.compared(a, -a, "rank").tolist() == [-1.0] * 4
        and Randomisation.compared(a, -a, "abs-rank").tolist() == [1.0] * 4
    )
    assert Randomisation.compared(a, 3 * a + 2, "ssim").tolist() == pytest.approx(
        [1.0] * 4
    )  # scaled to [0, 1] first


@pytest.mark.parametrize("how", ["rank", "abs-rank", "ssim"])
def test_a_constant_map_is_like_none_and_two_cannot_be_compared(how: str) -> None:
    some, still = normal(1, 12, 12), torch.ones(1, 12, 12)
    assert (
        Randomisation.compared(some, still, how).item()
        == Randomisation.compared(still, some, how).item()
        == 0
    )  # type: ignore[arg-type]
    assert Randomisation.compared(still, 2 * still, how).isnan().all()  # type: ignore[arg-type]


# ---- nets randomised ----------------------------------------------------------------------------------------------


class Branched(nn.Module):
    """Its layers run in another order than they are named, and its head is used without being called."""

    def __init__(self) -> None:
        super().__init__()
        self.late = nn.Conv2d(4, 4, 3)
        self.early = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU())
        self.head = nn.Linear(4, 3)
        self.scale = nn.Parameter(torch.linspace(1, 2, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = self.late(self.early(x)).mean((2, 3)) * self.scale
        return nn.functional.linear(features, self.head.weight, self.head.bias)


def branched() -> pm.Classifier:
    torch.manual_seed(0)
    net = Branched().eval()
    net.early[1].running_mean.fill_(0.3)  # type: ignore[union-attr,operator]
    return pm.Classifier(net, size=8, mean=(0.5, 0.4, 0.3), std=(0.25, 0.2, 0.3))


def test_layers_run_from_input_to_output_with_their_normalisations() -> None:
    assert layers_of(conv_classifier()) == [("0",), ("2",), ("6",)]
    assert layers_of(conv_classifier().frozen()) == [("0",), ("2",), ("6",)]
    assert layers_of(branched()) == [("",), ("early.0", "early.1"), ("late",), ("head",)]


def test_groups_cover_all_layers_and_end_with_the_last() -> None:
    layers = [(f"l{k}", f"n{k}") for k in range(11)]
    for groups in (1, 2, 4, 11, 50):
        found = _grouped(layers, groups)
        assert [n for group in found for n in group] == [n for layer in layers for n in layer]
        assert len(found) == min(groups, 11) and (groups == 1 or found[-1] == layers[-1])
    assert _grouped(layers[:1], 5) == layers[:1]


def test_only_the_chosen_weights_are_drawn_anew_and_the_net_stays_as_it_is() -> None:
    net = conv_net()
    before = copy.deepcopy(net.state_dict())
    f = pm.Classifier(net, size=8)
    other = randomised(f, ["6"], seed=3)
    for key, weight in other.net.state_dict().items():
        assert torch.equal(weight, before[key]) == (not key.startswith("6")), key
    assert all(torch.equal(weight, before[key]) for key, weight in net.state_dict().items())
    with torch.no_grad():
        net[0].weight.mul_(2)  # training goes on: the copy is not touched by it
    assert torch.equal(other.net.state_dict()["0.weight"], before["0.weight"])
    other.probabilities(pixels(1, 8))
    assert torch.equal(other.net.state_dict()["0.weight"], before["0.weight"])


def test_what_is_drawn_is_as_before_training() -> None:
    f = branched()
    other = randomised(f, ["", "head", "early.0", "early.1", "late"])
    state = other.net.state_dict()  # type: ignore[union-attr]
    assert torch.equal(state["early.1.weight"], torch.ones(4)) and torch.equal(
        state["early.1.bias"], torch.zeros(4)
    )
    assert torch.equal(state["early.1.running_mean"], torch.zeros(4)) and not bool(state["head.bias"].any())
    assert sorted(state["scale"].tolist()) == torch.linspace(1, 2, 4).tolist()
    wide = pm.Classifier(nn.Sequential(nn.Flatten(), nn.Linear(192, 400)), size=8)
    weight = randomised(wide, ["1"]).net.state_dict()["1.weight"]  # type: ignore[union-attr]
    assert (
        weight.std().item() == pytest.approx((2 / 192) ** 0.5, rel=0.02) and abs(weight.mean().item()) < 1e-3
    )


def test_draws_depend_on_the_seed_and_the_name_alone() -> None:
    f = conv_classifier()
    one, both = randomised(f, ["6"], seed=1), randomised(f, ["2", "6"], seed=1)
    assert torch.equal(one.net.state_dict()["6.weight"], both.net.state_dict()["6.weight"])  # type: ignore[union-attr]
    other = randomised(f, ["6"], seed=2)
    assert not torch.equal(one.net.state_dict()["6.weight"], other.net.state_dict()["6.weight"])  # type: ignore[union-attr]
    assert one.names == f.names and one.batches[0].size == f.batches[0].size


# ---- the metrics --------------------------------------------------------------------------------------------------

IMAGES, LABELS = pixels(3, 12), torch.tensor([[0, 1], [2, 3], [1, -1]])
NET = conv_classifier(12)


def judged(method: str) -> Judged:
    ready = bound(pm.make_method(method), NET)
    return Judged(Session(NET, seed=5), IMAGES, LABELS, ready(IMAGES, LABELS, seed=5), method=ready.thing)


def other_maps(method: str, layers: list[str], draw: int = 0) -> torch.Tensor:
    other = randomised(NET, layers, seed=streams.key_of(5, draw))
    return pm.make_method(method)(other, IMAGES, LABELS, seed=5)


@pytest.mark.parametrize("layers, names", [("last", ["6"]), ("all", ["0", "2", "6"])])
def test_randomisation_is_the_correlation_of_two_maps(layers: str, names: list[str]) -> None:
    j = judged("gradient-x-input")
    again = other_maps("gradient-x-input", names)
    for how in ("rank", "abs-rank", "ssim"):
        found = Randomisation(layers=layers, similarity=how)(j)  # type: ignore[arg-type]
        each = [
            [Randomisation.compared(j.maps[i, k][None], again[i, k][None], how).item() for k in range(2)]
            for i in range(3)
        ]  # type: ignore[arg-type]
        assert found.tolist() == pytest.approx([np.mean(each[0]), np.mean(each[1]), each[2][0]], abs=1e-5)


def test_what_knows_nothing_of_the_net_stays_and_what_does_changes() -> None:
    for control in ("edges", "random", "centered-gaussian"):
        assert Randomisation()(judged(control)).tolist() == pytest.approx([1.0] * 3)
    assert Randomisation()(judged("gradient-x-input")).abs().max() < 0.9


def test_the_smooth_variant_averages_maps_over_noisy_copies() -> None:
    ready = bound(pm.make_method("gradient-x-input"), NET)
    session = Session(NET, seed=5)
    found = Randomisation.smooth_maps(session, ready.thing, IMAGES, LABELS, samples=3, noise=0.2)
    total = torch.zeros_like(found)
    for k in range(3):
        keys = streams.image_keys(IMAGES, 5, "smooth", k)
        width = torch.stack([0.2 * (x.max() - x.min()) for x in IMAGES])
        noisy = IMAGES + width[:, None, None, None] * streams.normal(keys, IMAGES[0].numel()).view_as(IMAGES)
        total += ready(noisy.clamp(0, 1), LABELS, seed=5)
    torch.testing.assert_close(found, total / 3)
    j = judged("gradient-x-input")
    other = session.for_net(randomised(NET, ["0", "2", "6"], seed=streams.key_of(5, 0)))
    again = Randomisation.smooth_maps(other, ready.thing, IMAGES, LABELS, samples=3, noise=0.2)
    expected = Randomisation.compared(found.flatten(0, 1), again.flatten(0, 1), "rank").view(3, 2)
    assert Randomisation(samples=3, noise=0.2)(j)[:2].tolist() == pytest.approx(
        expected[:2].mean(dim=1).tolist()
    )
    assert pm.make_metric("randomisation:preset=smooth").settings()["samples"] == 50


def test_rows_have_no_structure_to_compare() -> None:
    f = classifier_of(ROWS)
    ready = bound(pm.make_method("gradient"), f)
    x, labels = values(ROWS, 2), torch.zeros(2, 1, dtype=torch.long)
    j = Judged(Session(f), x, labels, ready(x, labels), method=ready.thing)
    assert Randomisation()(j).shape == (2,)
    with pytest.raises(InputError, match="take similarity=rank"):
        Randomisation(similarity="ssim")(j)


# ---- axioms --------------------------------------------------------------------------------------------------


CPU = torch.device("cpu")
A, B, INVARIANCE = "sensitivity (a)", "sensitivity (b)", "implementation invariance"


def test_one_pixel_nets_change_their_answer_with_the_pixel_and_with_nothing_else() -> None:
    for name in RESPONSES:
        row, column = PLACES[1]
        f = net_of_axioms(OnePixel(name, PLACES[1]), CPU)
        x = f.blank(3)
        x[1, :, row, column] = 1.0
        x[2] = torch.rand(3, SIZE, SIZE)
        x[2, :, row, column] = 1.0
        p = f.probabilities(x)[:, 0]
        assert p[0].item() == pytest.approx(0.5, abs=1e-6) and p[1] > 0.99
        assert p[2].item() == pytest.approx(p[1].item(), abs=1e-6)


def test_the_left_half_alone_reaches_the_net() -> None:
    f = net_of_axioms(Small(0, left_half=True), CPU)
    x = torch.rand(2, 3, SIZE, SIZE)
    x[1, :, :, : SIZE // 2] = x[0, :, :, : SIZE // 2]
    one, other = f.logits(x)
    torch.testing.assert_close(one, other)
    assert one.std() > 0.1


@pytest.mark.parametrize("name", REWRITTEN)
def test_rewritten_nets_are_the_same_function(name: str) -> None:
    x = torch.rand(4, 3, SIZE, SIZE)
    plain, other = (net_of_axioms(net, CPU).logits(x) for net in (Small(0), REWRITTEN[name](0)))
    torch.testing.assert_close(plain, other, atol=1e-4, rtol=1e-4)


# ---- methods whose answers are known ---------------------------------------------------------------------------------


def test_the_gradient_fails_on_the_saturated_net_alone() -> None:
    report = check_axioms("gradient")
    assert report.kept == {A: False, B: True, INVARIANCE: True}
    assert [f.net for f in report.findings if not f.kept] == ["one pixel, saturated"]
    assert "broken  sensitivity (a)" in str(report) and str(report).startswith("gradient\n")


def test_hiding_each_pixel_keeps_all_three() -> None:
    """Occlusion by single pixels sees what the answer loses: saturation does not matter, ignored pixels lose nothing."""

    def lost(classifier: pm.Classifier, images: Tensor, labels: Tensor) -> Tensor:
        n = SIZE * SIZE
        hidden = images[:, None].repeat(1, n, 1, 1, 1).flatten(3)
        place = torch.arange(n)
        hidden[:, place, :, place] = classifier.gray
        p = classifier.probabilities(hidden.view(-1, 3, SIZE, SIZE)).view(len(images), n, -1)
        whole = classifier.probabilities(images)[:, None]
        drop = (whole - p).gather(2, labels[:, None].expand(-1, n, -1))
        return drop.transpose(1, 2).reshape(*labels.shape, SIZE, SIZE)

    assert all(check_axioms(lost).kept.values())


def test_controls_that_do_not_ask_the_net_ignore_how_it_is_written_and_what_it_ignores() -> None:
    assert check_axioms("edges").kept == {A: False, B: False, INVARIANCE: True}
    assert check_axioms("random").kept == {A: False, B: False, INVARIANCE: True}


def test_grad_cam_finds_a_layer_in_every_net() -> None:
    assert check_axioms("grad-cam").kept[A] is False


def test_a_method_that_looks_at_rectifiers_depends_on_how_the_net_is_written() -> None:
    def guided(classifier: pm.Classifier, images: Tensor, labels: Tensor) -> Tensor:
        """What the number of the net's rectifiers is taken for."""
        count = sum(isinstance(m, torch.nn.ReLU) for m in classifier.net.modules())  # type: ignore[union-attr]
        return images.sum(dim=1)[:, None].expand(-1, labels.shape[1], -1, -1) * (1 + count)

    report = check_axioms(guided)
    broken = [f.net for f in report.findings if f.axiom == INVARIANCE and not f.kept]
    assert broken == ["rectifier as (z + |z|) / 2"]


# ---- the command -----------------------------------------------------------------------------------------------------


def test_the_command_prints_a_report_for_each_method_or_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "sanity", "--axioms", "--methods", "edges,gradient", "--device", "cpu") == 0
    printed = capsys.readouterr().out
    assert "edges\n  broken  sensitivity (a)" in printed and "\ngradient\n  kept" in printed
    assert (
        run(monkeypatch, "sanity", "--axioms", "--methods", "edges", "--device", "cpu", "--format", "json")
        == 0
    )
    (report,) = json.loads(capsys.readouterr().out)
    assert report["method"] == "edges" and len(report["findings"]) == 7
    assert run(monkeypatch, "sanity", "--axioms", "--methods", "edgy") == 2
