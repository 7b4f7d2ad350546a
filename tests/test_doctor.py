"""``proofmap doctor``: what works, what is missing and what is broken, each with what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from proofmap.cli import doctor
from tests.command import run

BROKEN = 'raise RuntimeError("operator torchvision::nms does not exist")'


@pytest.fixture(autouse=True)
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three packages in place of the real ones, which take seconds to import: one works, one breaks, one is not there."""
    (tmp_path / "works_well.py").write_text("")
    (tmp_path / "built_for_another_torch.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(str(tmp_path))
    features = {
        "works_well": ("ray", "clusters"),
        "built_for_another_torch": ("torchvision", "nets torchvision:NAME"),
        "not_there_at_all": ("timm", "nets timm:NAME"),
    }
    monkeypatch.setattr(doctor, "FEATURES", features)


def test_the_report_says_what_works_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "doctor") == 0
    lines = capsys.readouterr().out.splitlines()
    states = {
        line.split()[1]: line.split()[0] for line in lines if line.startswith(("works", "broken", "missing"))
    }
    assert states == {
        "works_well": "works",
        "built_for_another_torch": "broken",
        "not_there_at_all": "missing",
    }
    assert any(line.split() == ["torch", torch.__version__] for line in lines)
    assert "To install what is missing: pip install 'proofmap[timm]'" in lines
    told = lines[-1]
    assert "torchvision::nms" in told and "torch and torchvision do not match" in told
    assert all(len(line) <= 80 for line in lines[:-1])


def test_the_same_for_machines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "doctor", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [item["state"] for item in found["optional"]] == ["works", "broken", "missing"]
    assert found["optional"][2]["extra"] == "timm" and "proofmap[timm]" in found["optional"][2]["problem"]
    assert found["packages"]["torch"] == torch.__version__ and found["devices"][0] == "cpu"
    assert found["threads"] == torch.get_num_threads()


def test_one_pass_is_measured() -> None:
    times = iter([10.0, 10.25])
    assert doctor.diagnosis(clock=lambda: next(times))["pass_ms"] == 250


def test_every_extra_that_people_install_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    import tomllib

    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    extras = {*project["optional-dependencies"]} - {"oracles", "browser", "docs", "dev", "models"}
    assert {extra for extra, _ in doctor.FEATURES.values()} == extras
