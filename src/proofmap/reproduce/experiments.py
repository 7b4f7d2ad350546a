"""The experiments by name: each takes a :class:`Job` and gives an :class:`Outcome`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from proofmap.reproduce import artifacts, desk, judged, linear_case, tv_curves
from proofmap.reproduce.outcome import Job, Outcome

EXPERIMENTS: Mapping[str, Callable[[Job], Outcome]] = {
    "artifacts": artifacts.run,
    "curves": tv_curves.run,
    "desk": desk.run,
    "study": judged.run,
    "theory": linear_case.run,
}
WITHOUT_IMAGES = {"desk", "theory"}
"""Those that --images does not concern."""
