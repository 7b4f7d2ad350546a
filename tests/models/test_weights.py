"""Weights come from outside: they are read as tensors, whole, or not at all."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from proofmap.core.errors import ModelError
from proofmap.models.weights import load_into, load_state
from tests.data.made_up import Trap


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
