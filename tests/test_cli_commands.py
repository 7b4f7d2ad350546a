"""The set of commands: few, known wherever one is named, and reachable from their earlier names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from proofmap import cli
from proofmap.cli.bench import ACTIONS
from proofmap.cli.lists import KINDS as LISTED
from proofmap.metrics.games import CURVES
from proofmap.metrics.scores import THRESHOLDS
from tests.command import run

ROOT = Path(__file__).parents[1]
KINDS = {"list": LISTED, "bench": ACTIONS}
COMMANDS = {name for group in cli.COMMANDS.values() for name in group}


def test_there_are_at_most_14_commands_and_each_has_a_line_of_help() -> None:
    shown = [command for command in cli.make_app().registered_commands if not command.hidden]
    assert len(shown) <= 14 and {command.name for command in shown} == COMMANDS
    assert all(str(command.help).endswith(".") and "\n" not in str(command.help) for command in shown)


def test_every_command_that_a_text_names_exists() -> None:
    """Docstrings, messages, recipes, pages: ``proofmap WORD`` names a command, and its kind is one."""
    texts = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*")]
    read = [path for path in texts if path.suffix in (".py", ".md", ".toml", ".html")]
    for path in read:
        text = path.read_text(encoding="utf-8")
        found = re.findall(r"(?<!import )(?<!importing )proofmap ([a-z][a-z-]*)(?: ([a-z-]+))?", text)
        for command, kind in found:
            assert command in COMMANDS, (path, command)
            assert kind in KINDS.get(command, [kind]) or not kind, (path, command, kind)
    assert len(read) > 300


def test_every_option_that_the_source_names_exists() -> None:
    commands: Any = typer.main.get_command(cli.make_app())
    options = {
        option
        for command in [commands, *commands.commands.values()]
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    for path in ROOT.glob("src/**/*.py"):
        named = {*re.findall(r"(?<![\w-])--[a-z][a-z-]+", path.read_text(encoding="utf-8"))}
        assert named <= {*options, "--help"}, path


def test_the_help_of_an_option_names_every_choice() -> None:
    commands: Any = typer.main.get_command(cli.make_app())

    def help_of(command: str, option: str) -> str:
        (found,) = [p for p in commands.commands[command].params if option in p.opts]
        return str(found.help)

    for command in ("explain", "evaluate"):
        assert help_of(command, "--curve").endswith(f": {', '.join(CURVES)}.")
        assert all(name in help_of(command, "--thresholds") for name in THRESHOLDS)


def test_the_help_of_evaluate_fits_on_two_screens_and_all_options_are_shown_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(monkeypatch, "evaluate", "--help") == 0
    short = capsys.readouterr().out
    assert len(short.splitlines()) <= 100 and "--help-all" in short and "--images-per-unit" not in short
    assert run(monkeypatch, "evaluate", "--help-all") == 0
    assert "Rarely used options" in (every := capsys.readouterr().out) and "--images-per-unit" in every


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("list", "method"), "Did you mean 'methods'?"),
        (("list", "models", "efficientnet"), "no model is named 'efficientnet'. Did you mean"),
        (("list", "recipes", "desc"), "Did you mean 'desk'?"),
        (("sanity",), "no data was named"),
        (("sanity", "--axioms", "--format", "csv"), "--axioms prints a table or json, not csv"),
    ],
)
def test_a_kind_refuses_what_it_cannot_take(
    arguments: tuple[str, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(monkeypatch, *arguments) == 2
    assert message in " ".join(capsys.readouterr().err.replace("\u2502", " ").split())


def test_every_kind_can_be_listed_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "list") == 0
    assert ", ".join(LISTED) in capsys.readouterr().out
    for kind in ("methods", "models", "fills", "games", "datasets", "figures", "recipes"):
        assert run(monkeypatch, "list", kind, "--json") == 0
        names = [record["name"] for record in json.loads(capsys.readouterr().out)]
        assert run(monkeypatch, "list", kind, names[0], "--json") == 0
        assert [record["name"] for record in json.loads(capsys.readouterr().out)] == names[:1]
        assert run(monkeypatch, "list", kind) == 0
        assert "None" not in capsys.readouterr().out
