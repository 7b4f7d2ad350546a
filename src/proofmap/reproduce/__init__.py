"""The paper's tables and figures, one recipe each: ``proofmap reproduce NAME``."""

from proofmap.reproduce.outcome import Claim, Effort, Outcome, Table, Work
from proofmap.reproduce.recipe import Need, Recipe, Variant, recipe_names
from proofmap.reproduce.run import Reproduction, reproduce

__all__ = [
    "Claim",
    "Effort",
    "Need",
    "Outcome",
    "Recipe",
    "Reproduction",
    "Table",
    "Variant",
    "Work",
    "recipe_names",
    "reproduce",
]
