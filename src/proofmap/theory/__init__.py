"""The paper's own examples, exact: no net, no images, only the definitions."""
