"""The paper's tables and figures, one recipe each: ``proofmap reproduce NAME``."""

from proofmap.reproduce.outcome import Claim, Outcome, Table
from proofmap.reproduce.recipe import Need, Recipe, recipe_names
from proofmap.reproduce.run import Reproduction, reproduce

__all__ = [
    "Claim",
    "Need",
    "Outcome",
    "Recipe",
    "Reproduction",
    "Table",
    "recipe_names",
    "reproduce",
]
