"""Methods that use gradients of a label's logit with respect to the input."""

from proofmap.methods.gradients import paths, plain  # noqa: F401 they register methods
