"""Methods that hide parts of the input and measure what each label loses. They need no gradients, and all labels share the passes."""

from proofmap.methods.perturbation import additive, belief_order, rise  # noqa: F401 they register methods
