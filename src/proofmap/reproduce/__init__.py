"""Computes the paper's tables and figures again, with one recipe each: ``proofmap reproduce NAME``."""

from typing import TYPE_CHECKING

from proofmap.core.deferred import lazy_names

if TYPE_CHECKING:
    from proofmap.reproduce.recipe import Recipe, recipe_names
    from proofmap.reproduce.run import reproduce

# Imported when first used: recipes are read without torch.
__getattr__, __dir__ = lazy_names(__name__, {"recipe": "Recipe recipe_names", "run": "reproduce"})

__all__ = ["Recipe", "recipe_names", "reproduce"]
