"""Checks who may use the server: this machine, or whoever has the token; never a page of another origin.

- *Host*: the Host header must name this machine. So a page of another site whose domain was made to point here (DNS rebinding) gets nothing.
- *Origin*, *Sec-Fetch-Site*: a request that a browser makes for another site is refused, whether it reads or writes.
- *Token*: required unless the server listens on the loopback address only. A browser gives the token once in the address and then keeps it
  in a cookie that scripts cannot read and other sites cannot send. Programs send ``Authorization: Bearer TOKEN``.
- *Sizes*: the bytes of a request body are counted while they arrive.
"""

from __future__ import annotations

import ipaddress
import logging
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from proofmap.app.items import LIMITS

JSON_BYTES = 1_000_000
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
"""Default headers, added to every response that does not set them itself."""
_LOG = logging.getLogger("uvicorn.error")
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True)
class Access:
    """The address that the server listens on, and the token that it requires. Without a token, only this machine may use the server."""

    host: str = "127.0.0.1"
    port: int = 8000
    token: str = ""

    @classmethod
    def at(cls, host: str, port: int) -> Access:
        """Access to a server at this address. A new token is made unless only this machine can reach the address."""
        return cls(host, port, "" if is_loopback(host) else secrets.token_urlsafe(24))

    @property
    def address(self) -> str:
        """The URL to open in a browser on this machine, with the token."""
        anywhere = self.host in ("0.0.0.0", "::")
        name = "127.0.0.1" if anywhere else f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}/" + (f"?{urlencode({'token': self.token})}" if self.token else "")

    @property
    def cookie(self) -> str:
        """The name of the cookie with the token. The name contains the port, because all ports of a host share their cookies."""
        return f"proofmap-{self.port}"

    def serves(self, name: str) -> bool:
        """Whether a host name belongs to this machine. Numeric addresses are accepted, because DNS cannot redirect them."""
        if name in _LOOPBACK_NAMES:
            return True
        if not self.token:
            return False
        own = {self.host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}
        return name in own or _ip_address(name) is not None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    found = _ip_address(host)
    return host == "localhost" if found is None else found.is_loopback


def _ip_address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def host_name(host: str) -> str:
    """The name in a Host header, without the port.

    >>> host_name("localhost:8000"), host_name("[::1]:8000")
    ('localhost', '::1')
    """
    if host.startswith("["):
        name, bracket, rest = host[1:].partition("]")
        readable = bracket and (not rest or (rest[0] == ":" and rest[1:].isdigit()))
    else:
        name, colon, port = host.partition(":")
        readable = not colon or port.isdigit()
    if not readable:
        raise HTTPException(400, "the Host header cannot be read")
    return name.lower()


class Guard:
    """Middleware around the whole application: checks every request and adds :data:`HEADERS` to every response.

    ``error_answer`` makes the response to an error from the scope, a title, a message and a status.
    """

    def __init__(
        self, app: ASGIApp, access: Access, error_answer: Callable[[Scope, str, str, int], ASGIApp]
    ) -> None:
        self.app, self.access, self.error_answer = app, access, error_answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # the server has no web sockets
            await send({"type": "websocket.close", "code": 1008})
            return
        began = False

        async def secured(message: Message) -> None:
            nonlocal began
            if message["type"] == "http.response.start":
                began = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        request = Request(scope)
        try:
            self._check_host(request)
            self._check_origin(request)
            if self._has_token_in_address(request):
                await self._cookie_response(request)(scope, receive, secured)
                return
            self._check_token(request)
            await self.app(scope, _limited(receive, request), secured)
        except HTTPException as refused:
            if began:
                raise
            await self.error_answer(scope, "Not allowed", refused.detail, refused.status_code)(
                scope, receive, secured
            )
        except Exception:  # a bug of ours: the terminal gets the details, the visitor does not
            _LOG.exception("a request for %s ended in an error", scope["path"])
            if began:
                raise
            answer = JSONResponse(
                {"error": "something went wrong; the server's terminal has the details"}, 500
            )
            await answer(scope, receive, secured)

    def _check_host(self, request: Request) -> None:
        hosts = request.headers.getlist("host")
        if len(hosts) != 1:
            raise HTTPException(400, "a request needs one Host header")
        if not self.access.serves(host_name(hosts[0])):
            address = self.access.address.partition("?")[0]
            raise HTTPException(403, f"this server does not answer under that name; open {address}")

    def _check_origin(self, request: Request) -> None:
        headers = request.headers
        own = f"{request.scope.get('scheme', 'http')}://{headers['host']}".lower()
        foreign = any(origin.lower() != own for origin in headers.getlist("origin"))
        # a link on another site may open the page, and nothing else
        link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        allowed = {"same-origin", "none"}
        if link and request.method == "GET" and request.scope["path"] == "/":
            allowed |= {"same-site", "cross-site"}
        if foreign or not allowed.issuperset(headers.getlist("sec-fetch-site")):
            raise HTTPException(403, "pages of other sites may not use this server")

    # ---- the token ------------------------------------------------------------------------------------------

    def _has_token_in_address(self, request: Request) -> bool:
        given = request.query_params.getlist("token")
        return (
            bool(self.access.token)
            and request.method == "GET"
            and len(given) == 1
            and self._is_token(given[0])
        )

    def _cookie_response(self, request: Request) -> RedirectResponse:
        """A response that stores the token in a cookie and redirects to the address without the token."""
        rest = urlencode(
            [(key, value) for key, value in request.query_params.multi_items() if key != "token"]
        )
        path = "/" + quote(request.scope["path"].lstrip("/\\"))
        response = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
        response.set_cookie(self.access.cookie, self.access.token, httponly=True, samesite="strict")
        return response

    def _check_token(self, request: Request) -> None:
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        given = [request.cookies.get(self.access.cookie, "")]
        given += [bearer.strip()] if scheme.lower() == "bearer" else []
        if self.access.token and not any(map(self._is_token, given)):
            raise HTTPException(401, "open the address that the server printed, with its token")

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self.access.token.encode())


def _limited(receive: Receive, request: Request) -> Receive:
    """Wrap ``receive``, which reads the body of a request, so that it raises as soon as more bytes arrive than are allowed."""
    limit = LIMITS["upload_bytes"] if request.scope["path"] == "/api/photos" else JSON_BYTES
    declared = request.headers.get("content-length", "0")
    too_long = HTTPException(413, f"that is too large: at most {limit / 1e6:g} MB are accepted")
    if not declared.isdigit() or int(declared) > limit:
        raise too_long
    received = 0

    async def counted() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > limit:
            raise too_long
        return message

    return counted
