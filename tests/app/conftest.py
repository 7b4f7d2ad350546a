from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from proofmap.app.server import Server
from tests.app.served import made, opened


@pytest.fixture(scope="module")
def server() -> Server:
    """One server for the tests of a file."""
    return made()


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[TestClient]:
    with opened(server) as client:
        yield client
