"""The studies that train nets: what is removed, what is planted, and a whole run on made-up data."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

STUDIES = Path(__file__).parents[2] / "benchmarks" / "studies"


@pytest.fixture
def studies(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    monkeypatch.syspath_prepend(str(STUDIES))
    names = ("cifar_training", "roar", "planted_evidence", "shuffled_labels")
    found = {name: __import__(name) for name in names}
    for name in names:
        sys.modules.pop(name)
    return found


def made_up(folder: Path, n: int = 40) -> Path:
    """CIFAR-10 of two labels that brightness tells apart."""
    folder.mkdir()
    random = np.random.default_rng(0)
    for name in ("data_batch_1", "test_batch"):
        labels = np.arange(n) % 2
        pixels = random.integers(0, 90, (n, 3072)) + 160 * labels[:, None]
        content = {b"data": pixels.astype(np.uint8), b"labels": labels.tolist()}
        (folder / name).write_bytes(pickle.dumps(content, protocol=4))
    return folder


def test_the_first_share_of_pixels_is_removed(studies: dict[str, ModuleType]) -> None:
    x = torch.rand(2, 3, 32, 32)
    ranks = torch.arange(1024).flip(0).expand(2, -1)  # the last pixels come first
    found = studies["roar"].removed(x, ranks, 0.25)
    assert torch.equal(found[..., :24, :], x[..., :24, :])
    colour = x.mean(dim=(0, 2, 3)).view(1, 3, 1, 1).expand(2, 3, 8, 32)
    torch.testing.assert_close(found[..., 24:, :], colour)


def test_the_trigger_is_where_it_is_said_to_be(studies: dict[str, ModuleType]) -> None:
    x = torch.full((5, 3, 32, 32), 0.3)
    found, where = studies["planted_evidence"].with_trigger(x, seed=0)
    assert where.flatten(1).sum(dim=1).tolist() == [16] * 5
    assert torch.equal((found != x).any(dim=1, keepdim=True), where)


def test_roar_says_what_is_lost_and_that_it_is_extrinsic(
    studies: dict[str, ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data, out = made_up(tmp_path / "cifar", 20), tmp_path / "roar.json"
    given = ["--data", str(data), "--out", str(out), "--width", "4", "--epochs", "1"]
    given += ["--shares", "0.5", "--methods", "edges", "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", ["roar.py", *given])
    studies["roar"].main()
    told = capsys.readouterr().out
    assert "extrinsic" in told and "loss beyond random" in told
    found = json.loads(out.read_text())
    assert list(found["accuracy"]) == ["random", "edges"] and found["shares"] == [0.5]


def test_maps_of_a_net_with_shuffled_labels_are_others_and_edges_stay_as_they_are(
    studies: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = made_up(tmp_path / "cifar", 16), tmp_path / "shuffled.json"
    given = ["--data", str(data), "--out", str(out), "--width", "2", "--epochs", "2", "--images", "2"]
    given += ["--methods", "gradient,edges", "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", ["shuffled_labels.py", *given])
    studies["shuffled_labels"].main()
    found = json.loads(out.read_text())
    ranks = {
        (line["method"], line["order"]): line["value"] for line in found["rows"] if line["score"] == "rank"
    }
    assert ranks["edges", "labels"] == pytest.approx(1.0) and ranks["gradient", "labels"] < 0.9
    assert ranks["edges", "other image"] < 0.9
