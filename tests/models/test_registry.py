"""Model strings: what is listed can be asked for, and what cannot be had is explained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from proofmap.core.errors import InputError, ModelError
from proofmap.core.text import distinct
from proofmap.models import DEFAULT_MODEL, ModelInfo, list_models, load_classifier, registry
from proofmap.models.names import label_names
from proofmap.models.resnets import CifarResNet
from proofmap.models.spec import ModelSpec

OWN = [info for info in list_models() if info.size is not None]


def _has_more_of_the_same_blocks(name: str) -> bool:
    few = ("cifar100-resnet20", "cifar100-resnet56")
    return name in few or name.endswith(("-lite1", "-lite2", "-resnet32", "-resnet44", "-resnet110"))


@pytest.mark.parametrize(
    "info",
    [
        pytest.param(
            info, marks=[pytest.mark.slow] if _has_more_of_the_same_blocks(info.name) else [], id=info.name
        )
        for info in OWN
    ],
)
def test_every_net_of_our_own_loads_with_random_weights(info: ModelInfo) -> None:
    f = load_classifier(f"{info.name}?pretrained=false", batch_size=1)
    assert f.size == (info.size, info.size)
    assert len(f.names) == (100 if "cifar100" in info.name else 10 if "cifar" in info.name else 1000)
    assert f.name == f"{info.name}?pretrained=false"


def test_the_list_names_the_default_and_every_hub() -> None:
    names = [info.name for info in list_models()]
    assert names[0] == DEFAULT_MODEL
    assert len(names) == len(set(names)) == 3 + 2 * 6 + 1 + 1 + 13
    assert {name.partition(":")[0] for name in names if ":" in name} == {
        "torchvision",
        "timm",
        "hf",
        "clip",
        "onnx",
        "xgboost",
        "sklearn",
        "hf-text",
        "hf-nli",
        "hf-lm",
        "FILE.py",
    }
    assert all("\n" not in info.description and info.description for info in list_models())


def test_random_weights_are_the_same_each_time_and_leave_the_generator_alone() -> None:
    torch.manual_seed(5)
    first = load_classifier("cifar10-resnet20", pretrained=False)
    drawn = torch.rand(3)
    second = load_classifier("cifar10-resnet20", pretrained=False)  # the generator stands elsewhere now
    assert first.fingerprint() == second.fingerprint()
    torch.manual_seed(5)
    assert torch.equal(torch.rand(3), drawn)


def test_a_weights_file_may_stand_in_the_string_or_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    save_file(CifarResNet(20).state_dict(), file)
    a = load_classifier(f"cifar10-resnet20@{file}")
    b = load_classifier("cifar10-resnet20", weights=file)
    assert a.name == b.name == "cifar10-resnet20@w.safetensors"
    assert (
        a.fingerprint()
        == b.fingerprint()
        != load_classifier("cifar10-resnet20?pretrained=false").fingerprint()
    )


def test_a_net_without_published_weights_asks_for_a_file() -> None:
    with pytest.raises(ModelError, match="cifar10-resnet56@FILE or weights=FILE"):
        load_classifier("cifar10-resnet56")


@pytest.mark.parametrize(
    "spec, told",
    [
        ("efficientnet-lite3", "no model 'efficientnet-lite3'. Did you mean .*'efficientnet-lite2'"),
        (
            "resnet50",
            "no model 'resnet50'. .*Nets of hubs need the hub's name: torchvision:resnet50 or timm:resnet50",
        ),
        ("tim:resnet50", "there is no hub 'tim'. Did you mean 'timm'"),
        ("cifar10_resnet56", "Did you mean .*'cifar10-resnet56'"),
    ],
)
def test_an_unknown_name_is_answered_with_close_ones(spec: str, told: str) -> None:
    with pytest.raises(ModelError, match=told):
        load_classifier(spec)


@pytest.mark.parametrize("spec", ["", "@file.pth", "timm:", "timm:a?weights=none", "net.py", "net.py:"])
def test_a_string_that_is_no_model_is_refused(spec: str) -> None:
    with pytest.raises(InputError, match="model '"):
        load_classifier(spec)


@pytest.mark.parametrize(
    "text, scheme, name, function",
    [
        ("timm:resnet50.a1_in1k", "timm", "resnet50.a1_in1k", ""),
        ("hf:google/vit-base-patch16-224", "hf", "google/vit-base-patch16-224", ""),
        ("a b/nets.py:make_it", "file", "a b/nets.py", "make_it"),
        (r"C:\nets\mine.py:make", "file", r"C:\nets\mine.py", "make"),
        ("efficientnet-lite1", "", "efficientnet-lite1", ""),
    ],
)
def test_a_string_comes_apart_as_written(text: str, scheme: str, name: str, function: str) -> None:
    spec = ModelSpec.parse(text)
    assert (spec.scheme, spec.name, spec.function) == (scheme, name, function)
    assert spec.pretrained
    assert spec.weights is None


def test_options_of_a_file_without_its_reader_say_who_reads_it() -> None:
    with pytest.raises(InputError, match=r"say who reads it: sklearn:m\.joblib\?pickle=true"):
        ModelSpec.parse("m.joblib?pickle=true")


def test_nets_are_installed_where_the_package_of_their_weights_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        registry, "find_spec", lambda name: None if name.startswith("efficientnet_lite1") else object()
    )
    names = {info.name for info in registry.installed_models()}
    assert {"efficientnet-lite0", "efficientnet-lite2"} <= names
    assert not names & {"efficientnet-lite1", "cifar10-resnet56", "timm:NAME"}


# ---- label names ----


def test_every_name_occurs_once_whatever_the_case() -> None:
    for dataset, count in (("cifar10", 10), ("cifar100", 100), ("imagenet", 1000)):
        names = label_names(dataset)  # type: ignore[arg-type]
        assert len(names) == len({name.lower() for name in names}) == count


def test_names_that_two_classes_share_carry_a_gloss() -> None:
    glossed = {index: name for index, name in enumerate(label_names("imagenet")) if name.endswith(")")}
    assert glossed == {
        134: "crane (bird)",
        264: "Cardigan (dog)",
        474: "cardigan (garment)",
        517: "crane (machine)",
        638: "maillot (tights)",
        639: "maillot (tank suit)",
    }


def test_imagenet_names_follow_the_usual_order(data: Path) -> None:
    published = json.loads((data / "imagenet_classes.json").read_text())
    plain = [name.rpartition(" (")[0] or name for name in label_names("imagenet")]
    assert plain == [published[str(index)][1].replace("_", " ") for index in range(1000)]


def test_distinct_changes_only_what_is_shared() -> None:
    assert distinct(["a", "B", "b", "c"]) == ("a", "B (1)", "b (2)", "c")
