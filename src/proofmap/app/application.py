"""The web application: its routes, the page and its files, and the responses to errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from markupsafe import Markup
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Scope

from proofmap.app.items import NotFound
from proofmap.app.jobs import Busy
from proofmap.app.nets import PHOTO, Nets, plural
from proofmap.app.routes import routes_of
from proofmap.app.security import Guard
from proofmap.app.server import Server
from proofmap.core.errors import ProofmapError
from proofmap.report.html import templates_of
from proofmap.results.sharing import without_folders

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "json": "application/json"}
# files that the page shares with the report
_SHARED = ("look.css", "cell.js", "lines.js", "listed.js", "shared.js", "theme.js")
_MESSAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'"


def create_app(server: Server) -> FastAPI:
    """The application of a server."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        server.worker.ask(
            lambda: server.nets.classifier(server.nets.first)
        )  # so that the first request is fast
        yield
        server.worker.close()

    app = FastAPI(
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
    )
    app.add_middleware(Guard, access=server.access, error_answer=_error_answer)
    for kind in (ProofmapError, RequestValidationError, ValidationError, HTTPException, ClientDisconnect):
        app.add_exception_handler(kind, _error_response)
    app.include_router(routes_of(server))
    _add_page(app, server)
    return app


def _add_page(app: FastAPI, server: Server) -> None:
    """Add the routes of the page and of its files. The page has the right words for photos, rows or texts."""

    def answer(name: str) -> Response:
        found = _static_file(name)
        if found is None:
            raise NotFound("there is no such file")
        content, kind = found
        return Response(content, media_type=kind, headers={"cache-control": "no-cache"})

    @app.get("/")
    async def index() -> Response:
        text = _drawn("index.html", **_page_words(server.nets))
        return Response(text, media_type="text/html", headers={"cache-control": "no-cache"})

    @app.get("/idea")
    async def idea() -> Response:
        return answer("idea.html")

    @app.get("/static/{file}")
    async def static(file: str) -> Response:
        return answer(file)


def _page_words(nets: Nets) -> dict[str, Any]:
    """Words for the page: the nouns for an input and for its positions."""
    item = nets.singular or PHOTO
    return {
        "item": item,
        "items": plural(item),
        "positions": nets.positions,
        "net": "net" if nets.of_photos else "model",
    }


async def _error_response(request: Request, error: Exception) -> Response:
    """The response to an error: a page for a person's browser, otherwise JSON. The message says what to do."""
    match error:
        case ProofmapError():
            status = 404 if isinstance(error, NotFound) else 429 if isinstance(error, Busy) else 422
            message = without_folders(str(error))
        case RequestValidationError() | ValidationError():
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
            status, message = 422, f"{where or 'the request'}: {first['msg']}"
        case HTTPException(status_code=404):
            status, message = 404, "there is nothing at this address"
        case HTTPException():
            status, message = error.status_code, str(error.detail)
        case _:
            status, message = 400, "the request ended before all of it was sent"
    for_a_person = not request.scope["path"].startswith("/api/") and request.method == "GET"
    if status == 422 and isinstance(error, RequestValidationError) and for_a_person:  # a mistyped address
        status, message = 404, "there is nothing at this address"
    title = "Not found" if status == 404 else "This cannot be shown"
    return _error_answer(request.scope, title, message, status)


def _error_answer(scope: Scope, title: str, message: str, status: int) -> Response:
    """The response to an error, which says what to do: a page for a person's browser, otherwise JSON.

    The page loads no other file, so it can be shown without the access token.
    """
    accepted = Headers(scope=scope).get("accept", "")
    if scope["method"] != "GET" or scope["path"].startswith("/api/") or "text/html" not in accepted:
        return JSONResponse({"error": message}, status)
    sentence = f"{message[:1].upper()}{message[1:].rstrip('.')}."
    text = _drawn("message.html", title=title, message=sentence, style=Markup(_style_sheet()))
    headers = {"content-security-policy": _MESSAGE_POLICY, "cache-control": "no-cache"}
    return Response(text.encode("utf-8", "backslashreplace"), status, headers, media_type="text/html")


@cache
def _style_sheet() -> str:
    """The style sheets of the report and of messages, joined."""
    folder = files("proofmap.report") / "page"
    sheets = sorted(name for file in folder.iterdir() if (name := file.name).endswith(".css"))
    own = (files("proofmap.app") / "templates" / "pages.css").read_text("utf-8")
    return "\n".join([*((folder / name).read_text("utf-8") for name in sheets), own])


def _static_file(name: str) -> tuple[bytes, str] | None:
    """The content and media type of a static file of the page; None if there is no such file. Names are looked up, never joined to a path.

    >>> _static_file("main.js")[1], _static_file("../application.py")
    ('text/javascript; charset=utf-8', None)
    """
    return _static_files().get(name)


@cache
def _static_files() -> dict[str, tuple[bytes, str]]:
    own = [file for file in (files("proofmap.app") / "page").iterdir() if file.is_file()]
    shared = [files("proofmap.report") / "page" / name for name in _SHARED]
    return {
        file.name: (file.read_bytes(), f"{_TYPES[suffix]}; charset=utf-8")
        for file in (*own, *shared)
        if (suffix := file.name.rpartition(".")[2]) in _TYPES
    }


def _drawn(template: str, **content: Any) -> str:
    """The text of a template, rendered with this content."""
    return templates_of("proofmap.app", "templates").get_template(template).render(**content)
