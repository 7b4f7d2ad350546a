"""What the dataset tests share: the folder of real data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of public research data, which is never part of the project."""
    beside = Path(__file__).parents[3] / "shared" / "data"
    folder = Path(os.environ.get("PROOFMAP_DATA", beside))
    if not folder.is_dir():
        pytest.skip("no data folder: set PROOFMAP_DATA to one")
    return folder
