"""Options that several commands share, and functions that read their values."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import typer

from proofmap.core.deferred import torch
from proofmap.core.errors import InputError
from proofmap.core.text import did_you_mean

FAILED = 3
"""Exit code if an image or a unit of a study failed."""
DEFAULT_METHODS = (
    "belief-mask,top-label:belief-mask,grad-cam,gradient-x-input,gradient,centered-gaussian,random"
)
METHODS_WITHOUT_GRADIENTS = "belief-order,greedy-insertion,kernel-shap,random"
"""The default methods for models of other libraries, which have no gradients."""


def _one_of(names: Collection[str]) -> Callable[[str], str]:
    """A parser for an option or argument that takes one of these names."""

    def name(text: str) -> str:  # typer shows what the parser is called
        if text not in names:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(names)}.{did_you_mean(text, names)}")
        return text

    return name


def choice_option(names: Collection[str], help: str, **settings: Any) -> Any:
    """An option that takes one of these names. The help lists them, with their meanings if ``names`` has some, and shells complete them."""
    listed = [f"{name} ({names[name]})" if isinstance(names, Mapping) else name for name in names]
    words = f"{help}: {', '.join(listed)}."
    return typer.Option(
        help=words, parser=_one_of(names), metavar="<name>", autocompletion=_completed(names), **settings
    )


def choice_argument(names: Collection[str], help: str, **settings: Any) -> Any:
    """An argument that takes one of these names. Shells complete them."""
    return typer.Argument(help=help, parser=_one_of(names), autocompletion=_completed(names), **settings)


def _completed(names: Iterable[str], separator: str = "") -> Callable[[str], list[str]]:
    """Shell completions for a prefix of a name, or of the last name in a separated list.

    >>> _completed(["grad-cam", "gradient"], ",")("random,grad-")
    ['random,grad-cam']
    """

    def complete(incomplete: str) -> list[str]:
        before, found, last = incomplete.rpartition(separator) if separator else ("", "", incomplete)
        return [f"{before}{found}{name}" for name in names if name.startswith(last)]

    return complete


def _named_path(text: str | Path) -> Path:
    """The path that an option names. An empty text is refused, because it would stand for the current folder.

    >>> _named_path("runs/first").name
    'first'
    """
    if not str(text).strip():
        raise typer.BadParameter("it is empty; name a file or folder")
    return Path(text)


def path_option(help: str, **settings: Any) -> Any:
    """An option that names a file or folder."""
    return typer.Option(help=help, parser=_named_path, metavar="<path>", **settings)


TARGET = typer.Option(
    help="The column of true labels, if --data is a table of rows (CSV).", show_default="none"
)
TEXT_COLUMN = typer.Option(
    help="The column of texts, if --data is a file of texts (CSV, JSONL or Parquet).", show_default="none"
)
MODEL = typer.Option(help="A net; see [bold]proofmap list models[/], or write file.py:function.")
WEIGHTS = path_option("Weights file (.safetensors or a torch checkpoint).")


def _method_names(incomplete: str) -> list[str]:
    from proofmap.methods import METHODS as names  # imports torch

    return _completed(names, ",")(incomplete)


METHODS = typer.Option(
    "--methods",
    "--method",
    help="Methods separated by commas, with settings as name:key=value; see [bold]proofmap list methods[/].",
    autocompletion=_method_names,
)
METHOD = ("--method", "--methods")
LABELS = typer.Option(
    help="all, top5, top5+wrong (and two that the net does not believe), p>=0.01, true (the true labels of each image), or names or "
    "indices separated by commas."
)
LABEL_SET = typer.Option(
    help="Labels that count, separated by commas; all others are ignored.", show_default="all"
)
DEVICE = typer.Option(help="cpu, cuda, cuda:1, mps, xpu, ...", show_default="a GPU if there is one")
BATCH_SIZE = typer.Option(
    min=1, help="Number of images in a batch.", show_default="chosen by the device's memory"
)
SEED = typer.Option(help="The same seed gives the same numbers.")
THRESHOLDS = typer.Option(
    help="Thresholds of the scores: paper, restricted, appendix, released, or two numbers E1,E2."
)
CURVE = typer.Option(help="How curves are drawn: paper, released, rise, restricted, road.")
FORMAT = choice_option(("table", "md", "csv", "json", "latex"), "Format of the result on stdout")
QUIET = typer.Option("--quiet", "-q", help="Show no progress.")


def names_after(option: str, text: str | None) -> list[str] | None:
    """The names that an option lists, separated by commas, at least one; None if the option was left out.

    >>> names_after("--metrics", "insertion, soundness,"), names_after("--metrics", None)
    (['insertion', 'soundness'], None)
    """
    names = None if text is None else [part.strip() for part in text.split(",") if part.strip()]
    if names == []:
        raise InputError(f"{option} names nothing; write names separated by commas, or leave it out")
    return names


def with_columns(places: list[str] | None, target: str | None, column: str | None) -> list[str] | None:
    """The dataset strings. If the column of true labels or of texts is given, there must be only one string, and the column is added to it.

    >>> with_columns(["reviews.csv"], "stars", "review")
    ['reviews.csv?target=stars&column=review']
    >>> with_columns(["hf:org/reviews"], "stars", "review")
    ['hf:org/reviews?label=stars&text=review']
    """
    keys = ("label", "text") if places and places[0].startswith("hf:") else ("target", "column")
    for option, key, value in zip(("--target", "--text-column"), keys, (target, column), strict=True):
        if value is not None:
            if not places or len(places) > 1:
                raise InputError(f"{option} names a column of one file; give one --data FILE.csv with it")
            places = [f"{places[0]}{'&' if '?' in places[0] else '?'}{key}={value}"]
    return places


def check_device(name: str | None) -> str:
    """The name of the device, after a check that it works. If no name is given, a GPU if there is one."""
    if name is None:
        known = {"cuda": torch.cuda, "xpu": torch.xpu, "mps": torch.backends.mps}
        return next((kind for kind, gpus in known.items() if gpus.is_available()), "cpu")
    from proofmap.classifier.view import usable_device

    return str(usable_device(name))


def command_line() -> str:
    """This command line, quoted so that it can be typed again."""
    return shlex.join(["proofmap", *sys.argv[1:]])
