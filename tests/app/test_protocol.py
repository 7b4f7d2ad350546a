"""Half-sent requests: the connection is closed when the time is over. The loop's timer is fired by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("uvicorn")

from uvicorn import Config
from uvicorn.server import ServerState

from proofmap.app.protocol import TimedProtocol

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


def test_a_client_that_does_not_read_its_answer_is_dropped() -> None:
    connection = Connection()
    try:
        protocol, transport = connection.protocol, connection.transport
        connection.send(GET)
        transport.unread = 100_000
        protocol.pause_writing()
        (timer,) = [t for t in connection.running if t.call == protocol._drop]
        assert timer.seconds == TimedProtocol.seconds
        protocol.resume_writing()  # it reads, slowly
        assert timer.cancelled and not transport.aborted
        protocol.pause_writing()
        timer = connection.running[-1]
        timer.call()
        assert transport.aborted, "it read nothing for as long"
    finally:
        connection.close()


def test_a_client_that_read_everything_is_not_dropped() -> None:
    connection = Connection()
    try:
        connection.send(GET)
        connection.transport.unread = 10
        connection.protocol.pause_writing()
        connection.transport.unread = 0
        connection.running[-1].call()
        assert not connection.transport.aborted
    finally:
        connection.close()
