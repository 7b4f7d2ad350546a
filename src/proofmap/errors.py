"""What can go wrong, in few kinds; every message says what was expected, what was given, and the mend."""

from __future__ import annotations

import importlib
from types import ModuleType


class ProofmapError(Exception):
    """Anything the caller can mend; the command line prints it and exits with code 2."""


class InputError(ProofmapError, ValueError):
    """An argument, an image or a file is not what it should be."""


class ModelError(ProofmapError):
    """A net cannot be loaded, or does not behave as it was declared."""


class MissingExtra(ProofmapError, ImportError):
    """An optional dependency is needed and not installed."""


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional dependency, or say which extra brings it.

    >>> require("math", extra="demo", purpose="nothing").sqrt(4)
    2.0
    """
    try:
        return importlib.import_module(module)
    except Exception as error:  # a broken binary wheel raises RuntimeError, not ImportError
        missing = isinstance(error, ModuleNotFoundError)
        reason = "it is not installed" if missing else f"its import fails: {error}"
        raise MissingExtra(
            f"{purpose} needs the package {module.split('.')[0]!r}, and {reason}. "
            f"Install it with: pip install 'proofmap[{extra}]'"
        ) from error
