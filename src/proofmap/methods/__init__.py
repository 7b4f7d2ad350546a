"""Methods, each of which makes one heat map per label (``proofmap list methods``). There is one folder or file per family of methods.

A method is found by its name; its class is in the module of its family, such as ``proofmap.methods.cams.GradCAM``.
"""

from proofmap.methods import (  # noqa: F401 they register methods
    adapters,
    attention,
    cams,
    controls,
    gradients,
    maskers,
    masks,
    perturbation,
    propagation,
)
from proofmap.methods.adapters.library import FromObject
from proofmap.methods.controls import Wrapper
from proofmap.methods.from_function import per_label
from proofmap.methods.masks.learned import LearnedMask
from proofmap.methods.method import METHODS, Cost, Method, make_method

__all__ = [
    "METHODS",
    "Cost",
    "FromObject",
    "LearnedMask",
    "Method",
    "Wrapper",
    "make_method",
    "per_label",
]
