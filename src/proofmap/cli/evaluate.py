"""``evaluate``: runs a study from a file or from options, in a run directory that can be continued and extended."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, get_args

import torch
import typer

import proofmap as pm
from proofmap.classifier import Classifier
from proofmap.cli import options
from proofmap.cli.console import print_result, shown_path, stderr, table_width
from proofmap.core.errors import InputError, require
from proofmap.core.files import check_output, write_text
from proofmap.core.inputs import TextInputs
from proofmap.core.text import counted, did_you_mean, one_line, size_text
from proofmap.methods.given import GivenMaps
from proofmap.methods.method import default_method, make_method
from proofmap.models import load_classifier
from proofmap.models.spec import ModelSpec
from proofmap.plugins.settings import setting_names
from proofmap.plugins.specs import split_specs
from proofmap.report.display import NUMBER_FILES
from proofmap.report.runs import VALIDATION, save_run
from proofmap.results import tables
from proofmap.results.evaluation import Evaluation
from proofmap.results.score_tables import shared_table
from proofmap.results.validation import Validation
from proofmap.results.verdict import verdict
from proofmap.session import Session
from proofmap.study import Executor, LocalExecutor, Outcome, RayExecutor, Run, Study, run_study
from proofmap.study.manifest import FILE as MANIFEST
from proofmap.study.manifest import Manifest
from proofmap.study.planning import Plan
from proofmap.study.run import forget_methods, preview
from proofmap.study.sanity import sanity_notes
from proofmap.study.study import KeptMaps
from proofmap.study.watchers import watchers_for

_Texts = Mapping[str, str]
_Scores = Mapping[str, float]

SCORE_FORMATS: dict[str, Callable[[pm.Evaluation], str]] = {
    "table": lambda evaluation: f"{verdict(evaluation)}\n\n{evaluation.table(table_width())}",
    "md": lambda evaluation: shared_table(evaluation).markdown(),
    "csv": NUMBER_FILES["scores.csv"],
    "json": NUMBER_FILES["evaluation.json"],
    "latex": lambda evaluation: shared_table(evaluation).to_latex(),
}


def _rare(option: Any) -> Any:
    """This option as a rarely used one, which only ``--help-all`` shows."""
    rare = copy(option)
    rare.hidden, rare.rich_help_panel = True, "Rarely used options"
    return rare


def _print_all_help(context: typer.Context, asked: bool) -> None:
    if asked:
        for parameter in context.command.params:
            parameter.hidden = False  # type: ignore[attr-defined]
        print_result(context.get_help())
        raise typer.Exit


def evaluate(
    study: Annotated[
        Path | None, typer.Argument(help="A study file (TOML). Options override its settings.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="A dataset, photos or folders; see [bold]proofmap list datasets[/]. May be repeated."
        ),
    ] = None,
    target: Annotated[str | None, options.TARGET] = None,
    text_column: Annotated[str | None, options.TEXT_COLUMN] = None,
    model: Annotated[str | None, options.MODEL] = None,
    weights: Annotated[str | None, typer.Option(help="Weights file.")] = None,
    methods: Annotated[str | None, options.METHODS] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            help="Metrics separated by commas, with settings as name:key=value; see [bold]proofmap list metrics[/].",
            show_default=", ".join(metric.name for metric in pm.default_metrics()),
        ),
    ] = None,
    fills: Annotated[
        str | None,
        typer.Option(
            "--fills",
            "--fill",
            help="Fills separated by commas; every metric is computed with each of them. See [bold]proofmap list fills[/].",
            show_default="as the metrics say",
        ),
    ] = None,
    controls: Annotated[
        bool | None,
        typer.Option(
            "--controls",
            help="Also judge controls: random maps, a centred Gaussian, each method's maps blurred, and its top label's map used for every label.",
        ),
    ] = None,
    labels: Annotated[str | None, options.LABELS] = None,
    number: Annotated[
        int | None,
        typer.Option(min=1, metavar="<int>", help="Number of images, chosen at random.", show_default="all"),
    ] = None,
    correct: Annotated[
        bool | None, _rare(typer.Option("--correct", help="Only images that the net classifies correctly."))
    ] = None,
    min_second_probability: Annotated[
        float | None,
        _rare(
            typer.Option(
                min=0,
                max=1,
                metavar="<float>",
                help="Only images whose second label has at least this probability.",
            )
        ),
    ] = None,
    label_set: Annotated[str | None, _rare(options.LABEL_SET)] = None,
    thresholds: Annotated[str | None, options.THRESHOLDS] = None,
    curve: Annotated[str | None, _rare(options.CURVE)] = None,
    maps: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE", help="Maps of all images, in .npz, .npy or .safetensors. May be repeated."
        ),
    ] = None,
    store_maps: Annotated[
        str | None, _rare(options.choice_option(get_args(KeptMaps), "How maps are stored (keep is float16)"))
    ] = None,
    images_per_unit: Annotated[
        int | None, _rare(typer.Option(min=1, help="Number of images in one unit of work."))
    ] = None,
    seed: Annotated[int | None, options.SEED] = None,
    out: Annotated[
        Path | None,
        options.path_option("Run directory.", show_default="the study file's name, or evaluation"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show the plan and its estimated cost.")
    ] = False,
    executor: Annotated[
        str, options.choice_option(("local", "ray"), "What runs the units (ray needs the extra ray)")
    ] = "local",
    address: Annotated[str | None, _rare(typer.Option(help="Address of a running Ray cluster."))] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, metavar="<int>", help="Number of Ray workers.", show_default="as many as fit"),
    ] = None,
    gpus: Annotated[float, _rare(typer.Option(min=0, help="GPUs for each Ray worker; 0.5 shares one."))] = 0,
    threads: Annotated[
        int | None,
        _rare(typer.Option(min=1, max=1024, metavar="<int>", help="Threads of each worker on a CPU.")),
    ] = None,
    batch_size: Annotated[int | None, _rare(options.BATCH_SIZE)] = None,
    device: Annotated[str | None, options.DEVICE] = None,
    validation: Annotated[
        Path | None,
        options.path_option(
            "A file of proofmap validate with this net: scores and the report say how often each metric is right."
        ),
    ] = None,
    wait: Annotated[
        bool, _rare(typer.Option("--wait", help="Wait for another process that uses the run directory."))
    ] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Repeat what failed before.")] = False,
    forget: Annotated[
        list[str] | None,
        _rare(
            typer.Option(
                metavar="METHOD",
                help="First remove this method and its results from the run, so that they are computed again. May be repeated.",
            )
        ),
    ] = None,
    track: Annotated[
        list[str] | None,
        _rare(
            typer.Option(
                help="Log settings and scores to mlflow, wandb, tensorboard at the end. May be repeated."
            )
        ),
    ] = None,
    format: Annotated[
        str, options.choice_option(tuple(SCORE_FORMATS), "Format of the scores on stdout")
    ] = "table",
    no_pictures: Annotated[
        bool, _rare(typer.Option("--no-pictures", help="Write no sheets and charts."))
    ] = False,
    quiet: Annotated[bool, options.QUIET] = False,
    help_all: Annotated[
        bool,
        typer.Option(
            "--help-all", is_eager=True, callback=_print_all_help, help="Also show rarely used options."
        ),
    ] = False,
) -> None:
    given: dict[str, Any] = locals() | {
        "data": options.with_columns(data, target, text_column),
        "methods": None if methods is None else split_specs(methods),
        "metrics": None if metrics is None else split_specs(metrics, "metric"),
        "fills": None if fills is None else split_specs(fills, "fill"),
        "label_set": options.names_after("--label-set", label_set),
        "maps": store_maps,
    }
    given = {option: value for option, value in given.items() if value is not None}
    config = Study.from_toml(study) if study is not None else Study()
    chosen = {name: given[name] for name in ("number", "correct", "min_second_probability") if name in given}
    settings = {name: given[name] for name in setting_names(Study) if name in given}
    config = replace(config, images=replace(config.images, **chosen), **settings)
    read = [method for place in maps or [] for method in GivenMaps.in_files(place)]
    config = replace(config, methods=(*config.methods, *read))
    if not config.methods:
        config = replace(config, methods=tuple(_usual_methods(config)))
    if not config.data:
        raise InputError("no data was named: give --data, or a study file with data = ...")
    validated = None if validation is None else Validation.load(validation)
    folder = check_output(out or (study.stem if study is not None else "evaluation"))
    device_here, worker_device = _devices_for(executor, gpus, device)
    if dry_run:
        print_result(preview_text(preview(config, folder, device=device_here, threads=threads)))
        return
    if forget:
        forget_methods(folder, forget)
    if executor == "ray" and threads is None and not (folder / MANIFEST).exists():
        threads = 1  # a core for each worker, unless the run was started with another number

    log_scores = _trackers_for(track or [])
    outcome = run_study(
        config,
        folder,
        executor=_executor_for(executor, address, workers, gpus, threads, folder),
        device=device_here,
        worker_device=worker_device,
        batch_size=batch_size,
        threads=threads,
        watchers=watchers_for(stderr, quiet),
        on_plan=partial(_print_plan, quiet=quiet),
        wait=wait,
        retry=retry,
        command=options.command_line(),
    )
    if validated is not None:
        write_text(folder / VALIDATION, validated.json())
    evaluation, files = save_run(folder, pictures=not no_pictures)
    if evaluation is not None:
        if validated is not None and not evaluation.trust:
            stderr.print(
                f"note: {validation} is of another net or other metrics ({validated.settings.get('model')}), so it is not shown"
            )
        print_result(SCORE_FORMATS[format](evaluation).rstrip("\n"))
        log_scores(evaluation, folder)
    _print_outcome(outcome, files)


def _usual_methods(config: Study) -> list[str]:
    """The default methods of a study: those that the net supports. For a net made by a user's function, the net is built to find out."""
    spec = ModelSpec.parse(config.model)
    usual, others = split_specs(options.DEFAULT_METHODS), split_specs(options.METHODS_WITHOUT_GRADIENTS)
    if spec.scheme != "file":
        return others if spec.takes_texts or spec.reads_file else usual
    net = load_classifier(config.model, weights=config.weights)
    if isinstance(net.inputs, TextInputs) or not net.differentiable:
        return others
    default = default_method(net)
    named = [each.replace("belief-mask", default) for each in usual]
    return [
        each for each in named if default in each or _has_meaning(each, net)
    ]  # which makes no pool of images


def _has_meaning(method: str, net: Classifier) -> bool:
    try:
        make_method(method).prepare(Session(net))
    except InputError:
        return False
    return True


def _devices_for(executor: str, gpus: float, device: str | None) -> tuple[str, str | None]:
    """The device of the net in this process, and in Ray's workers, which see only the GPUs that were requested for them."""
    if executor != "ray":
        return options.check_device(device), None
    worker_device = device or ("cuda" if gpus else "cpu")
    if worker_device == "cpu" or torch.cuda.is_available():
        return worker_device, worker_device
    stderr.print(
        "note: this machine has no GPU, so batch sizes are measured on its CPU; give --batch-size for the workers"
    )
    return "cpu", worker_device


def _executor_for(
    name: str, address: str | None, workers: int | None, gpus: float, threads: int | None, folder: Path
) -> Executor:
    if name == "ray":
        if (folder / MANIFEST).exists():
            threads = Manifest.read(folder).threads
        assert threads is not None
        return RayExecutor(workers=workers, address=address, cpus_per_worker=threads, gpus_per_worker=gpus)
    if address is not None or workers is not None or gpus:
        raise InputError("--address, --workers and --gpus need --executor ray")
    return LocalExecutor()


def _print_outcome(outcome: Outcome, files: Sequence[Path]) -> None:
    """Print the written files, the notes that were not printed with the plan, and failures. Exit with code 3 if one of this command's
    methods failed on an image, or if an image cannot be read."""
    methods = {method.name for method in outcome.plan.methods}
    with Run(outcome.folder) as run:
        for note in run.notes():
            if note not in sanity_notes(outcome.plan.sanity):
                stderr.print(note)
        failures = [failure for failure in run.failures() if not failure.method or failure.method in methods]
    if not files:
        stderr.print("no method gave a result, so there are no scores; the reasons are below")
    else:
        stderr.print(f"\nwritten: {', '.join(map(shown_path, files))}")
    for failure in failures[:10]:
        place = f"{failure.method} on {failure.image}" if failure.method else failure.image
        stderr.print(f"failed: {place}: {failure.reason}")
    for method, images in outcome.given_up.items():
        stderr.print(
            f"given up: {method} failed on everything in several units in a row; not tried on {images:,} more",
        )
    if failures:
        more = f" ({len(failures) - 10} more are in the report)" if len(failures) > 10 else ""
        stderr.print(f"{len(failures)} failed{more}; the same command with --retry tries them again")
        raise typer.Exit(options.FAILED)


def _print_plan(plan: Plan, quiet: bool) -> None:
    """Print what the net does with some of the images, and the plan; if ``quiet``, only what is suspicious."""
    for line in sanity_notes(plan.sanity)[1 if quiet else 0 :]:
        stderr.print(line)
    if quiet:
        return
    left = plan.units - plan.done
    if not left:
        stderr.print(f"nothing left to do: {counted(plan.units, 'unit')} done")
        return
    cost = plan.cost
    passes = "" if cost is None else f", {counted(cost.passes, 'pass')}"
    done = f" ({plan.done} done)" if plan.done else ""
    stderr.print(
        f"{counted(plan.images, plan.item)} x {counted(plan.labels_per_image, 'label')} x {counted(len(plan.methods), 'method')}: "
        f"{counted(left, 'unit')} to do{done}{passes}",
    )
    if plan.speed is not None and plan.expected.is_long(plan.speed):
        stderr.print(plan.expected.time_text(plan.speed))


def preview_text(plan: Plan) -> str:
    """The plan of a dry run, its cost and its estimated time, as text."""
    rows = [
        [m.name, str(m.units), str(m.done), "?" if m.cost is None else f"{m.cost.passes:,}"]
        for m in plan.methods
    ]
    most = "" if plan.sure else "at most "
    lines = [
        f"{most}{counted(plan.images, plan.item)} x {counted(plan.labels_per_image, 'label')}, in {counted(plan.blocks, 'block')}, on {plan.device}",
        "",
        tables.aligned(["method", "units", "done", "passes to do"], rows),
        "",
    ]
    if plan.done == plan.units:
        lines.append("nothing left to do")
    elif plan.speed is not None:
        lines.append(plan.expected.time_text(plan.speed))
        lines.append(f"maps: {size_text(plan.map_bytes)} on disk (--store-maps none saves them)")
    if plan.distractors:
        lines.append(f"distractors: {plan.distractors}")
    return "\n".join(lines)


def _mlflow(package: Any, settings: _Texts, scores: _Scores, step: int, folder: Path) -> None:
    with package.start_run(run_name=folder.name):
        package.log_params({name: value[:6000] for name, value in settings.items()})
        allowed = {re.sub(r"[^\w\-. :/]", "_", name): value for name, value in scores.items()}
        package.log_metrics(allowed, step=step)


def _wandb(package: Any, settings: _Texts, scores: _Scores, step: int, folder: Path) -> None:
    with package.init(name=folder.name, config=dict(settings)) as run:
        run.log(dict(scores), step=step)


def _tensorboard(package: Any, settings: _Texts, scores: _Scores, step: int, folder: Path) -> None:
    with package.SummaryWriter(str(folder / "tensorboard")) as writer:
        writer.add_text("settings", json.dumps(dict(settings), indent=1), step)
        for name, value in scores.items():
            writer.add_scalar(name, value, step)


_TRACKERS: Mapping[str, tuple[str, Callable[..., None]]] = {
    "mlflow": ("mlflow", _mlflow),
    "wandb": ("wandb", _wandb),
    "tensorboard": ("torch.utils.tensorboard", _tensorboard),
}


def _trackers_for(names: Sequence[str]) -> Callable[[Evaluation, Path], None]:
    """A function that logs the scores and settings of an evaluation, and the run directory's name, to these trackers. Raises if a name is not
    that of a tracker, or its package is missing.

    A tracker that fails is a message: the results are in the run directory.
    """
    for name in names:
        if name not in _TRACKERS:
            raise InputError(
                f"--track takes {', '.join(_TRACKERS)}, not {name!r}.{did_you_mean(name, _TRACKERS)}"
            )
        for module in (name, _TRACKERS[name][0]):
            require(module, extra=name, purpose=f"--track {name}")

    def track(evaluation: Evaluation, folder: Path) -> None:
        settings = {
            key: value if isinstance(value, str) else json.dumps(value, default=str)
            for key, value in evaluation.settings.items()
        }
        scores = {key: value for key, value in evaluation.to_dict().items() if math.isfinite(value)}
        for name in names:
            module, log = _TRACKERS[name]
            try:
                log(import_module(module), settings, scores, len(evaluation), folder)
            except Exception as error:
                stderr.print(f"{name} did not get the scores: {one_line(str(error))}")

    return track
