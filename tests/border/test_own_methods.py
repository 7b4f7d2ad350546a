"""A method of one's own without decorators; and our methods for people who want maps alone."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

import proofmap as pm
from proofmap.models import registry
from tests.command import run
from tests.docs.pages import tiny_model, write_photos
from tests.toys import conv_classifier, conv_net, normal, pixels

NET, X = conv_classifier(8), pixels(4, 8)
OWN = '''
import proofmap as pm
import torch

class Expected(pm.Method):
    """Gradients times the difference from random images."""

    name = "expected"
    power: float = 1.0
    absolute: bool = False

    def maps(self, session, images, labels):
        x = images.requires_grad_(True)
        logits = session.net(x).gather(1, labels.clamp_min(0))
        others = self.random_images(session, images, 2).mean(dim=1)
        each = [torch.autograd.grad(logit.sum(), x, retain_graph=True)[0] * (x - others) for logit in logits.T]
        found = torch.stack(each, dim=1).sum(dim=2)
        return (found.abs() if self.absolute else found) ** self.power
'''


def own_class() -> Any:
    module = ModuleType("mine")
    sys.modules["mine"] = module  # dataclasses look it up
    exec(OWN, vars(module))
    return module.Expected


def test_a_class_with_two_settings_needs_no_decorator() -> None:
    kind = own_class()
    found = pm.evaluate(
        NET, X, methods=[kind, kind(absolute=True), kind(power=3)], labels="top2", metrics="soundness"
    )
    assert [result.name for result in found.results] == [
        "expected",
        "expected:absolute=true",
        "expected:power=3",
    ]
    assert torch.equal(found.results[1].maps, found.results[0].maps.abs())


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_it_runs_where_the_caller_stands_in_no_grad(off: Any) -> None:
    usual = own_class()()(NET, X, "top2")
    with off():
        assert torch.equal(own_class()()(NET, X, "top2"), usual)
        pm.evaluate(NET, X, methods=own_class()(), labels="top1", metrics="soundness")


def test_random_images_are_drawn_for_each_image_from_the_half_that_no_metric_has() -> None:
    seen: list[Tensor] = []

    class Looks(pm.Method):
        name = "looks"

        def maps(self, session: Any, images: Tensor, labels: Tensor) -> Tensor:
            seen.append(self.random_images(session, images, 3))
            assert session.role == "learn"
            return images.mean(dim=1, keepdim=True).expand(-1, labels.shape[1], -1, -1)

    many = pixels(40, 8)
    pm.evaluate(NET, many, methods=Looks(), labels="top1", metrics="insertion:fill=images")
    Looks()(NET, many, "top1", seed=1)
    first, other = seen[0], seen[-1]
    assert first.shape == (40, 3, 3, 8, 8) and not torch.equal(first, other)
    assert not torch.equal(first[:, 0], first[:, 1])


def test_the_same_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_photos(tmp_path)
    (tmp_path / "mine.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(registry._OWN, registry.DEFAULT_MODEL, tiny_model())
    words = (
        "--data",
        "photos",
        "--methods",
        "mine.py:Expected:power=3,absolute=true",
        "--labels",
        "top2",
        "--metrics",
        "soundness",
    )
    assert run(monkeypatch, "evaluate", *words, "--no-pictures", "-q") == 0
    assert "expected:power=3,absolute=true" in capsys.readouterr().out


def test_maps_alone() -> None:
    method, x = pm.make_method("gradient-x-input"), normal(3, 3, 8, 8)
    with pytest.warns(UserWarning, match="as the net takes them"):
        maps = method(conv_net(), x, target=2)
    assert maps.shape == (3, 1, 8, 8)
    assert torch.equal(method(NET, X.numpy(), [0, 1]), method(NET, X, [0, 1]))
    assert torch.equal(method(NET, X), method(NET, X, NET.top(X, 1)))


@pytest.mark.parametrize(
    "facts, words",
    [
        (
            {"needs": "layer"},
            "needs of the class Own must be a frozenset of some of gradients, layer, .*, not 'layer'",
        ),
        ({"needs": frozenset({"layr"})}, "order, not frozenset"),
        ({"family": "nonsense"}, "family of the class Own must be one of gradients, cam, .*, not 'nonsense'"),
    ],
)
def test_facts_that_mean_nothing_are_refused_with_the_class(facts: dict[str, object], words: str) -> None:
    with pytest.raises(pm.InputError, match=words):
        type("Own", (pm.Method,), {"name": "own", **facts})
