"""``explain``: pictures of what maps prove, for one method or several side by side. Texts are also printed, with coloured words; in a file,
the words of a proof are in brackets."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Annotated, get_args

import typer
from rich.console import Console
from rich.style import Style
from rich.text import Text

import proofmap as pm
from proofmap.cli import options
from proofmap.cli.console import (
    SafeConsole,
    print_result,
    print_written,
    progress_for,
    shown_path,
    stderr,
)
from proofmap.core.files import check_output, written_together
from proofmap.core.inputs import Pictures
from proofmap.core.inputs.pictures import Fit
from proofmap.core.text import did_you_mean, one_line, terminal_text
from proofmap.data.dataset import Dataset
from proofmap.data.folders import RESULTS
from proofmap.data.loader import load_blocks
from proofmap.data.photos import photographs
from proofmap.data.specs import is_dataset, names_data_file
from proofmap.data.texts import TextData
from proofmap.judging import proof_metrics
from proofmap.methods.method import default_method, make_method
from proofmap.metrics.games import make_game
from proofmap.models import DEFAULT_MODEL
from proofmap.plugins.specs import run_files_in, split_specs
from proofmap.report.display import save_proof
from proofmap.report.html import write_report
from proofmap.report.listed import ListedProof
from proofmap.report.pictures import crop_words
from proofmap.results.evaluation import Evaluation
from proofmap.results.proof_shape import percent
from proofmap.study.opened import open_net, open_study_data
from proofmap.study.planning import expected_cost, expected_labels, measure_speed

_MOST_TEXTS, _MOST_LABELS = 5, 8


def print_words(evaluation: Evaluation, console: Console | None = None) -> None:
    """Print the first texts, for each method and label, with coloured words."""
    console = console or SafeConsole()
    has_colours = console.color_system is not None and not console.no_color
    for i in evaluation.pictured[:_MOST_TEXTS]:
        for result in evaluation.results:
            for j in evaluation.places_of(i)[:_MOST_LABELS]:
                proof = ListedProof.of(evaluation, result, i, j)
                by = f" by {result.name}" if len(evaluation.results) > 1 else ""
                head = f"{evaluation.image_names[i]}, {proof.label}{by} {percent(proof.shape.belief)}: {proof.shape.summary}"
                console.print(Text(terminal_text(head), style="bold" if has_colours else ""))
                console.print(shown_words(proof, has_colours), soft_wrap=not console.is_terminal)
    units = evaluation.inputs.position_noun
    how = "colour: the value of the map; underlined" if has_colours else "in brackets"
    console.print(Text(f"{how}: the first {units} of the map that give the belief"))


def shown_words(proof: ListedProof, has_colours: bool) -> Text:
    """The text of a proof with its words in the colours of the map; without colours, the words that prove the label are in brackets."""
    text = Text()
    for k, word in enumerate(proof.names):
        shade, bare = proof.shade(k), terminal_text(one_line(word)).rstrip()
        proves = k in proof.proving
        if not has_colours:
            text.append(f"[{bare}]" if proves else bare)
        else:
            ink, paper = (None, None) if shade is None else ("rgb(24,24,28)", "rgb({},{},{})".format(*shade))
            text.append(bare, Style(bold=proves, underline=proves, color=ink, bgcolor=paper))
        text.append(" " if word != word.rstrip() else "")
    text.rstrip()
    return text


def explain(
    images: Annotated[
        list[str] | None,
        typer.Argument(
            help="Photos or folders; sample:cat is a sample photo. Or one table of rows (CSV or Parquet), or one file of texts.",
            show_default=False,
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(help="A text to explain, in place of images. May be repeated.", show_default=False),
    ] = None,
    text_column: Annotated[str | None, options.TEXT_COLUMN] = None,
    target: Annotated[str | None, options.TARGET] = None,
    rows: Annotated[
        str | None,
        typer.Option(
            help="Rows of a table: names, numbers from 0, or ranges such as 0-4, separated by commas.",
            show_default="the first three",
        ),
    ] = None,
    model: Annotated[str, options.MODEL] = DEFAULT_MODEL,
    weights: Annotated[Path | None, options.WEIGHTS] = None,
    labels: Annotated[str, options.LABELS] = "top5",
    method: Annotated[str | None, options.METHODS] = None,
    label_set: Annotated[str | None, options.LABEL_SET] = None,
    renormalise: Annotated[
        bool | None,
        typer.Option(
            help="Take the softmax over the label set, or over all outputs.",
            show_default="over the label set",
        ),
    ] = None,
    thresholds: Annotated[str, options.THRESHOLDS] = "paper",
    curve: Annotated[str, options.CURVE] = "paper",
    fill: Annotated[
        str | None,
        typer.Option(
            "--fill",
            "--fills",
            help="What hidden pixels show when maps are judged; see [bold]proofmap list fills[/].",
            show_default="as the curve says",
        ),
    ] = None,
    fit: Annotated[
        Fit | None,
        options.choice_option(
            get_args(Fit),
            "How a photo is fitted to the net's input if their proportions differ",
            show_default="as the net says",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        options.path_option(
            "Folder for the results.", show_default="proofs, or proofs-2 and so on if it has results"
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the results of an earlier explain in --out.")
    ] = False,
    device: Annotated[str | None, options.DEVICE] = None,
    batch_size: Annotated[int | None, options.BATCH_SIZE] = None,
    seed: Annotated[int, options.SEED] = 0,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also print scores, settings and the files written.")
    ] = False,
    quiet: Annotated[bool, options.QUIET] = False,
) -> None:
    folder = _free_folder(out, force)
    run_files_in((method, fill))
    drawn = curve if fill is None else make_game("insertion", curve=curve, fill=fill).curve()
    study = pm.Study(
        model=model,
        weights=weights,
        fit=fit,
        label_set=options.names_after("--label-set", label_set) or (),
        renormalise=renormalise,
        methods=split_specs(method or "belief-mask"),
    )
    chosen = list(study.named_methods().values())
    if bool(images) == bool(text):
        raise pm.InputError("name photos or a file to explain, or give a text with --text, but not both")
    images = list(images or ())
    is_data = not text and (
        any(each is not None for each in (target, rows, text_column))
        or names_data_file(images[0])
        or is_dataset(images[0])
    )
    where = options.check_device(device)
    data: Dataset
    if is_data:
        places = options.with_columns(images, target, text_column) or images
        data, loaded = open_study_data(replace(study, data=places), device=where)
        indices = _rows(data, rows)
    else:
        data, loaded = TextData(text) if text else photographs(images), None
        indices = list(range(len(data)))
    classifier = open_net(study, loaded, where, data)
    if batch_size is not None:
        classifier.fix_batches(batch_size, batch_size)
    if method is None:
        chosen = [make_method(default_method(classifier))]
    (block,) = load_blocks(data, classifier, indices, block_size=len(indices))
    if not block.indices:
        raise pm.InputError(next(iter(block.failures.values())))
    if isinstance(classifier.inputs, Pictures):
        for i in block.indices:
            classifier.inputs.warn_of_crop(data.names[i], data.read(i))
    judge = pm.Judge(
        classifier,
        methods=chosen,
        labels=labels,
        metrics=proof_metrics(thresholds, drawn),
        keep_maps=None,
        seed=seed,
        distractors=block.images,
        progress=progress_for(stderr, quiet),
    )
    opened = judge.opened  # refuses what a method cannot do on this net before a time is given
    if not quiet:
        number = expected_labels(judge.rule, classifier)
        metrics = list(opened.metrics.values())
        expected = expected_cost(opened.session, chosen, metrics, len(block.indices), number)
        speed = measure_speed(classifier, expected.known)
        if expected.is_long(speed):
            stderr.print(expected.time_text(speed))
    names = [data.names[i] if text or is_data else Path(data.names[i]).stem for i in block.indices]
    judge.update(block.images, names=names)
    proof = pm.Proof(judge.compute())
    print_result(proof.table(scores=verbose))
    if classifier.inputs.shown_as == "words":
        print_words(proof.evaluation)
    named = proof.methods[0] if len(proof.methods) == 1 else f"{len(proof.methods)} methods"

    def crops(k: int) -> str:
        return crop_words(data.read(block.indices[k]), classifier.inputs)

    with written_together(folder) as part:
        written = save_proof(proof.evaluation, part, crops)
        report = write_report(
            proof.evaluation,
            part / "report.html",
            title=f"What do the maps of {named} prove?",
            command=options.command_line(),
            explained=True,
            crops=crops,
        )
    if verbose:
        print_written([folder / path.name for path in (*written, report)])
    stderr.print(f"open {shown_path(folder / report.name)} in a browser: the pictures, with a slider")
    for reason in block.failures.values():
        stderr.print(f"failed: {reason}")
    if block.failures:
        raise typer.Exit(options.FAILED)


def _rows(data: Dataset, wanted: str | None) -> list[int]:
    """The indices of the rows that the option ``--rows`` names, by name or number; the first three if the option was left out."""
    if wanted is None:
        return list(range(min(3, len(data))))
    places = {name: i for i, name in enumerate(data.names)}
    found = list[int]()
    for text in options.names_after("--rows", wanted) or []:
        several = re.fullmatch(r"(\d+)-(\d+)", text) if text not in places else None
        first, last = (
            map(int, several.groups())
            if several
            else [places.get(text, int(text) if text.isdecimal() else -1)] * 2
        )
        if not 0 <= first <= last < len(data):
            raise pm.InputError(
                f"--rows names {text!r}, which {data.title} does not have; it has the rows 0 to {len(data) - 1}"
                f"{did_you_mean(text, data.names)}"
            )
        found += range(first, last + 1)
    return list(dict.fromkeys(found))


def _free_folder(out: Path | None, force: bool) -> Path:
    """The folder to write to. A folder that the user names must have no results yet, unless ``force`` is set. The default is the first of
    ``proofs``, ``proofs-2``, ``proofs-3``, ... that has none."""
    folder = check_output("proofs" if out is None else out)
    if force or not _has_results(folder):
        return folder
    if out is not None:
        raise pm.InputError(f"{out} has results already; choose another --out, or replace them with --force")
    return next(
        check_output(other)
        for k in count(2)
        if not _has_results(other := folder.with_name(f"{folder.name}-{k}"))
    )


def _has_results(folder: Path) -> bool:
    return any((folder / name).exists() for name in (*RESULTS, "report.html", "maps.safetensors"))
