"""Load nets by name: nets that this package defines, nets of hubs, and nets from user files."""

from proofmap.models.registry import DEFAULT_MODEL, list_models, load_classifier
from proofmap.models.spec import ModelInfo

__all__ = ["DEFAULT_MODEL", "ModelInfo", "list_models", "load_classifier"]
