"""Methods that hide parts of the input and measure what each label loses. They need no gradients, and all labels share the passes."""
