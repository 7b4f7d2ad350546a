"""Methods that hide parts of the input and measure what each label loses. They need no gradients, and all labels share the passes."""

from proofmap.methods.perturbation.additive import LIME, KernelSHAP, Shapley
from proofmap.methods.perturbation.belief_order import BeliefOrder
from proofmap.methods.perturbation.greedy import GreedyInsertion
from proofmap.methods.perturbation.occlusion import Occlusion
from proofmap.methods.perturbation.rise import RISE
from proofmap.methods.perturbation.sensitivity import HSIC, Sobol

__all__ = [
    "BeliefOrder",
    "HSIC",
    "LIME",
    "RISE",
    "GreedyInsertion",
    "KernelSHAP",
    "Occlusion",
    "Shapley",
    "Sobol",
]
