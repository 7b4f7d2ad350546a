"""The command line: parse, call, print. Results go to stdout, everything meant for a person to stderr."""

from __future__ import annotations

import io
import signal
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from traceback import format_exception
from typing import Annotated

import typer

from proofmap.cli.console import print_result, stderr
from proofmap.core.allocator import keep_memory
from proofmap.core.errors import BatchSizeWarning, ProofmapError
from proofmap.core.version import source_version
from proofmap.plugins.failures import place_of, reason_of

COMMANDS = {
    "explain": (
        "explain.explain",
        "A heat map for each of several labels of a photo, and what each map proves.",
    ),
    "serve": (
        "serve.serve",
        "A web page on this machine: drop a photo, watch the proofs of its labels being found, and play with them.",
    ),
    "evaluate": (
        "evaluate.evaluate",
        "Judge methods over many images; if stopped, the same command continues where it left off.",
    ),
    "runs": ("runs.runs", "The run directories below a folder: what they are of, and how far they are."),
    "compare": (
        "runs.compare",
        "Paired differences between methods, image by image: 95 % intervals, p-values corrected for their number.",
    ),
    "seeds": ("runs.seeds", "How far scores move from seed to seed: for methods and fills that draw."),
    "reliability": (
        "reliability.reliability",
        "Do images rank the methods alike, do metrics agree, and which method comes first by all of them?",
    ),
    "label-matrix": (
        "label_matrix.label_matrix",
        "The label x label matrix of a run: the mean AUC of every label under the map of every label, beside f.",
    ),
    "bounds": (
        "runs.bounds",
        "How much of each method's overshoot and shortfall was its choice: areas against the weakest and strongest proofs.",
    ),
    "frontier": (
        "runs.frontier",
        "Which methods or settings no other one beats in every score, and by which the others are dominated.",
    ),
    "sanity": (
        "sanity.sanity",
        "Sanity checks: how alike are maps before and after layers of the net are drawn anew? The net itself is not changed.",
    ),
    "audit": (
        "audit.audit",
        "Hold a run's scores against bars or another run: exit code 1 below one or where noise passes too, 0 when all pass.",
    ),
    "axioms": (
        "axioms.axioms",
        "Which axioms methods keep on small made nets: sensitivity (a) and (b), implementation invariance.",
    ),
    "report": (
        "runs.report",
        "One HTML file with everything: verdict, table, pictures with a slider; needs no network and no server.",
    ),
    "figures": (
        "figures.figures",
        "Figures for papers (PDF and PNG, with captions): curves, scatter, mask grids, and those that need photos.",
    ),
    "export": (
        "runs.export",
        "Every number for other programs: scores with intervals, values per image and per label.",
    ),
    "verify": (
        "runs.verify",
        "Check every stored number and map against its digest: exit code 1 if something is damaged.",
    ),
    "forget": (
        "runs.forget",
        "Remove a method and all its results from a run; the next evaluate that names it computes it again.",
    ),
    "demo": (
        "demo.demo",
        "Everything at once on real photographs and a real ImageNet net: pictures, curves, table, report.",
    ),
    "reproduce": (
        "reproduce.reproduce",
        "The paper's tables and figures, beside what it printed: without a NAME, a list of them and what each lacks.",
    ),
    "train-masker": (
        "train.train_masker",
        "Train a masker for a net; if stopped, the same command goes on from its last checkpoint.",
    ),
    "methods": (
        "lists.methods",
        "The methods by family, what they cost and need; of one by NAME everything, settings and presets included.",
    ),
    "metrics": (
        "lists.metrics",
        "The metrics: which way is better, range, cost, reference and settings; of one by NAME everything.",
    ),
    "fills": ("lists.fills", "What hidden pixels can show, and the settings; of one by NAME everything."),
    "games": (
        "lists.games",
        "The games that maps are judged by, and the settings; of one by NAME everything.",
    ),
    "targets": (
        "lists.targets",
        "What games can read off the net, and the settings; of one by NAME everything.",
    ),
    "models": ("lists.models", "The nets that have a name here, and how to name any other."),
    "datasets": (
        "lists.datasets",
        "The kinds of data, and how to write them after --data or in a study file.",
    ),
    "doctor": (
        "doctor.doctor",
        "Versions, devices, threads, memory, optional packages that are missing or broken, and the time of one pass.",
    ),
}
"""Every command in the order of the help: its function in this folder, and the first line of its help.

The lines stand here so that ``proofmap --help`` imports no command: most of them import torch, which takes seconds.
"""


def make_app(command: str | None = None) -> typer.Typer:
    """The command line with all commands, or with one that works and the others for the help alone."""
    app = typer.Typer(
        name="proofmap",
        help="Saliency maps that prove the label, and cannot prove the wrong one.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
    )
    app.callback()(_root)
    for name, (function, summary) in COMMANDS.items():
        if command in (None, name):
            module, _, attribute = function.partition(".")
            app.command(name)(getattr(import_module(f"proofmap.cli.{module}"), attribute))
        else:
            app.command(name, help=summary)(_not_imported)
    return app


def _not_imported() -> None:
    """Stands for a command that is only listed."""


def asked_app(arguments: Sequence[str]) -> typer.Typer:
    """The command line with the command that arguments name, which is imported here; the options before it take no values.

    >>> [c.name for c in asked_app(["--help"]).registered_commands][:2]
    ['explain', 'serve']
    """
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
