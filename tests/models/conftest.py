"""What the model tests share: the data folder, and the nets whose weights are packaged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from proofmap.errors import MissingExtra
from proofmap.models.efficientnet_lite import VARIANTS, Variant, packaged_file


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of public research data, which is never part of the project."""
    beside = Path(__file__).parents[3] / "shared" / "data"
    folder = Path(os.environ.get("PROOFMAP_DATA", beside))
    if not folder.is_dir():
        pytest.skip("no data folder: set PROOFMAP_DATA to one")
    return folder


@pytest.fixture(params=sorted(VARIANTS))
def packaged_variant(request: pytest.FixtureRequest) -> Variant:
    """Each EfficientNet-Lite whose weights package is installed."""
    variant = VARIANTS[request.param]
    try:
        packaged_file(variant)
    except MissingExtra as error:
        pytest.skip(str(error))
    return variant
