"""The paper's own examples and its theorem, exact or by simulation: no net and no images, only the definitions."""
