"""The paper's tables and figures, one recipe each: ``proofmap reproduce NAME``."""

from proofmap.reproduce.recipe import Recipe, recipe_names
from proofmap.reproduce.run import reproduce

__all__ = ["Recipe", "recipe_names", "reproduce"]
