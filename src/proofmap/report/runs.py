"""Make the report, tables, sheets and charts of a run from its stored numbers and maps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from proofmap.core.files import output_folder, write_text
from proofmap.core.text import counted
from proofmap.data.dataset import Dataset
from proofmap.report.choice import Choice
from proofmap.report.display import NUMBER_FILES, save_pictures
from proofmap.report.html import write_report
from proofmap.results.evaluation import Evaluation
from proofmap.results.sharing import shared
from proofmap.results.validation import Validation
from proofmap.study.sanity import sanity_notes
from proofmap.study.stored_run import Run

VALIDATION = "validation.json"
"""The file of a run directory with what ``proofmap validate`` found about its metrics."""


def write_run_report(
    run: Run,
    path: Path,
    *,
    worst: int = 7,
    random: int = 6,
    title: str = "",
    dataset: Dataset | None = None,
) -> Path:
    """Write the HTML report of a run and return its path.

    The report shows in full the ``worst`` images in soundness, the ``worst`` images in completeness, and ``random`` random images.
    """
    evaluation, choice = load_pictured(run, worst=worst, random=random, dataset=dataset)
    return _report(run, evaluation, choice, path, title)


def _banner(run: Run) -> str:
    """The warning at the top of a run's pages if the run was made by ``reproduce --quick``; otherwise empty."""
    quick = any({"reproduce", "--quick"} <= set(command.split()) for command in run.manifest.commands)
    return "Quick run: not evidence. Made with --quick, on as little as possible." if quick else ""


def save_run(folder: Path, *, pictures: bool = True) -> tuple[Evaluation | None, list[Path]]:
    """Write ``scores.csv`` and ``report.html`` to a run directory, and unless ``pictures`` is False, sheets and charts to its folder
    ``pictures``. Returns the evaluation and the paths; None and no paths if the run has no results."""
    with Run(folder) as run:
        if not run.has_results:
            return None, []
        evaluation, choice = load_pictured(run)
        write_text(folder / "scores.csv", NUMBER_FILES["scores.csv"](shared(evaluation)))
        page = _report(run, evaluation, choice, folder / "report.html", "")
    written = [folder / "scores.csv", page]
    if pictures:
        save_pictures(shared(evaluation), output_folder(folder / "pictures"))
        written.append(folder / "pictures")
    return evaluation, written


def load_pictured(
    run: Run,
    *,
    worst: int = 7,
    random: int = 6,
    dataset: Dataset | None = None,
) -> tuple[Evaluation, Choice]:
    """A run's evaluation, with pixels and maps of the images to show in full, and the :class:`Choice` of these images."""
    choices: list[Choice] = []

    def choose(numbers: Evaluation) -> tuple[int, ...]:
        choices.append(Choice.of(numbers, worst=worst, random=random, among=_judged_by_all(numbers)))
        return choices[0].indices

    evaluation = run.evaluation(choose, dataset=dataset)
    if (validated := run.folder / VALIDATION).is_file():
        evaluation = evaluation.trusting(Validation.load(validated), run.manifest.identity.get("fingerprint"))
    (choice,) = choices
    there = {i: why for i, why in choice.reasons.items() if i in evaluation.pictured}
    if len(there) < len(choice.reasons):
        missing = "the run has no maps of the others, or their files are no longer where they were"
        rule = f"{len(there)} of {counted(len(choice.reasons), evaluation.inputs.singular)} chosen can be shown in full: {missing}."
        choice = Choice(there, rule)
    return evaluation, choice


def _judged_by_all(numbers: Evaluation) -> list[int] | None:
    """The indices of the images that every method has judged; None if there are none. In an unfinished run, this may be a part of the images."""
    judged = [~result.insertion.auc.isnan().all(dim=1) for result in numbers.results]
    found = torch.stack(judged).all(dim=0).nonzero()[:, 0].tolist()
    return found or None


def _report(run: Run, evaluation: Evaluation, choice: Choice, path: Path, title: str) -> Path:
    sane = sanity_notes(run.manifest.sanity)[:1] if run.manifest.sanity else []  # numbers, and no warning
    return write_report(
        evaluation,
        path,
        command=run.manifest.commands[-1] if run.manifest.commands else "",
        provenance={**run_provenance(run), "sanity": " ".join(sane)},
        warnings=[note for note in run.notes() if note not in sane],
        stored=str(run.manifest.study.get("maps", "")),
        failures=[(f"{f.method} on {f.image}" if f.method else f.image, f.reason) for f in run.failures()],
        banner=_banner(run),
        choice=choice,
        title=title,
    )


def run_provenance(run: Run) -> Mapping[str, object]:
    """Facts about where a run's scores come from, in addition to its settings: date, net, machines and commands."""
    manifest = run.manifest
    machines = [
        ", ".join(f"{key} {value}" for key, value in environment.items())
        for environment in manifest.environments
    ]
    return {
        "created": manifest.created,
        "fingerprint of the net": manifest.identity.get("fingerprint"),
        "batch sizes (forward, gradient)": list(manifest.batches),
        "threads": manifest.threads,
        "images in a unit": manifest.images_per_unit,
        "maps": f"stored as {manifest.study.get('maps')}",
        **{f"machine {k + 1}": text for k, text in enumerate(machines)},
        **{f"command {k + 1}": text for k, text in enumerate(manifest.commands)},
    }
