"""Axioms: the made nets are what they claim to be, and methods with known answers get them."""

from __future__ import annotations

import json

import pytest
import torch
from torch import Tensor

import proofmap as pm
from proofmap.metrics.axioms import (
    PLACES,
    RESPONSES,
    REWRITTEN,
    SIZE,
    OnePixel,
    Small,
    check_axioms,
    classifier_of,
)
from tests.command import run

CPU = torch.device("cpu")
A, B, INVARIANCE = "sensitivity (a)", "sensitivity (b)", "implementation invariance"


def test_one_pixel_nets_change_their_answer_with_the_pixel_and_with_nothing_else() -> None:
    for name in RESPONSES:
        row, column = PLACES[1]
        f = classifier_of(OnePixel(name, PLACES[1]), CPU)
        x = f.blank(3)
        x[1, :, row, column] = 1.0
        x[2] = torch.rand(3, SIZE, SIZE)
        x[2, :, row, column] = 1.0
        p = f.probabilities(x)[:, 0]
        assert p[0].item() == pytest.approx(0.5, abs=1e-6) and p[1] > 0.99
        assert p[2].item() == pytest.approx(p[1].item(), abs=1e-6)


def test_the_left_half_alone_reaches_the_net() -> None:
    f = classifier_of(Small(0, left_half=True), CPU)
    x = torch.rand(2, 3, SIZE, SIZE)
    x[1, :, :, : SIZE // 2] = x[0, :, :, : SIZE // 2]
    one, other = f.logits(x)
    torch.testing.assert_close(one, other)
    assert one.std() > 0.1


@pytest.mark.parametrize("name", REWRITTEN)
def test_rewritten_nets_are_the_same_function(name: str) -> None:
    x = torch.rand(4, 3, SIZE, SIZE)
    plain, other = (classifier_of(net, CPU).logits(x) for net in (Small(0), REWRITTEN[name](0)))
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
