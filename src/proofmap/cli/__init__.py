"""The command line: parse, call, print. Results go to stdout, everything meant for a person to stderr."""

from __future__ import annotations

import io
import signal
import sys
import warnings
from traceback import format_exception
from typing import Annotated

import typer

import proofmap as pm
from proofmap.cli import (
    audit,
    axioms,
    demo,
    evaluate,
    explain,
    figures,
    lists,
    reliability,
    reproduce,
    runs,
    sanity,
    serve,
    train,
)
from proofmap.cli.console import print_result, stderr
from proofmap.core.batching import BatchSizeWarning
from proofmap.plugins.failures import place_of, reason_of

app = typer.Typer(
    name="proofmap",
    help="Saliency maps that prove the label, and cannot prove the wrong one.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
)
for command in (
    explain.explain,
    serve.serve,
    evaluate.evaluate,
    runs.runs,
    runs.compare,
    runs.seeds,
    reliability.reliability,
    runs.bounds,
    runs.frontier,
    sanity.sanity,
    audit.audit,
    axioms.axioms,
    runs.report,
    figures.figures,
    runs.export,
    runs.verify,
    runs.forget,
    demo.demo,
    reproduce.reproduce,
    train.train_masker,
    lists.methods,
    lists.metrics,
    lists.fills,
    lists.games,
    lists.targets,
    lists.models,
    lists.datasets,
):
    app.command()(command)


def _print_version(requested: bool) -> None:
    if requested:
        print_result(f"proofmap {pm.__version__}")
        raise typer.Exit


_ASKED = {"traceback": False}
"""What the options before the command ask for."""


@app.callback()
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


def main() -> None:
    """Run the command line.

    Exit codes: 0 for success, 1 for an audit or verification that fails, 2 for input that can be fixed, 3 when some
    image or unit of a study failed, 130 when interrupted.
    """
    before = signal.signal(signal.SIGINT, _interrupt)
    pm.keep_memory()
    for stream in (sys.stdout, sys.stderr):  # a console that cannot show an arrow shows a question mark
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    with warnings.catch_warnings():
        warnings.simplefilter("always", BatchSizeWarning)
        warnings.showwarning = lambda message, *_, **__: stderr.print(f"note: {message}")
        try:
            app()
        except pm.ProofmapError as error:
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
            if not place_of(raised):  # how every command ends, or a mistake of ours
                raise
            how = "" if _ASKED["traceback"] else "; all of the traceback: proofmap --traceback COMMAND ..."
            _print_error(raised, ", ".join([reason_of(raised), *getattr(raised, "__notes__", [])]) + how)
            sys.exit(2)
        finally:
            signal.signal(signal.SIGINT, before)


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
