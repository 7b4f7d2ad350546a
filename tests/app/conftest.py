from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from proofmap.app.nets import Nets
from proofmap.app.server import Server
from tests.app.served import made, opened


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server that makes no pools of random images before someone asks."""
    monkeypatch.setattr(Nets, "warm", lambda *_: None)
    return made()


@pytest.fixture
def client(server: Server) -> Iterator[TestClient]:
    with opened(server) as client:
        yield client
