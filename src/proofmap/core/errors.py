"""Errors. Every message says what was expected, what was given, and how to fix it."""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = [
    "InputError",
    "MissingExtra",
    "ModelError",
    "ProofmapError",
]


class ProofmapError(Exception):
    """An error that the caller can fix. The command line prints it and exits with code 2."""


class InputError(ProofmapError, ValueError):
    """An argument, an image or a file is not valid. The message says what to change."""


class ModelError(ProofmapError):
    """A net cannot be loaded, or its behaviour differs from its declaration."""


class MissingExtra(ProofmapError, ImportError):
    """An optional dependency is needed and not installed."""


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional dependency, or raise an error that names the extra to install.

    >>> require("math", extra="demo", purpose="nothing").sqrt(4)
    2.0
    """
    try:
        return importlib.import_module(module)
    except Exception as error:  # a broken binary wheel raises RuntimeError, not ImportError
        name = module.split(".")[0]
        if isinstance(error, ModuleNotFoundError) and (error.name or name).split(".")[0] == name:
            raise MissingExtra(
                f"{purpose} needs the package {name!r}, and it is not installed. "
                f"Install it with: pip install 'proofmap[{extra}]'"
            ) from error
        raise MissingExtra(
            f"{purpose} needs the package {name!r}; it is installed, but its import fails: {error}. "
            f"{import_advice(error, extra)} The command proofmap doctor lists all versions."
        ) from error


def import_advice(error: Exception, extra: str) -> str:
    """What to do if a package is installed and its import fails.

    >>> import_advice(RuntimeError("operator torchvision::nms does not exist"), "timm").partition(":")[0]
    'torch and torchvision do not match'
    """
    if any(mark in str(error) for mark in ("torchvision::", "PyTorch and torchvision were compiled")):
        return (
            "torch and torchvision do not match: install a torchvision built for this torch, "
            "both for the CPU or both for CUDA."
        )
    return f"Its own dependencies may be missing or damaged; pip install 'proofmap[{extra}]' brings them."
