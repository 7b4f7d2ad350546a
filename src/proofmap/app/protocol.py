"""HTTP with deadlines: a client must send each request completely, and read what is sent, within a given time each.

uvicorn closes connections that are idle after an answer. Without the first deadline, connections that never send a complete request would
stay open forever, and a thousand of them would block the server. While a client does not read its answer, the answer stays in memory. So
the connection is also closed if the client reads nothing for the same time.
"""

from __future__ import annotations

import asyncio
import json
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class TimedProtocol(H11Protocol):
    """uvicorn's protocol with deadlines. A request must be complete ``seconds`` after its connection was opened or its first bytes arrived."""

    seconds: ClassVar[float] = 60.0
    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def handle_events(self) -> None:
        super().handle_events()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_unread()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unwatch_unread()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch_unread()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        self._unwatch_unread()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Enforce the deadline of an incomplete request. New bytes do not extend the deadline, so a slow client gains no time."""
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY) or self.transport.is_closing():
            self._unwatch()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.seconds, self._refuse)

    def _unwatch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _watch_unread(self) -> None:
        """Enforce the deadline while the client has not read the whole answer. The deadline restarts when the client reads."""
        if self._unread is None and self.transport.get_write_buffer_size():
            self._unread = self.loop.call_later(self.seconds, self._drop)

    def _unwatch_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _drop(self) -> None:
        """Close the connection without waiting for the client, if the client has still not read everything."""
        self._unread = None
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def _refuse(self) -> None:
        """Close the connection. A client that sent part of a request and has no answer yet gets the reason."""
        began = self.conn.their_state is h11.SEND_BODY or bool(self.conn.trailing_data[0])
        if began and self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            error = f"the request was not complete after {self.seconds:g} seconds; send it again"
            body = json.dumps({"error": error}).encode()
            headers = [("content-type", "application/json"), ("content-length", str(len(body)))]
            answer = h11.Response(
                status_code=408, reason="Request Timeout", headers=[*headers, ("connection", "close")]
            )
            for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        if self.cycle is not None:
            self.cycle.disconnected = True  # so that the application sends no second answer
        self.transport.close()
