"""What a terminal is shown: no name fools it, and progress comes in lines."""

from __future__ import annotations

import ast
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from proofmap import cli
from proofmap.cli import console
from proofmap.cli.console import Lines, SafeConsole, print_result, progress_for
from proofmap.core.progress import Progress
from proofmap.core.text import csv_lines, one_line, terminal_text
from proofmap.study.watchers import Status, watchers_for
from tests.command import run

EVIL = "cat\x1b]0;owned\x07\x1b[31m\x9b2J\rdog\u202etxt\u2066\u2069"
OBEYED = "\x1b\x07\x9b\r\u202e\u2066\u2069"

NET = f"""
import torch
import proofmap as pm

def evil():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 64, 3))
    return pm.Classifier(net, size=8, names=[{EVIL!r}, "dog", "[red]cup[/] :cat:"])
"""


def assert_safe(text: str) -> None:
    assert not [c for c in text if c in OBEYED], ascii(text)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A net whose label, and a photo whose name, are made to fool a terminal."""
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "photos").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photos" / f"{EVIL}.png")
    (tmp_path / "photos" / f"broken{EVIL}.png").write_bytes(b"nothing")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_a_terminal_obeys_is_spelled_out_and_lines_stay() -> None:
    assert terminal_text("a\x1b[31m\tb\nc\x07\u202e") == "a\\x1b[31m\tb\nc\\x07\\u202e"
    assert terminal_text("straße 猫 🐈 \u200d ↑") == "straße 猫 🐈 \u200d ↑"
    assert_safe(terminal_text(EVIL))
    assert_safe(one_line(EVIL))


@pytest.mark.parametrize("format", ["table", "md", "csv", "json", "latex"])
def test_no_name_fools_the_terminal_in_evaluate(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], format: str
) -> None:
    flags = ("--data", "photos", "--model", "net.py:evil", "--methods", "gradient", "--format", format)
    assert run(monkeypatch, "evaluate", *flags, "--no-pictures", "--device", "cpu") == 3, "one is broken"
    printed = capsys.readouterr()
    assert "broken" in printed.err
    assert_safe(printed.out)
    assert_safe(printed.err)


def test_no_name_fools_the_terminal_in_explain_nor_the_page(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--model", "net.py:evil", "--method", "gradient", "--labels", "all", "--device", "cpu")
    assert run(monkeypatch, "explain", "photos", *flags) == 3
    printed = capsys.readouterr()
    assert "[red]cup[/] :cat: " in printed.out
    for text in (printed.out, printed.err):
        assert_safe(text)
    assert run(monkeypatch, "explain", "photos", *flags, "--labels", f"no {EVIL}") == 2
    assert_safe(capsys.readouterr().err)


def test_csv_keeps_a_name_in_its_cell_and_runs_no_formula() -> None:
    lines = list(csv_lines([["=1+1", "a\rb", EVIL]]))
    assert len(lines) == 1 and lines[0].startswith('\'=1+1,"a\rb"')


@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
def test_consoles_print_messages_and_progress_as_they_are_read(terminal: bool) -> None:
    stream = io.StringIO()
    console = SafeConsole(file=stream, force_terminal=terminal, color_system=None, width=300)
    console.print(f"failed: {EVIL} [red]x[/] :cat:")
    assert "[red]x[/] :cat:" in stream.getvalue()
    assert_safe(stream.getvalue())


def test_progress_on_a_terminal_shows_names_as_they_are_read() -> None:
    stream = io.StringIO()
    console = SafeConsole(file=stream, force_terminal=True, color_system=None, width=300)
    with Lines(console).task(f"[red]{EVIL}", 4) as task:
        task.advance(4, note=f"{EVIL}[/red]")
    assert "[red]cat" in stream.getvalue()
    assert "owned\x07" not in stream.getvalue() and "\u202e" not in stream.getvalue()
    stream = io.StringIO()
    console = SafeConsole(file=stream, force_terminal=False, width=200)
    (show,) = watchers_for(console, quiet=False)
    show(Status(state="running", last=EVIL))
    assert "owned" in stream.getvalue()
    assert_safe(stream.getvalue())


def test_results_on_stdout_are_safe(capsys: pytest.CaptureFixture[str]) -> None:
    print_result(EVIL, end="")
    assert capsys.readouterr().out == terminal_text(EVIL)


def test_every_command_prints_in_one_place() -> None:
    """``print`` is called in the console's module alone, so no command can forget to make its text safe."""
    for path in Path(cli.__file__).parent.glob("*.py"):
        calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
        names = [call.func.id for call in calls if isinstance(call.func, ast.Name)]
        assert names.count("print") == (path.name == "console.py"), path.name


# ---- progress ------------------------------------------------------------------------------------------------


class Clock:
    """A clock that the test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(console.time, "monotonic", clock)
    return clock


def test_a_line_tells_what_is_done_the_rate_and_the_time_left(clock: Clock) -> None:
    stream = io.StringIO()
    with Lines(Console(file=stream)).task("learned-mask", 1000) as task:
        clock.now += 20
        task.advance(400, "loss 0.123")
    assert stream.getvalue() == "learned-mask: 400/1000 passes, 20/s, 30 s left, loss 0.123\n"


def test_lines_come_only_every_few_seconds(clock: Clock) -> None:
    stream = io.StringIO()
    with Lines(Console(file=stream), every=10).task("gradient", 100) as task:
        for _ in range(25):
            clock.now += 1
            task.advance(4)
    done = [line.split()[1] for line in stream.getvalue().splitlines()]
    assert done == ["40/100", "80/100"]


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=100)


def test_a_terminal_shows_one_line_with_the_latest_note_that_vanishes() -> None:
    console = terminal()
    with Lines(console).task("learned-mask", 10) as task:
        task.advance(5, "loss 0.5")
        task.advance(5)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    first, last = shown.rindex("loss 0.5"), shown.rindex("\x1b[2K")
    assert "learned-mask: 10/10 passes" in shown and first < last  # the line is cleared
    assert shown.count("\n") <= 1  # an advance without a note keeps the last one


@pytest.mark.parametrize("every", [Progress(), Lines(Console(file=io.StringIO())), Lines(terminal())])
def test_an_error_passes_through_every_kind_of_progress(every: Progress) -> None:
    def fail() -> None:
        with every.task("gradient", 4):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail()


def test_quiet_shows_nothing() -> None:
    assert type(progress_for(terminal(), quiet=True)) is Progress
    assert isinstance(progress_for(terminal(), quiet=False), Lines)
