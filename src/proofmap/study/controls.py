"""Controls for a run that was judged without: the study that it came from is continued with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from proofmap.core.errors import ProofmapError
from proofmap.core.inputs import inputs_of
from proofmap.study.fresh import study_of
from proofmap.study.outcome import Outcome
from proofmap.study.results import Run
from proofmap.study.run import run_study
from proofmap.study.study import Study


def missing_controls(run: Run) -> dict[str, Study]:
    """The controls that a run lacks, by name, and the study that judges each; see :mod:`proofmap.methods.controls`.

    Methods that were objects of a Python process cannot be made again, so their own maps get no controls.
    """
    inputs = inputs_of(run.manifest.identity)
    found: dict[str, Study] = {}
    for asked in run.manifest.asked:
        if not asked["methods"]:
            continue
        study = replace(study_of(run, dict(asked)), controls=True, maps=str(run.manifest.study["maps"]))  # type: ignore[arg-type]
        found |= {name: study for name in study.named_methods(inputs) if name not in run.methods}
    return found


def add_controls(
    folder: Path,
    *,
    device: str | None = None,
    on_start: Callable[[Sequence[str]], None] | None = None,
    on_end: Callable[[Outcome], Sequence[Path]] | None = None,
) -> str:
    """Judge the controls that a run lacks and store them in it; empty, or why it was not done.

    Where maps were kept they are taken, so that ``blurred`` and ``cheating`` rows cost their games alone.
    """
    with Run(folder) as run:
        kept: Any = run.manifest.study
        if run.manifest.outdated:
            return "an earlier Proofmap made the run, so nothing is added to it"
        if run.unfinished():
            return "the run is not finished"
        if not run.has_results:
            return "no method of the run has a result"
        if kept["model"] is None or not kept["dataset"]:
            return (
                "the net or the data was an object of a Python process; judge them there, with controls=True"
            )
        missing = missing_controls(run)
    if not missing:
        return ""
    if on_start is not None:
        on_start(list(missing))
    try:
        for study in {id(study): study for study in missing.values()}.values():
            run_study(study, folder, device=device, on_end=on_end)
    except (ProofmapError, OSError) as error:
        return str(error)
    return ""
