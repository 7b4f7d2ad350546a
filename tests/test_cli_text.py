"""Texts on the command line: ``explain --text``, ``evaluate --text-column`` and resumed runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from proofmap import cli
from proofmap.cli import make_app
from proofmap.cli.bench import ACTIONS
from proofmap.cli.lists import KINDS as LISTED
from proofmap.metrics.games import CURVES
from proofmap.metrics.scores import THRESHOLDS
from tests.command import invoke, run
from tests.review_net import NET


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net.py").write_text(NET, encoding="utf-8")
    (tmp_path / "reviews.csv").write_text(
        "review,mark\nA good film,good\nBad and long,bad\nGood songs but a bad plot and a bad end,bad\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_text_is_explained(folder: Path) -> None:
    code, text = invoke(
        "explain",
        "--text",
        "A good film",
        "--text",
        "Bad.",
        "--model",
        "net.py:make",
        "--labels",
        "all",
        "--quiet",
    )
    assert code == 0, text
    assert "text-0, maps by belief-order" in text and "text-1, maps by belief-order" in text
    assert (folder / "proofs" / "report.html").is_file()


def test_texts_of_a_column_are_explained(folder: Path) -> None:
    code, text = invoke(
        *("explain", "reviews.csv", "--text-column", "review", "--rows", "1", "--model", "net.py:make"),
        *("--labels", "all", "--method", "occlusion", "--quiet"),
    )
    assert code == 0, text
    assert "text-1, maps by occlusion" in text and "\nbad " in text


def test_a_run_on_a_column_of_texts_is_resumed(folder: Path) -> None:
    words = (
        *(
            "evaluate",
            "--data",
            "reviews.csv",
            "--text-column",
            "review",
            "--target",
            "mark",
            "--model",
            "net.py:make",
        ),
        *("--methods", "occlusion,random", "--metrics", "completeness,soundness", "--labels", "all"),
        *("--out", "run", "--no-pictures", "--quiet"),
    )
    code, text = invoke(*words)
    assert code == 0, text
    again = invoke(*words)
    assert again[0] == 0 and again[1].splitlines()[:4] == text.splitlines()[:4]


@pytest.mark.parametrize(
    "words, reason",
    [
        (
            ("explain", "--model", "net.py:make"),
            "name photos or a file to explain, or give a text with --text",
        ),
        (("explain", "reviews.csv", "--text", "a", "--model", "net.py:make"), "not both"),
        (("explain", "--text", " ", "--model", "net.py:make"), "is empty"),
        (
            ("explain", "--text", "a " * 13, "--model", "net.py:make"),
            "has 13 words, and at most 12 are taken",
        ),
        (("explain", "reviews.csv", "--text-column", "x", "--model", "net.py:make"), "has no column 'x'"),
        *(
            (
                (command, *place, option, "review", "--model", "net.py:make"),
                f"{option} ({key}=review) names a column of a table or of a file of texts; . is a folder of pictures and has no columns",
            )
            for command, place in (
                ("explain", (".",)),
                ("evaluate", ("--data", ".")),
                ("serve", ("--data", ".")),
            )
            for option, key in (("--text-column", "column"), ("--target", "target"))
        ),
    ],
)
def test_bad_input_is_refused_with_a_sentence(folder: Path, words: tuple[str, ...], reason: str) -> None:
    result = CliRunner().invoke(make_app(), list(words))
    assert reason in (result.output + str(result.exception))
    assert result.exit_code != 0
    assert not (folder / "proofs").exists()


# ---- The set of commands: few, known wherever one is named, and reachable from their earlier names --------------------


ROOT = Path(__file__).parents[1]
KINDS = {"list": LISTED, "bench": ACTIONS}
COMMANDS = {name for group in cli.COMMANDS.values() for name in group}


def test_there_are_at_most_15_commands_and_each_has_a_line_of_help() -> None:
    shown = [command for command in cli.make_app().registered_commands if not command.hidden]
    assert len(shown) <= 15 and {command.name for command in shown} == COMMANDS
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
