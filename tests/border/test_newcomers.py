"""What newcomers wrote first and failed with: it works, or the message leads on."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import proofmap as pm

pytestmark = pytest.mark.filterwarnings("ignore:Sequential. inputs")  # what was assumed of a bare net


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.Tanh(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
    )


X, Y = torch.rand(3, 3, 8, 8, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 1, 2])
MAPS = torch.rand(3, 8, 8, generator=torch.Generator().manual_seed(2))


def test_a_judge_takes_maps_in_the_order_of_soundness() -> None:
    model, named = net(), {"metrics": ["completeness", "soundness"]}
    first, second = pm.Judge(model, **named), pm.Judge(model, **named)
    first.update(X, MAPS, Y)
    second.update(X, maps=MAPS, labels=Y)
    assert first.compute().to_dict() == second.compute().to_dict()


def test_a_function_of_a_target_gets_one_label_an_image() -> None:
    def mine(model: nn.Module, x: Tensor, target: Tensor) -> Tensor:
        x = x.clone().requires_grad_(True)
        model(x).gather(1, target[:, None]).sum().backward()
        assert x.grad is not None
        return x.grad.abs().sum(dim=1)

    model = net()
    methods = {"mine": mine, "each": pm.per_label(mine)}
    found = pm.evaluate(model, X, methods=methods, labels="top2", metrics=["insertion"])
    assert torch.equal(found["mine"].maps, found["each"].maps)


def test_what_fails_inside_says_what_it_was_given() -> None:
    def broken(model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
        return model(x).gather(1, labels[:, None])

    with pytest.raises(RuntimeError) as raised:
        pm.evaluate(net(), X, methods=[broken], labels="top2", metrics=["insertion"])
    assert "images (3, 3, 8, 8) and labels (3, 2)" in "\n".join(raised.value.__notes__)
    assert "pm.per_label(" in "\n".join(raised.value.__notes__)
    with pytest.raises(AttributeError) as missing:
        pm.evaluate(net(), X, methods=["random"], labels="top2", metrics=[lambda maps: maps.mean()])
    assert ".maps (N, L, *positions)" in "\n".join(missing.value.__notes__)


def test_a_name_that_is_not_there_leads_to_make_method() -> None:
    with pytest.raises(AttributeError, match=r"proofmap\.make_method\('belief-mask'\)"):
        pm.BeliefMask  # noqa: B018
    assert not hasattr(pm, "__path_of_nothing__")
