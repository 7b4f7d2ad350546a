"""The version is written in one place; files that repeat it agree, and every run stores it."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import proofmap as pm
from proofmap.core.version import source_version
from tests.study.studies import toy_study

ROOT = Path(__file__).parents[1]


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
