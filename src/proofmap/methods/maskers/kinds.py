"""The kinds of maskers that can be trained, by name."""

from __future__ import annotations

from proofmap.methods.maskers.belief import BeliefObjective
from proofmap.methods.maskers.objective import Objective
from proofmap.methods.maskers.phang import PhangCA, PhangFix
from proofmap.methods.maskers.real_time import RealTimeObjective

KINDS: dict[str, type[Objective]] = {
    objective.kind: objective for objective in (RealTimeObjective, PhangFix, PhangCA, BeliefObjective)
}
