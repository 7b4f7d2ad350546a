"""The command line: it parses arguments, calls the library and prints. Results go to stdout, messages for the user to stderr."""

from __future__ import annotations

import io
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from traceback import format_exception
from typing import Annotated

import typer

from proofmap.cli.console import print_result, stderr
from proofmap.core.allocator import keep_memory
from proofmap.core.errors import ProofmapError
from proofmap.core.text import one_line
from proofmap.core.version import source_version
from proofmap.plugins.failures import place_of, reason_of

COMMANDS = {
    "First steps": {
        "demo": (
            "demo.demo",
            "Judge methods on sample photos, or on rows of a table: pictures, curves, a table and a report.",
        ),
        "explain": (
            "explain.explain",
            "Make a heat map for each label of a photo, by belief-mask if no method is named, and show what it proves.",
        ),
        "serve": ("serve.serve", "Open a web page on this machine that explains your photos."),
        "list": ("lists.list_kind", "List methods, metrics, fills, models, datasets, figures and recipes."),
        "doctor": (
            "doctor.doctor",
            "Show versions, devices, speed, and missing or broken packages; or find damage in a run. Exit code 1 if there is any.",
        ),
    },
    "Studies of many images": {
        "evaluate": (
            "evaluate.evaluate",
            "Judge methods on many images. If it is stopped, the same command continues.",
        ),
        "compare": (
            "runs.compare",
            "Compare methods image by image, with intervals and p-values.",
        ),
        "audit": (
            "runs.audit",
            "Check a run's scores against bars or another run. Exit code 1 if a check fails, or if noise reaches every bar too.",
        ),
        "report": (
            "runs.report",
            "Write one HTML file with the verdict, the table and the pictures of a run.",
        ),
        "figures": ("figures.figures", "Draw figures for papers from a run or from your photos."),
        "export": ("runs.export", "Write scores and values per image and per label for other programs."),
    },
    "Methods and the paper": {
        "sanity": (
            "sanity.sanity",
            "Check whether maps change when layers of the net are randomised, or which axioms methods satisfy.",
        ),
        "validate": (
            "validate.validate",
            "Test metrics on your net and images: the share of cases with a known answer that each gets right.",
        ),
        "reproduce": ("reproduce.reproduce", "Reproduce a table or figure of the paper."),
        "bench": (
            "bench.bench",
            "Judge a method on fixed tasks, and enter it in the leaderboard that everyone shares.",
        ),
    },
}
"""Every command, by its group in the help: its function in this folder, and its help text.

The help texts are here and not in docstrings, so that ``proofmap --help`` imports no command. Most commands import torch, which takes
seconds.
"""


def make_app(command: str | None = None) -> typer.Typer:
    """The command line with all commands. If ``command`` is given, only this command is imported, and the others are only listed.

    >>> [c.name for c in make_app("").registered_commands][:2]
    ['demo', 'explain']
    """
    app = typer.Typer(
        name="proofmap",
        help="Judge saliency maps as proofs: a map must prove what the net believes, and nothing else.",
        no_args_is_help=True,
        rich_markup_mode="rich",
    )
    app.callback()(_root)
    for group, commands in COMMANDS.items():
        for name, (function, summary) in commands.items():
            run = _import(function) if command in (None, name) else _not_imported
            app.command(name, help=summary, rich_help_panel=group)(run)
    return app


def _import(function: str) -> Callable[..., None]:
    module, _, attribute = function.partition(".")
    try:
        found: Callable[..., None] = getattr(import_module(f"proofmap.cli.{module}"), attribute)
    except (ImportError, OSError) as error:
        _check_torch(error)
        raise
    return found


def _check_torch(error: BaseException) -> None:
    """End the program with a message if ``error`` is an import that failed because PyTorch is missing or broken.

    On Windows, importing a broken PyTorch raises an OSError.
    """
    try:
        import torch  # noqa: F401
    except (ImportError, OSError) as cause:
        _print_error(
            error,
            f"PyTorch cannot be imported ({one_line(str(cause))}); install it again: pip uninstall torch, then pip install torch",
        )
        sys.exit(2)


def _not_imported() -> None:
    """A placeholder for the function of a command that is only listed in the help."""


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """The command line for these arguments. Only the command that they name is imported.

    Options before the command take no values, so the first word that is not an option is the command. When a shell asks for
    completions there are no arguments, and the words so far are in the environment.
    """
    words = arguments or _words_to_complete()
    return make_app(next((word for word in words if not word.startswith("-")), ""))


def _words_to_complete() -> list[str]:
    """The words typed after ``proofmap`` when a shell asks for completions. Bash passes them in the first variable, other shells in the
    second.
    """
    typed = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    return typed.split()[1:] if "_PROOFMAP_COMPLETE" in os.environ else []


def _print_version(requested: bool) -> None:
    if requested:
        print_result(f"proofmap {source_version()}")
        raise typer.Exit


_OPTIONS = {"traceback": False}
"""Values of the options before the command."""


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Also print the traceback of an error.")
    ] = False,
) -> None:
    _OPTIONS["traceback"] = traceback


class _Interrupted(BaseException):
    """Ctrl-C, under a name that typer does not turn into exit code 1."""


def _interrupt(*_: object) -> None:
    raise _Interrupted


def _notes() -> Callable[..., None]:
    """What shows a warning as a note. Each text is shown once, also if several places of the code warn of the same thing."""
    shown: set[str] = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if (text := str(message)) not in shown:
            shown.add(text)
            stderr.print(f"note: {text}")

    return show


def main(app: typer.Typer | None = None) -> None:
    """Run the command in ``sys.argv``. ``app`` is the command line if it has been imported already.

    Exit codes: 0 for success, 1 for an audit that fails or a damaged run, 2 for input that can be fixed, 3 if an
    image or unit of a study failed, 130 if interrupted.
    """
    app = app or app_for(sys.argv[1:])
    before = signal.signal(signal.SIGINT, _interrupt)
    keep_memory()
    for stream in (sys.stdout, sys.stderr):  # a console that cannot show an arrow shows a question mark
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    with warnings.catch_warnings():
        warnings.filterwarnings("always", "out of memory: continuing")
        warnings.showwarning = _notes()
        try:
            app()
        except ProofmapError as error:
            _print_error(error, str(error))
            sys.exit(2)
        except _Interrupted as stop:
            default = "no partial files are left, and the same command continues a study where it stopped"
            kept, *_ = getattr(stop, "__notes__", [default])  # a running study adds what it kept
            stderr.print(f"stopped; {kept}")
            sys.exit(130)
        except (Exception, SystemExit) as ended:
            raised = _raised(ended)
            if _is_out_of_memory(raised):
                _print_error(
                    raised,
                    "out of memory. Finished results of a study are kept; free some memory and run the same command again. "
                    "A new study needs less memory with a smaller --batch-size or fewer workers",
                )
                sys.exit(2)
            if isinstance(raised, ImportError):
                _check_torch(raised)
            if not place_of(raised):  # a normal end, or an error in Proofmap
                raise
            how = "" if _OPTIONS["traceback"] else "; for the traceback: proofmap --traceback COMMAND ..."
            _print_error(raised, ", ".join([reason_of(raised), *getattr(raised, "__notes__", [])]) + how)
            sys.exit(2)
        finally:
            signal.signal(signal.SIGINT, before)


def run_script(main: Callable[[], None]) -> None:
    """Run the main function of a script in ``benchmarks/``. An error that the user can fix is one line and exit code 2, as for a command."""
    try:
        main()
    except ProofmapError as error:
        _print_error(error, str(error))
        sys.exit(2)


def _is_out_of_memory(raised: BaseException) -> bool:
    """Whether memory ran out, also where a thread, a library or a process could not begin for lack of it."""
    if isinstance(raised, (OSError, ImportError, RuntimeError)):
        words = ("cannot allocate memory", "failed to map segment", "can't start new thread")
        if any(text in str(raised).lower() for text in words):
            return True
    if "torch" not in sys.modules:
        return isinstance(raised, MemoryError)
    from proofmap.core.batching import is_out_of_memory

    return is_out_of_memory(raised)


def _raised(ended: BaseException) -> BaseException:
    """The original error behind the exception ``ended``. For example, truncated files raise EOFError, which typer turns into Abort."""
    abort = ended.__context__
    return abort.__cause__ or ended if isinstance(abort, typer.Abort) else ended


def _print_error(error: BaseException, message: str) -> None:
    if _OPTIONS["traceback"]:
        stderr.print("".join(format_exception(error)))
    stderr.print("error:", style="bold red", end=" ")
    stderr.print(message)
