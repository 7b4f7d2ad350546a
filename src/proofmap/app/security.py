"""Who may use the server: this machine alone, or whoever has the token; never a page of another origin.

- *Host*: the name that was asked for must be this machine's, so that a page whose name was made to point here (DNS rebinding) gets nothing.
- *Origin*, *Sec-Fetch-Site*: a request that a browser makes for another site is refused, reading and writing alike.
- *Token*: needed unless the server listens on the loopback alone; given once in the address, then as a cookie that no script
  sees and no other site sends, or by programs as ``Authorization: Bearer TOKEN``.
- *Sizes*: bodies are counted while they come in.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import secrets
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from proofmap.app.photos import UPLOAD_BYTES

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
"""What every answer carries unless it says otherwise itself."""
_LOG = logging.getLogger("uvicorn.error")
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class Refused(Exception):
    """A request that is not answered."""

    def __init__(self, status: int, error: str) -> None:
        super().__init__(error)
        self.status, self.error = status, error


@dataclass(frozen=True)
class Access:
    """Where the server listens, and the token that is needed there; none on the loopback."""

    host: str = "127.0.0.1"
    port: int = 8000
    token: str = ""

    @classmethod
    def at(cls, host: str, port: int) -> Access:
        """Access to a server at this address: a new token, unless only this machine reaches it."""
        return cls(host, port, "" if is_loopback(host) else secrets.token_urlsafe(24))

    @property
    def address(self) -> str:
        """What to open in a browser on this machine."""
        anywhere = self.host in ("0.0.0.0", "::")
        name = "127.0.0.1" if anywhere else f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}/" + (f"?{urlencode({'token': self.token})}" if self.token else "")

    @property
    def cookie(self) -> str:
        """The cookie's name; cookies do not tell ports apart."""
        return f"proofmap-{self.port}"

    def serves(self, name: str) -> bool:
        """Whether a host name of a request is this machine's; addresses in numbers cannot be made to point elsewhere."""
        if name in _LOOPBACK_NAMES:
            return True
        if not self.token:
            return False
        own = {self.host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}
        return name in own or _address(name) is not None


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    found = _address(host)
    return host == "localhost" if found is None else found.is_loopback


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
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
        name, bracket, port = host[1:].partition("]")
        if not bracket or (port and not (port[0] == ":" and port[1:].isdigit())):
            raise Refused(400, "the Host header cannot be read")
        return name.lower()
    name, colon, port = host.partition(":")
    if colon and not port.isdigit():
        raise Refused(400, "the Host header cannot be read")
    return name.lower()


class Guard:
    """Stands before the whole application."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no web sockets here
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

        try:
            headers = Headers(scope=scope)
            self._check_host(headers)
            self._check_origin(scope, headers)
            if self._is_first(scope):
                await self._welcome(scope, secured)
                return
            self._check_token(headers)
            await self.app(scope, _counted(receive, headers, _most(scope)), secured)
        except Refused as refused:
            if began:
                raise
            await _answer(secured, refused.status, {"error": refused.error})
        except Exception:  # a mistake of ours: the terminal is told what it is, the visitor that there is one
            _LOG.exception("a request for %s ended in an error", scope["path"])
            if began:
                raise
            await _answer(
                secured, 500, {"error": "something went wrong here; the server's terminal says what"}
            )

    def _check_host(self, headers: Headers) -> None:
        hosts = headers.getlist("host")
        if len(hosts) != 1:
            raise Refused(400, "a request needs one Host header")
        if not self.access.serves(host_name(hosts[0])):
            raise Refused(
                403,
                f"this server does not answer under that name; open {self.access.address.partition('?')[0]}",
            )

    def _check_origin(self, scope: Scope, headers: Headers) -> None:
        origins = headers.getlist("origin")
        own = f"{scope.get('scheme', 'http')}://{headers['host']}".lower()
        if any(origin.lower() != own for origin in origins):
            raise Refused(403, "pages of other sites may not use this server")
        sites = headers.getlist("sec-fetch-site")
        if all(site in ("same-origin", "none") for site in sites):
            return
        link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        if not (link and scope["method"] == "GET" and scope["path"] == "/"):  # a link to the page is fine
            raise Refused(403, "pages of other sites may not use this server")

    # ---- the token ------------------------------------------------------------------------------------------

    def _is_first(self, scope: Scope) -> bool:
        """Whether the address carries the right token."""
        if not self.access.token or scope["method"] != "GET":
            return False
        given = [value for key, value in _query(scope) if key == "token"]
        return len(given) == 1 and self._right(given[0])

    async def _welcome(self, scope: Scope, send: Send) -> None:
        """Keep the token in a cookie, and lead on to the address without it."""
        rest = urlencode([(key, value) for key, value in _query(scope) if key != "token"])
        cookie = f"{self.access.cookie}={self.access.token}; HttpOnly; SameSite=Strict; Path=/"
        where = "/" + quote(scope["path"].lstrip("/\\")) + (f"?{rest}" if rest else "")
        headers = [(b"location", where.encode()), (b"set-cookie", cookie.encode()), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    def _check_token(self, headers: Headers) -> None:
        if not self.access.token:
            return
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._right(bearer.strip()):
            return
        cookies: SimpleCookie = SimpleCookie()
        try:
            cookies.load(headers.get("cookie", ""))
        except CookieError:
            cookies.clear()
        if self.access.cookie in cookies and self._right(cookies[self.access.cookie].value):
            return
        raise Refused(401, "open the address that the server printed, with its token")

    def _right(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self.access.token.encode())


def _query(scope: Scope) -> Iterable[tuple[str, str]]:
    return parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)


def _most(scope: Scope) -> int:
    """Bytes that a body may have."""
    return UPLOAD_BYTES if scope["path"] == "/api/photos" else JSON_BYTES


def _counted(receive: Receive, headers: Headers, most: int) -> Receive:
    """The same body, refused as soon as it is known to be too long."""
    told = headers.get("content-length", "0")
    too_long = Refused(413, f"that is too large; at most {most / 1e6:g} MB are taken")
    if not told.isdigit() or int(told) > most:
        raise too_long
    came = 0

    async def counted() -> Message:
        nonlocal came
        message = await receive()
        came += len(message.get("body", b""))
        if came > most:
            raise too_long
        return message

    return counted


async def _answer(send: Send, status: int, content: object) -> None:
    body = json.dumps(content).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
