"""The experiments by name: each takes a :class:`Job` and gives an :class:`Outcome`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from proofmap.reproduce import artifacts, corner, desk, ensembling, judged, linear_case, sanity, tv_curves
from proofmap.reproduce.outcome import Job, Outcome

EXPERIMENTS: Mapping[str, Callable[[Job], Outcome]] = {
    "artifacts": artifacts.run,
    "corner": corner.run,
    "curves": tv_curves.run,
    "desk": desk.run,
    "ensembling": ensembling.run,
    "sanity": sanity.run,
    "study": judged.run,
    "theory": linear_case.run,
}
WITHOUT_IMAGES = {"desk", "theory"}
"""Those that --images does not concern."""
OF_ROWS = {"study", "corner"}
"""Those whose rows can be had one by one."""
