"""Methods of other libraries: the same maps as the library gives when it is called by hand."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import proofmap as pm
from proofmap.classifier import Classifier
from proofmap.core.errors import InputError, MissingExtra
from proofmap.core.inputs import Rows, Series
from proofmap.core.progress import Progress, ProgressTask
from proofmap.methods import FromObject, make_method, per_label
from proofmap.methods.adapters.captum import Captum
from proofmap.methods.adapters.library import NamedClass
from proofmap.methods.controls import Inverse
from proofmap.methods.from_function import FromFunction
from tests.sessions import bound
from tests.toys import MEAN, conv_classifier, conv_net, pixels

SIZE = (8, 10)
LABELS = torch.tensor([[2, 0, 1], [1, 3, 0]])


@pytest.fixture
def f() -> Classifier:
    return conv_classifier(SIZE)


@pytest.fixture
def images() -> Tensor:
    return pixels(2, SIZE)


def by_label(attribute: Callable[[Tensor], Any]) -> Tensor:
    return torch.stack([torch.as_tensor(attribute(column)).detach() for column in LABELS.T], dim=1)


def correlation(a: Tensor, b: Tensor) -> float:
    return float(torch.corrcoef(torch.stack([a.flatten().double(), b.flatten().double()]))[0, 1])


# ---- how they are written ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec, of, channels",
    [
        ("captum:Saliency", "Saliency", "sum"),
        ("captum:IntegratedGradients(n_steps=20)", "IntegratedGradients(n_steps=20)", "sum"),
        ("captum:IntegratedGradients:n_steps=20", "IntegratedGradients(n_steps=20)", "sum"),
        ("captum:Saliency,channels=max", "Saliency", "max"),
        (
            "captum:IntegratedGradients(n_steps=20,method='gausslegendre'),channels=mean",
            "IntegratedGradients(n_steps=20,method='gausslegendre')",
            "mean",
        ),
        ("captum:of=Saliency(abs=false),channels=max", "Saliency(abs=false)", "max"),
        ({"method": "captum", "of": "Saliency", "channels": "max"}, "Saliency", "max"),
        (
            "captum:Occlusion(sliding_window_shapes=(3, 2, 2))",
            "Occlusion(sliding_window_shapes=(3,2,2))",
            "sum",
        ),
    ],
)
def test_a_class_is_written_with_its_options(captum: ModuleType, spec: Any, of: str, channels: str) -> None:
    method = make_method(spec)
    assert method == Captum(of=of, channels=channels)  # type: ignore[arg-type]
    assert make_method(method.title()) == method
    assert method.settings() == {"method": "captum", "of": of, "channels": channels}


@pytest.mark.parametrize(
    "spec, told",
    [
        ("captum", "captum needs a class of the library, such as captum:IntegratedGradients"),
        ("captum:IntegratedGradient", "captum has no class 'IntegratedGradient' .*Did you mean 'IntegratedG"),
        ("captum:Sum", "captum has no class 'Sum' that makes maps"),
        ("captum:IntegratedGradients(steps=4)", "has no setting 'steps'. Did you mean 'n_steps'"),
        ("captum:Occlusion", r"captum's Occlusion needs sliding_window_shapes: write captum:Occlusion\("),
        ("captum:NeuronGradient", "captum's NeuronGradient needs neuron_selector"),
        ("captum:NoiseTunnel", "NoiseTunnel needs attribution_method"),
        ("captum:NoiseTunnel(attribution_method=Saliencies)", "no class 'Saliencies'"),
        ("captum:FeaturePermutation", "a map depends on the other images; use captum:FeatureAblation"),
        ("captum:Saliency(abs)", "'abs' in .* is not an option, KEY=VALUE"),
        ("captum:a b", "is not the name of a class"),
        ("pytorch-grad-cam:GradCam", "grad-cam has no class 'GradCam' .*Did you mean 'GradCAM"),
        ("pytorch-grad-cam:GuidedBackpropReLUModel", "grad-cam has no class 'GuidedBackpropReLUModel'"),
    ],
)
def test_what_a_library_does_not_have_is_told(
    captum: ModuleType, pytorch_grad_cam: ModuleType, spec: str, told: str
) -> None:
    with pytest.raises(InputError, match=told):
        make_method(spec)


@pytest.mark.parametrize(
    "spec, package",
    [("captum:Saliency", "captum"), ("pytorch-grad-cam:GradCAM", "grad-cam")],
)
def test_a_missing_package_is_named_with_its_extra(
    spec: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for root in ("captum", "pytorch_grad_cam"):
        for name in [name for name in sys.modules if name.split(".")[0] == root]:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Nothing(), *sys.meta_path])
    with pytest.raises(MissingExtra, match=rf"pip install 'proofmap\[{package}\]'"):
        make_method(spec)


class _Nothing:
    """Finds none of the libraries."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.split(".")[0] in ("captum", "pytorch_grad_cam"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.split(".")[0])


# ---- the same maps as by hand --------------------------------------------------------------------------------


def test_a_baseline_may_be_named_or_be_that_of_the_library(
    captum: ModuleType, f: Classifier, images: Tensor
) -> None:
    usual, gray, own, black = (
        make_method(f"captum:IntegratedGradients(n_steps=6{baseline})")(f, images, LABELS)
        for baseline in ("", ",baselines=gray", ",baselines=none", ",baselines=0")
    )
    torch.testing.assert_close(usual, gray)
    torch.testing.assert_close(own, black)
    assert not torch.allclose(black, gray)


# ---- baselines -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["IntegratedGradients", "DeepLift", "FeatureAblation", "GradientShap"])
def test_rows_that_are_not_centred_are_judged_as_by_our_own_baseline(captum: ModuleType, kind: str) -> None:
    columns = 6
    torch.manual_seed(0)
    net = nn.Linear(columns, 3)
    net.weight.data *= 5
    rows = Rows(columns=columns, mean=(50.0,) * columns, std=(5.0,) * columns)
    f = pm.Classifier(net, inputs=rows)
    x = 50 + 5 * torch.randn(20, columns)
    methods = [
        "integrated-gradients:steps=1",
        f"captum:{kind}",
        getattr(captum, kind)(f.as_module()),
        f"captum:{kind}(baselines=0)",
    ]
    labels = torch.arange(3).expand(20, 3)
    found = pm.evaluate(f, x, methods=methods, labels=labels, metrics=["completeness"], keep_maps=None)
    expected = net.weight.detach() * (x[:, None] - 50) / 5  # a linear net shares its logit out in one way
    ours, named, made, zero = found.results
    torch.testing.assert_close(ours.maps, expected, rtol=1e-3, atol=1e-3)
    for result in (named, made):
        if kind == "GradientShap":  # it draws points between the baseline and the input, with a little noise
            assert correlation(result.maps, expected) > 0.999
        else:
            torch.testing.assert_close(result.maps, expected, rtol=1e-3, atol=1e-3)
        assert result.settings["baselines"] == [50.0] * columns
        assert result.scores[0].value == pytest.approx(ours.scores[0].value, abs=0.01)
    assert zero.scores[0].value < ours.scores[0].value - 0.2 and "baselines" not in zero.settings


def test_segments_of_a_series_have_the_sum_of_their_time_steps(captum: ModuleType) -> None:
    inputs = Series(length=6, mean=(0.0, 0.0), std=(1.0, 1.0), segments=3)
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 2, bias=False))
    x, labels = torch.arange(12.0).view(1, 2, 6), torch.tensor([[1, 0]])
    maps = bound(make_method("captum:InputXGradient"), Classifier(net, inputs=inputs))(x, labels)
    for k, label in enumerate((1, 0)):
        terms = (net[1].weight[label].detach().view(2, 6) * x[0]).sum(dim=0)
        assert maps[0, k].tolist() == pytest.approx(
            [float(terms[t] + terms[t + 1]) for t in (0, 2, 4)], rel=1e-4
        )


@pytest.mark.filterwarnings("ignore::UserWarning")  # Captum's, where it is called by hand
def test_every_class_with_baselines_is_given_ours(captum: ModuleType, f: Classifier, images: Tensor) -> None:
    asked = {
        "Occlusion": {"sliding_window_shapes": (3, 4, 5)},
        "FeatureAblation": {"perturbations_per_eval": 64},
        "ShapleyValues": None,  # these two try orders of 240 values
        "ShapleyValueSampling": None,
        "KernelShap": {"n_samples": 4},
        "Lime": {"n_samples": 4},
    }
    gray = f.blank(2)
    tried = []
    for name in dir(captum):
        kind = getattr(captum, name)
        if not (
            isinstance(kind, type)
            and Captum.serves(kind)
            and "baselines" in NamedClass.parameters(kind.attribute)
        ):
            continue
        options = asked.get(name, {"n_steps": 3} if "n_steps" in signature(kind.attribute).parameters else {})
        if options is None or name.startswith("Neuron"):
            continue
        text = f"captum:{name}({','.join(f'{key}={value}' for key, value in options.items())})"
        method = make_method(text)
        found = method(f, images, LABELS)
        tried.append(name)
        if method.stochastic:
            assert found.isfinite().all()
            continue
        module = f.as_module()
        layer = (module.net[3],) if method.takes_layer() else ()  # type: ignore[index,attr-defined]
        by_hand = partial(kind(module, *layer).attribute, baselines=gray, **options)
        x = images.clone().requires_grad_()
        expected = torch.stack([by_hand(x, target=a).sum(dim=1) for a in LABELS.T], dim=1).detach()
        enlarged = F.interpolate(expected, size=SIZE, mode="bilinear", align_corners=False)
        torch.testing.assert_close(found, enlarged.float(), rtol=1e-3, atol=1e-5)
    assert len(tried) > 10


def test_a_class_around_another_has_the_baseline_of_the_inner_one(
    captum: ModuleType, f: Classifier, images: Tensor
) -> None:
    around = "captum:NoiseTunnel(attribution_method={},nt_samples=1,stdevs=0.0,n_steps=2)"
    usual = make_method(around.format("IntegratedGradients"))
    given = make_method(around.format("IntegratedGradients(baselines=gray)"))
    torch.testing.assert_close(usual(f, images, LABELS), given(f, images, LABELS))
    assert bound(usual, f).record()["baselines"] == pytest.approx(list(MEAN))
    assert "baselines" not in bound(given, f).record()
    tunnel = captum.NoiseTunnel(captum.IntegratedGradients(f.as_module()))
    options = {"nt_samples": 1, "stdevs": 0.0, "n_steps": 2}
    made = FromObject(of=tunnel, options=options)
    torch.testing.assert_close(made(f, images, LABELS), given(f, images, LABELS))
    assert "baselines" in bound(made, f).record()
    assert "baselines" not in bound(make_method("captum:Saliency"), f).record()


def test_layers_are_found_named_and_enlarged(captum: ModuleType, f: Classifier, images: Tensor) -> None:
    module = f.as_module()
    by_hand = captum.LayerGradCam(module, module.net[3])  # type: ignore[index]
    coarse = by_label(lambda a: by_hand.attribute(images.clone(), target=a)[:, 0])
    assert coarse.shape[2:] == (4, 5)
    expected = F.interpolate(coarse, size=SIZE, mode="bilinear", align_corners=False)
    for spec in ("captum:LayerGradCam", "captum:LayerGradCam(layer=3)", "captum:LayerGradCam(layer=net.3)"):
        torch.testing.assert_close(make_method(spec)(f, images, LABELS), expected)
    ready = bound(make_method("captum:LayerGradCam"), f)
    assert ready.record()["layer"] == "3" and str(ready.record()["library"]).startswith("captum 0.")
    with pytest.raises(InputError, match="no layer 'head'; its last layers are"):
        make_method("captum:LayerGradCam(layer=head)")(f, images, LABELS)


def test_grad_cam_is_the_same_in_every_library(
    captum: ModuleType, pytorch_grad_cam: ModuleType, f: Classifier, images: Tensor
) -> None:
    ours = make_method("grad-cam")(f, images, LABELS)
    relu = make_method("captum:LayerGradCam(relu_attributions=true)")
    with pytest.raises(InputError, match="has no setting"):
        make_method("captum:LayerGradCam(relu=true)")
    torch.testing.assert_close(relu(f, images, LABELS), ours)
    scaled = make_method("pytorch-grad-cam:GradCAM")(f, images, LABELS)
    for theirs, own in zip(scaled.flatten(0, 1), ours.flatten(0, 1), strict=True):  # each scaled to [0, 1]
        assert correlation(theirs, own) > 0.999 or own.max() == own.min()


@pytest.mark.parametrize("spec", ["FinerCAM", "RefineCAM(layer=1+3)", "FullGrad", "GradCAM(aug_smooth=true)"])
def test_cams_of_other_forms_work(
    pytorch_grad_cam: ModuleType, spec: str, f: Classifier, images: Tensor
) -> None:
    ready = bound(make_method(f"pytorch-grad-cam:{spec}"), f)
    maps = ready(images, LABELS)
    assert maps.shape == (2, 3, *SIZE) and maps.std() > 0
    torch.testing.assert_close(ready(images[1:], LABELS[1:]), maps[1:], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "spec, fact, expected",
    [
        ("pytorch-grad-cam:EigenCAM", "label_free", True),
        ("pytorch-grad-cam:GradCAM", "label_free", False),
        ("captum:LayerActivation", "label_free", True),
        ("captum:Saliency", "label_free", False),
        ("captum:IntegratedGradients", "signed", True),
        ("captum:Saliency", "signed", False),
        ("captum:NoiseTunnel(attribution_method=Saliency)", "signed", False),
        ("captum:Saliency(abs=false)", "signed", True),
        ("captum:NoiseTunnel(attribution_method=Saliency,abs=false)", "signed", True),
    ],
)
def test_facts_about_a_class_are_known(
    captum: ModuleType, pytorch_grad_cam: ModuleType, spec: str, fact: str, expected: bool
) -> None:
    assert getattr(make_method(spec), fact) is expected


def test_what_a_library_cannot_do_is_an_input_error_that_names_it(captum: ModuleType, images: Tensor) -> None:
    with pytest.raises(
        InputError, match=r"captum:LRP fails on this net: TypeError: Module of type .*Flatten"
    ):
        make_method("captum:LRP")(conv_classifier(SIZE), images, LABELS)


def test_bars_of_a_library_are_not_drawn_across_ours(
    pytorch_grad_cam: ModuleType, f: Classifier, images: Tensor, capfd: pytest.CaptureFixture[str]
) -> None:
    class Announced(Progress):
        def task(self, what: str, passes: int) -> ProgressTask:
            print(f"task {what}", file=sys.stderr)
            return super().task(what, passes)

    make_method("pytorch-grad-cam:ScoreCAM")(f, images, LABELS, progress=Announced())
    assert capfd.readouterr().err == "task pytorch-grad-cam:ScoreCAM\n"


# ---- objects -------------------------------------------------------------------------------------------------


def test_objects_of_the_libraries_are_methods(
    captum: ModuleType, pytorch_grad_cam: ModuleType, f: Classifier, images: Tensor
) -> None:
    cams = f.as_module()
    made = [
        captum.InputXGradient(f.as_module()),
        pytorch_grad_cam.GradCAM(cams, [cams.net[3]]),  # type: ignore[index]
    ]
    found = pm.evaluate(f, images, methods=made, labels=LABELS, metrics=["completeness"])
    assert [result.name for result in found.results] == ["InputXGradient", "GradCAM"]
    specs = "captum:InputXGradient", "pytorch-grad-cam:GradCAM"
    for result, spec in zip(found.results, specs, strict=True):
        torch.testing.assert_close(result.maps, make_method(spec)(f, images, LABELS))
    assert found.results[0].settings["library"] == bound(make_method(specs[0]), f).record()["library"]


def test_an_object_may_be_given_options(captum: ModuleType, f: Classifier, images: Tensor) -> None:
    method = FromObject(
        of=captum.Occlusion(f.as_module()), options={"sliding_window_shapes": (3, 2, 2)}, channels="mean"
    )
    assert method.signed and not method.stochastic and not method.label_free
    expected = make_method("captum:Occlusion(sliding_window_shapes=(3,2,2)),channels=mean")(f, images, LABELS)
    torch.testing.assert_close(method(f, images, LABELS), expected)


def test_a_record_tells_objects_apart(captum: ModuleType, f: Classifier) -> None:
    class Mine(captum.Saliency):  # type: ignore[name-defined,misc]
        pass

    module = f.as_module()
    plain, mine = (FromObject(of=kind(module)).settings() for kind in (captum.Saliency, Mine))
    assert "code" in mine and "code" not in plain and mine["method"] == "Mine"
    local = FromObject(
        of=captum.IntegratedGradients(module, multiply_by_inputs=False), options={"n_steps": 3}
    )
    assert (
        local.settings()
        != FromObject(of=captum.IntegratedGradients(module), options={"n_steps": 3}).settings()
    )
    assert local.settings()["options"] == {"n_steps": 3}


def test_an_object_made_for_another_net_is_refused(captum: ModuleType, f: Classifier, images: Tensor) -> None:
    bare = captum.Saliency(conv_net(seed=1))
    other = captum.Saliency(conv_classifier(SIZE, seed=1).as_module())
    for wrong in (bare, other):
        with pytest.raises(InputError, match=r"Make it with Saliency\(classifier.as_module\(\), ...\)"):
            make_method(wrong)(f, images, LABELS)
    for right in (f, lambda x: f.as_module()(x), lambda x: f(x).softmax(dim=1)):
        assert make_method(captum.Saliency(right))(f, images, LABELS).std() > 0


# ---- functions: arrays, coarse maps, one label at a time -------------------------------------------------------


def test_a_function_may_take_one_label_at_a_time(f: Classifier, images: Tensor, tmp_path: Path) -> None:
    """Known by the name of its parameter, or by what is said of it, also in a file."""

    def named(classifier: Classifier, images: Tensor, label: Tensor) -> Any:
        assert label.shape == (len(images),)
        return (images.mean(dim=1) ** (1 + label.view(-1, 1, 1))).numpy()

    def one(net: Classifier, x: Tensor, which: Tensor) -> Any:
        return named(net, x, which)

    (tmp_path / "mine.py").write_text(
        "import proofmap as pm\n\n\n@pm.per_label\ndef one(net, x, target):\n"
        "    return x.mean(dim=1) ** (1 + target.view(-1, 1, 1))\n"
    )
    in_a_file = make_method(f"{tmp_path}/mine.py:one")
    for method in (make_method(named), per_label(one), in_a_file):
        maps = method(f, images, LABELS)
        torch.testing.assert_close(maps, images.mean(dim=1, keepdim=True) ** (1 + LABELS[..., None, None]))
    assert per_label(one) == FromFunction(function=one, per_label=True) != make_method(one)
    assert per_label(one).settings() != make_method(one).settings() and in_a_file.title() == "one"


def test_a_function_gets_all_labels_in_the_order_of_the_outputs(f: Classifier, images: Tensor) -> None:
    by_class = torch.randn(2, 4, *SIZE, generator=torch.Generator().manual_seed(0))
    seen: list[Tensor] = []

    def shap_values(classifier: Classifier, images: Tensor, labels: Tensor) -> Tensor:
        seen.append(labels.clone())
        return by_class

    labels = f.choose_labels(images, "all")  # the most probable first
    assert labels.tolist() != [[0, 1, 2, 3]] * 2
    maps = make_method(shap_values)(f, images, labels)
    assert seen[0].tolist() == [[0, 1, 2, 3]] * 2
    assert torch.equal(maps, by_class[torch.arange(2)[:, None], labels])
    few = torch.tensor([[3, 1, -1, -1], [2, 0, 1, 3]])  # as p>=0.01 chooses them
    maps = make_method(shap_values)(f, images, few)
    assert torch.equal(maps[0, :2], by_class[0, [3, 1]]) and torch.equal(maps[1], by_class[1, few[1]])
    assert seen[-1].tolist() == [[0, 1, 2, 3]] * 2 and not maps[0, 2:].any()
    found = pm.evaluate(f, images, methods=[shap_values], labels="all", metrics=["insertion"]).results[0]
    named = pm.evaluate(f, images, methods=[shap_values], labels=[0, 1, 2, 3], metrics=["insertion"]).results[
        0
    ]
    torch.testing.assert_close(found.insertion.auc, named.insertion.auc.gather(1, labels))


def test_a_function_that_ignores_its_labels_is_refused_if_a_rule_chose_them(
    f: Classifier, images: Tensor
) -> None:
    calls: list[list[list[int]]] = []

    def planes(classifier: Classifier, images: Tensor, labels: Tensor) -> Tensor:
        calls.append(labels.tolist())
        return images[:, : labels.shape[1]]

    def judged(method: Any, labels: Any = "top3") -> None:
        pm.evaluate(f, images, methods=[method], labels=labels, metrics=["insertion"])

    top = f.choose_labels(images, "top3").tolist()
    told = (
        rf"the function .*planes does not use its labels: .* the labels {re.escape(str(top[0]))} and {re.escape(str(top[0][::-1]))} "
        r"of one image\. .* pm\.per_label\(.*planes\)"
    )
    for method in (planes, Inverse(of=FromFunction(function=planes))):
        with pytest.raises(InputError, match=told):
            judged(method)
        assert calls == [top[:1], [top[0][::-1]]], "one image, twice"
        calls.clear()
    judged(planes, [2, 0, 1])  # the user's order
    assert len(calls) == 1, "no call more"
    judged(planes, "top1")
    judged(pm.per_label(lambda net, x, label: x.mean(dim=1)))
    judged(lambda net, x, labels: x[:, :1].expand(-1, labels.shape[1], -1, -1))  # one map for all labels
    judged(lambda net, x, labels: torch.rand(*labels.shape, *SIZE))  # random
    judged(lambda net, x, labels: x[:, :1] * (1 + labels[:, :, None, None]))


def test_maps_of_the_other_form_are_refused_with_how_it_is_said(f: Classifier, images: Tensor) -> None:
    def one(net: Classifier, x: Tensor, which: Tensor) -> Any:
        return x.mean(dim=1)

    def all_at_once(net: Classifier, x: Tensor, label: Tensor) -> Any:
        return x.mean(dim=1, keepdim=True)

    with pytest.raises(
        InputError,
        match=r"returned maps \(2, 8, 10\), expected \(2, 3, 8, 10\); .* write pm.per_label\(.*one\)",
    ):
        make_method(one)(f, images, LABELS)
    with pytest.raises(
        InputError,
        match=r"one label at a time and returned maps \(2, 1, 8, 10\), expected \(2, 8, 10\); .*labels",
    ):
        make_method(all_at_once)(f, images, LABELS)


@pytest.mark.parametrize(
    "returned, told",
    [
        (None, "must return maps as a tensor or a NumPy array of numbers, not NoneType"),
        (np.zeros((2, 3, 9, 10)), r"returned maps \(2, 3, 9, 10\), expected \(2, 3, 8, 10\)"),
        (np.zeros((2, 8, 10)), r"returned maps \(2, 8, 10\), expected"),
        (np.zeros((2, 3, 8, 10), dtype=complex), "complex"),
        (np.full((2, 3, 2, 2), np.nan), "NaN"),
        (np.ma.masked_all((2, 3, 8, 10)), r"without masked entries, .* maps\.filled\(maps\.min\(\)\)"),
    ],
)
def test_maps_that_cannot_be_meant_are_refused(
    returned: Any, told: str, f: Classifier, images: Tensor
) -> None:
    with pytest.raises(InputError, match=told):
        make_method(lambda classifier, images, labels: returned)(f, images, LABELS)
