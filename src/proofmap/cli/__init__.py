"""The command line: parse, call, print. Results go to stdout, everything meant for a person to stderr."""

from __future__ import annotations

import io
import shlex
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
from proofmap.core.errors import BatchSizeWarning, InputError, ProofmapError
from proofmap.core.version import source_version
from proofmap.plugins.failures import place_of, reason_of

COMMANDS = {
    "First steps": {
        "demo": (
            "demo.demo",
            "Judge seven methods on sample photos: pictures, curves, a table and a report.",
        ),
        "explain": (
            "explain.explain",
            "Make a heat map for each label of a photo, and show what each map proves.",
        ),
        "serve": ("serve.serve", "Open a web page on this machine that explains your photos."),
        "list": (
            "lists.list_kind",
            "List methods, metrics, models, datasets, runs and everything else that has a name.",
        ),
        "doctor": (
            "doctor.doctor",
            "Show versions, devices, memory, the time of one pass, and optional packages that are missing or broken.",
        ),
    },
    "Studies of many images": {
        "evaluate": (
            "evaluate.evaluate",
            "Judge methods on many images. If it is stopped, the same command continues.",
        ),
        "compare": (
            "runs.compare",
            "Compare methods image by image: paired differences, 95 % intervals and corrected p-values.",
        ),
        "analyse": ("runs.analyse", "Analyse runs: seeds, reliability, frontier, bounds or label-matrix."),
        "audit": (
            "audit.audit",
            "Check a run's scores against bars or against another run. Exit code 1 if a check fails or noise passes too.",
        ),
        "report": (
            "runs.report",
            "Write one HTML file with the verdict, the table and the pictures of a run.",
        ),
        "figures": (
            "figures.figures",
            "Draw figures for papers, with captions, from a run or from your photos.",
        ),
        "export": (
            "runs.export",
            "Write the scores and the values per image and per label for other programs.",
        ),
        "verify": (
            "runs.verify",
            "Check every stored number and map of a run against its digest. Exit code 1 if something is damaged.",
        ),
    },
    "Methods and the paper": {
        "sanity": (
            "sanity.sanity",
            "Check whether maps change when layers of the net are drawn anew, or which axioms methods satisfy.",
        ),
        "train-masker": (
            "train.train_masker",
            "Train a masker for a net. If it is stopped, the same command continues from its last checkpoint.",
        ),
        "reproduce": (
            "reproduce.reproduce",
            "Reproduce a table or figure of the paper, next to its printed numbers.",
        ),
    },
}
"""Every command by the groups of the help: its function in this folder, and its help.

The help is here and not in docstrings so that ``proofmap --help`` imports no command: most of them import torch, which takes
seconds.
"""

RENAMED = {
    "methods": "list methods {}",
    "metrics": "list metrics {}",
    "fills": "list fills {}",
    "games": "list games {}",
    "targets": "list targets {}",
    "models": "list models {}",
    "datasets": "list datasets {}",
    "runs": "list runs {}",
    "seeds": "analyse seeds {}",
    "reliability": "analyse reliability {}",
    "frontier": "analyse frontier {}",
    "bounds": "analyse bounds {}",
    "label-matrix": "analyse label-matrix {}",
    "axioms": "sanity --axioms --methods {}",
    "forget": "verify RUN --forget METHOD",
}
"""Earlier names of commands, and what to type now; {} stands for the arguments."""


def make_app(command: str | None = None) -> typer.Typer:
    """The command line with all commands, or with only this one imported and the others listed for the help.

    >>> [c.name for c in make_app("").registered_commands][:2]
    ['demo', 'explain']
    """
    app = typer.Typer(
        name="proofmap",
        help="Saliency maps that prove the label, and cannot prove the wrong one.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
    )
    app.callback()(_root)
    for group, commands in COMMANDS.items():
        for name, (function, summary) in commands.items():
            run = _import(function) if command in (None, name) else _not_imported
            app.command(name, help=summary, rich_help_panel=group)(run)
    for name in RENAMED:
        anything = {"allow_extra_args": True, "ignore_unknown_options": True}
        app.command(name, hidden=True, add_help_option=False, context_settings=anything)(_renamed)
    return app


def _import(function: str) -> Callable[..., None]:
    module, _, attribute = function.partition(".")
    found: Callable[..., None] = getattr(import_module(f"proofmap.cli.{module}"), attribute)
    return found


def _not_imported() -> None:
    """Stands for a command that is only listed."""


def _renamed(context: typer.Context) -> None:
    """Refuse an earlier name of a command with the command to type now."""
    name = str(context.info_name)
    raise InputError(
        f"proofmap {name} is now: proofmap {RENAMED[name].format(shlex.join(context.args)).strip()}"
    )


def asked_app(arguments: Sequence[str]) -> typer.Typer:
    """The command line with the command that the arguments name; the options before it take no values."""
    return make_app(next((argument for argument in arguments if not argument.startswith("-")), ""))


def _print_version(requested: bool) -> None:
    if requested:
        print_result(f"proofmap {source_version()}")
        raise typer.Exit


_ASKED = {"traceback": False}
"""What the options before the command ask for."""


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Print the whole traceback of an error, too.")
    ] = False,
) -> None:
    _ASKED["traceback"] = traceback


class _Interrupted(BaseException):
    """Ctrl-C, under a name that typer does not turn into exit code 1."""


def _interrupt(*_: object) -> None:
    raise _Interrupted


def main(app: typer.Typer | None = None) -> None:
    """Run the command line, or the part of it that was imported before.

    Exit codes: 0 for success, 1 for an audit or verification that fails, 2 for input that can be fixed, 3 when some
    image or unit of a study failed, 130 when interrupted.
    """
    app = app or asked_app(sys.argv[1:])
    before = signal.signal(signal.SIGINT, _interrupt)
    keep_memory()
    for stream in (sys.stdout, sys.stderr):  # a console that cannot show an arrow shows a question mark
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    with warnings.catch_warnings():
        warnings.simplefilter("always", BatchSizeWarning)
        warnings.showwarning = lambda message, *_, **__: stderr.print(f"note: {message}")
        try:
            app()
        except ProofmapError as error:
            _print_error(error, str(error))
            sys.exit(2)
        except _Interrupted as stop:
            usual = (
                "no partial files were left behind, and the same command continues a study where it stopped"
            )
            (told,) = getattr(stop, "__notes__", [usual])[:1]  # a study that was under way says what it kept
            stderr.print(f"stopped; {told}")
            sys.exit(130)
        except (Exception, SystemExit) as ended:
            raised = _raised(ended)
            if _is_out_of_memory(raised):
                _print_error(
                    raised,
                    "out of memory. Finished results of a study are kept: free some memory and run the same command again. "
                    "A new study needs less with a smaller --batch-size or fewer workers",
                )
                sys.exit(2)
            if not place_of(raised):  # how every command ends, or a mistake of ours
                raise
            how = "" if _ASKED["traceback"] else "; all of the traceback: proofmap --traceback COMMAND ..."
            _print_error(raised, ", ".join([reason_of(raised), *getattr(raised, "__notes__", [])]) + how)
            sys.exit(2)
        finally:
            signal.signal(signal.SIGINT, before)


def _is_out_of_memory(raised: BaseException) -> bool:
    if "torch" not in sys.modules:
        return isinstance(raised, MemoryError)
    from proofmap.core.batching import is_out_of_memory

    return is_out_of_memory(raised)


def _raised(ended: BaseException) -> BaseException:
    """What ended a command; typer takes an EOFError, which files cut short raise, for the end of what a person types."""
    abort = ended.__context__
    return abort.__cause__ or ended if isinstance(abort, typer.Abort) else ended


def _print_error(error: BaseException, told: str) -> None:
    if _ASKED["traceback"]:
        stderr.print("".join(format_exception(error)))
    stderr.print("error:", style="bold red", end=" ")
    stderr.print(told)


if __name__ == "__main__":
    main()
