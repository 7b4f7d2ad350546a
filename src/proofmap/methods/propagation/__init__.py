"""Methods that propagate numbers from the logit back to the input, each by its own rules."""
