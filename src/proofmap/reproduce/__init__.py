"""The paper's tables and figures, one recipe each: ``proofmap reproduce NAME``."""

from proofmap.reproduce.findings import Claim, Effort, Findings, PaperTable, WorkDone
from proofmap.reproduce.recipe import Need, Recipe, Variant, recipe_names
from proofmap.reproduce.run import Reproduction, reproduce

__all__ = [
    "Claim",
    "Effort",
    "Need",
    "Findings",
    "Recipe",
    "Reproduction",
    "PaperTable",
    "Variant",
    "WorkDone",
    "recipe_names",
    "reproduce",
]
