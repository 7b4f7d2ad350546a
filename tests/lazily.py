"""Large packages that a test file uses all over: imported by the first test, not by each worker that collects the file."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from typing import Any

import pytest


class Lazily:
    """A package by name; without it, the tests of the file are skipped.

    >>> Lazily("json").dumps([1])
    '[1]'
    """

    def __init__(self, name: str) -> None:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed", allow_module_level=True)
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_") or "pytest" in attribute:  # pytest asks each object of a file for some
            raise AttributeError(attribute)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(importlib.import_module(self._name), attribute)
