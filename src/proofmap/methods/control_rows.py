"""The rows that keep a comparison honest: noise, the middle, and each method's own maps blurred, or shown for every label."""

from __future__ import annotations

from collections.abc import Sequence

from proofmap.core.inputs import Inputs
from proofmap.methods.controls import CenteredGaussian, Random
from proofmap.methods.method import Method
from proofmap.methods.wrappers import Blurred, TopLabel


def control_rows(methods: Sequence[Method], inputs: Inputs) -> list[Method]:
    """The controls that are not among the methods: ``random``, ``centered-gaussian``, and for each method that is no control itself
    ``blurred:METHOD``, where positions have neighbours, and ``top-label:METHOD``, where it has a map for each label.
    """
    wanted: list[Method] = [Random(), CenteredGaussian()]
    for method in methods:
        if method.family == "control":
            continue
        if inputs.has_neighbours:
            wanted.append(Blurred(of=method))
        if not method.label_free:
            wanted.append(TopLabel(of=method))
    return [control for control in dict.fromkeys(wanted) if control not in methods]
