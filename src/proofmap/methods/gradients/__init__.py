"""Methods that use gradients of a label's logit with respect to the input."""
