"""The command line: parse, call, print. Results go to stdout, everything meant for a person to stderr."""

from __future__ import annotations

import json
import signal
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from torch import Tensor

import proofmap as pm
from proofmap._batching import BatchSizeWarning
from proofmap._console import progress_for
from proofmap._files import check_output
from proofmap.data.samples import SAMPLES, sample_path
from proofmap.errors import InputError
from proofmap.images import find_images
from proofmap.methods import METHODS, split_methods
from proofmap.models import DEFAULT_MODEL
from proofmap.report import tables

app = typer.Typer(
    name="proofmap",
    help="Saliency maps that prove the label, and cannot prove the wrong one.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
)
people = Console(stderr=True, highlight=False, soft_wrap=True)

COMPARED = "learned-mask,top-label:learned-mask,grad-cam,gradient-x-input,gradient,centered-gaussian,random"

Model = Annotated[str, typer.Option(help="A net: see [bold]proofmap models[/]; or file.py:function.")]
Weights = Annotated[Path | None, typer.Option(help="Weights file (.safetensors or a torch checkpoint).")]
LabelsOption = Annotated[
    str, typer.Option(help="all, top5, p>=0.01, or names or indices separated by commas.")
]
LabelSet = Annotated[str | None, typer.Option(help="Only these labels count.")]
Renormalise = Annotated[bool, typer.Option(help="Softmax over the label set alone, or over all outputs.")]
ThresholdsOption = Annotated[str, typer.Option(help="paper, restricted, appendix, released, or e1,e2.")]
CurveOption = Annotated[str, typer.Option(help="paper, released, rise or restricted.")]
Out = Annotated[Path, typer.Option(help="Folder for what is written.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, ...; a GPU is used when there is one.")]
BatchSizeOption = Annotated[int | None, typer.Option(help="Images at once; found from the device's memory.")]
Seed = Annotated[int, typer.Option(help="Same seed, same numbers.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]


@dataclass(frozen=True)
class _Loaded:
    classifier: pm.Classifier
    images: Tensor
    names: list[str]
    samples: list[str]

    def without_subjects(self, method: pm.Method) -> pm.Method:
        """The method with the explained sample photographs left out of its distractors, which would show them."""
        return with_fill(method, sample_pool(self.samples)) if self.samples else method


def _load(
    places: Sequence[str | Path],
    model: str,
    weights: Path | None,
    label_set: str | None,
    renormalise: bool,
    device: str | None,
    batch_size: int | None,
) -> _Loaded:
    samples = {place: str(place)[len("sample:") :] for place in places if str(place).startswith("sample:")}
    paths = find_images([sample_path(samples[place]) if place in samples else place for place in places])
    classifier = pm.load_classifier(model, weights=weights, device=_device(device), batch_size=batch_size)
    if label_set is not None:
        classifier = classifier.restricted(
            [part.strip() for part in label_set.split(",") if part.strip()], renormalise=renormalise
        )
    called = {sample_path(name): name for name in samples.values()}
    return _Loaded(
        classifier,
        pm.load_images(paths, classifier),
        [called.get(p, p.stem) for p in paths],
        [*called.values()],
    )


def _device(name: str | None) -> str:
    if name is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(1, device=name)
    except Exception as error:
        raise InputError(f"the device {name!r} cannot be used here: {error}") from None
    return name


@app.command()
def explain(
    images: Annotated[
        list[str],
        typer.Argument(help="Photos or folders; sample:cat is one that ships along.", show_default=False),
    ],
    model: Model = DEFAULT_MODEL,
    weights: Weights = None,
    labels: LabelsOption = "top5",
    method: Annotated[str, typer.Option(help="See [bold]proofmap methods[/].")] = "learned-mask",
    label_set: LabelSet = None,
    renormalise: Renormalise = True,
    thresholds: ThresholdsOption = "paper",
    curve: CurveOption = "paper",
    out: Out = Path("proofs"),
    device: Device = None,
    batch_size: BatchSizeOption = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """A heat map for each of several labels of a photo, and what each map proves."""
    chosen = pm.make_method(method)
    loaded = _load(images, model, weights, label_set, renormalise, device, batch_size)
    check_output(out)
    proof = pm.explain(
        loaded.classifier,
        loaded.images,
        labels=labels,
        method=loaded.without_subjects(chosen),
        thresholds=thresholds,
        curve=curve,
        names=loaded.names,
        seed=seed,
        progress=progress_for(people, quiet),
    )
    print(proof)
    _say_written(proof.save(out))


@app.command()
def evaluate(
    data: Annotated[
        list[str], typer.Option(help="Photos or folders, or sample:cat; may be given several times.")
    ],
    model: Model = DEFAULT_MODEL,
    weights: Weights = None,
    methods: Annotated[str, typer.Option(help="Separated by commas; settings as name:key=value.")] = COMPARED,
    labels: LabelsOption = "top5",
    label_set: LabelSet = None,
    renormalise: Renormalise = True,
    thresholds: ThresholdsOption = "paper",
    curve: CurveOption = "paper",
    out: Out = Path("evaluation"),
    format: Annotated[str, typer.Option(help="What stdout gets: table, md, csv or json.")] = "table",
    pictures: Annotated[bool, typer.Option(help="Write pictures and charts.")] = True,
    device: Device = None,
    batch_size: BatchSizeOption = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Judge methods by completeness, soundness, best effort, insertion and deletion."""
    if format not in ("table", "md", "csv", "json"):
        raise InputError(f"--format must be table, md, csv or json, not {format!r}")
    chosen = [pm.make_method(spec) for spec in split_methods(methods)]
    metrics = pm.default_metrics(thresholds, curve)
    loaded = _load(data, model, weights, label_set, renormalise, device, batch_size)
    check_output(out)
    found = pm.evaluate(
        loaded.classifier,
        loaded.images,
        methods=[loaded.without_subjects(m) for m in chosen],
        labels=labels,
        metrics=metrics,
        names=loaded.names,
        seed=seed,
        progress=progress_for(people, quiet),
    )
    _print_evaluation(found, format)
    _say_written(found.save(out, pictures=pictures))
    if pictures:
        _say_if_no_charts(out)


def _print_evaluation(found: pm.Evaluation, format: str) -> None:
    if format == "json":
        from proofmap.report.files import evaluation_json

        print(evaluation_json(found))
    elif format == "csv":
        print(tables.scores_csv(found), end="")
    elif format == "md":
        print(tables.markdown(*tables.score_cells(found)))
    else:
        print(found.table())


@app.command()
def demo(
    out: Out = Path("demo"),
    photos: Annotated[
        str, typer.Option(help="Which of the sample photographs.")
    ] = "cat,rocket,coffee,motorcycle,astronaut",
    labels: LabelsOption = "top3",
    methods: Annotated[str, typer.Option(help="Methods to compare.")] = COMPARED,
    device: Device = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Everything at once on real photographs and a real ImageNet net: pictures, curves, table."""
    names = [name.strip() for name in photos.split(",") if name.strip()]
    paths = [sample_path(name) for name in names]
    classifier = pm.load_classifier(DEFAULT_MODEL, device=_device(device))
    images = pm.load_images(paths, classifier)
    pool = sample_pool(names)
    chosen = [with_fill(pm.make_method(spec), pool) for spec in split_methods(methods)]
    check_output(out)
    found = pm.evaluate(
        classifier,
        images,
        methods=chosen,
        labels=labels,
        names=names,
        seed=seed,
        progress=progress_for(people, quiet),
    )
    print(f"what the maps of {found.results[0].name} prove\n\n{tables.pair_table(found, methods=1)}\n")
    print(f"the methods, judged by the worst label of each photo\n\n{found.table()}")
    _say_written(found.save(out))
    _say_if_no_charts(out)


def sample_pool(without: Sequence[str]) -> pm.Images:
    """Distractors cropped from the sample photographs other than these."""
    return pm.Images(source=tuple(name for name in SAMPLES if name not in without))


def with_fill(method: pm.Method, fill: pm.Fill) -> pm.Method:
    """The same method with other distractors, where it uses any."""
    from dataclasses import replace

    if isinstance(method, pm.TopLabel):
        return pm.TopLabel(of=with_fill(method.of, fill))
    return (
        replace(method, fill=fill)
        if isinstance(method, pm.LearnedMask) and method.fill == "images"
        else method
    )


@app.command()
def methods(
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """The methods, what they are and their settings."""
    records = [
        {
            "name": name,
            "meaning": METHODS[name].meaning,
            "needs": sorted(METHODS[name].needs),
            "settings": METHODS[name].setting_names(),
        }
        for name in METHODS
    ]
    if as_json:
        print(json.dumps(records, indent=1))
        return
    for record in records:
        needs = f"; needs {', '.join(record['needs'])}" if record["needs"] else ""
        print(f"{record['name']}\n    {record['meaning']}{needs}")
        if record["settings"]:
            print(f"    settings: {', '.join(record['settings'])}")
    print("\nSettings follow a colon: learned-mask:tv=0.1,scale=4 or learned-mask:preset=paper")


@app.command()
def models(
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """The nets that have a name here, and how to name any other."""
    from dataclasses import asdict

    infos = pm.list_models()
    if as_json:
        print(json.dumps([asdict(info) for info in infos], indent=1))
        return
    print(
        tables.aligned(
            ["model", "input", "weights", "what it is"],
            [[i.name, str(i.size or "any"), i.weights, i.description] for i in infos],
        )
    )


def _say_written(paths: Sequence[Path]) -> None:
    folder = paths[0].parent
    people.print(f"\nwritten to {folder}/: {', '.join(p.name for p in paths)}")


def _say_if_no_charts(out: Path) -> None:
    if not (out / "curves.png").is_file():
        people.print("no charts were drawn: pip install 'proofmap[figures]' brings matplotlib")


def _version(asked: bool) -> None:
    if asked:
        print(f"proofmap {pm.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


class _Interrupted(BaseException):
    """Ctrl-C, under a name that typer does not turn into exit code 1."""


def _interrupt(*_: object) -> None:
    raise _Interrupted


def main() -> None:
    """Run the command line: 0 for success, 2 for input that can be mended, 130 when interrupted."""
    signal.signal(signal.SIGINT, _interrupt)
    with warnings.catch_warnings():
        warnings.simplefilter("always", BatchSizeWarning)
        warnings.showwarning = lambda message, *_, **__: people.print(f"note: {message}", markup=False)
        try:
            app()
        except pm.ProofmapError as error:
            people.print("[bold red]error:[/]", end=" ")
            people.print(str(error), markup=False)
            sys.exit(2)
        except _Interrupted:
            people.print("stopped; nothing half-written was left behind")
            sys.exit(130)


if __name__ == "__main__":
    main()
