"""The recipe of the page on pipelines, run with two nets: it passes with one as good as before, and fails with a worse one."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from proofmap.cli import make_app
from tests.docs.pages import DOCS, blocks, commands, write_photos

PAGE = DOCS / "how-to" / "pipeline.md"
NET = """
import torch
import proofmap as pm


def net(sharp):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.AvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(48, 4))
    torch.nn.init.normal_(net[-1].weight, std=sharp)
    return pm.Classifier(net.eval(), size=16, names=["cat", "dog", "cup", "rocket"])


def yesterday():
    return net(0.5)


def today():
    return net({today})
"""


@pytest.mark.parametrize("today, code", [(0.5, 0), (0.01, 1)], ids=["as good", "worse"])
def test_the_recipe_stops_a_net_that_got_worse_and_no_other(
    today: float, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_photos(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(NET.format(today=today))
    (study,) = [block for block in blocks(PAGE) if block.title == "study.toml"]
    (tmp_path / study.title).write_text(study.code)
    (recipe,) = [block for block in blocks(PAGE) if block.comment == "recipe"]
    *before, last = commands(recipe)
    for line in before:
        result = CliRunner().invoke(make_app(), shlex.split(line)[1:])
        assert result.exit_code == 0, f"{line}\n{result.output}{result.exception or ''}"
    audit = CliRunner().invoke(make_app(), shlex.split(last)[1:])
    assert audit.exit_code == code, f"{audit.output}{audit.exception or ''}"
    assert ("fails: worse by" in audit.output) == bool(code)


def test_the_file_for_github_actions_is_one() -> None:
    """It is where GitHub looks, its job has a machine, and each step is an action or a command."""
    (block,) = [block for block in blocks(PAGE) if block.language == "yaml"]
    assert Path(block.title).parent == Path(".github/workflows")
    assert re.findall(r"^(\w+):", block.code, re.MULTILINE) == ["name", "on", "jobs"]
    assert re.findall(r"^    ([\w-]+):", block.code, re.MULTILINE) == ["runs-on", "steps"]
    steps = re.findall(r"^      - (\w+):", block.code, re.MULTILINE)
    assert {*steps} == {"uses"} and "- uses: actions/checkout" in block.code
    assert {*re.findall(r"^        (\w+):", block.code, re.MULTILINE)} <= {"with", "if"}
