"""What the tests of studies share: one finished run that nobody may change, and a source of real processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.study.processes import Processes


@pytest.fixture(scope="session")
def processes() -> Iterator[Processes]:
    """Real processes that run studies."""
    source = Processes()
    yield source
    source.close()
