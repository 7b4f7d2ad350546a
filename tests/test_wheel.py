"""The wheel has all that it needs, and the version is written in one place."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import site
import subprocess
import sys
import tomllib
import urllib.request
import venv
import zipfile
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import numpy as np
import pytest
from packaging.specifiers import SpecifierSet
from PIL import Image

import proofmap as pm
from proofmap.core.version import __version__, source_version
from tests.study.studies import toy_study

pytest.importorskip("hatchling", reason="hatchling builds the wheel")

ROOT = Path(__file__).parents[1]
LIMIT = 9_000_000
"""The largest size of a wheel, in bytes. Larger weights belong into a package of their own."""
NET = """
import torch
import proofmap as pm

def make():
    torch.manual_seed(0)
    return pm.Classifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 4)), size=4, batch_size=8)
"""
COMMANDS = """
import sys
import proofmap as pm
from proofmap.cli import main

assert pm.__file__.startswith(sys.prefix), pm.__file__
for line in sys.stdin.read().splitlines():
    sys.argv = ["proofmap", *line.split()]
    try:
        main()
    except SystemExit as stop:
        assert not stop.code, (line, stop.code)
"""
"""Several commands in one process: torch is imported once."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("dist"))


def built(folder: Path) -> Path:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (made,) = folder.iterdir()
    return made


def _description(wheel: Path) -> str:
    """The file METADATA: names and values, then the description."""
    (name,) = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith("/METADATA")]
    return zipfile.ZipFile(wheel).read(name).decode("utf-8")


class Environment:
    """A new environment with the wheel, in a folder with two photos and a tiny net."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        """Other packages are taken from the environment of this process."""
        self.folder, self.bin = folder, folder / "env" / ("Scripts" if os.name == "nt" else "bin")
        venv.create(folder / "env", with_pip=False)
        pip = [
            sys.executable,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "--python",
            str(self.bin / "python"),
        ]
        pip += ["install", "-qq", "--no-compile"]
        pip += ["--no-deps", "--no-index", str(wheel)]
        (packages,) = (folder / "env").glob("lib/python*/site-packages")
        # Lines of a path file only extend sys.path: the .pth of the editable checkout is not read.
        (packages / "borrowed.pth").write_text("\n".join(site.getsitepackages()), encoding="utf-8")
        self.settings = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PROOFMAP"))}
        self._run(pip)
        (folder / "net.py").write_text(NET, encoding="utf-8")
        (folder / "photos").mkdir()
        for k, photo in enumerate(np.random.default_rng(0).integers(0, 256, (2, 6, 6, 3), dtype=np.uint8)):
            Image.fromarray(photo).save(folder / "photos" / f"{k}.png")

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.settings,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def command(self, *arguments: str) -> str:
        """What one command prints, by the script that pip installs."""
        return self._run([str(self.bin / "proofmap"), *arguments])

    def commands(self, *lines: str) -> tuple[str, list[str]]:
        """What several commands print, in one process, and the answers of the last one, ``serve``, to a browser and to a program."""
        log = self.folder / "log.txt"
        with (
            log.open("w") as errors,
            subprocess.Popen(
                [str(self.bin / "python"), "-u", "-c", COMMANDS],
                cwd=self.folder,
                env=self.settings,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            ) as process,
        ):
            process.stdin.write("\n".join(lines))
            process.stdin.close()
            printed = ""
            while "Proofmap is at" not in printed:
                line = process.stdout.readline()
                assert line, f"{printed}\n{log.read_text()}"
                printed += line
            try:
                return printed, [
                    urllib.request.urlopen(printed.split()[-1] + place, timeout=600).read().decode("utf-8")
                    for place in ("", "api/about", "idea")
                ]
            finally:
                process.send_signal(signal.SIGINT)
                process.wait(timeout=600)


def test_it_has_every_file_of_the_package_and_is_small(wheel: Path) -> None:
    assert wheel.name == f"proofmap-{__version__}-py3-none-any.whl" and wheel.stat().st_size < LIMIT
    packed = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    tracked = [path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    needed = {path.relative_to(source).as_posix() for path in tracked}
    assert {name for name in packed if ".dist-info/" not in name} == needed
    licences = f"proofmap-{__version__}.dist-info/licenses/"
    assert {licences + "LICENSE", licences + "NOTICE"} <= packed


def test_the_notice_names_the_origin_of_every_file_that_is_not_code(wheel: Path) -> None:
    text = (ROOT / "NOTICE").read_text(encoding="utf-8")
    groups = re.findall(r"(proofmap/\S*)\{(\S+)\}(\S*)", text)
    named = {f"{a}{name}{z}" for a, names, z in groups for name in names.split(",")}
    code = (".py", ".py.typed", ".toml", ".js", ".css", ".html", "py.typed")
    data = [
        name
        for name in zipfile.ZipFile(wheel).namelist()
        if ".dist-info/" not in name and not name.endswith(code)
    ]
    assert [name for name in data if name not in named and name not in text] == []
    assert len(data) >= 6


def test_its_description_has_no_link_that_is_dead_on_a_package_index(wheel: Path) -> None:
    text = _description(wheel).split("\n\n", 1)[1]
    assert re.findall(r"\]\((?!https?:)[^)]*\)", text) == [] and "docs/" not in text
    assert "any function" in text and "pip install" in text


def test_with_the_address_of_the_repository_its_description_links_and_shows_files_that_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROOFMAP_REPOSITORY", "https://host.example/us/proofmap/")
    text = _description(built(tmp_path))
    assert "Project-URL: Repository, https://host.example/us/proofmap\n" in text
    assert re.findall(r"\]\((?!https?:)[^)]*\)", text) == []
    at = r"(?:\]\(|src=\"|srcset=\")https://host\.example/us/proofmap/(raw|blob)/v([^/]+)/([^)#\"]+)"
    found = re.findall(at, text)
    assert {version for _, version, _ in found} == {__version__}
    assert [path for _, _, path in found if not (ROOT / path).is_file()] == []
    pictures = [path for kind, _, path in found if kind == "raw"]
    assert pictures and all(path.endswith(".png") for path in pictures)


def test_the_script_of_extras_knows_a_feature_of_each() -> None:
    spec = importlib.util.spec_from_file_location("extras", ROOT / "benchmarks" / "attacks" / "extras.py")
    extras = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(extras)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {*extras.FEATURES, *extras.NOT_FEATURES} == project["optional-dependencies"].keys()


@pytest.mark.slow
def test_its_commands_run_without_the_repository(wheel: Path, tmp_path: Path) -> None:
    away = Environment(tmp_path, wheel)
    assert away.command("--version").strip() == f"proofmap {source_version()}", "the same source"
    printed, (page, about, idea) = away.commands(
        "list methods",
        "list recipes",
        "list methods phang-masker",
        "evaluate --model net.py:make --data photos --methods gradient,random --labels top2 --out run -q",
        "report run --out page.html",
        "serve --port 0 --no-browser --model net.py:make",
    )
    assert "belief-mask" in printed and "imagenette-corner" in printed
    assert (tmp_path / "page.html").stat().st_size > 50_000
    assert "<html" in page and f'"version":"{__version__}"' in about and "<html" in idea


# ---- the version ---------------------------------------------------------------------------------------------


def test_the_build_reads_the_version_from_the_code() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in settings["project"]["dynamic"] and "version" not in settings["project"]
    file = ROOT / settings["tool"]["hatch"]["version"]["path"]
    assert re.findall(r'^__version__ = "(.+)"$', file.read_text(encoding="utf-8"), re.MULTILINE) == [
        pm.__version__
    ]


def test_the_citation_and_the_changelog_have_this_version() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (\S+)$", citation, re.MULTILINE) == [pm.__version__]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", changelog, re.MULTILINE)[0] == pm.__version__


def test_the_changelog_stays_short_enough_to_read() -> None:
    assert len((ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()) < 120


def test_a_run_stores_the_version_and_the_digest_of_the_source(tmp_path: Path) -> None:
    pm.run_study(toy_study(tmp_path, 1, methods=["random"]), tmp_path / "run", threads=1)
    manifest = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    (made_with,) = manifest["environments"]
    assert made_with["proofmap"] == source_version()
    assert re.fullmatch(rf"{re.escape(pm.__version__)}\+src\.[0-9a-f]{{8}}", made_with["proofmap"])


# ---- versions of others --------------------------------------------------------------------------------------


OLDEST = "3.11.2"
"""Debian's Python 3.11."""


def test_every_pinned_version_is_one_for_the_oldest_python() -> None:
    text = (Path(__file__).parents[1] / "constraints.txt").read_text(encoding="utf-8")
    pinned = re.findall(r"^([\w.-]+)==(\S+)$", text, re.MULTILINE)
    checked, refused = 0, {}
    for name, version in pinned:
        try:
            told = metadata(name)
        except PackageNotFoundError:  # for another system
            continue
        if told["Version"].partition("+")[0] == version:
            checked += 1
            wanted = told.get("Requires-Python")
            if wanted and OLDEST not in SpecifierSet(wanted):
                refused[name] = wanted
    assert not refused and checked > len(pinned) / 2 > 50
