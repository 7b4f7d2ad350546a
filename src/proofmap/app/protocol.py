"""HTTP with a deadline: a client must send each request completely within a given time, or its connection is closed.

uvicorn closes connections that are idle after an answer. Without the deadline, connections on which nothing, part of the headers or
part of a body was sent would stay open forever, and a thousand of them would block the server.
"""

from __future__ import annotations

import asyncio
import json
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class TimedProtocol(H11Protocol):
    """uvicorn's protocol; a request must be complete ``seconds`` after its connection was opened or its first bytes arrived."""

    seconds: ClassVar[float] = 60.0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def handle_events(self) -> None:
        super().handle_events()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Run the deadline while the request is incomplete. New bytes do not extend it, so sending one byte at a time does not help."""
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY) or self.transport.is_closing():
            self._unwatch()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.seconds, self._refuse)

    def _unwatch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

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
