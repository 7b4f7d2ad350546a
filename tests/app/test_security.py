"""Who may use the server: no other name, no other site, nobody without the token."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from uvicorn import Config
from uvicorn.server import ServerState

from proofmap.app import security
from proofmap.app.protocol import TimedProtocol
from proofmap.app.security import HEADERS, Access, is_loopback
from proofmap.app.server import Server
from tests.app.served import HOME, made, opened, picture

LAN = Access("0.0.0.0", 8000, "the-token")


@pytest.mark.parametrize(
    "host, status",
    [
        ("127.0.0.1:8000", 200),
        ("localhost:9", 200),
        ("[::1]:8000", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example:8000", 403),
        ("localhost.evil.example", 403),
        ("192.168.1.2:8000", 403),
        ("", 403),
        ("127.0.0.1:x", 400),
        ("[::1", 400),
    ],
)
def test_only_names_of_this_machine_are_answered(client: TestClient, host: str, status: int) -> None:
    answer = client.get("/api/about", headers={"host": host})
    assert answer.status_code == status
    if status != 200:
        assert answer.json().keys() == {"error"}


@pytest.mark.parametrize(
    "headers, status",
    [
        ({"origin": HOME}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:8001"}, 403),
        ({"origin": "https://127.0.0.1:8000"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}, 403),
    ],
)
def test_pages_of_other_sites_get_nothing(client: TestClient, headers: dict[str, str], status: int) -> None:
    assert client.get("/api/about", headers=headers).status_code == status
    posted = client.post("/api/photos", json={"sample": "cat"}, headers=headers)
    assert posted.status_code == status


def test_a_link_from_elsewhere_opens_the_page_but_frames_do_not(client: TestClient) -> None:
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert client.get("/", headers=link).status_code == 200
    assert client.get("/", headers={**link, "sec-fetch-dest": "iframe"}).status_code == 403


def test_every_answer_carries_the_headers(client: TestClient) -> None:
    for path in ("/", "/api/about", "/nothing"):
        answer = client.get(path)
        usual = HEADERS if path != "/" else {**HEADERS, "cache-control": "no-cache"}
        assert {name: answer.headers[name] for name in HEADERS} == usual
        assert "access-control-allow-origin" not in answer.headers
    refused = client.get("/", headers={"host": "evil.example"})
    assert {name: refused.headers[name] for name in HEADERS} == HEADERS
    assert "unsafe" not in security.POLICY and security.POLICY.startswith("default-src 'none'")


def test_a_person_gets_errors_as_pages_and_a_program_as_json(client: TestClient, server: Server) -> None:
    person = {"accept": "text/html,*/*"}
    for address in ("/nothing", "/runs", "/static/nothing.js"):
        found = client.get(address, headers=person)
        assert found.status_code == 404 and found.headers["content-type"].startswith("text/html")
        assert "Not found" in found.text and 'href="/"' in found.text
        policy = found.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src" not in policy
        assert client.get(address).json().keys() == {"error"}
    assert client.get("/api/nothing", headers=person).json().keys() == {"error"}
    wrong_name = client.get("/", headers={**person, "host": "evil.example"})
    assert wrong_name.status_code == 403 and "Not allowed" in wrong_name.text


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """What the server logs during a test, also where an earlier one configured logging."""
    texts, handler = list[str](), logging.Handler()
    handler.emit = lambda record: texts.append(handler.format(record))  # type: ignore[method-assign]
    security._LOG.addHandler(handler)
    yield texts
    security._LOG.removeHandler(handler)


def test_a_mistake_of_ours_is_told_to_the_terminal_alone(
    server: Server, client: TestClient, monkeypatch: pytest.MonkeyPatch, logged: list[str]
) -> None:
    monkeypatch.setattr(server.nets, "about", lambda: 1 // 0)
    answer = client.get("/api/about")
    assert answer.status_code == 500 and answer.json().keys() == {"error"} and "division" not in answer.text
    assert answer.headers["content-security-policy"] == security.POLICY
    assert "ZeroDivisionError" in "\n".join(logged)


# ---- the token --------------------------------------------------------------------------------------------------


@pytest.fixture
def guarded() -> Iterator[TestClient]:
    with opened(made(access=LAN)) as client:
        yield client


def test_a_token_is_made_where_others_can_reach_the_server() -> None:
    assert not any(Access.at(host, 1).token for host in ("127.0.0.1", "localhost", "::1"))
    tokens = {Access.at(host, 1).token for host in ("0.0.0.0", "192.168.1.2", "::")}
    assert len(tokens) == 3 and min(map(len, tokens)) >= 32
    assert is_loopback("127.8.9.1") and not is_loopback("example.org")
    assert Access.at("0.0.0.0", 80).address.startswith("http://127.0.0.1:80/?token=")


def test_without_the_token_nothing_is_answered(guarded: TestClient) -> None:
    wrong = [
        {},
        {"authorization": "Bearer x"},
        {"cookie": "proofmap-8000=x"},
        {"authorization": "Basic the-token"},
        {"authorization": "the-token"},
        {"authorization": "Bearer the-tokenx"},
        {"cookie": "other=the-token"},
        {"cookie": "\x01=;;;"},
    ]
    for headers in wrong:
        for path in (
            "/",
            "/api/about",
            "/api/openapi.json",
            "/?token=x",
            "/?token=the-token&token=x",
            "/static/x",
        ):
            assert guarded.get(path, headers=headers).status_code == 401
    assert guarded.post("/api/jobs?token=the-token").status_code == 401  # an address alone never writes
    assert guarded.get("/api/about", headers={"authorization": "Bearer the-token"}).status_code == 200


def test_the_token_in_the_address_becomes_a_cookie(guarded: TestClient) -> None:
    first = guarded.get("/?token=the-token&a=b", follow_redirects=False)
    assert first.status_code == 303 and first.headers["location"] == "/?a=b"
    cookie = first.headers["set-cookie"]
    assert "httponly" in cookie.lower() and "samesite=strict" in cookie.lower()
    assert guarded.get("/api/about").status_code == 200  # the client keeps it


def test_the_way_on_from_the_token_stays_on_this_server(guarded: TestClient) -> None:
    for path in ("//evil.example/", "/\\evil.example/"):
        answer = guarded.get(f"{HOME}{path}?token=the-token", follow_redirects=False)
        assert answer.status_code != 303 or answer.headers["location"].startswith("/evil.example")


def test_a_server_for_others_answers_to_addresses_but_not_to_any_name(guarded: TestClient) -> None:
    right = {"authorization": "Bearer the-token"}
    assert guarded.get("/api/about", headers={**right, "host": "192.168.1.2:8000"}).status_code == 200
    assert guarded.get("/api/about", headers={**right, "host": "evil.example"}).status_code == 403


# ---- sizes ------------------------------------------------------------------------------------------------------


def test_bodies_are_counted(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(security.LIMITS, "upload_bytes", 1000)
    monkeypatch.setattr(security, "JSON_BYTES", 100)
    image = {"content-type": "image/png"}
    assert client.post("/api/photos", content=picture(), headers=image).status_code == 200
    assert client.post("/api/photos", content=b"x" * 1001, headers=image).status_code == 413
    parts = (b"x" * 500 for _ in range(3))  # without a length that could be read before
    assert client.post("/api/photos", content=parts, headers=image).status_code == 413
    assert client.post("/api/jobs", json={"photo": "x" * 200}).status_code == 413
    lie = {**image, "content-length": "-1"}
    assert client.post("/api/photos", content=b"x", headers=lie).status_code == 413


# ---- Half-sent requests: the connection is closed when the time is over. The loop's timer is fired by hand ------------


GET = b"GET /api/about HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
POST = b"POST /api/photos HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n"
CHUNKED = b"POST /api/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"


class Timer:
    """What ``call_later`` gives."""

    def __init__(self, seconds: float, call: Callable[[], None]) -> None:
        self.seconds, self.call, self.cancelled = seconds, call, False

    def cancel(self) -> None:
        self.cancelled = True


class Transport:
    """What a protocol writes, and whether it closed the connection."""

    def __init__(self) -> None:
        self.written, self.closed = b"", False
        self.aborted, self.unread = False, 0

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = self.closed = True

    def get_write_buffer_size(self) -> int:
        return self.unread

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str) -> None:
        return None

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Connection:
    """A connection whose requests wait for their whole body and are never answered; its timers are listed."""

    def __init__(self) -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None: ...

        self.loop, self.timers = asyncio.new_event_loop(), list[Timer]()
        self.loop.call_later = lambda *given: self.timers.append(Timer(*given)) or self.timers[-1]  # type: ignore[assignment,func-returns-value,return-value,misc]
        self.transport = Transport()
        self.protocol = TimedProtocol(Config(app), ServerState(), {}, self.loop)
        self.protocol.connection_made(self.transport)  # type: ignore[arg-type]

    def send(self, *parts: bytes) -> None:
        for part in parts:
            self.protocol.data_received(part)

    @property
    def running(self) -> list[Timer]:
        return [timer for timer in self.timers if not timer.cancelled]

    def close(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
            self.loop.run_until_complete(asyncio.wait([task]))
        self.loop.close()


@pytest.fixture
def connection() -> Iterator[Connection]:
    made = Connection()
    yield made
    made.close()


@pytest.mark.parametrize(
    "half",
    [
        [GET[:9]],
        [GET[:-2]],
        [bytes([byte]) for byte in GET[:-1]],
        [POST],
        [POST, b"12345678"],
        [CHUNKED, b"3\r\nab"],
    ],
    ids=["a line", "headers", "byte by byte", "no body", "most of a body", "a chunk"],
)
def test_half_a_request_has_one_deadline_and_is_then_refused(
    connection: Connection, half: list[bytes]
) -> None:
    connection.send(*half)
    (timer,) = connection.timers  # bytes that come in between do not move it
    assert timer.seconds == 60 and not timer.cancelled and not connection.transport.closed
    timer.call()
    assert connection.transport.closed
    assert connection.transport.written.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"was not complete after 60 seconds" in connection.transport.written


def test_a_connection_on_which_nothing_is_sent_is_closed_without_a_word(connection: Connection) -> None:
    (timer,) = connection.running
    timer.call()
    assert connection.transport.closed and not connection.transport.written


@pytest.mark.parametrize("whole", [[GET], [POST, b"123456789"], [CHUNKED, b"3\r\nabc\r\n", b"0\r\n\r\n"]])
def test_a_whole_request_has_no_deadline_however_long_its_answer_takes(
    connection: Connection, whole: list[bytes]
) -> None:
    connection.send(*whole)
    assert not connection.running


def test_a_connection_that_is_lost_has_no_deadline(connection: Connection) -> None:
    connection.send(POST)
    connection.protocol.connection_lost(None)
    assert not connection.running


def test_a_client_that_does_not_read_its_answer_is_dropped(connection: Connection) -> None:
    protocol, transport = connection.protocol, connection.transport
    connection.send(GET)
    transport.unread = 100_000
    protocol.pause_writing()
    (timer,) = [t for t in connection.running if t.call == protocol._drop]
    assert timer.seconds == TimedProtocol.seconds
    protocol.resume_writing()  # it reads, slowly
    assert timer.cancelled and not transport.aborted
    protocol.pause_writing()
    transport.unread = 0
    connection.running[-1].call()
    assert not transport.aborted, "it read everything"
    transport.unread = 100_000
    connection.running[-1].call()
    assert transport.aborted, "it read nothing for as long"
