"""Nets by name: our own definitions, the hubs, and files of yours."""

from proofmap.models.registry import DEFAULT_MODEL, ModelInfo, list_models, load_classifier
from proofmap.models.spec import ModelSpec

__all__ = ["DEFAULT_MODEL", "ModelInfo", "ModelSpec", "list_models", "load_classifier"]
