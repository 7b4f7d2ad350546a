"""What the commands share: their options, the console on stderr, and the device."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import torch
import typer

from proofmap.cli.console import print_result, stderr
from proofmap.core.errors import InputError
from proofmap.core.pictures import Fit
from proofmap.core.text import did_you_mean
from proofmap.study import Run

FAILED = 3
"""Exit code when some image or unit of a study failed."""
COMPARED = "belief-mask,top-label:belief-mask,grad-cam,gradient-x-input,gradient,centered-gaussian,random"


def named_path(text: str | Path) -> Path:
    """The path that an option names. An empty one is refused: it would stand for the folder that one is in.

    >>> named_path("runs/first").name
    'first'
    """
    if not str(text).strip():
        raise typer.BadParameter("it is empty; name a file or folder")
    return Path(text)


def one_of(names: Collection[str]) -> Callable[[str], str]:
    """A parser for an option or argument that takes one of these names."""

    def name(text: str) -> str:  # typer shows what the parser is called
        if text not in names:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(names)}.{did_you_mean(text, names)}")
        return text

    return name


def choice_option(names: Collection[str], help: str) -> Any:
    """An option that takes one of these names; the help shows them."""
    return typer.Option(help=help, parser=one_of(names), metavar=f"<{'|'.join(names)}>")


def path_option(help: str, *, show_default: bool = True) -> Any:
    """An option that names a file or folder."""
    return typer.Option(help=help, parser=named_path, metavar="<path>", show_default=show_default)


MODEL_HELP = "A net: see [bold]proofmap list models[/]; or file.py:function."
LABELS_HELP = (
    "all, top5, p>=0.01, true (the true labels of each image), or names or indices separated by commas."
)
METHODS_HELP = "Separated by commas; settings as name:key=value."

Model = Annotated[str, typer.Option(help=MODEL_HELP)]
Weights = Annotated[
    Path | None,
    path_option("Weights file (.safetensors or a torch checkpoint)."),
]
LabelsOption = Annotated[str, typer.Option(help=LABELS_HELP)]
LabelSet = Annotated[str | None, typer.Option(help="Only these labels count.")]
Renormalise = Annotated[
    bool | None, typer.Option(help="Softmax over the label set alone, the usual, or over all outputs.")
]
ThresholdsOption = Annotated[str, typer.Option(help="paper, restricted, appendix, released, or e1,e2.")]
CurveOption = Annotated[str, typer.Option(help="paper, released, rise or restricted.")]
FitOption = Annotated[
    Fit | None, choice_option(get_args(Fit), "How photos of other proportions are fitted; as the net says.")
]
Out = Annotated[Path, path_option("Folder for what is written.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, ...; a GPU is used when there is one.")]
BatchSizeOption = Annotated[
    int | None, typer.Option(min=1, help="Images at once; found from the device's memory.")
]
Seed = Annotated[int, typer.Option(help="Same seed, same numbers.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
AsJson = Annotated[bool, typer.Option("--json", help="For machines.")]
FORMATS = ("table", "md", "csv", "json")
Format = Annotated[str, choice_option(FORMATS, "Format of the result on stdout.")]
RunFolder = Annotated[Path, typer.Argument(help="A run directory, made by evaluate.", show_default=False)]
ONLY_METHOD = "Only this method. May be repeated."
ONLY_METRICS = "Only these metrics, separated by commas."


def split_list(text: str) -> list[str]:
    """The parts of a text that are separated by commas.

    >>> split_list("cat, dog,")
    ['cat', 'dog']
    """
    return [part.strip() for part in text.split(",") if part.strip()]


def names_after(option: str, text: str | None) -> list[str] | None:
    """The names that an option lists, one at least; None where it was left out.

    >>> names_after("--metrics", "insertion,soundness"), names_after("--metrics", None)
    (['insertion', 'soundness'], None)
    """
    names = None if text is None else split_list(text)
    if names == []:
        raise InputError(f"{option} names nothing; write names separated by commas, or leave it out")
    return names


def device_named(name: str | None) -> str:
    """The device, checked to work; a GPU if there is one and none was named."""
    if name is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(1, device=name)
    except Exception as error:
        raise InputError(f"the device {name!r} cannot be used here: {error}") from None
    return name


def command_line() -> str:
    """This command line, quoted so that it can be typed again."""
    return shlex.join(["proofmap", *sys.argv[1:]])


def print_written(paths: Sequence[Path]) -> None:
    folder = paths[0].parent
    stderr.print(f"\nwritten to {folder}/: {', '.join(p.name for p in paths)}")


def warn_if_no_charts(out: Path) -> None:
    if not (out / "curves.png").is_file():
        stderr.print("no charts were drawn: pip install 'proofmap[figures]' brings matplotlib")


def print_as(result: object, format: str) -> None:
    """A result that has several forms, on stdout in the form that was asked for."""
    text = {"table": "table", "md": "markdown", "csv": "csv", "json": "json"}[format]
    print_result(getattr(result, text)().rstrip("\n"))


def print_notes(run: Run) -> None:
    """What a reader of a run's numbers should know."""
    for note in run.notes():
        stderr.print(f"note: {run.folder.name}: {note}")
