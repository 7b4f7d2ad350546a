"""Quantus and Captum call our scores and are called, their objects work on the user's own model; and methods of one's own."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import proofmap as pm
from proofmap.models import registry
from tests.command import run
from tests.docs.pages import tiny_model, write_photos
from tests.toys import MEAN, STD, TEXT, classifier_of, conv_classifier, conv_net, normal, pixels, values

X = normal(4, 3, 8, 8)
Y = torch.tensor([0, 3, 1, 2])
quiet = pytest.mark.filterwarnings("ignore:.*as the net takes them")


# ---- our scores in Quantus ---------------------------------------------------------------------------------------------


@quiet
@pytest.mark.parametrize("name", ["soundness", "completeness", "insertion"])
def test_a_score_of_ours_is_a_metric_of_quantus(name: str) -> None:
    model, x_batch, y_batch = conv_net(), X.numpy(), Y.numpy()
    a_batch = normal(4, 1, 8, 8, seed=5).numpy()
    score = pm.make_metric(name)
    found = score(model=model, x_batch=x_batch, y_batch=y_batch, a_batch=a_batch)
    ours = {"soundness": pm.soundness, "completeness": pm.completeness, "insertion": pm.insertion_auc}[name]
    assert isinstance(found, np.ndarray) and np.array_equal(found, ours(model, X, a_batch, Y).numpy())
    # as quantus.evaluate calls its metrics
    given = {
        "s_batch": None,
        "explain_func": print,
        "explain_func_kwargs": {"method": "mine"},
        "device": "cpu",
    }
    assert np.array_equal(
        found, score(model=model, x_batch=x_batch, y_batch=y_batch, a_batch=a_batch, **given)
    )
    assert np.array_equal(found, score(model, x_batch, y_batch, a_batch))


@quiet
def test_several_labels_of_each_image_and_texts() -> None:
    maps, labels = normal(4, 2, 8, 8, seed=6), torch.stack([Y, (Y + 1) % 4], dim=1)
    model = conv_net()
    found = pm.make_metric("soundness")(model, X, labels.numpy(), maps.numpy())
    assert np.array_equal(
        found, pm.evaluate(model, X, maps=maps, labels=labels)["maps"].values["soundness"].numpy()
    )
    net, x = classifier_of(TEXT), values(TEXT, 5)
    given = np.random.default_rng(0).random((5, TEXT.count))
    expected = pm.soundness(net, x, given, np.zeros(5, dtype=int))
    assert np.array_equal(
        pm.make_metric("soundness")(net, x, np.zeros(5, dtype=int), given), expected.numpy()
    )


def test_what_quantus_must_hand_over() -> None:
    with pytest.raises(
        pm.InputError, match="soundness needs x_batch, y_batch and a_batch: images, labels and"
    ):
        pm.make_metric("soundness")(conv_net(), X.numpy(), Y.numpy())


# ---- Captum's scores as ours -----------------------------------------------------------------------------------------------


class Sums(nn.Module):
    """Two labels: the sum of all values, and its negative."""

    def forward(self, x: Tensor) -> Tensor:
        total = x.flatten(1).sum(dim=1, keepdim=True)
        return torch.cat([total, -total], dim=1)


def test_infidelity_of_captum(captum: ModuleType) -> None:
    f, x = pm.Classifier(Sums(), size=8, mean=MEAN, std=STD), pixels(3, 8)
    # what hiding a position changes in the logit: nothing else is faithful
    exact = ((x - torch.tensor(MEAN).view(-1, 1, 1)) / torch.tensor(STD).view(-1, 1, 1)).sum(dim=1)
    maps = {"exact": exact, "scaled": 7 * exact, "other": normal(3, 8, 8)}
    found = pm.evaluate(f, x, maps=maps, labels=0, metrics="captum-infidelity")
    exact_, scaled, other = (found[name].values["captum-infidelity"] for name in maps)
    assert exact_.max() < 1e-4 and scaled.max() < 1e-4 and other.min() > 1
    alone = pm.evaluate(f, x[2:], maps=maps["other"][2:], labels=0, metrics="captum-infidelity")
    torch.testing.assert_close(alone["maps"].values["captum-infidelity"], other[2:])


def test_sensitivity_of_captum(captum: ModuleType) -> None:
    f, x = pm.Classifier(conv_net(), size=8, mean=MEAN, std=STD), pixels(3, 8)

    def steady(classifier: Any, images: Tensor, labels: Tensor) -> Tensor:
        return torch.arange(64.0).view(1, 1, 8, 8).expand(*labels.shape, 8, 8)

    def of_values(classifier: Any, images: Tensor, labels: Tensor) -> Tensor:
        return images.sum(dim=1, keepdim=True).expand(*labels.shape, 8, 8)

    found = pm.evaluate(
        f, x, methods={"steady": steady, "of_values": of_values}, labels="top1", metrics="captum-sensitivity"
    )
    assert found["steady"].values["captum-sensitivity"].tolist() == [0, 0, 0]
    moved = found["of_values"].values["captum-sensitivity"]
    assert (moved > 0).all() and (moved < 0.05).all()
    far = pm.evaluate(
        f, x, methods={"of_values": of_values}, labels="top1", metrics="captum-sensitivity:radius=0.2"
    )
    assert (far["of_values"].values["captum-sensitivity"] > moved).all()


# ---- objects on the user's own model ------------------------------------------------------------------------------------------


@quiet
def test_objects_on_the_own_model(captum: ModuleType, pytorch_grad_cam: ModuleType) -> None:
    IntegratedGradients, GradCAM = captum.IntegratedGradients, pytorch_grad_cam.GradCAM
    model = conv_net()
    layers = [model[2]]
    found = pm.evaluate(model, X, methods=[IntegratedGradients(model), GradCAM(model, layers)], labels="top2")
    labels, names = found.labels, ["IntegratedGradients", "GradCAM"]
    assert [result.name for result in found.results] == names
    by_hand = IntegratedGradients(model).attribute(X, target=labels[:, 0], baselines=torch.zeros(1, 3, 8, 8))
    torch.testing.assert_close(
        found["IntegratedGradients"].maps[:, 0], by_hand.sum(dim=1).float(), atol=1e-5, rtol=1e-4
    )
    targets = [pytorch_grad_cam.utils.model_targets.ClassifierOutputTarget(int(a)) for a in labels[:, 0]]
    by_hand = torch.from_numpy(GradCAM(model, layers)(X, targets))
    torch.testing.assert_close(found["GradCAM"].maps[:, 0], by_hand)


def test_objects_whose_model_takes_normalised_images(
    captum: ModuleType, pytorch_grad_cam: ModuleType
) -> None:
    model, x = conv_net(), pixels(3, 8)
    f = pm.Classifier(model, size=8, mean=MEAN, std=STD)
    objects = [captum.IntegratedGradients(model), pytorch_grad_cam.GradCAM(model, [model[2]])]
    found = pm.evaluate(f, x, methods=objects, labels="top2")
    specs = ["captum:IntegratedGradients", "pytorch-grad-cam:GradCAM(layer=2)"]
    same = pm.evaluate(f, x, methods=specs, labels="top2")
    for own, named in zip(found.results, same.results, strict=True):
        torch.testing.assert_close(own.maps, named.maps, atol=1e-4, rtol=1e-3)


@quiet
def test_the_own_model_and_the_object_stay_as_they_are(
    captum: ModuleType, pytorch_grad_cam: ModuleType
) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    cam, seen = pytorch_grad_cam.GradCAM(model, [model[2]]), []
    cam.activations_and_grads.activations = seen
    model.train()
    model(X).sum().backward()
    before = [t.clone() for t in (*model.state_dict().values(), model[0].weight.grad)]
    seen.clear()
    methods = {"cam": cam, "ig": captum.IntegratedGradients(model), "bound": captum.Saliency(model.forward)}
    found = pm.evaluate(model, X, methods={**methods, "gradient": "gradient"}, labels="top2")
    after = [*model.state_dict().values(), model[0].weight.grad]
    assert model.training and seen == [] and all(map(torch.equal, before, after))
    net = pm.Classifier(model, size=8).net
    assert not any(m._forward_hooks for m in net.modules()) and model[2]._forward_hooks
    with torch.no_grad():  # trained further
        model[-1].weight.mul_(-1)
    again = pm.evaluate(model, X, methods={"ig": methods["ig"]}, labels=found.labels)
    assert not torch.allclose(again["ig"].maps, found["ig"].maps)


# ---- methods of one's own ------------------------------------------------------------------------------------


NET, PIXELS = conv_classifier(8), pixels(4, 8)
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


def test_it_runs_where_the_caller_stands_in_no_grad() -> None:
    method = own_class()()
    usual = method(NET, PIXELS, "top2")
    for off in (torch.no_grad, torch.inference_mode):
        with off():
            assert torch.equal(method(NET, PIXELS, "top2"), usual)
            pm.evaluate(NET, PIXELS, methods=method, labels="top1", metrics="soundness")


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
    assert torch.equal(method(NET, PIXELS.numpy(), [0, 1]), method(NET, PIXELS, [0, 1]))
    assert torch.equal(method(NET, PIXELS), method(NET, PIXELS, NET.top(PIXELS, 1)))


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
