"""Runs a recipe and writes its tables, claims and figures, and a page with all of them, to one directory.

| file | what it is |
|---|---|
| ``paper.html`` | everything for people, in one file |
| ``paper.json`` | for programs: every number, settings, versions and the command |
| ``FIGURE.png``, ``.pdf``, ``.txt`` | each figure and its caption |
| ``recipe.toml`` | the recipe as it was |

A recipe whose experiment is a study leaves its run there, too, with ``report.html``.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch

from proofmap.core.errors import InputError, MissingExtra
from proofmap.core.files import DATA_FOLDER, check_output, write_text, written_together
from proofmap.core.progress import Progress
from proofmap.core.text import counted
from proofmap.core.version import environment
from proofmap.methods.masks.learned import LearnedMask
from proofmap.methods.method import Method
from proofmap.report.figures.drawing import draw
from proofmap.report.html import templates_of
from proofmap.reproduce import artifacts, ensembling, examples, linear_case, sanity, study_recipe, tv_curves
from proofmap.reproduce.findings import Findings, Job, rows_of
from proofmap.reproduce.recipe import Recipe
from proofmap.reproduce.rows import study_of
from proofmap.results.sharing import shared_settings, without_folders
from proofmap.results.tables import json_text
from proofmap.study.watchers import Watcher

EXPERIMENTS: Mapping[str, Callable[[Job], Findings]] = {
    "artifacts": artifacts.run,
    "corner": study_recipe.run,
    "curves": tv_curves.run,
    "desk": linear_case.run,
    "ensembling": ensembling.run,
    "examples": examples.run,
    "sanity": sanity.run,
    "study": study_recipe.run,
    "theory": linear_case.run,
}
WITHOUT_IMAGES = {"desk", "theory"}
"""Experiments that use no images and no maps."""
CHOSEN_IMAGES = {*WITHOUT_IMAGES, "examples"}
"""Experiments that refuse ``--images``, because they have no number of images to choose."""
OF_ROWS = {"study", "corner"}
"""Experiments whose rows can be run one at a time."""
QUICK = "made with --quick: this shows that the code runs, and nothing else"


@dataclass(frozen=True)
class Reproduction:
    """The findings of a recipe, the files with the results, and the time and work that the recipe took, as text."""

    recipe: Recipe
    outcome: Findings
    files: tuple[Path, ...]
    effort: str


def reproduce(
    name: str,
    out: str | Path,
    *,
    data: str | Path = DATA_FOLDER,
    quick: bool = False,
    images: int | None = None,
    variant: str | None = None,
    rows: Sequence[str] = (),
    start: str | Path | None = None,
    seed: int = 0,
    images_seed: int | None = None,
    device: str | None = None,
    progress: Progress | None = None,
    watchers: Sequence[Watcher] = (),
    command: str = "",
) -> Reproduction:
    """Run a recipe by its name and write the results to the directory ``out``.

    Args:
        data: the folder with the files that the recipe needs.
        quick: run the same code on as little data as possible; the numbers then mean nothing.
        images: number of images, instead of the recipe's number.
        images_seed: seed of the random sample of images, instead of the recipe's. ``seed`` does not choose images.
        variant: the name of a variant of the recipe; by default the first variant whose needs are met.
        rows: patterns for the names of rows, in which ``*`` matches anything: only these rows are run. The others can be added to the same
            directory later.
        start: the directory of another recipe's run. Its maps are used for rows with the same name and settings.
        command: the command line, to be recorded with the results.
    """
    began = time.perf_counter()
    recipe = Recipe.named(name).with_variant(Path(data), variant)
    missing = recipe.check_needs(Path(data))
    if images is not None and recipe.experiment in CHOSEN_IMAGES:
        raise InputError(f"the recipe {name} has no number of images to choose; leave out --images")
    if start is not None and recipe.experiment in WITHOUT_IMAGES:
        raise InputError(f"the recipe {name} has no maps; leave out --from")
    settings = recipe.chosen(data=Path(data), quick=quick)
    if images_seed is not None and images is None and not _draws_images(recipe, settings):
        raise InputError(f"the recipe {name} draws no random sample of images; leave out --images-seed")
    lacking = {need.gives: need.describe(Path(data)) for need in missing}
    chosen = _with_rows(recipe, settings, rows, lacking) if rows else settings
    folder = check_output(out)
    job = Job(
        recipe,
        chosen,
        folder,
        missing=[*lacking],
        data=Path(data),
        images=images,
        start=None if start is None else Path(start),
        seed=seed,
        images_seed=images_seed,
        device=device,
        progress=progress or Progress(),
        watchers=watchers,
        command=command or f"proofmap reproduce {name}{' --quick' if quick else ''}",
    )
    outcome = EXPERIMENTS[recipe.experiment](job)
    few, many = len(rows_of(chosen)), len(rows_of(settings))
    few_rows = f"{few} of {counted(many, 'row')}, as --rows says" if few < many else ""
    first = [QUICK if quick else "", recipe.variant_note(Path(data)), few_rows]
    outcome = replace(outcome, notes=(*filter(None, first), *passes_notes(job), *outcome.notes))
    machine = environment(torch.device(device or "cpu"))
    spent: dict[str, object] = {
        "seconds": round(time.perf_counter() - began, 3),
        "device": str(machine["device_name"]),
        **({} if outcome.work is None else asdict(outcome.work)),
    }
    effort = f"{spent['seconds']:.1f} s end to end on {spent['device']}{f': {outcome.work}' if outcome.work else ''}"
    with written_together(folder) as part:
        written = _write(job, outcome, part, quick, spent, effort)
    files = (*(folder / path.name for path in written), *outcome.files)
    return Reproduction(recipe, outcome, files, effort)


def _draws_images(recipe: Recipe, settings: Mapping[str, Any]) -> bool:
    """Whether a recipe draws images at random. Others have none, or use all images of their data."""
    numbered = settings.get("study", {}).get("images", {}).get("number") is not None
    return numbered or recipe.experiment == "examples"


def _with_rows(
    recipe: Recipe, settings: Mapping[str, Any], rows: Sequence[str], lacking: Mapping[str, str]
) -> dict[str, Any]:
    """The settings with only the rows that match the patterns ``rows``. Raises if none of these rows can be computed.

    ``lacking`` has for each row that cannot be computed what it needs.
    """
    if recipe.experiment not in OF_ROWS:
        raise InputError(
            f"the rows of the recipe {recipe.name} cannot be run one at a time; leave out --rows"
        )
    chosen = _matching_rows(settings, rows)
    missing = [f"{row}: supply {lacking[row]}" for row in rows_of(chosen) if row in lacking]
    if len(missing) == len(rows_of(chosen)):
        raise InputError(f"none of the rows in --rows can be computed here. {'; '.join(missing)}")
    return chosen


def _write(
    job: Job, outcome: Findings, part: Path, quick: bool, spent: Mapping[str, object], effort: str
) -> list[Path]:
    recipe, notes = job.recipe, [without_folders(note) for note in outcome.notes]
    for name, figure in outcome.named_figures.items():
        try:
            for kind in ("png", "pdf"):
                draw(figure, part / f"{name}.{kind}")
        except MissingExtra as error:
            notes.append(f"no figure: {error}")
            continue
        write_text(part / f"{name}.txt", figure.caption() + "\n")
    about = {
        "recipe": recipe.name,
        "title": recipe.title,
        "paper": recipe.paper,
        "variant": recipe.chosen_variant,
        "command": without_folders(job.command),
        "effort": spent,
        "quick": quick,
        "seed": job.seed,
        "images_seed": study_of(job).images.seed if "study" in job.settings else None,
        "settings": shared_settings(job.settings),
        "environment": environment(torch.device(job.device or "cpu")),
    }
    records = [{"table": t.title, **record} for t in outcome.tables for record in t.records]
    claims = [
        {"statement": c.statement, "verdict": c.verdict, "found": c.found, "checked": c.checked}
        for c in outcome.claims
    ]
    write_text(
        part / "paper.json",
        json_text({**about, "claims": claims, "notes": notes, "numbers": records}) + "\n",
    )
    write_text(part / "recipe.toml", recipe.text)
    write_text(part / "paper.html", _page(about, outcome, [*notes, effort], part))
    return sorted(part.iterdir())


def _page(about: dict[str, object], outcome: Findings, notes: Sequence[str], part: Path) -> str:
    """The HTML page with all results. It needs no other file: the figures are embedded."""
    environment_ = templates_of("proofmap.reproduce", "page")
    shown = [
        {
            "caption": figure.caption(),
            "data": base64.b64encode((part / f"{name}.png").read_bytes()).decode(),
        }
        for name, figure in outcome.named_figures.items()
        if (part / f"{name}.png").exists()
    ]
    settings = json.dumps(about["settings"], indent=1, default=str)
    has_report = any(path.name == "report.html" for path in outcome.files)
    return environment_.get_template("paper.html").render(
        about=about, outcome=outcome, notes=notes, figures=shown, settings=settings, has_report=has_report
    )


def passes_notes(job: Job) -> list[str]:
    """Notes with the number of steps or passes for each optimised mask, here and in the paper or the code that it used. Rows with equal
    numbers share a note."""
    rows: dict[str, list[str]] = {}
    for name, method in study_of(job).named_methods().items() if "study" in job.settings else ():
        schedule = _schedule(method.source or method)
        if schedule:
            rows.setdefault(schedule, []).append(name)
    return [f"each mask of {', '.join(names)}: {schedule}" for schedule, names in rows.items()]


def _schedule(method: Method) -> str:
    """The steps or passes for one mask, here and in the paper or the code that it used. Empty for methods that optimise no mask, and
    for those that the paper does not have."""
    if isinstance(method, LearnedMask):
        each = [
            f"{m.steps * m.draws:,} passes ({m.steps:,} steps x {m.draws}, rate {m.learning_rate:g})"
            for m in (method, LearnedMask.preset("released", fill=method.fill))
        ]
        return f"{each[0]}; the paper: {each[1]}"
    own: Any = method
    if method.name == "fong-vedaldi":
        return f"{own.steps:,} steps; the code that the paper used: {own.preset('pytorch').steps:,}"
    if method.name == "igos++":
        each = [
            f"{m.iterations} iterations of {m.integration} integration steps"
            for m in (own, own.preset("paper"))
        ]
        return f"{each[0]}; the paper does not say how many, iGOS++'s authors have {each[1]}"
    return ""


def _matching_rows(settings: Mapping[str, Any], patterns: Sequence[str]) -> dict[str, Any]:
    """The settings with only those rows of the study whose names match a pattern. ``*`` in a pattern matches anything.

    >>> rows = [{"name": name, "method": "learned-mask"} for name in ("TV 0", "TV .1", "fast, TV 0")]
    >>> [row["name"] for row in _matching_rows({"study": {"methods": rows}}, ["TV *"])["study"]["methods"]]
    ['TV 0', 'TV .1']
    """
    rows = rows_of(settings)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in rows):
            raise InputError(f"no row is named {pattern!r}; the rows are: {'; '.join(rows)}")
    kept = [row for name, row in rows.items() if any(fnmatchcase(name, pattern) for pattern in patterns)]
    return {**settings, "study": {**settings["study"], "methods": kept}}
