"""What the model tests share: the nets whose weights are packaged."""

from __future__ import annotations

import pytest

from proofmap.core.errors import MissingExtra
from proofmap.models.efficientnet_lite import VARIANTS, LiteVariant, packaged_file


@pytest.fixture(params=sorted(VARIANTS))
def packaged_variant(request: pytest.FixtureRequest) -> LiteVariant:
    """Each EfficientNet-Lite whose weights package is installed."""
    variant = VARIANTS[request.param]
    try:
        packaged_file(variant)
    except MissingExtra as error:
        pytest.skip(str(error))
    return variant
