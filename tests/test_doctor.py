"""``proofmap doctor``: what is installed, missing and broken, each with what to do."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from proofmap.cli import doctor
from tests.command import run

BROKEN = 'raise RuntimeError("operator torchvision::nms does not exist")'


def install(folder: Path, name: str, code: str = "") -> None:
    """A package as pip would leave it in a folder."""
    (folder / f"{name}.py").write_text(code)
    about = folder / f"{name}-1.5.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for packages, in which two are installed."""
    monkeypatch.syspath_prepend(str(tmp_path))
    real = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "torchvision"}
    install(tmp_path, "imports_it")
    install(tmp_path, "may_import_it")
    (tmp_path / "only_a_folder").mkdir()
    packages = {"imports_it": "timm", "may_import_it": "captum", "only_a_folder": "hf", "not_there": "hf"}
    optional = [
        doctor.OptionalPackage("torchvision", "torchvision", "torchvision", "nets torchvision:NAME"),
        *(doctor.OptionalPackage(name, name, extra, f"use of {name}") for name, extra in packages.items()),
    ]
    monkeypatch.setattr(doctor, "OPTIONAL", optional)
    yield tmp_path
    sys.modules.pop("torchvision", None)  # the one of this test: others import the real one
    sys.modules.update(real)


def states(found: dict[str, list[dict[str, str]]]) -> dict[str, str]:
    return {item["package"]: item["state"] for item in found["optional"]}


def test_the_report_says_what_is_installed_and_what_to_do(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(site, "torchvision", BROKEN)
    assert run(monkeypatch, "doctor") == 0
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert any(line.split() == ["torch", torch.__version__] for line in lines)
    rows = [" ".join(line.split()) for line in lines]
    assert "installed may_import_it 1.5 use of may_import_it" in rows
    assert "missing not_there use of not_there: pip install 'proofmap[hf]'" in rows
    assert text.count("torchvision::nms") == 1
    assert "install a torchvision built for this torch" in " ".join(lines)


def test_a_broken_torchvision_is_a_problem(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(site, "torchvision", BROKEN)
    assert run(monkeypatch, "doctor", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert states(found) == {
        "torchvision": "broken",
        "imports_it": "installed",
        "may_import_it": "installed",
        "only_a_folder": "missing",
        "not_there": "missing",
    }
    [problem] = found["problems"]
    assert problem.startswith(f"torchvision 1.5 cannot be imported with torch {torch.__version__}: operator")
    assert problem.endswith("Packages that import torchvision fail with it.")
    assert found["torch"] == torch.__version__ and found["threads"] == torch.get_num_threads()


def test_a_torchvision_that_works_is_no_problem(site: Path) -> None:
    install(site, "torchvision")
    found = doctor.diagnosis()
    assert states(found)["torchvision"] == states(found)["imports_it"] == "installed"
    assert not found["problems"]


def test_a_device_on_which_no_net_runs_is_a_problem(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unsupported(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("no kernel image is available")

    install(site, "torchvision")
    monkeypatch.setattr(doctor, "load_classifier", lambda *_, **__: SimpleNamespace(net=Unsupported()))
    found = doctor.diagnosis()
    [problem] = found["problems"]
    assert problem.startswith("A small net does not run on the device ")
    assert "no kernel image is available. Install a torch built for this device" in problem
    assert found["pass_ms"] is None and "one pass     failed" in doctor.as_text(found)


def test_every_extra_for_users_is_looked_up_with_all_its_packages() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    extras, twice = project["optional-dependencies"], {"matplotlib", "scikit-learn"}  # in two extras
    for extra in {*extras} - {"oracles", "browser", "docs", "dev"}:
        wanted = {entry.partition(">")[0] for entry in extras[extra]} - twice
        looked_up = {item.package for item in doctor.OPTIONAL if item.extra == extra} - twice
        assert looked_up == wanted, extra


@pytest.mark.parametrize("command", [["doctor"], ["list", "methods"]])
def test_a_missing_pytorch_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    """The first command imports it at once, the second when it runs."""
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [name for name in sys.modules if name.startswith("proofmap.")]:
        if name.split(".")[1] in ("methods", "classifier") or name == "proofmap.cli.doctor":
            monkeypatch.delitem(sys.modules, name)
    assert run(monkeypatch, *command) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: PyTorch cannot be imported (import of torch halted") and "pip" in told
