"""Methods that propagate numbers from the logit back to the input, each by its own rules."""

from proofmap.methods.propagation import attention_lrp, deep_lift, lrp  # noqa: F401 they register methods
